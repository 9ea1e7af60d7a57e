"""PMOP with full decomposition: a probability over ordered partitions, in linear time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from numbers import Real
from typing import Any, Literal

import numpy as np

from luce.errors import SettingError
from luce.losses.base import Outputs
from luce.losses.stages import PartitionLikelihood, Races
from luce.losses.tier_sizes import SizeModel, Stages, log_choices
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp
from luce.numerics.rows import accumulate_block, clear, end_of_block, most_rows, score_rows, weigh_queries
from luce.spec import option
from luce.types import FloatArray, IntArray


def _checked_weights(name: str, weights: Any) -> tuple[float, ...]:
    given = tuple(weights) if isinstance(weights, Iterable) else (weights,)
    values = tuple(float(w) for w in given if isinstance(w, Real))
    if not values or len(values) != len(given) or not all(0 < w < np.inf for w in values):
        raise SettingError(f"{name} is {weights!r}; give one or more weights, finite and above 0.")
    return values


class PMOP(PartitionLikelihood):
    r"""Stagewise choice of a whole tier of tied documents.

    The labels of a query cut its documents into tiers $X_1 \succ \dots \succ X_K$; $R_k$ is what remains before
    stage $k$. With $\phi_i = e^{f_i}$ and the potential $\Phi(S) = \frac{1}{|S|}\sum_{i \in S} \phi_i$,
    [PMOP] (6) and [PMOP] (15), the normaliser is $C_k \sum_{R_k} \phi_i$, [PMOP] (7), and by [PMOP] (8)

    $$-\log p = \sum_k \log\sum_{R_k} \phi_i - \log\sum_{X_k} \phi_i + \log(C_k |X_k|),
      \quad C_k = \frac{2^{N_k} - 1}{N_k}.$$

    The last term does not depend on the scores: `value_and_grad` leaves it out, `log_prob` keeps it. Where no two
    documents are tied this is Plackett-Luce (ListMLE).

    Parameters
    ----------
    direction
        `"forward"` chooses the best tier first; `"backward"` eliminates the worst tier first, and then the next,
        [PMOP] (17), with $\phi_i = e^{-f_i}$, so that high scores are still good. The two are different distributions.
    stage_weights
        Positions need not share one potential: $\phi_k(i) = e^{w_k f_i}$ at stage k, one positive weight a stage,
        the last one for all later stages. `(1, 0.5)` lets the first tier count most. None is 1 everywhere. Takes O(NK).

    >>> loss = PMOP()
    >>> outcomes = [[2, 1], [1, 2], [1, 1]]
    >>> round(float(sum(np.exp(loss.log_prob([0.3, -0.5], labels)) for labels in outcomes)), 12)
    1.0
    """

    name = "pmop"

    direction: Literal["forward", "backward"] = "forward"
    stage_weights: tuple[float, ...] | None = option(default=None, convert=_checked_weights)

    @property
    def linear_pass(self) -> Any:
        """For forward stages of whole queries that share one potential and count alike."""
        plain = self.cut is None and self.tier_gain is None and self.stage_weights is None
        return _tiers_pass if plain and self.direction == "forward" else None

    def fill(self, prepared: Races, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the sum over stages of g (1 - g), g the probability of a lead."""
        grad, rows = out.grad, slice(*prepared.offsets[list(out.chunk)])
        if self.direction == "backward":
            oriented = np.empty_like(scores)  # only the rows of this chunk are ever touched
            np.negative(scores[rows], out=oriented[rows])
        else:
            oriented = scores
        if self.stage_weights is None:
            run_queries(oriented, prepared, out.arrays)
        else:
            _powered_queries(oriented, np.array(self.stage_weights), prepared, out.arrays)
        if self.direction == "backward":
            np.negative(grad[rows], out=grad[rows])

    def _log_prob(self, scores: FloatArray, cut: Races, stage: Stages, given: bool) -> float:
        n = stage.remaining
        if given:  # summed over the tiers of size m, each document counts in C(N - 1, m - 1) of them
            constants = log_choices(n - 1, stage.size - 1)
        else:
            constants = n * np.log(2) + np.log1p(-(0.5**n)) - np.log(n) + np.log(stage.size)
        value = self.evaluate(cut, scores, (0, 1), np.empty_like(scores))[0]
        return -float(value) - float(np.sum(constants))

    def _draw(self, scores: FloatArray, rng: np.random.Generator, tier: IntArray, sizes: SizeModel | None) -> None:
        from luce.sampling import draw_additive, seed_from

        table = _model_sizes(len(scores)) if sizes is None else sizes.cumulative(len(scores))
        draw_additive(seed_from(rng), scores, np.array(self.stage_weights or (1.0,)), table, tier)


@lru_cache(maxsize=16)
def _model_sizes(n: int) -> FloatArray:
    """Summed over all tiers of size m of r documents, the potential is proportional to C(r, m), whatever the scores."""
    table = np.zeros((1, n + 1, n + 1))
    left, size = np.tril_indices(n)
    left, size = left + 1, size + 1
    table[0, left, size] = np.exp(log_choices(left, size) - left * np.log(2) - np.log1p(-(0.5**left)))
    return np.cumsum(table, axis=2)


@kernel
def run_queries(scores, target, out):  # type: ignore[no-untyped-def]
    """The sum of `one_query` over the races of every query from `out.first` on, as many as there are values to fill."""
    first, values, grad, curvature = out
    ends = target.queries[first : first + len(values) + 1]
    scratch, shift = stage_scratch(target.races, ends[0], ends[-1]), np.int64(0)
    for i in range(len(values)):
        values[i] = 0.0
        for race in range(ends[i], ends[i + 1]):
            a, b = target.races[race], target.races[race + 1]
            own = target.weights[a:b] if len(target.weights) else target.weights
            tiers = target.order, target.starts[a : b + 1]
            values[i] += one_query(scores, tiers, shift, own, scratch, (grad, curvature))


