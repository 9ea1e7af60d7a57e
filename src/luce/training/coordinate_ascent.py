"""Coordinate ascent: a linear scorer that climbs a metric, one weight after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.data.groups import Groups
from luce.losses.base import Loss
from luce.scorers.base_rankers import CoordinateAscent
from luce.scorers.linear import LinearScorer
from luce.training.own_criterion import CountedQueries, check_options, start_run, valid_metric
from luce.training.run import TrainingRun
from luce.training.train import Options, Trained
from luce.types import FloatArray, IntArray

__all__ = ["fit"]

_STEPS = np.concatenate([s * 2.0 ** -np.arange(1, 12) for s in (1.0, -1.0)])
"""Changes of a weight that a line search tries, where all weights together have the absolute sum 1."""
_RISE = 1e-9
"""Metrics are sums of few numbers; a smaller rise is rounding."""


def fit(
    scorer: CoordinateAscent, loss: Loss, data: Groups, valid: Groups | None, options: Options, target: Any = None
) -> Trained:
    r"""Maximise $\bar E(w) - \frac{l2}{2} \|w\|^2$ with $\|w\|_1 = 1$, where $\bar E$ is the mean of the metric.

    Rankings do not depend on the length of $w$, so that the weights are kept on the simplex of signed shares (Metzler
    and Croft, 2007). A sweep visits the standardised features in random order; each weight takes the best of 22 changes
    between $2^{-11}$ and $\frac12$ in either direction, of 0, and of staying as it is. A search ends with a sweep that
    changes nothing, and the next one starts from random weights. `max_iter` counts sweeps, over all searches. The
    weights that are best on validation are kept, or those of the highest objective where there is no validation.
    """
    check_options(scorer.name, options, target)
    bound = LinearScorer().bind(data)
    queries = CountedQueries(data, scorer.metric or options.metric, scorer.name)

    def validate(weights: FloatArray) -> float:
        assert valid is not None
        return valid_metric(bound.fitted(weights).score(valid.X, valid.offsets), valid, options)

    run = start_run(options, None if valid is None else validate)
    run.last = np.zeros(data.n_features)
    best = _searches(scorer, bound, queries, run, options) if queries.data is not None else run.last
    run.history.converged = run.iteration < options.max_iter
    return Trained(bound.fitted(best if run.best is None else run.best), loss, run.history)


def _searches(
    scorer: CoordinateAscent, bound: LinearScorer, queries: CountedQueries, run: TrainingRun, options: Options
) -> FloatArray:
    """All searches, one after the other; returns the weights of the highest objective."""
    rng = np.random.default_rng(options.seed)
    moving = np.flatnonzero(bound.scale.inverse_sd > 0)
    search = _Search(bound, queries, options.l2)
    best, highest = run.last, -np.inf
    for start in range(1 + scorer.restarts if len(moving) else 0):
        weights = np.zeros(bound.n_parameters)
        weights[moving] = 1.0 if start == 0 else rng.normal(size=len(moving))
        search.start(weights / np.abs(weights).sum())
        since = run.iteration
        if run.validate is not None:
            run.consider(search.weights)
        while run.iteration < run.max_iter and not (options.patience and run.iteration - since >= options.patience):
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
