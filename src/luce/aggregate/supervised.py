r"""Aggregation that learns from labels: how much to trust each of M systems that rank the documents of many queries.

The input is a matrix of ranks (rows, systems) with NaN where a system does not rank a document, labels (higher is
better), and query offsets. Both learned rules are conditional choice models. At each stage, the next document j is
picked from those left with probability proportional to $\exp(\theta \cdot x_j)$; documents of one label are picked
from that label and everything below it (Breslow's treatment of ties). They differ in x:

- `PositionalAggregator`: $x_{jm} = h(\text{position of j in system m})$, fixed, so the rule is a weighted positional
  rule;
- `CPSAggregator`: $x_{jm} = -d_m(j)$, the coset-permutation distance, where everything that is equal for all j cancels.
  With Kendall's distance it is the number of documents left that system m puts before j (half for ties), recounted at
  each stage; with Spearman's, the position of j in system m times the number of documents left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from luce import losses
from luce.checks import number, one_of
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.metrics import evaluate_arrays
from luce.metrics import get as get_metric
from luce.numerics.segments import check_offsets, query_index, runs, tiers
from luce.numerics.threads import one_blas_thread
from luce.scorers.cps import FittedCPS
from luce.types import FloatArray, IntArray

MISSING = ("open", "last")
"""Where a document that a system does not rank stands: on the mean of the open positions, or on the last position."""

BASIS = ("borda", "log", "reciprocal", "ranked")
"""Functions of the position that a positional rule may weight: (n - p) / n, -log p, 1 / p, and being ranked at all."""


DISTANCES = ("kendall", "spearman")
"""Distances of the coset-permutation model."""


Ranks: TypeAlias = ArrayLike | Groups
"""(rows, systems), or groups of such rows, which bring labels and offsets along."""
Given: TypeAlias = ArrayLike | None


class Reading(NamedTuple):
    """How a rank matrix is read: whether small ranks are best, and where unranked documents stand."""

    small_is_best: bool = True
    missing: str = "open"


def _checked(ranks: Ranks, offsets: Given, labels: Given = None) -> tuple[FloatArray, IntArray, FloatArray]:
    if isinstance(ranks, Groups):
        data = ranks
        ranks, offsets, labels = data.X, data.offsets, data.y
    matrix = np.ascontiguousarray(ranks, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise DataError(
            f"Ranks must be a matrix with a row a document and a column a system; got shape {matrix.shape}."
        )
    if np.isinf(matrix).any():
        raise DataError("Ranks must be finite; NaN stands for a document that a system does not rank.")
    target = np.zeros(len(matrix)) if labels is None else np.ascontiguousarray(labels, dtype=np.float64)
    if target.shape != (len(matrix),) or not np.isfinite(target).all():
        raise DataError(f"{len(matrix)} documents need as many finite labels; got shape {target.shape}.")
    bounds = check_offsets([0, len(matrix)] if offsets is None else offsets, len(matrix))
    return matrix, bounds, target


def system_positions(ranks: FloatArray, offsets: IntArray, reading: Reading = Reading()) -> FloatArray:  # noqa: B008
    """(rows, systems): the position, from 1, of every document in every system's ranking; ties share the mean.

    >>> system_positions(np.array([[30.0], [np.nan], [10.0], [np.nan]]), np.array([0, 4])).ravel().tolist()
    [2.0, 3.5, 1.0, 3.5]
    """
    one_of("missing", reading.missing, MISSING)
    query = query_index(offsets)
    starts = offsets[query]
    positions = np.empty(ranks.shape)
    for m in range(ranks.shape[1]):
        value = -ranks[:, m] if reading.small_is_best else ranks[:, m]
        order, firsts, _ = tiers(np.where(np.isnan(value), -np.inf, value), offsets)
        sizes = np.diff(firsts)
        positions[order, m] = np.repeat(firsts[:-1] + (sizes + 1) / 2.0, sizes) - starts[order]
    if reading.missing == "last":
        positions = np.where(np.isnan(ranks), np.diff(offsets)[query][:, None], positions)
    return positions


def average_precision(scores: FloatArray, labels: FloatArray, offsets: IntArray) -> FloatArray:
    """Average precision of every query (a label above 0 is relevant; 0 where none is; equal scores in input order).

    >>> average_precision(np.array([3.0, 2, 1]), np.array([1.0, 0, 1]), np.array([0, 3])).round(4).tolist()
    [0.8333]
    """
    relevant = (labels > 0).astype(np.float64)
    return evaluate_arrays(scores, relevant, offsets, [get_metric("map", ties="stable", empty=0)])["map"]


def choose_reading(ranks: Ranks, labels: Given = None, offsets: Given = None) -> Reading:
    """The reading under which plain Borda has the best mean average precision on labelled data."""
    matrix, bounds, target = _checked(ranks, offsets, labels)
    readings = [Reading(small, missing) for small in (True, False) for missing in MISSING]
    quality = [
        average_precision(-system_positions(matrix, bounds, one).sum(axis=1), target, bounds).mean() for one in readings
    ]
    return readings[int(np.argmax(quality))]


class BordaAggregator:
    """Borda's rule over the systems; `fit` only chooses how ranks are read.

    >>> ranks = np.array([[1.0, 2], [2, 1], [3, np.nan]])
    >>> BordaAggregator(Reading()).predict(ranks, [0, 3]).tolist()
    [-3.0, -3.0, -6.0]
    """

    def __init__(self, reading: Reading | None = None) -> None:
        self.reading = reading

    def fit(self, ranks: Ranks, labels: Given = None, offsets: Given = None) -> BordaAggregator:
        """Choose direction and treatment of unranked documents by mean average precision."""
        self.reading = choose_reading(ranks, labels, offsets)
        return self

    def predict(self, ranks: Ranks, offsets: Given = None) -> FloatArray:
        """One score a document, higher is better."""
        if self.reading is None:
            raise SettingError("How the ranks are read is not known yet; call fit first or give a reading.")
        matrix, bounds, _ = _checked(ranks, offsets)
        return np.asarray(-system_positions(matrix, bounds, self.reading).sum(axis=1))


class _Choices(NamedTuple):
    """The stages of the choice model: rows of each stage's choice set, its boundaries, and the documents picked."""

    rows: IntArray
    offsets: IntArray
    picked: FloatArray
    n_queries: int