@part
def stage_scratch(queries, first, last):  # type: ignore[no-untyped-def]
    """Room for what `one_query` notes of each stage, for the query with the most stages."""
    most = 0
    for q in range(first, last):
        most = max(most, queries[q + 1] - queries[q])
    return np.empty((4, most))


@part
def one_query(scores, tiers, shift, weights, scratch, slopes):  # type: ignore[no-untyped-def]
    r"""Value of one query with tiers `order[starts[k]:starts[k + 1]]`; fills grad and, unless empty, curvature.

    The terms are [PMOP] (9), their sum, with that of what is left carried along, [PMOP] (10), its gradient [PMOP] (11).
    Row r of the data is entry `r - shift` of scores, grad and curvature, so that a caller may hold a block only.
    `weights` has one a tier, or none where all are 1. Sums of $\phi$ are relative to the largest score of $X_k$, or of
    $R_k$, so that scores may be as far apart as they like.
    """
    (order, starts), (grad, curvature) = tiers, slopes
    stages = len(starts) - 1
    top, tier, highest, left = scratch[0], scratch[1], scratch[2], scratch[3]
    running, high = 0.0, scores[order[starts[stages] - 1] - shift]
    for k in range(stages - 1, -1, -1):
        most, total = scores[order[starts[k]] - shift], 0.0
        for j in range(starts[k] + 1, starts[k + 1]):
            most = max(most, scores[order[j] - shift])
        for j in range(starts[k], starts[k + 1]):
            row = order[j] - shift
            grad[row] = fast_exp(scores[row] - most)
            total += grad[row]
        top[k], tier[k] = most, total
        if most > high:
            running, high = running * fast_exp(high - most) + total, most
        else:
            running += total * fast_exp(most - high)
        highest[k], left[k] = high, running
    # once: sum over the stages so far of their weight / sum_{R_k} phi; twice: the same with the sum squared; in units
    # of the largest phi that is left
    value, once, twice = 0.0, 0.0, 0.0
    for k in range(stages):
        weight = weights[k] if len(weights) else 1.0
        if k > 0 and highest[k] < highest[k - 1]:
            smaller = fast_exp(highest[k] - highest[k - 1])
            once, twice = once * smaller, twice * smaller * smaller
        value += weight * (highest[k] - top[k] + math.log(left[k] / tier[k]))
        once += weight / left[k]
        twice += weight / (left[k] * left[k])
        own = fast_exp(top[k] - highest[k])
        leads, share = own * once, own * own * twice
        factor = leads - weight / tier[k]
        for j in range(starts[k], starts[k + 1]):
            row = order[j] - shift
            phi = grad[row]
            if len(curvature):
                curvature[row] = max(phi * leads - phi * phi * share, 0.0)
            grad[row] = phi * factor
    return value


@kernel
def _tiers_pass(prepared, X, weights, offsets, query_weight, first, last, block_rows, grad):  # type: ignore[no-untyped-def]
    order, starts, races = prepared.order, prepared.starts, prepared.races
    scores = np.empty(most_rows(offsets, first, last, block_rows))
    d_scores, no_curvature, all_alike = np.empty(len(scores)), np.empty(0), np.empty(0)
    scratch = stage_scratch(races, first, last)
    value, total, q = 0.0, 0.0, first
    while q < last:
        start, end = offsets[q], end_of_block(offsets, q, last, block_rows)
        score_rows(X[start : offsets[end]], weights, scores)
        for i in range(q, end):
            tiers = order, starts[races[i] : races[i + 1] + 1]
            value += query_weight[i] * one_query(scores, tiers, start, all_alike, scratch, (d_scores, no_curvature))
        total = weigh_queries(offsets, query_weight, q, end, d_scores, total)
        accumulate_block(X[start : offsets[end]], d_scores, grad)
        q = end
    return value, total


@kernel
def _powered_queries(scores, powers, target, out):  # type: ignore[no-untyped-def]
    order, starts, weights, (first, values, grad, curvature) = target.order, target.starts, target.weights, out
    for i in range(len(values)):
        values[i] = 0.0
        for race in range(target.queries[first + i], target.queries[first + i + 1]):
            begin, end = target.races[race], target.races[race + 1]
            last = starts[end]
            clear(order[starts[begin] : last], grad, curvature)
            for k in range(begin, end):
                power, weight = powers[min(k - begin, len(powers) - 1)], weights[k] if len(weights) else 1.0
                tier, left = order[starts[k] : starts[k + 1]], order[starts[k] : last]
                log_tier, log_left = _log_sum(scores, power, tier), _log_sum(scores, power, left)
                values[i] += weight * (log_left - log_tier)
                for row in left:
                    leads = np.exp(power * scores[row] - log_left)
                    grad[row] += weight * power * leads
                    if len(curvature):
                        curvature[row] += weight * power * power * leads * (1.0 - leads)
                for row in tier:
                    grad[row] -= weight * power * np.exp(power * scores[row] - log_tier)


@part
def _log_sum(scores, power, rows):  # type: ignore[no-untyped-def]
    top = -np.inf
    for row in rows:
        top = max(top, power * scores[row])
    total = 0.0
    for row in rows:
        total += np.exp(power * scores[row] - top)
    return top + np.log(total)
