"""Margins over pairs, exactly: the hinge of the ranking SVM by sorting, the square of rank regression by moments."""

from __future__ import annotations

from dataclasses import KW_ONLY

import numpy as np

from luce.losses.pairs import Here, PairLoss, Sums, grades
from luce.numerics.compiled import kernel, part
from luce.numerics.sorting import add_at, sort_descending, sort_space, sum_before
from luce.spec import option
from luce.types import FloatArray


class RankSVM(PairLoss):
    r"""Sum over pairs $i$ better than $j$ of $\max(0, 1 - (f_i - f_j))$.

    Tied pairs are left out, or with `ties=True` add an epsilon-insensitive term, $\max(0, |f_i - f_j| - \epsilon)$:
    documents of equal grade may differ by `epsilon` without a loss. `tie_grades` takes ties from these grades only.

    Exact, in O(N log N): documents are met in the order of their scores, and sums over those
    within the margin are kept by tier (Fenwick's tree). The hinge has no second derivative; as curvature each pair with
    a loss counts 1, the second derivative of the quadratic that touches it half a unit off the kink.

    >>> value, grad = RankSVM().value_and_grad([0.5, 0.0, 3.0], [1, 0, 0])
    >>> value, grad.tolist()
    (4.0, [-2.0, 1.0, 1.0])
    """

    name = "ranksvm"
    smooth = False

    _: KW_ONLY
    ties: bool = False
    epsilon: float = option(default=0.5, least=0, needs="ties")
    tie_grades: tuple[float, ...] | None = option(default=None, convert=grades, needs="ties")

    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """The hinge, its slope, 1 for a pair with a loss."""
        if tied:
            over = np.maximum(np.abs(d) - self.epsilon, 0.0)
            return np.stack([over, np.sign(d) * (over > 0.0), 1.0 * (over > 0.0), np.zeros_like(d)])
        # `d < 1` and not `1 - d > 0`: the sorted form asks the same question, so both count the same pairs.
        inside = 1.0 * (d < 1.0)
        return np.stack([(1.0 - d) * inside, -inside, inside, np.zeros_like(d)])

    def run_pairs(self, here: Here, sums: Sums) -> None:
        """Fill what a pass over the pairs of some queries fills."""
        _hinges(self.epsilon, here, sums)


@kernel
def _hinges(epsilon, here, sums):  # type: ignore[no-untyped-def]
    (starts, queries, f, _, tie_weight), (values, _, slopes, bends), longest = here, sums, np.int64(0)
    for q in range(len(values)):
        longest = max(longest, starts[queries[q + 1]] - starts[queries[q]])
    space, tier_of, trees = sort_space(longest), np.empty(longest, np.int64), np.empty((3, longest + 1))
    for q in range(len(values)):
        first, last = queries[q], queries[q + 1]
        begin, end = starts[first], starts[last]
        order, mean = np.empty(end - begin, np.int64), 0.0  # sums of scores lose the fewest digits around their mean
        for tier in range(first, last):
            for i in range(starts[tier], starts[tier + 1]):
                tier_of[i - begin], mean = tier - first, mean + f[i] / (end - begin)
                order[i - begin] = i - begin
        sort_descending(f[begin:end], order, space)
        for k in range(len(order)):
            order[k] += begin
        values[q] = _margins((order, tier_of, begin, last - first), here, mean, trees, slopes, bends)
        _ascending_by_tier(order, tier_of, begin, starts[first : last + 1], space.items)
        for tier in range(first, last):
            weight, of = tie_weight[starts[tier]], space.items[starts[tier] - begin : starts[tier + 1] - begin]
            if weight > 0.0 and len(of) > 1:
                values[q] += _band(of, f, mean, weight, epsilon, slopes, bends)


@part
def _margins(sorted_here, here, mean, sums, slopes, bends):  # type: ignore[no-untyped-def]
    """All pairs of different tiers; `order` has the documents by falling score.

    A worse document j meets the better ones below its score plus 1, which from the lowest j up only become more; a
    better one the worse ones above its score less 1.
    """
    (order, tier_of, begin, tiers), f, weight = sorted_here, here.f, here.win_weight
    n, total = len(order), 0.0
    sums[:, : tiers + 1] = 0.0
    near = n
    for k in range(n - 1, -1, -1):
        j = order[k]
        while near > 0 and f[order[near - 1]] - f[j] < 1.0:
            near -= 1
            i = order[near]
            add_at(sums[0], tier_of[i - begin], tiers, weight[i])
            add_at(sums[1], tier_of[i - begin], tiers, weight[i] * (1.0 - (f[i] - mean)))
        pull = sum_before(sums[0], tier_of[j - begin])
        total += pull * (f[j] - mean) + sum_before(sums[1], tier_of[j - begin])
        slopes[j] += pull
        if len(bends):
            bends[j] += pull
    near = 0
    for k in range(n):
        i = order[k]
        while near < n and f[i] - f[order[near]] < 1.0:
            add_at(sums[2], tiers - 1 - tier_of[order[near] - begin], tiers, 1.0)
            near += 1
        count = weight[i] * sum_before(sums[2], tiers - 1 - tier_of[i - begin])
        slopes[i] -= count
        if len(bends):
            bends[i] += count
    return total


@part
def _ascending_by_tier(order, tier_of, begin, starts, out):  # type: ignore[no-untyped-def]
    """The documents tier by tier, each by rising score."""
    place = np.empty(len(starts), np.int64)
    for tier in range(len(starts)):
        place[tier] = starts[tier] - begin
    for k in range(len(order) - 1, -1, -1):
        tier = tier_of[order[k] - begin]
        out[place[tier]] = order[k]
        place[tier] += 1


@part
def _band(documents, f, mean, weight, epsilon, slopes, bends):  # type: ignore[no-untyped-def]
    """Ties of one tier, its documents by rising score."""
    # From the lowest document up, those more than epsilon below it only become more; and the other way round.
    total, below, sum_below = 0.0, 0, 0.0
    for k in documents:
        while abs(f[k] - f[documents[below]]) > epsilon:
            sum_below += f[documents[below]] - mean
            below += 1
        total += below * (f[k] - mean - epsilon) - sum_below
        slopes[k] += weight * below
        if len(bends):
            bends[k] += weight * below
    above = len(documents)
    for i in range(len(documents) - 1, -1, -1):
        k = documents[i]
        while abs(f[documents[above - 1]] - f[k]) > epsilon:
            above -= 1
        slopes[k] -= weight * (len(documents) - above)
        if len(bends):
            bends[k] += weight * (len(documents) - above)
    return weight * total


class RankRegress(PairLoss):
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

    def run_pairs(self, here: Here, sums: Sums) -> None:
        """Fill what a pass over the pairs of some queries fills."""
        _squares(here, sums)


@kernel
def _squares(here, sums):  # type: ignore[no-untyped-def]
    (starts, queries, f, weight, _), (values, _, slopes, bends) = here, sums
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