def _choices(labels: FloatArray, offsets: IntArray) -> _Choices:
    """Every tier of a query but the last is picked from itself and what is below."""
    order, starts, queries = tiers(labels, offsets)
    others = np.delete(np.arange(len(starts) - 1), queries[1:] - 1)
    if not len(others):
        raise DataError("No query has documents of different labels, so there is nothing to learn from.")
    sizes = np.repeat(offsets[1:], np.diff(queries))[others] - starts[others]
    place = runs(starts[others], sizes)
    picked = place < np.repeat(starts[others + 1], sizes)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return _Choices(order[place], bounds, picked.astype(np.float64), len(offsets) - 1)


def _choice_loss(theta: FloatArray, x: FloatArray, choices: _Choices, l2: float) -> tuple[float, FloatArray]:
    """Mean negative log-likelihood a query with l2/2 |theta|^2, and its gradient: every choice set is a query."""
    loss = losses.get("plackett_luce", ties="breslow")
    value, slope = loss.value_and_grad(x @ theta, choices.picked, choices.offsets)
    scale = 1.0 / choices.n_queries
    return float(value * scale + 0.5 * l2 * theta @ theta), x.T @ slope * scale + l2 * theta


def _maximise(x: FloatArray, choices: _Choices, l2: float) -> FloatArray:
    """Theta of greatest penalised likelihood, with features brought to unit spread and the scale folded back."""
    spread = x.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    scaled = x / scale
    start = np.zeros(x.shape[1])
    with one_blas_thread():  # many small products: threads would only wait for each other
        result = minimize(
            _choice_loss, start, (scaled, choices, l2), jac=True, method="L-BFGS-B", options={"maxiter": 300}
        )
    return np.asarray(result.x) / scale


