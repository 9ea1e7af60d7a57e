r"""The stagewise coset-permutation model over features as weak rankers, one list at a time.

Feature m ranks the documents of a query by its value, highest first. With Kendall's distance between a coset (all
permutations that begin with the documents chosen so far) and that ranking, what depends on the next document j is
$d_m(j)$, the number of documents left that feature m puts before j, with half for each that it ties with j. Stage by
stage j is chosen from what is left with probability proportional to $e^{-\theta \cdot d(j)}$.

When document s leaves, $d_m(j)$ falls by $c_m(s, j)$ = 1, 1/2 or 0. So the distances are sorted out once, for the first
stage, and a stage costs one pass over the features for the utilities and one for the gradient: O(k n M) a list.
"""

from __future__ import annotations

import numpy as np

from luce.numerics.compiled import kernel, part


@kernel
def first_distances(X, distance):  # type: ignore[no-untyped-def]
    """d_m(j) before the first stage, for the rows of one list; exact in float32, since they are half counts."""
    n = len(X)
    for m in range(X.shape[1]):
        column = X[:, m].copy()
        order = np.argsort(-column)
        first = 0
        while first < n:
            last = first + 1
            while last < n and column[order[last]] == column[order[first]]:
                last += 1
            for i in range(first, last):
                distance[order[i], m] = first + 0.5 * (last - first - 1)
            first = last


@kernel
def list_value(X, distance, theta, top, grad, scratch):  # type: ignore[no-untyped-def]
    """-log p, [HOM] (2), of the first `top` rows in their order, ahead of the others; adds the gradient in theta.

    The gradient is sum over stages of d(chosen) - sum_j p_j d(j). With d at stage i written as d at the first stage
    minus the c of those that left, it is a sum over documents with weights and one over those that left.
    `scratch` is (top + 2, at least n).
    """
    n, n_features = X.shape
    utility, weight = scratch[top], scratch[top + 1]
    for j in range(n):
        total = 0.0
        for m in range(n_features):
            total -= theta[m] * distance[j, m]
        utility[j] = total
    value = 0.0
    for i in range(top):
        value += _choose(utility, i, n, scratch[i])
        if i + 1 < top:
            _leave(X, theta, i, i + 1, n, utility)
    weight[:n] = 0.0
    for i in range(top - 1, -1, -1):
        if i + 1 < top:
            _returned(X, i, i + 1, n, weight, grad)
        for j in range(i, n):
            weight[j] += scratch[i, j]
        weight[i] -= 1.0
    for j in range(n):
        for m in range(n_features):
            grad[m] -= weight[j] * distance[j, m]
    return value


@part
def _choose(utility, chosen, n, share):  # type: ignore[no-untyped-def]
    """-log of the chance of `chosen` among the rows from it on, and the chances of all of them."""
    high, total = -np.inf, 0.0
    for j in range(chosen, n):
        high = max(high, utility[j])
    for j in range(chosen, n):
        share[j] = np.exp(utility[j] - high)
        total += share[j]
    for j in range(chosen, n):
        share[j] /= total
    return np.log(total) + high - utility[chosen]


# Sums in any order: allows vector instructions, and is the same order in every run.
@part(reorder=True)
def _leave(X, theta, gone, first, last, utility):  # type: ignore[no-untyped-def]
    """Document `gone` leaves: the utilities of the rows first to last without it."""
    row = X[gone]
    for j in range(first, last):
        other, total = X[j], 0.0
        for m in range(len(theta)):
            total += theta[m] * ((0.5 if row[m] > other[m] else 0.0) + (0.5 if row[m] >= other[m] else 0.0))
        utility[j] += total


@part(reorder=True)
def _returned(X, gone, first, last, weight, grad):  # type: ignore[no-untyped-def]
    """What document `gone`, which the later stages do not see, takes off the distances: adds weight * c to grad."""
    row = X[gone]
    for j in range(first, last):
        other, w = X[j], weight[j]
        for m in range(len(grad)):
            grad[m] += w * ((0.5 if row[m] > other[m] else 0.0) + (0.5 if row[m] >= other[m] else 0.0))


@part
def _stage_by_stage(X, theta, k, order):  # type: ignore[no-untyped-def]
    """Choose k rows one after the other, each of greatest utility; the others follow by theirs after the last stage."""
    n = len(X)
    distance = np.empty(X.shape, dtype=np.float32)
    first_distances(X, distance)
    utility = np.zeros(n)
    for j in range(n):
        for m in range(len(theta)):
            utility[j] -= theta[m] * distance[j, m]
    left = np.ones(n, dtype=np.bool_)
    for i in range(k):
        best = -1
        for j in range(n):
            if left[j] and (best < 0 or utility[j] > utility[best]):
                best = j
        order[i] = best
        left[best] = False
        _leave(X, theta, best, 0, n, utility)
    rest = np.flatnonzero(left)
    order[k:] = rest[np.argsort(-utility[rest], kind="mergesort")]
    return utility


@kernel
def greedy_stages(X, theta, k, scores):  # type: ignore[no-untyped-def]
    """Scores of one query: k, k - 1, ..., 1 for the documents chosen, the others by utility at or below 0."""
    n = len(X)
    k = min(k, n)
    order = np.empty(n, dtype=np.int64)
    utility = _stage_by_stage(X, theta, k, order)
    for i in range(n):
        scores[order[i]] = k - i if i < k else utility[order[i]] - utility[order[k]]
