"""Compiled parts of Mallows' model: rankings to stage counts and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luce.numerics.compiled import kernel
from luce.types import IntArray


@kernel
def stage_counts(orders: IntArray, lengths: IntArray, rank: IntArray) -> IntArray:
    """(ballots, n): V_j, how many items left at stage j the centre prefers to the one picked; 0 beyond a list's end."""
    m, n = orders.shape
    counts = np.zeros((m, n), dtype=np.int64)
    for b in range(m):
        for j in range(lengths[b]):
            own = rank[orders[b, j]]
            picked_before = 0
            for k in range(j):
                if rank[orders[b, k]] < own:
                    picked_before += 1
            counts[b, j] = own - picked_before
    return counts


@kernel
def orders_from_stages(stages: NDArray[np.int32]) -> NDArray[np.int32]:
    """Rankings from stage counts: stage j picks the V_j-th of the items left, in the centre's order."""
    m, n = stages.shape
    orders = np.empty((m, n), dtype=np.int32)
    left = np.empty(n, dtype=np.int32)
    for b in range(m):
        for i in range(n):
            left[i] = i
        for j in range(n):
            v = stages[b, j]
            orders[b, j] = left[v]
            for i in range(v, n - j - 1):
                left[i] = left[i + 1]
    return orders
