"""AdaRank: single features, boosted on a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from luce.checks import patience, whole
from luce.errors import SettingError
from luce.metrics.catalog import of
from luce.scorers.linear import LinearScorer
from luce.training.counted_queries import CountedQueries
from luce.training.task import Algorithm, Task, Trained
from luce.types import FloatArray

_RISE = 1e-6
"""A feature that raises the training metric by less is put aside."""


@dataclass(frozen=True)
class AdaRank(Algorithm):
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
    max_iter, early_stopping
        Rounds at most, and rounds without a better validation metric that end it (None: never).
    """

    metric: str | None = None
    both_directions: bool = True
    max_iter: int = 100
    early_stopping: int | None = 20

    name: ClassVar[str] = "adarank"

    def __post_init__(self) -> None:
        whole("max_iter", self.max_iter, 0)
        patience(self.early_stopping)
        if self.metric is not None:
            of(self.metric)

    def train(self, task: Task) -> Trained:
        """Round after round."""
        self.check_task(task)
        data, valid = task.data, task.valid
        bound = LinearScorer().bind(data)
        queries = CountedQueries(data, task.metric if self.metric is None else self.metric, self.name)
        run = task.start_run(self.max_iter, self.early_stopping, lambda w: task.judged_scorer(bound.fitted(w)))
        run.last = weights = np.zeros(data.n_features)
        if valid is not None:
            run.consider(weights)
        best_weights, highest = weights, -np.inf
        if queries.data is not None:
            signs = (1.0, -1.0) if self.both_directions else (1.0,)
            features = np.concatenate([_feature_values(queries, sign) for sign in signs])
            varies = np.tile(bound.scale.inverse_sd > 0, len(signs))
            share, open_ = queries.share, varies.copy()
            while run.iteration < self.max_iter and not run.exhausted and open_.any():
                k = int(np.argmax(np.where(open_, features @ share, -np.inf)))
                weights = weights.copy()
                side, column = divmod(k, data.n_features)
                weights[column] += signs[side] * alpha(features[k], share)
                values = queries.values(bound.forward(weights, queries.data.X, queries.data.offsets)[None])[0]
                share = queries.share * np.exp(-values)
                share /= share.sum()
                value = float(queries.share @ values)
                if value > highest + _RISE:
                    best_weights, highest = weights, value
                    open_ = varies.copy()
                else:
                    open_[k] = False
                run.step(weights, 1.0 - value)
        run.history.converged = True
        return Trained(bound.fitted(best_weights if run.best is None else run.best), None, run.history)


def alpha(values: FloatArray, share: FloatArray) -> float:
    r"""Weight of a weak ranker, $\frac12 \ln \frac{\sum_q P(q) (1 + E(q))}{\sum_q P(q) (1 - E(q))}$.

    >>> round(alpha(np.array([1.0, 0.0]), np.array([0.5, 0.5])), 4)  # half of ln 3
    0.5493
    """
    mean = min(float(share @ values), 1 - 1e-6)
    return float(np.arctanh(mean))


def _feature_values(queries: CountedQueries, sign: float) -> FloatArray:
    """A row a feature: the metric of ranking by it, query by query."""
    assert queries.data is not None
    columns = queries.data.X.T
    values = np.concatenate([queries.values(sign * column[None].astype(np.float64)) for column in columns])
    if values.min(initial=0.0) < -1 or values.max(initial=0.0) > 1 + 1e-9:
        raise SettingError(f"AdaRank needs a metric between -1 and 1; {queries.metric.name!r} is not: take 'ndcg@10'.")
    return values
