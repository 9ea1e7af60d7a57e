"""Algorithms that climb a metric: single features boosted on it (AdaRank), and one weight after the other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.errors import SettingError
from luce.metrics.catalog import Metric, get, of
from luce.metrics.evaluate import evaluate_arrays
from luce.numerics.segments import differing
from luce.scorers.linear import LinearScorer
from luce.spec import Choice, Range, option
from luce.training.run import Step, Training, TrainingRun
from luce.training.task import Rounds, Stepwise, Task, Trained
from luce.types import FloatArray, IntArray

_ENOUGH = 1e-6
"""A feature that raises the training metric by less is put aside."""
_STEPS = np.concatenate([s * 2.0 ** -np.arange(1, 12) for s in (1.0, -1.0)])
"""Changes of a weight that a line search tries, where all weights together have the absolute sum 1."""
_RISE = 1e-9
"""Metrics are sums of few numbers; a smaller rise is rounding."""


def _metric(name: str, given: Any) -> Any:
    of(given)  # refuses what is no metric
    return given


class AdaRank(Stepwise, Rounds):
    r"""Boosted single features on a metric: add the one that is best on the queries that are still ranked badly.

    Round t takes the standardised feature $h = z_k$ or $-z_k$ of the largest $\sum_q P_t(q) E(h, q)$, adds it with the
    weight `alpha`, and sets $P_{t+1}(q) \propto v_q e^{-E(f_t, q)}$ (Xu and Li, 2007, Algorithm 1), where E is the
    metric and $v_q$ the weight of a query. AdaRank is known to choose one feature again and again once it stops to
    help: a feature that did not raise the training metric is put aside until another one raises it; when all are,
    training ends. The round that is best on validation is kept, or the best one on the training data where there is no
    validation.

    Parameters
    ----------
    metric
        The metric that weighs queries and features; None is the `metric` of the ranker.
    both_directions
        Whether a feature may also be taken with small values first; Xu and Li take large ones only.
    """

    metric: str | None = option(default=None, convert=_metric, tune=Choice((None, "map", "ndcg@5", "ndcg")))
    both_directions: bool = option(default=True, tune=Choice((True, False)))

    name: ClassVar[str] = "adarank"
    refuses: ClassVar[tuple[str, ...]] = ("target", "base", "warm_start")

    def start(self, task: Task) -> _Boosted:
        """No feature yet."""
        self.check_task(task)
        way = _Boosted(self, task)
        fingerprint = partial(task.fingerprint, self, way.start)
        return way.opened(task.start_run(self.max_iter, self.early_stopping, way.judged, fingerprint))


class _Boosted(Training):
    """AdaRank under way."""

    def __init__(self, trainer: AdaRank, task: Task) -> None:
        self.task, self.bound, self.n_features = task, LinearScorer().bind(task.data), task.data.n_features
        self.queries = CountedQueries(task.data, trainer.metric or task.metric, trainer.name)
        self.signs = (1.0, -1.0) if trainer.both_directions else (1.0,)
        self.varies = np.tile(self.bound.scale.inverse_sd > 0, len(self.signs))
        self.share, self.open_ = self.queries.share, self.varies.copy()
        self.start = self.best = np.zeros(self.n_features)
        self.highest = -np.inf

    def judged(self, weights: FloatArray) -> float:
        """The metric of these weights on the validation data."""
        return self.task.judged_scorer(self.bound.fitted(weights))

    def begin(self) -> None:
        """The weights of queries, the features that are not put aside, and the best up to now."""
        if saved := self.run.saved:
            self.share, self.open_, self.best = saved["share"], saved["open"].astype(bool), saved["highest_at"]
            self.highest = float(saved["highest"][0])

    def state(self) -> dict[str, NDArray[Any]]:
        """The same."""
        open_, highest = self.open_.astype(np.uint8), np.array([self.highest])
        return {"share": self.share, "open": open_, "highest_at": self.best, "highest": highest}

    def steps(self) -> Iterator[Step]:
        """One feature a round, until all are put aside."""
        queries, weights = self.queries, self.run.last
        if queries.data is None:
            return
        # A row a feature: the metric of ranking by it alone, query by query.
        sided = ((sign, column) for sign in self.signs for column in queries.data.X.T)
        features = np.concatenate([queries.values(sign * column[None].astype(np.float64)) for sign, column in sided])
        if features.min(initial=0.0) < -1 or features.max(initial=0.0) > 1 + 1e-9:
            name = queries.metric.name
            raise SettingError(f"AdaRank needs a metric between -1 and 1; {name!r} is not: take 'ndcg@10'.")
        while self.open_.any():
            k = int(np.argmax(np.where(self.open_, features @ self.share, -np.inf)))
            weights = weights.copy()
            side, column = divmod(k, self.n_features)
            weights[column] += self.signs[side] * alpha(features[k], self.share)
            values = queries.values(self.bound.forward(weights, queries.data.X, queries.data.offsets)[None])[0]
            share = queries.share * np.exp(-values)
            self.share = share / share.sum()
            value = float(queries.share @ values)
            if value > self.highest + _ENOUGH:
                self.best, self.highest = weights, value
                self.open_ = self.varies.copy()
            else:
                self.open_[k] = False
            yield Step(weights, 1.0 - value)

    def converged(self, ended: bool) -> bool:
        """Always."""
        return True

    def trained(self) -> Trained:
        """The best round on validation, or on the training data."""
        weights = self.best if self.run.best is None else self.run.best
        return Trained(self.bound.fitted(weights), None, self.run.history)


def alpha(values: FloatArray, share: FloatArray) -> float:
    r"""Weight of a weak ranker, $\frac12 \ln \frac{\sum_q P(q) (1 + E(q))}{\sum_q P(q) (1 - E(q))}$.

    >>> round(alpha(np.array([1.0, 0.0]), np.array([0.5, 0.5])), 4)  # half of ln 3
    0.5493
    """
    mean = min(float(share @ values), 1 - 1e-6)
    return float(np.arctanh(mean))


class CoordinateAscent(Rounds):
    r"""A linear scorer by line searches on a metric, one weight after the other.

    Maximise $\bar E(w) - \frac{l2}{2} \|w\|^2$ with $\|w\|_1 = 1$, where $\bar E$ is the mean of the metric.

    Rankings do not depend on the length of $w$, so that the weights are kept on the simplex of signed shares (Metzler
    and Croft, 2007). A sweep visits the standardised features in random order; each weight takes the best of 22 changes
    between $2^{-11}$ and $\frac12$ in either direction, of 0, and of staying as it is. A search ends with a sweep that
    changes nothing, and the next one starts from random weights. `max_iter` counts sweeps, over all searches. The
    weights that are best on validation are kept, or those of the highest objective where there is no validation.

    Parameters
    ----------
    metric
        The metric to maximise; None is the `metric` of the ranker.
    restarts
        Searches from random weights after the first one, which starts from equal weights.
    l2
        Strength of the penalty.
    max_iter, early_stopping
        Sweeps at most, and sweeps of a search without a better validation metric that end it (None: never).
    """

    metric: str | None = option(default=None, convert=_metric)
    restarts: int = option(default=2, least=0, tune=Range(0, 4, log=False, whole=True))
    l2: float = option(default=0.01, least=0, tune=Range(1e-4, 1.0))

    name: ClassVar[str] = "coordinate_ascent"

    def train(self, task: Task) -> Trained:
        """Search after search."""
        self.check_task(task)
        data = task.data
        bound = LinearScorer().bind(data)
        queries = CountedQueries(data, task.metric if self.metric is None else self.metric, self.name)
        run = task.start_run(self.max_iter, self.early_stopping, lambda w: task.judged_scorer(bound.fitted(w)))
        run.last = np.zeros(data.n_features)
        best = _searches(self, bound, queries, run, task.seed) if queries.data is not None else run.last
        run.history.converged = run.iteration < self.max_iter
        return Trained(bound.fitted(best if run.best is None else run.best), None, run.history)


def _searches(
    climber: CoordinateAscent, bound: LinearScorer, queries: CountedQueries, run: TrainingRun, seed: int
) -> FloatArray:
    """All searches, one after the other; returns the weights of the highest objective."""
    rng = np.random.default_rng(seed)
    moving = np.flatnonzero(bound.scale.inverse_sd > 0)
    patience, search = climber.early_stopping, _Search(bound, queries, climber.l2)
    best, highest = run.last, -np.inf
    for start in range(1 + climber.restarts if len(moving) else 0):
        weights = np.zeros(bound.n_parameters)
        weights[moving] = 1.0 if start == 0 else rng.normal(size=len(moving))
        search.start(weights / np.abs(weights).sum())
        since = run.iteration
        if run.validate is not None:
            run.consider(search.weights)
        while run.iteration < run.max_iter and not (patience and run.iteration - since >= patience):
            before, seen = search.value, run.best_value
            search.sweep(rng.permutation(moving))
            run.step(search.weights, 1.0 - search.value)
            if run.validate is None or run.best_value > seen:
                since = run.iteration
            if search.value <= before:
                break
        if search.value > highest:
            best, highest = search.weights, search.value
    return best


class _Search:
    """The state of one search: weights, their scores and their objective."""

    def __init__(self, bound: LinearScorer, queries: CountedQueries, l2: float) -> None:
        assert queries.data is not None
        self.bound, self.queries, self.l2, self.data = bound, queries, l2, queries.data
        self.start(np.zeros(bound.n_parameters))

    def start(self, weights: FloatArray) -> None:
        """Begin at `weights`."""
        self.weights = weights
        self.scores = self.bound.forward(weights, self.data.X, self.data.offsets)
        self.value = float(self.queries.share @ self.queries.values(self.scores[None])[0])
        self.value -= 0.5 * self.l2 * float(weights @ weights)

    def sweep(self, features: IntArray) -> None:
        """Search along each of these features once."""
        for k in features:
            self._search_along(int(k))
        # Scores of many small changes gather rounding.
        self.start(self.weights)

    def _search_along(self, k: int) -> None:
        changes = _STEPS if self.weights[k] == 0 else np.append(_STEPS, -self.weights[k])
        candidates = np.repeat(self.weights[None], len(changes), axis=0)
        candidates[:, k] += changes
        lengths = np.abs(candidates).sum(axis=1)
        # One feature alone: shrinking it to nothing leaves no ranking.
        usable = lengths > 1e-12
        candidates, changes, lengths = candidates[usable], changes[usable], lengths[usable]
        column = (self.data.X[:, k] - self.bound.scale.mean[k]) * self.bound.scale.inverse_sd[k]
        scores = self.scores + changes[:, None] * column
        candidates /= lengths[:, None]
        values = self.queries.values(scores) @ self.queries.share
        values -= 0.5 * self.l2 * (candidates**2).sum(axis=1)
        best = int(np.argmax(values))
        if values[best] > self.value + _RISE:
            self.weights, self.value = candidates[best], float(values[best])
            self.scores = scores[best] / lengths[best]


class CountedQueries:
    """The queries of a training set that a metric can tell rankings of apart, and its values there."""

    def __init__(self, data: Groups, metric: str | Metric, wanted_by: str) -> None:
        self.metric = metric if isinstance(metric, Metric) else get(metric)
        if not self.metric.formula.of_labels or not self.metric.greater_is_better:
            raise SettingError(
                f"{wanted_by!r} maximises a metric of rankings; {self.metric.name!r} is none: take 'ndcg@10'."
            )
        self.rmax = float(data.y.max())
        zero = evaluate_arrays(np.zeros(data.n_rows), data.y, data.offsets, [self.metric], None, self.rmax)
        counted = differing(data.y, data.offsets) & np.isfinite(zero[self.metric.name])
        self.data = data if counted.all() else data.take(counted) if counted.any() else None
        weight = np.ones(int(counted.sum())) if data.query_weight is None else data.query_weight[counted]
        self.share: FloatArray = weight / (weight.sum() or 1.0)
        """Weight of each query, all together 1."""
        self._tiled: tuple[int, FloatArray, IntArray] = (0, np.empty(0), np.empty(0, dtype=np.int64))

    def values(self, scores: FloatArray) -> FloatArray:
        """The metric of several rankings at once: a row of `scores` each, a row of values by query in return."""
        assert self.data is not None
        times = len(scores)
        if self._tiled[0] != times:
            rows = np.arange(times)[:, None] * self.data.n_rows
            offsets = np.append((self.data.offsets[:-1] + rows).ravel(), times * self.data.n_rows)
            self._tiled = (times, np.tile(self.data.y, times), offsets)
        _, labels, offsets = self._tiled
        found = evaluate_arrays(scores.ravel(), labels, offsets, [self.metric], None, self.rmax)[self.metric.name]
        return found.reshape(times, self.data.n_queries)
