"""The kernels of the top-k losses: one list, its documents in the order T best first, then F."""

from __future__ import annotations

import numpy as np

from luce.losses.pair_kernels import form_of, pairs_of_tiers
from luce.losses.race_kernels import EXACT, one_race
from luce.numerics.chebyshev import MAX_PANELS, cross_sum, grow_tree
from luce.numerics.compiled import kernel, part
from luce.numerics.dead_heat import room_for_tiers
from luce.numerics.first_arrivals import chance_of_seats
from luce.numerics.links import get as get_link
from luce.numerics.softplus import softplus

STAGES, GROUP_GROUP, ONE_ONE, ONE_GROUP = range(4)
"""What stands between T and F: stages that see both, or one of the three P_TF."""

LOGISTIC = get_link("rao_kupper").code_without_ties
"""The pairwise code of e^a / (e^a + e^b)."""
_FORM = form_of(LOGISTIC, 0.0)


@kernel
def run_lists(kind, target, tables, width, costs, scores, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature of a run of queries, each the sum over its lists.

    `tables` is None but for ONE_ONE: the compiler then passes panels and pairs by, which are most of its work.
    """
    longest = np.int64(1)
    for n in range(target.queries[first], target.queries[first + len(values)]):
        longest = max(longest, target.tops[n])
    room = room_for_tiers(longest), np.empty((3, longest)), np.empty(longest + 1)
    for i in range(len(values)):
        q = first + i
        for row in range(target.offsets[q], target.offsets[q + 1]):
            grad[row] = 0.0
            if len(curvature):
                curvature[row] = 0.0
        values[i] = 0.0
        for n in range(target.queries[q], target.queries[q + 1]):
            rows = target.rows[target.starts[n] : target.starts[n + 1]]
            f, g, c = np.empty(len(rows)), np.zeros(len(rows)), np.zeros(len(rows) if len(curvature) else 0)
            for j in range(len(rows)):
                f[j] = scores[rows[j]]
            weight = target.weights[n]
            tied = target.tied[target.starts[n] : target.starts[n + 1]]
            values[i] += weight * _one_list(kind, f, target.tops[n], tied, tables, width, costs, room, g, c)
            for j in range(len(rows)):
                grad[rows[j]] += weight * g[j]
                if len(curvature):
                    curvature[rows[j]] += weight * c[j]


@part
def _one_list(kind, f, top, tied, tables, width, costs, room, grad, curvature):  # type: ignore[no-untyped-def]
    if top == 0:
        return 0.0
    value = _stages(f, top, tied, len(f) if kind == STAGES else top, room, grad, curvature)
    if kind == STAGES:
        return value
    if top < len(f):
        value += _between(kind, f, top, tables, width, costs, grad, curvature)
    return value


@part
def _between(kind, f, top, tables, width, costs, grad, curvature):  # type: ignore[no-untyped-def]
    if tables is not None:
        return _one_to_one(f, top, tables, width, costs, grad, curvature)
    if kind == GROUP_GROUP:
        return _group_to_group(f, top, grad, curvature)
    return _one_to_group(f, top, grad, curvature)


@part
def _stages(f, top, tied, seen, room, grad, curvature):  # type: ignore[no-untyped-def]
    """Luce: the tiers of the first `top` documents one after the other, each before all after it, up to `seen`.

    Where the documents beyond the cut are tied with the last one before it, only so many of that tier as there are
    seats must come first.
    """
    starts, tiers, last = np.empty(top + 2, dtype=np.int64), 0, 0
    for i in range(top):
        if i == 0 or not tied[i]:
            starts[tiers] = i
            last, tiers = i, tiers + 1
    end = top
    while end < seen and tied[end]:
        end += 1
    if end == top:
        last = top
    if last < seen and starts[tiers - 1] != last:
        starts[tiers] = last
        tiers += 1
    starts[tiers] = seen
    order = np.arange(seen)
    value = one_race(EXACT, f, order, starts[: tiers + 1], np.int64(0), np.empty(0), room, grad, curvature)
    if last < top and end < seen:
        value += _seats(f, last, end, seen, top - last, grad, curvature)
    return value


@part
def _seats(f, first, end, seen, seats, grad, curvature):  # type: ignore[no-untyped-def]
    """-log of the chance that the first `seats` to arrive among `f[first:seen]` are all of the tier `f[first:end]`."""
    log_rest = _log_sum(f, end, seen)[1]
    m = end - first
    log_rates, slopes, bends = np.empty(m), np.empty(m), np.empty(m if len(curvature) else 0)
    for i in range(m):
        log_rates[i] = f[first + i] - log_rest
    log_p, total, second = chance_of_seats(log_rates, seats, slopes, bends)
    for i in range(m):
        grad[first + i] -= slopes[i]
        if len(curvature):
            curvature[first + i] += bends[i]
    for j in range(end, seen):
        share = np.exp(f[j] - log_rest)
        grad[j] += share * total
        if len(curvature):
            curvature[j] += max(share * total - share * share * second, 0.0)
    return -log_p


@part
def _group_to_group(f, top, grad, curvature):  # type: ignore[no-untyped-def]
    """-log of the share of T in the sum over all; its curvature is that of log sum over all, a convex majoriser."""
    _, log_t = _log_sum(f, 0, top)
    _, log_f = _log_sum(f, top, len(f))
    log_all = _log_add(log_t, log_f)
    outside = np.exp(log_f - log_all)
    for i in range(len(f)):
        log_group = log_t if i < top else log_f
        share = np.exp(f[i] - log_group)
        grad[i] += -share * outside if i < top else share * outside
        if len(curvature):
            p = np.exp(f[i] - log_all)
            curvature[i] += p * (1.0 - p)
    return softplus(log_f - log_t)


@part
def _one_to_group(f, top, grad, curvature):  # type: ignore[no-untyped-def]
    """Every document of T by itself against all of F."""
    high, log_f = _log_sum(f, top, len(f))
    value, log_once, log_twice = 0.0, -np.inf, -np.inf
    for i in range(top):
        value += softplus(log_f - f[i])
        log_d = _log_add(f[i], log_f)
        loses = np.exp(log_f - log_d)
        grad[i] -= loses
        if len(curvature):
            curvature[i] += loses * np.exp(f[i] - log_d)
        log_once = _log_add(log_once, -log_d)
        log_twice = _log_add(log_twice, -2.0 * log_d)
    once, twice = np.exp(high + log_once), np.exp(2.0 * high + log_twice)
    for j in range(top, len(f)):
        share = np.exp(f[j] - high)
        grad[j] += share * once
        if len(curvature):
            curvature[j] += max(share * once - share * share * twice, 0.0)
    return value


@part
def _one_to_one(f, top, tables, width, costs, grad, curvature):  # type: ignore[no-untyped-def]
    """Every document of T against every one of F: pair by pair, or by panel sums where these cost less."""
    weight = np.ones(len(f))
    if len(tables) > 0 and np.ptp(f) < MAX_PANELS * width:
        tree = grow_tree(f, width)
        by_panels = costs[1] * len(f) + costs[2] * len(tree.ids)
        if costs[0] * top * (len(f) - top) >= by_panels:
            return cross_sum(tables[0], tree, (0, top), (top, len(f)), weight, False, grad, curvature)[0]
    starts, e = np.array([0, top, len(f)]), np.empty(len(f))
    value, _ = pairs_of_tiers(_FORM, starts, 0, 2, f, e, weight, np.zeros(len(f)), grad, curvature)
    if np.isnan(value):  # too far apart for common exponentials
        value = 0.0
        for i in range(top):
            for j in range(top, len(f)):
                loses = 1.0 / (1.0 + np.exp(f[i] - f[j]))
                value += softplus(f[j] - f[i])
                grad[i] -= loses
                grad[j] += loses
                if len(curvature):
                    curvature[i] += loses * (1.0 - loses)
                    curvature[j] += loses * (1.0 - loses)
    return value


@kernel
def cross_pairs(target, scores, first, last):  # type: ignore[no-untyped-def]
    """Of the queries first to last: the widest range of scores in a list, and the pairs of T and F."""
    widest, pairs = 0.0, 0.0
    for n in range(target.queries[first], target.queries[last]):
        low, high = np.inf, -np.inf
        for j in range(target.starts[n], target.starts[n + 1]):
            low, high = min(low, scores[target.rows[j]]), max(high, scores[target.rows[j]])
        widest = max(widest, high - low)
        pairs += float(target.tops[n]) * (target.starts[n + 1] - target.starts[n] - target.tops[n])
    return widest, pairs


@kernel
def subsets(kind, f, members, logs):  # type: ignore[no-untyped-def]
    """Every subset of `members.shape[1]` documents, in lexicographic order, and log P_TF of each (unnormalised).

    For the two kinds without a normaliser in closed form, `ONE_ONE` and `ONE_GROUP`.
    """
    n, k = len(f), members.shape[1]
    chosen = np.arange(k)
    beaten = _pair_values(f) if kind == ONE_ONE else np.empty((0, 0))
    against_all = beaten.sum(axis=1)
    phi = np.exp(f - f.max())
    for row in range(len(members)):
        members[row] = chosen
        if kind == ONE_ONE:  # against all, less against each other: O(k^2) and not O(k n)
            logs[row] = 0.0
            for i in chosen:
                logs[row] -= against_all[i]
                for j in chosen:
                    logs[row] += beaten[i, j]
        else:
            log_f = _log_outside(f, phi, chosen)
            logs[row] = 0.0
            for i in chosen:
                logs[row] -= softplus(log_f - f[i]) if k < n else 0.0
        i = k - 1
        while i >= 0 and chosen[i] == n - k + i:
            i -= 1
        if i >= 0:
            chosen[i] += 1
            for j in range(i + 1, k):
                chosen[j] = chosen[j - 1] + 1


@part
def _log_outside(f, phi, chosen):  # type: ignore[no-untyped-def]
    """Log of the sum of e^f over all but `chosen` (ascending), where phi is e^f over its largest value."""
    total, at = 0.0, 0
    for j in range(len(f)):
        if at < len(chosen) and chosen[at] == j:
            at += 1
        else:
            total += phi[j]
    if total > 1e-200:
        return f.max() + np.log(total)
    rest = np.delete(f, chosen)  # all of it is far below the best document: sum it on a scale of its own
    return _log_sum(rest, 0, len(rest))[1]


@part
def _pair_values(f):  # type: ignore[no-untyped-def]
    """-log of e^a / (e^a + e^b) for every pair of documents, 0 for a document with itself."""
    values = np.zeros((len(f), len(f)))
    for i in range(len(f)):
        for j in range(len(f)):
            if i != j:
                values[i, j] = softplus(f[j] - f[i])
    return values


@part
def _log_sum(f, first, last):  # type: ignore[no-untyped-def]
    """The largest score of a range, and the log of the sum of e^f over it; minus infinity where it is empty."""
    high, total = -np.inf, 0.0
    for j in range(first, last):
        high = max(high, f[j])
    for j in range(first, last):
        total += np.exp(f[j] - high)
    return high, high + np.log(total) if last > first else -np.inf


@part(forceinline=True)
def _log_add(a, b):  # type: ignore[no-untyped-def]
    high, low = max(a, b), min(a, b)
    return high + np.log1p(np.exp(low - high))
