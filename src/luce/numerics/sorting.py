"""Stable sorts for compiled kernels, fast on the short lists that queries are, and sums in the order of sorting."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.numerics.compiled import part
from luce.types import FloatArray, IntArray

_RUN = 32
_GRADES = 64


class SortSpace(NamedTuple):
    """Memory that sorts use: two copies of the keys, one of the items, counters of grades."""

    keys: FloatArray
    other_keys: FloatArray
    items: IntArray
    counts: IntArray


@part
def sort_space(n: int) -> SortSpace:
    """Memory for sorting up to n items."""
    return SortSpace(np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(_GRADES, np.int64))


@part
def _sort_run(
    keys: FloatArray, items: IntArray, first: int, last: int, out_keys: FloatArray, out_items: IntArray
) -> None:
    """Every item goes to its rank: how many keys are larger, or equal and before it.

    All pairs, but without a branch and several to an instruction: an insertion sort of 24 items takes three times as
    long, nearly all of it for branches that the processor guessed wrong.
    """
    for i in range(first, last):
        key = keys[i]
        rank = first
        for j in range(first, i):
            rank += keys[j] >= key
        for j in range(i + 1, last):
            rank += keys[j] > key
        out_keys[rank] = key
        out_items[rank] = items[i]


@part
def _merge(
    keys: FloatArray, items: IntArray, first: int, middle: int, last: int, out_keys: FloatArray, out_items: IntArray
) -> None:
    i, j = first, middle
    for out in range(first, last):
        if j >= last or (i < middle and keys[i] >= keys[j]):
            out_keys[out], out_items[out] = keys[i], items[i]
            i += 1
        else:
            out_keys[out], out_items[out] = keys[j], items[j]
            j += 1


@part
def sort_descending(keys: FloatArray, order: IntArray, space: SortSpace) -> None:
    """Permute `order` in place so that `keys[order]` falls; equal keys keep the order they come in.

    Shapes: `order` has one entry an item to sort, and `keys` covers every item that it names.
    """
    n = len(order)
    from_keys, from_items, to_keys, to_items = space.keys, order, space.other_keys, space.items
    for i in range(n):
        from_keys[i] = keys[order[i]]
    for first in range(0, n, _RUN):
        _sort_run(from_keys, from_items, first, min(first + _RUN, n), to_keys, to_items)
    in_order = False
    width = _RUN
    while width < n:
        from_keys, from_items, to_keys, to_items = to_keys, to_items, from_keys, from_items
        in_order = not in_order
        for first in range(0, n, 2 * width):
            middle = min(first + width, n)
            _merge(from_keys, from_items, first, middle, min(middle + width, n), to_keys, to_items)
        width *= 2
    if not in_order:
        for i in range(n):
            order[i] = space.items[i]


@part
def sort_grades(grades: FloatArray, order: IntArray, space: SortSpace) -> None:
    """`order` becomes 0..n-1 by falling grade, equal grades in input order; linear for whole grades from 0 to 63."""
    n = len(grades)
    counts = space.counts
    for grade in range(_GRADES):
        counts[grade] = 0
    for i in range(n):
        if not (0.0 <= grades[i] < _GRADES and grades[i] == np.floor(grades[i])):
            for j in range(n):  # from memory of our own: grades may be read-only, for which all is compiled once more
                order[j], space.other_keys[j] = j, grades[j]
            sort_descending(space.other_keys, order, space)
            return
        counts[int(grades[i])] += 1
    place = 0
    for grade in range(_GRADES - 1, -1, -1):
        place, counts[grade] = place + counts[grade], place
    for i in range(n):
        grade = int(grades[i])
        order[counts[grade]] = i
        counts[grade] += 1


@part
def add_at(tree, place, size, amount):  # type: ignore[no-untyped-def]
    """Add to one of `size` places of Fenwick's tree, which has an entry more than places."""
    at = place + 1
    while at <= size:
        tree[at] += amount
        at += at & -at


@part
def sum_before(tree, place):  # type: ignore[no-untyped-def]
    """The sum over the places before this one of Fenwick's tree."""
    total, at = tree[0], place
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total
