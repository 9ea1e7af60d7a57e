"""RankBoost: steps in single features, boosted on the exponential loss of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.checks import one_of, patience, whole
from luce.numerics.compiled import kernel
from luce.numerics.segments import Chunk, Tiers, chunk_queries, map_chunks, tiers
from luce.scorers.stumps import FittedStumps
from luce.training.bins import MISSING, Bins, cut
from luce.training.task import Algorithm, Task, Trained
from luce.types import FloatArray

_WEIGHTINGS = ("pairs", "queries")
_MOST = 1 - 1e-6
"""A step that orders all pairs would get infinite weight."""
_SEPARATED = 1e-9
"""Exponential loss, relative to its start, at which all pairs are ordered with a wide margin."""


class Step(NamedTuple):
    """A weak ranker, 1 where the feature is above the threshold, with its edge r; `missing` is its value of NaN."""

    feature: int
    threshold: float
    edge: float
    missing: float

    @property
    def alpha(self) -> float:
        r"""Its weight $\alpha = \frac12 \ln \frac{1 + r}{1 - r}$."""
        return float(np.arctanh(np.clip(self.edge, -_MOST, _MOST)))

    def answers(self, X: NDArray[np.float32]) -> FloatArray:
        """The weak ranker itself, 0 or 1 a row."""
        column = X[:, self.feature]
        # Compared in double precision: in single, a threshold between two neighbouring values would be one of them.
        return np.where(np.isnan(column), self.missing, column > np.float64(self.threshold))


@dataclass(frozen=True)
class RankBoost(Algorithm):
    r"""Boosted steps in single features on the exponential loss of pairs (Freund et al., 2003).

    Add steps $\alpha_t h_t$ that have the largest edge, `max_iter` of them or until validation rises no more.

    With the pairs (i, j) of a query of which i has the higher grade, weighted
    $D_t(i, j) \propto c_q e^{f(x_j) - f(x_i)}$, the edge of $h$ is $r = \sum D_t(i, j) (h(x_i) - h(x_j))$, and
    $\alpha = \frac12 \ln \frac{1 + r}{1 - r}$ lowers the loss $\sum c_q e^{f(x_j) - f(x_i)}$ at least by the factor
    $\sqrt{1 - r^2}$ (Freund et al., 2003, section 3.2, third method).

    Parameters
    ----------
    thresholds
        Candidates a feature, 1 to 254: all values where there are no more, else quantiles.
    weighting
        "pairs": every pair of documents of different grade counts the same; "queries": every query does.
    max_iter, early_stopping
        Rounds at most, and rounds without a better validation metric that end it (None: never).
    """

    thresholds: int = 254
    weighting: str = "pairs"
    max_iter: int = 100
    early_stopping: int | None = 20

    name: ClassVar[str] = "rankboost"
    takes_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole("thresholds", self.thresholds, 1, 254)
        one_of("weighting", self.weighting, _WEIGHTINGS)
        whole("max_iter", self.max_iter, 0)
        patience(self.early_stopping)

    def train(self, task: Task) -> Trained:
        """Step after step."""
        self.check_task(task)
        data, valid = task.data, task.valid
        bins, parts = cut(data.X, self.thresholds), tiers(data.y, data.offsets)
        weight = pair_weights(parts, data.query_weight, self.weighting)
        scores = np.zeros(data.n_rows)
        valid_scores = np.zeros(0 if valid is None else valid.n_rows)
        run = task.start_run(self.max_iter, self.early_stopping, lambda _: task.judged(valid_scores))
        if valid is not None:
            run.consider(run.last)
        steps: list[Step] = []
        value, potential = potentials(scores, parts, weight)
        while run.iteration < self.max_iter and not run.exhausted and value > _SEPARATED:
            step = best_step(bins, potential / value)
            if step is None:
                break
            steps.append(step)
            scores += step.alpha * step.answers(data.X)
            if valid is not None:
                valid_scores += step.alpha * step.answers(valid.X)
            value, potential = potentials(scores, parts, weight)
            run.step(run.last, value)
        run.history.converged = True
        kept = steps if run.best is None else steps[: run.history.best_iteration]
        alpha = np.array([step.alpha for step in kept])
        missing = alpha * [step.missing for step in kept]
        stumps = FittedStumps.of(
            [s.feature for s in kept], [s.threshold for s in kept], alpha, missing, data.n_features
        )
        return Trained(stumps, None, run.history)


def pair_weights(parts: Tiers, query_weight: FloatArray | None, weighting: str) -> FloatArray:
    """The weight of a pair of each query, all pairs together 1; 0 where the grades are all equal."""
    size = np.diff(parts.starts).astype(np.float64)
    query = np.repeat(np.arange(len(parts.queries) - 1), np.diff(parts.queries))
    rows, squares = (np.bincount(query, values) for values in (size, size**2))
    pairs = (rows**2 - squares) / 2
    weight = (pairs > 0) * (np.ones(len(pairs)) if query_weight is None else query_weight)
    if weighting == "queries":
        weight = weight / np.maximum(pairs, 1.0)
    total = weight @ pairs
    return weight / total if total > 0 else weight


def potentials(scores: FloatArray, parts: Tiers, weight: FloatArray) -> tuple[float, FloatArray]:
    r"""The exponential loss, and for every row $\pi_i = \sum_j D(i, j) - \sum_j D(j, i)$, not normalised.

    The edge of any weak ranker is $\sum_i \pi_i h(x_i)$. $D$ is a product of a factor of i and one of j, so that sums
    over the tiers below and above give both without visiting pairs.
    """
    out = np.empty(len(scores))
    offsets = parts.starts[parts.queries]

    def block(_: int, chunk: Chunk) -> float:
        return float(_potentials(*chunk, scores, parts.order, parts.starts, parts.queries, weight, out))

    return sum(map_chunks(block, chunk_queries(offsets))), out


def best_step(bins: Bins, potential: FloatArray) -> Step | None:
    """The step of the largest edge in absolute value; None where no step has one."""
    columns = len(bins.thresholds)
    counts = np.array([len(found) for found in bins.thresholds])
    edges, places, missing = np.zeros(columns), np.zeros(columns, dtype=np.int64), np.zeros(columns)
    block = max(1, 65_536 // len(potential))

    def features(_: int, chunk: Chunk) -> None:
        _best_steps(*chunk, bins.above, counts, potential, edges, places, missing)

    map_chunks(features, [(k, min(k + block, columns)) for k in range(0, columns, block)])
    best = int(np.argmax(np.abs(edges)))
    if abs(edges[best]) < 1e-12:
        return None
    return Step(best, float(bins.thresholds[best][places[best]]), float(edges[best]), float(missing[best]))


@kernel
def _potentials(first, last, scores, order, starts, queries, weight, out):  # type: ignore[no-untyped-def]
    total = 0.0
    for q in range(first, last):
        begin, end = starts[queries[q]], starts[queries[q + 1]]
        low, high = np.inf, -np.inf
        for p in range(begin, end):
            low, high = min(low, scores[order[p]]), max(high, scores[order[p]])
        centre = 0.5 * (low + high)  # pairs see differences only, and these exponents overflow last
        above = 0.0
        for t in range(queries[q], queries[q + 1]):
            inside = 0.0
            for p in range(starts[t], starts[t + 1]):
                i = order[p]
                out[i] = -weight[q] * np.exp(scores[i] - centre) * above
                inside += np.exp(centre - scores[i])
            above += inside
        below = 0.0
        for t in range(queries[q + 1] - 1, queries[q] - 1, -1):
            inside = 0.0
            for p in range(starts[t], starts[t + 1]):
                i = order[p]
                won = weight[q] * np.exp(centre - scores[i]) * below
                out[i] += won
                total += won
                inside += np.exp(scores[i] - centre)
            below += inside
    return total


@kernel
def _best_steps(first, last, index, counts, potential, edges, places, missing):  # type: ignore[no-untyped-def]
    sums = np.empty(256)
    for k in range(first, last):
        sums[:] = 0.0
        for i in range(len(potential)):
            sums[index[k, i]] += potential[i]
        edge, absent = 0.0, sums[MISSING]
        for b in range(counts[k] - 1, -1, -1):
            edge += sums[b + 1]
            if abs(edge) > abs(edges[k]):
                edges[k], places[k], missing[k] = edge, b, 0.0
            if abs(edge + absent) > abs(edges[k]):
                edges[k], places[k], missing[k] = edge + absent, b, 1.0
