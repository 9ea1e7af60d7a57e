r"""Pairs under any smooth link, pair by pair, from a table of polynomials.

A loss over pairs sees one number of a pair, the difference of two scores. Its value and derivatives over the range of
all differences are laid down cell by cell as polynomials through Chebyshev nodes; a pair then costs a few products,
where the normal link takes error functions and continued fractions, and Python is called on the nodes only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from luce.numerics.compiled import kernel
from luce.types import FloatArray

_NODES = 7
_CELLS_A_PANEL = 32
"""A panel of 32 nodes resolves the link to 1e-9; seven nodes on a thirty-second of it do so to 1e-13."""
REACH = 200.0
"""Panels that a table reaches to either side: scores further apart are taken one by one."""
NO_TABLE = np.empty((0, 0, _NODES, 4))
"""In place of a table where none is read."""

_AT = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
_TO_POWERS = np.linalg.inv(_AT[:, None] ** np.arange(_NODES))


def pair_table(terms: Callable[[FloatArray, bool], FloatArray], span: float, width: float, ties: bool) -> FloatArray:
    """Coefficients (wins and ties, cell, power, quantity) of `terms` for differences from -span to span.

    A cell is the same to the last bit however far the table reaches.
    """
    cell = width / _CELLS_A_PANEL
    middles = cell * (np.arange(2 * int(span / cell) + 4) - int(span / cell) - 1.5)
    at = middles[:, None] + 0.5 * cell * _AT
    tables = np.zeros((1 + ties, len(middles), _NODES, 4))
    for tied in range(1 + ties):
        found = np.moveaxis(terms(at, bool(tied)), 0, -1)  # cell, node, quantity
        for node in range(_NODES):
            tables[tied] += _TO_POWERS[:, node, None] * found[:, node, None]
    return tables


@kernel
def pairs_by_table(table, width, starts, queries, f, win_weight, tie_weight, longest, values, by_t, slopes, bends):  # type: ignore[no-untyped-def]
    """Value and derivative in the tie parameter of every query of at most `longest` documents; adds to the others.

    NaN where the scores of a query are further apart than any table reaches; the others must be within this one.
    """
    middle, a_cell = table.shape[1] // 2, _CELLS_A_PANEL / width
    for q in range(len(values)):
        begin, end = starts[queries[q]], starts[queries[q + 1]]
        if end - begin > longest:
            continue
        low, high = f[begin], f[begin]
        for i in range(begin, end):
            low, high = f[i] if f[i] < low else low, f[i] if f[i] > high else high
        if not high - low <= REACH * width:
            values[q] = np.nan
            continue
        values[q], by_t[q] = 0.0, 0.0
        for tier in range(queries[q], queries[q + 1]):
            for i in range(starts[tier], starts[tier + 1]):
                for j in range(i + 1, end):
                    tied = 1 if j < starts[tier + 1] else 0
                    weight = tie_weight[i] if tied else win_weight[i]
                    if weight == 0.0:
                        continue
                    place = (f[i] - f[j]) * a_cell
                    cell = math.floor(place)
                    at = 2.0 * (place - cell) - 1.0
                    cell += middle
                    value, first, second, slope = 0.0, 0.0, 0.0, 0.0
                    for power in range(_NODES - 1, -1, -1):
                        value = value * at + table[tied, cell, power, 0]
                        first = first * at + table[tied, cell, power, 1]
                        second = second * at + table[tied, cell, power, 2]
                        slope = slope * at + table[tied, cell, power, 3]
                    values[q] += weight * value
                    by_t[q] += weight * slope
                    slopes[i] += weight * first
                    slopes[j] -= weight * first
                    if len(bends):
                        bends[i] += weight * second
                        bends[j] += weight * second
