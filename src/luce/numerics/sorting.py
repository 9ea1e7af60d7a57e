"""A stable sort for compiled kernels, fast on the short lists that queries are."""

from __future__ import annotations

from numba import njit

from luce.types import FloatArray, IntArray

__all__ = ["sort_descending"]

_RUN = 24


@njit(nogil=True, cache=True, error_model="numpy")
def _insert_run(keys: FloatArray, order: IntArray, first: int, last: int) -> None:
    for i in range(first + 1, last):
        item = order[i]
        key = keys[item]
        j = i
        while j > first and keys[order[j - 1]] < key:
            order[j] = order[j - 1]
            j -= 1
        order[j] = item


@njit(nogil=True, cache=True, error_model="numpy")
def _merge(keys: FloatArray, order: IntArray, scratch: IntArray, first: int, middle: int, last: int) -> None:
    i, j = first, middle
    for out in range(first, last):
        if j >= last or (i < middle and keys[order[i]] >= keys[order[j]]):
            scratch[out] = order[i]
            i += 1
        else:
            scratch[out] = order[j]
            j += 1
    for out in range(first, last):  # a slice assignment would compile a whole error path with it
        order[out] = scratch[out]


@njit(nogil=True, cache=True, error_model="numpy")
def sort_descending(keys: FloatArray, order: IntArray, scratch: IntArray) -> None:
    """Permute `order` in place so that `keys[order]` falls; equal keys keep the order they come in.

    Insertion sort on runs, then merges: `numpy.argsort` inside a kernel is several times slower on 24 items, and
    its default kind is not stable.

    Shapes: `order` and `scratch` have one length; `keys` covers every item that `order` names.
    """
    n = len(order)
    for first in range(0, n, _RUN):
        _insert_run(keys, order, first, min(first + _RUN, n))
    width = _RUN
    while width < n:
        for first in range(0, n - width, 2 * width):
            _merge(keys, order, scratch, first, first + width, min(first + 2 * width, n))
        width *= 2
