"""Coordinate ascent: a linear scorer that climbs a metric, one weight after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from luce.checks import number, whole
from luce.checks import patience as check_patience
from luce.metrics.catalog import of
from luce.scorers.linear import LinearScorer
from luce.training.counted_queries import CountedQueries
from luce.training.run import TrainingRun
from luce.training.task import Algorithm, Task, Trained
from luce.types import FloatArray, IntArray

_STEPS = np.concatenate([s * 2.0 ** -np.arange(1, 12) for s in (1.0, -1.0)])
"""Changes of a weight that a line search tries, where all weights together have the absolute sum 1."""
_RISE = 1e-9
"""Metrics are sums of few numbers; a smaller rise is rounding."""


@dataclass(frozen=True)
class CoordinateAscent(Algorithm):
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

    metric: str | None = None
    restarts: int = 2
    l2: float = 1e-2
    max_iter: int = 100
    early_stopping: int | None = 20

    name: ClassVar[str] = "coordinate_ascent"

    def __post_init__(self) -> None:
        whole("restarts", self.restarts, 0)
        number("l2", self.l2)
        whole("max_iter", self.max_iter, 0)
        check_patience(self.early_stopping)
        if self.metric is not None:
            of(self.metric)

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
        self.value = float(self.queries.share @ self.queries.values(self.scores[None])[0]) - self._penalty(weights)

    def _penalty(self, weights: FloatArray) -> float:
        return 0.5 * self.l2 * float(weights @ weights)

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
