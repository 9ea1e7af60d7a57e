"""One query, sorted once for all metrics: ranked order, ideal order, blocks of tied documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from luce.numerics.sorting import SortSpace, sort_descending, sort_grades, sort_space
from luce.types import FloatArray, IntArray

__all__ = ["AVERAGE", "BEST", "STABLE", "WORST", "Ranked", "Rules", "Workspace", "rank_query", "workspace"]

STABLE, AVERAGE, BEST, WORST = range(4)
"""Rules for tied scores, as kernels know them; `docid` is `stable` on rows that were sorted by document id."""


class Rules(NamedTuple):
    """The conventions as kernels take them: numbers and flags."""

    discounts: FloatArray
    ties: int
    empty: float
    empty_map: float
    relevance: float
    persistence: float
    graded_rbp: bool
    short_ndcg_is_zero: bool
    short_precision_is_zero: bool
    map_by_cutoff: bool
    map_by_threshold: bool
    precision_by_retrieved: bool
    tie_margin: float
    top_k: int
    equal_labels_share: bool


class Ranked(NamedTuple):
    """A ranked query of n documents, named by their numbers 0..n-1 in the input.

    `order` lists them best score first, `ideal` best label first. `blocks` cuts the first `retrieved` positions into
    runs whose inner order is not decided (single documents unless ties are averaged): block b holds the positions
    `blocks[b]` to `blocks[b + 1]`. `ties` cuts all n positions into runs of equal score, whatever the rule for ties.
    """

    n: int
    retrieved: int
    order: IntArray
    ideal: IntArray
    blocks: IntArray
    ties: IntArray


class Workspace(NamedTuple):
    """Memory for the longest query, used again for every query."""

    order: IntArray
    ideal: IntArray
    blocks: IntArray
    ties: IntArray
    level: IntArray
    counts: IntArray
    middle: FloatArray
    dcg: NDArray[np.float64]
    best: NDArray[np.float64]
    means: FloatArray
    position_gain: FloatArray
    position_stop: FloatArray
    sorting: SortSpace


@njit(nogil=True, cache=True, error_model="numpy")
def workspace(n: int) -> Workspace:
    """Room for queries of up to n documents; two rows of gains, by label and by position."""
    return Workspace(
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n + 1, np.int64),
        np.empty(n + 1, np.int64),
        np.empty(n, np.int64),
        np.empty(n + 1, np.int64),
        np.empty(n),
        np.empty((2, n + 1)),
        np.empty((2, n + 1)),
        np.empty(n + 1),
        np.empty(n),
        np.empty(n),
        sort_space(n),
    )


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def rank_query(scores: FloatArray, labels: FloatArray, ties: int, work: Workspace) -> Ranked:
    """Sort one query by score and by label; a score of minus infinity marks a document that was not retrieved."""
    n = len(scores)
    order, ideal = work.order[:n], work.ideal[:n]
    sort_grades(labels, ideal, work.sorting)
    for i in range(n):
        if ties == BEST:
            order[i] = ideal[i]
        elif ties == WORST:
            order[i] = ideal[n - 1 - i]
        else:
            order[i] = i
    sort_descending(scores, order, work.sorting)

    retrieved = n
    while retrieved > 0 and scores[order[retrieved - 1]] == -np.inf:
        retrieved -= 1
    n_ties, n_blocks = 0, 0
    for i in range(n):
        new = i == 0 or scores[order[i]] != scores[order[i - 1]]
        if new:
            work.ties[n_ties] = i
            n_ties += 1
        if i < retrieved and (new or ties != AVERAGE):
            work.blocks[n_blocks] = i
            n_blocks += 1
    work.ties[n_ties] = n
    work.blocks[n_blocks] = retrieved
    return Ranked(n, retrieved, order, ideal, work.blocks[: n_blocks + 1], work.ties[: n_ties + 1])
