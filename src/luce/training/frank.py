"""FRank: steps in single features, boosted on the fidelity loss of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.checks import patience, whole
from luce.data.groups import Groups
from luce.numerics.compiled import kernel
from luce.numerics.segments import Chunk, map_chunks, tiers
from luce.scorers.stumps import FittedStumps
from luce.training.bins import MISSING, Bins, cut
from luce.training.rankboost import pair_weights
from luce.training.task import Algorithm, Task, Trained
from luce.types import FloatArray

_BLOCK_PAIRS = 65_536
_HALVINGS = 20


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


@dataclass(frozen=True)
class FRank(Algorithm):
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
    max_iter, early_stopping
        Rounds at most, and rounds without a better validation metric that end it (None: never).
    """

    thresholds: int = 64
    shortlist: int = 8
    max_iter: int = 100
    early_stopping: int | None = 20

    name: ClassVar[str] = "frank"
    takes_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole("thresholds", self.thresholds, 1, 254)
        whole("shortlist", self.shortlist, 1)
        whole("max_iter", self.max_iter, 0)
        patience(self.early_stopping)

    def train(self, task: Task) -> Trained:
        """Step after step."""
        self.check_task(task)
        data, valid = task.data, task.valid
        bins, pairs = _bins(data, self.thresholds), all_pairs(data)
        scores = np.zeros(data.n_rows)
        valid_scores = np.zeros(0 if valid is None else valid.n_rows)
        run = task.start_run(self.max_iter, self.early_stopping, lambda _: task.judged(valid_scores))
        if valid is not None:
            run.consider(run.last)
        steps: list[Addition] = []
        while run.iteration < self.max_iter and not run.exhausted and len(pairs.weight):
            step = best_addition(bins, pairs, scores, self.shortlist)
            if step is None:
                break
            steps.append(step)
            scores += step.alpha * (bins.above[step.feature] > step.place)
            if valid is not None:
                valid_scores += step.alpha * (valid.X[:, step.feature] > bins.thresholds[step.feature][step.place])
            run.step(run.last, step.loss)
        run.history.converged = True
        kept = steps if run.best is None else steps[: run.history.best_iteration]
        thresholds = [bins.thresholds[s.feature][s.place] for s in kept]
        alphas, none = [s.alpha for s in kept], np.zeros(len(kept))
        stumps = FittedStumps.of([s.feature for s in kept], thresholds, alphas, none, data.n_features)
        return Trained(stumps, None, run.history)


def _bins(data: Groups, limit: int) -> Bins:
    """Features cut at thresholds, where what is missing is above none of them."""
    bins = cut(data.X, limit)
    bins.above[bins.above == MISSING] = 0
    return bins


def all_pairs(data: Groups) -> Pairs:
    """All pairs of documents of a query with different grades; every query has the same weight, or its own."""
    parts = tiers(data.y, data.offsets)
    weight = pair_weights(parts, data.query_weight, "queries")
    size = np.diff(parts.starts)
    last = np.repeat(parts.starts[parts.queries[1:]], np.diff(parts.queries))
    counts = size * (last - parts.starts[1:])
    n = int(counts.sum())
    better, worse, weights = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n)
    _fill_pairs(parts.order, parts.starts, parts.queries, weight, better, worse, weights)
    return Pairs(better, worse, weights)


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
def _fill_pairs(order, starts, queries, weight, better, worse, weights):  # type: ignore[no-untyped-def]
    n = 0
    for q in range(len(queries) - 1):
        end = starts[queries[q + 1]]
        for t in range(queries[q], queries[q + 1]):
            for p in range(starts[t], starts[t + 1]):
                for r in range(starts[t + 1], end):
                    better[n], worse[n], weights[n] = order[p], order[r], weight[q]
                    n += 1


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
