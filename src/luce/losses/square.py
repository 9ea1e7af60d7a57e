"""Rank regression: the square over pairs, exactly, by moments."""

from __future__ import annotations

import numpy as np

from luce.losses.pair_plan import Graded, Here, Sums
from luce.losses.pair_sums import PairwiseLoss
from luce.numerics.compiled import kernel
from luce.numerics.segments import Chunk
from luce.types import FloatArray


class RankRegress(PairwiseLoss):
    r"""Sum over pairs $i$ better than $j$ of $(1 - (f_i - f_j))^2$; tied pairs are left out.

    A square over pairs is moments: $\sum_i w_i (u_i + f_j)^2 = S_2 + 2 f_j S_1 + f_j^2 S_0$ with $u_i = 1 - f_i$ and
    $S_k = \sum_i w_i u_i^k$ over the better documents. Two sweeps over the tiers, O(N), exact.

    >>> value, grad = RankRegress().value_and_grad([0.5, 0.0, 0.0], [1, 0, 0])
    >>> value, grad.tolist()
    (0.5, [-2.0, 1.0, 1.0])
    """

    name = "rank_regress"

    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """The square and its derivatives."""
        return np.stack([(1.0 - d) ** 2, -2.0 * (1.0 - d), np.full_like(d, 2.0), np.zeros_like(d)])

    def run_pairs(self, prepared: Graded, here: Here, chunk: Chunk, sums: Sums) -> None:
        """Fill what a pass over the pairs of some queries fills."""
        _queries(here.starts, here.queries, here.f, here.win_weight, sums.values, sums.slopes, sums.bends)


@kernel
def _queries(starts, queries, f, weight, values, slopes, bends):  # type: ignore[no-untyped-def]
    for q in range(len(values)):
        first_tier, last_tier = queries[q], queries[q + 1]
        mean = 0.0  # moments lose the fewest digits around the mean
        for i in range(starts[first_tier], starts[last_tier]):
            mean += f[i] / (starts[last_tier] - starts[first_tier])
        zeroth, first, second = 0.0, 0.0, 0.0
        for tier in range(first_tier, last_tier):
            for j in range(starts[tier], starts[tier + 1]):
                at = f[j] - mean
                values[q] += second + 2.0 * at * first + at * at * zeroth
                slopes[j] += 2.0 * (first + at * zeroth)
                if len(bends):
                    bends[j] += 2.0 * zeroth
            for i in range(starts[tier], starts[tier + 1]):
                u = 1.0 - (f[i] - mean)
                zeroth += weight[i]
                first += weight[i] * u
                second += weight[i] * u * u
        below, sum_below = 0, 0.0
        for tier in range(last_tier - 1, first_tier - 1, -1):
            for i in range(starts[tier], starts[tier + 1]):
                slopes[i] -= 2.0 * weight[i] * (below * (1.0 - (f[i] - mean)) + sum_below)
                if len(bends):
                    bends[i] += 2.0 * weight[i] * below
            for i in range(starts[tier], starts[tier + 1]):
                sum_below += f[i] - mean
            below += starts[tier + 1] - starts[tier]
