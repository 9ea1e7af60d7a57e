"""RankBoost and FRank: steps in single features, boosted on the exponential and on the fidelity loss of pairs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.numerics.compiled import kernel
from luce.numerics.segments import Chunk, Tiers, chunk_queries, map_chunks, runs, tiers
from luce.spec import Choice, Range, option
from luce.training.additive import ByRounds
from luce.training.run import Step
from luce.training.task import Rounds, Stepwise, Task
from luce.training.weak import MISSING, Bins, Stump, StumpSum, best_stump, cut
from luce.types import FloatArray

_MOST = 1 - 1e-6
"""A step that orders all pairs would get infinite weight."""
_LEAST = 1e-12
"""An edge below it is rounding."""
_SEPARATED = 1e-9
"""Exponential loss, relative to its start, at which all pairs are ordered with a wide margin."""
_BLOCK_PAIRS = 65_536
_HALVINGS = 20


class _Steps(Stepwise, Rounds):
    """What both share."""

    takes_missing: ClassVar[bool] = True
    refuses: ClassVar[tuple[str, ...]] = ("target", "base", "warm_start")

    @abstractmethod
    def way(self, task: Task) -> ByRounds:
        """The training before its first round."""

    def start(self, task: Task) -> ByRounds:
        """The sum of no step."""
        self.check_task(task)
        return self.way(task).open(self.max_iter, self.early_stopping)


class RankBoost(_Steps):
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
    """

    thresholds: int = option(default=254, least=1, most=254, tune=Range(8, 254, whole=True))
    weighting: Literal["pairs", "queries"] = option(default="pairs", tune=Choice(("pairs", "queries")))

    name: ClassVar[str] = "rankboost"

    def way(self, task: Task) -> ByRounds:
        """On the potentials of documents."""
        return _OnPotentials(self, task)


class _OnPotentials(ByRounds):
    """RankBoost under way."""

    sum: StumpSum

    def __init__(self, trainer: RankBoost, task: Task) -> None:
        data = task.data
        super().__init__(trainer, task, StumpSum(cut(data.X, trainer.thresholds)))
        self.tiers = tiers(data.y, data.offsets)
        self.weight = pair_weights(self.tiers, data.query_weight, trainer.weighting)

    def steps(self) -> Iterator[Step]:
        """Always the step of the largest edge, until all pairs are in order or none has an edge."""
        value, potential = potentials(self.scores, self.tiers, self.weight)
        while value > _SEPARATED:
            stump = best_stump(self.sum.bins, potential / value)
            if stump is None:
                return
            h = self.sum.take(stump)
            edge = float(potential / value @ h)
            if abs(edge) < _LEAST:
                return
            self.add(h, step_weight(edge))
            value, potential = potentials(self.scores, self.tiers, self.weight)
            yield Step(self.parameters, value)


def step_weight(edge: float) -> float:
    r"""The weight $\alpha = \frac12 \ln \frac{1 + r}{1 - r}$ of a step with the edge r."""
    return float(np.arctanh(np.clip(edge, -_MOST, _MOST)))


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


class FRank(_Steps):
    r"""Boosted steps in single features on the fidelity loss of pairs (Tsai et al., 2007).

    Add the step that lowers the fidelity loss most, `max_iter` of them or until validation rises no more.

    A pair of which the first is better has the loss $1 - \sqrt{\sigma(f(x_i) - f(x_j))}$, between 0 and 1, averaged
    over the pairs of a query and then over queries. With $W_{ij} = D_{ij} \sqrt{\sigma} (1 - \sigma)$, twice its slope,
    and $W_+$, $W_-$ the sums of the pairs that a step orders rightly and wrongly, the weight of the step is
    $\alpha = \frac12 \ln \frac{W_+}{W_-}$ (Tsai et al., 2007). It is halved where it would raise the loss.

    Parameters
    ----------
    thresholds
        Candidates a feature, 1 to 254: all values where there are no more, else quantiles.
    shortlist
        The most promising steps of a round whose fidelity loss is computed in full.
    """

    thresholds: int = option(default=64, least=1, most=254, tune=Range(8, 254, whole=True))
    shortlist: int = option(default=8, least=1, tune=Range(2, 32, whole=True))

    name: ClassVar[str] = "frank"

    def way(self, task: Task) -> ByRounds:
        """On the fidelity of pairs."""
        return _OnFidelity(self, task)


class _OnFidelity(ByRounds):
    """FRank under way; what is missing is above no threshold."""

    sum: StumpSum

    def __init__(self, trainer: FRank, task: Task) -> None:
        bins = cut(task.data.X, trainer.thresholds)
        bins.above[bins.above == MISSING] = 0
        super().__init__(trainer, task, StumpSum(bins))
        self.pairs, self.shortlist = all_pairs(task.data), trainer.shortlist

    def steps(self) -> Iterator[Step]:
        """Always the step that lowers the loss most, until none does."""
        while len(self.pairs.weight):
            step = best_addition(self.sum.bins, self.pairs, self.scores, self.shortlist)
            if step is None:
                return
            self.add(self.sum.take(Stump(step.feature, step.place, 0.0)), step.alpha)
            yield Step(self.parameters, step.loss)