class PositionalAggregator:
    """A weighted positional rule: the score is a learned combination of functions of the systems' positions.

    After `fit`, `theta` has one row a basis function and one column a system.

    Parameters
    ----------
    basis
        Which functions of the position each system contributes: `borda`, `log`, `reciprocal`, `ranked`. With
        `ranked`, what it means not to be ranked by a system is learned too.
    l2
        Penalty l2/2 |theta|^2 on features of unit spread.
    reading
        How ranks are read; None chooses it on the training data.
    """

    def __init__(self, basis: tuple[str, ...] = ("borda",), l2: float = 0.01, reading: Reading | None = None) -> None:
        for name in basis:
            one_of("A basis function", name, BASIS)
        if not basis:
            raise SettingError(f"A positional rule needs at least one basis function of {', '.join(BASIS)}.")
        self.basis, self.l2, self.reading = tuple(basis), number("l2", l2), reading
        self.theta: FloatArray | None = None

    def _features(self, ranks: FloatArray, offsets: IntArray) -> FloatArray:
        assert self.reading is not None
        position = system_positions(ranks, offsets, self.reading)
        size = np.diff(offsets)[query_index(offsets)][:, None]
        columns: dict[str, Callable[[], FloatArray]] = {
            "borda": lambda: (size - position) / size,
            "log": lambda: -np.log(position),
            "reciprocal": lambda: 1.0 / position,
            "ranked": lambda: (~np.isnan(ranks)).astype(np.float64),
        }
        return np.concatenate([columns[name]() for name in self.basis], axis=1)

    def fit(self, ranks: Ranks, labels: Given = None, offsets: Given = None) -> PositionalAggregator:
        """Learn the weights."""
        matrix, bounds, target = _checked(ranks, offsets, labels)
        self.reading = self.reading or choose_reading(matrix, target, bounds)
        choices = _choices(target, bounds)
        theta = _maximise(self._features(matrix, bounds)[choices.rows], choices, self.l2)
        self.theta = theta.reshape(len(self.basis), matrix.shape[1])
        return self

    def predict(self, ranks: Ranks, offsets: Given = None) -> FloatArray:
        """One score a document, higher is better."""
        matrix, bounds, _ = _checked(ranks, offsets)
        theta = _fitted(self.theta, matrix)
        return self._features(matrix, bounds) @ theta.ravel()


class CPSAggregator:
    r"""The coset-permutation distance model, learned stage by stage.

    Stage by stage, document j of those left has probability proportional to $\exp(-\sum_m \theta_m d_m(j))$, where
    $d_m(j)$ is the mean distance to the ranking of system m over all rankings that begin with what was picked before,
    followed by j.

    Parameters
    ----------
    l2
        Penalty l2/2 |theta|^2 on features of unit spread.
    reading
        How ranks are read; None chooses it on the training data.
    distance
        `kendall`: ranked by the same model, greedily. `spearman`, the sum of squared differences of positions: the
        stages differ by a factor alone, so that the answer is a weighted Borda rule, and only its weights are learned
        otherwise, early stages counting more.
    """

    def __init__(self, l2: float = 0.01, reading: Reading | None = None, distance: str = "kendall") -> None:
        one_of("distance", distance, DISTANCES)
        self.l2, self.reading, self.distance = number("l2", l2), reading, distance
        self.theta: FloatArray | None = None

    def fit(self, ranks: Ranks, labels: Given = None, offsets: Given = None) -> CPSAggregator:
        """Learn the weights; Kendall's distances are recounted among the documents left at each stage."""
        matrix, bounds, target = _checked(ranks, offsets, labels)
        self.reading = self.reading or choose_reading(matrix, target, bounds)
        choices = _choices(target, bounds)
        if self.distance == "kendall":
            distance = system_positions(matrix[choices.rows], choices.offsets, self.reading) - 1.0
        else:
            left = np.diff(choices.offsets)[query_index(choices.offsets)]
            distance = system_positions(matrix, bounds, self.reading)[choices.rows] * left[:, None]
        self.theta = _maximise(-distance, choices, self.l2)
        return self

    def predict(self, ranks: Ranks, offsets: Given = None) -> FloatArray:
        """Higher is better: minus the stage at which a document is picked, or its weighted Borda score."""
        matrix, bounds, _ = _checked(ranks, offsets)
        theta = _fitted(self.theta, matrix)
        assert self.reading is not None
        positions = system_positions(matrix, bounds, self.reading)
        if self.distance == "spearman":
            return -positions @ theta
        # Positions are features of which the lowest is best; all documents are picked, one a stage.
        picked = FittedCPS(theta, len(matrix)).score(-positions.astype(np.float32), bounds)
        return picked - np.diff(bounds)[query_index(bounds)]


def _fitted(theta: FloatArray | None, ranks: FloatArray) -> FloatArray:
    if theta is None:
        raise SettingError("The rule is not learned yet; call fit first.")
    if theta.shape[-1] != ranks.shape[1]:
        raise DataError(f"The rule was learned for {theta.shape[-1]} systems; the ranks have {ranks.shape[1]}.")
    return theta