class Pairs(NamedTuple):
    """Rows of the better and the worse document of every pair, and its weight; the weights sum to 1."""

    better: NDArray[np.int32]
    worse: NDArray[np.int32]
    weight: FloatArray

    def blocks(self) -> list[Chunk]:
        """The pairs in blocks for threads."""
        n = len(self.weight)
        return [(a, min(a + _BLOCK_PAIRS, n)) for a in range(0, n, _BLOCK_PAIRS)]


class Addition(NamedTuple):
    """The step `alpha * [x_feature > threshold]`, `place` being the number of the threshold, and the loss after it."""

    feature: int
    place: int
    alpha: float
    loss: float


def all_pairs(data: Groups) -> Pairs:
    """All pairs of documents of a query with different grades; every query has the same weight, or its own."""
    parts = tiers(data.y, data.offsets)
    weight = pair_weights(parts, data.query_weight, "queries")
    size = np.diff(parts.starts)
    last = np.repeat(parts.starts[parts.queries[1:]], np.diff(parts.queries))
    below, following = (np.repeat(values, size) for values in (last - parts.starts[1:], parts.starts[1:]))
    weights = np.repeat(weight, np.diff(parts.starts[parts.queries]))
    order = parts.order.astype(np.int32)
    return Pairs(np.repeat(order, below), order[runs(following, below)], np.repeat(weights, below))


def fidelity(pairs: Pairs, scores: FloatArray) -> tuple[float, FloatArray]:
    r"""The loss $\sum D_{ij} (1 - \sqrt{\sigma(s_i - s_j)})$, and $W_{ij}$."""
    slopes = np.empty(len(pairs.weight))

    def block(_: int, chunk: Chunk) -> float:
        return float(_fidelity(*chunk, *pairs, scores, slopes))

    return sum(map_chunks(block, pairs.blocks())), slopes


def best_addition(bins: Bins, pairs: Pairs, scores: FloatArray, shortlist: int) -> Addition | None:
    r"""The best step by its loss, among the most promising of each feature by $(\sqrt{W_+} - \sqrt{W_-})^2$.

    That is how far the exponential loss with the weights $W$ would fall. None where no step lowers the loss.
    """
    value, slopes = fidelity(pairs, scores)
    columns = len(bins.thresholds)
    counts = np.array([len(found) for found in bins.thresholds])
    gains, places, alphas = np.zeros(columns), np.zeros(columns, dtype=np.int64), np.zeros(columns)
    smooth = float(slopes.sum()) / len(slopes)

    def feature(_: int, chunk: Chunk) -> None:
        _promise(*chunk, bins.above, counts, pairs.better, pairs.worse, slopes, smooth, gains, places, alphas)

    map_chunks(feature, [(k, k + 1) for k in range(columns)])
    chosen = [int(k) for k in np.argsort(-gains, kind="stable")[:shortlist] if gains[k] > 0]

    def after(k: int, alpha: float) -> Addition:
        tried = scores + alpha * (bins.above[k] > places[k])
        return Addition(k, int(places[k]), alpha, fidelity(pairs, tried)[0])

    for halvings in range(_HALVINGS if chosen else 0):
        best = min((after(k, float(alphas[k]) / 2**halvings) for k in chosen), key=lambda found: found.loss)
        if best.loss < value:
            return best
    return None


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
def _fidelity(first, last, better, worse, weight, scores, slopes):  # type: ignore[no-untyped-def]
    total = 0.0
    for p in range(first, last):
        # 1 - sqrt(sigma) = wrong / (1 + sqrt(sigma)) keeps its digits where sigma is next to 1.
        difference = scores[better[p]] - scores[worse[p]]
        small = np.exp(-abs(difference))
        right = (1.0 if difference >= 0 else small) / (1.0 + small)
        wrong = (small if difference >= 0 else 1.0) / (1.0 + small)
        root = np.sqrt(right)
        total += weight[p] * wrong / (1.0 + root)
        slopes[p] = weight[p] * root * wrong
    return total


@kernel
def _promise(first, last, index, counts, better, worse, slopes, smooth, gains, places, alphas):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        # A pair is told apart by the thresholds between its two values: add at one end, take away at the other.
        right, wrong = np.zeros(256), np.zeros(256)
        for p in range(len(slopes)):
            a, b = index[k, better[p]], index[k, worse[p]]
            if a > b:
                right[b] += slopes[p]
                right[a] -= slopes[p]
            elif a < b:
                wrong[a] += slopes[p]
                wrong[b] -= slopes[p]
        plus, minus = smooth, smooth
        for place in range(counts[k]):
            plus += right[place]
            minus += wrong[place]
            gain = (np.sqrt(max(plus, smooth)) - np.sqrt(max(minus, smooth))) ** 2
            if gain > gains[k]:
                gains[k], places[k] = gain, place
                alphas[k] = 0.5 * np.log(max(plus, smooth) / max(minus, smooth))
