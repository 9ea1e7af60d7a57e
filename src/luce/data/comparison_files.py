"""Explicit preferences and ties from files: `query, better, worse` and `query, tied_a, tied_b`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.data.named_rows import RowNames
from luce.data.table import Rows, Source, Table
from luce.errors import DataError, SettingError
from luce.types import FloatArray, IntArray

WINS = ("query", "better", "worse")
TIES = ("query", "tied_a", "tied_b")


def read_comparisons(source: Source | Sequence[Source], data: Groups, *, missing: str = "error") -> Comparisons:
    """Preferences and ties between the documents of `data`, named by query and document id.

    A table has the columns `query, better, worse` or `query, tied_a, tied_b`, and may have a column `weight` (a count).
    A list of tables, such as a file of each kind, gives one `Comparisons`. `missing="skip"` leaves out pairs that name
    a document that `data` does not have; else that is an error. Preferences that run in a circle are kept, and
    reported by a `LuceWarning`.

    >>> import luce
    >>> data = luce.from_arrays(np.eye(3), qid=["q", "q", "q"], document_ids=["a", "b", "c"])
    >>> wins = {"query": ["q", "q"], "better": ["a", "a"], "worse": ["b", "c"]}
    >>> ties = {"query": ["q"], "tied_a": ["b"], "tied_b": ["c"]}
    >>> pairs = read_comparisons([wins, ties], data)
    >>> pairs.wins.tolist(), pairs.ties.tolist()
    ([[0, 1], [0, 2]], [[1, 2]])
    """
    if missing not in ("error", "skip"):
        raise SettingError(f"missing={missing!r}: it must be 'error' or 'skip'.")
    names = RowNames(data)
    sources: Sequence[Source] = source if isinstance(source, list | tuple) else [source]
    found: dict[bool, list[tuple[IntArray, FloatArray]]] = {True: [], False: []}
    for one in sources:
        table = Table.open(one).choose([WINS, TIES], ["weight"])
        is_win = "better" in table
        found[is_win].append(_pairs(table, names, WINS if is_win else TIES, missing == "skip"))
    wins, win_weight = _joined(found[True])
    ties, tie_weight = _joined(found[False])
    result = Comparisons(wins=wins, ties=ties, win_weight=win_weight, tie_weight=tie_weight)
    result.report_cycles(names)
    return result


def _pairs(table: Rows, names: RowNames, columns: Sequence[str], skip: bool) -> tuple[IntArray, FloatArray]:
    query, first, second = columns
    pairs = np.column_stack([names.rows(table, query, first), names.rows(table, query, second)])
    weight = table["weight"].number("a number above 0") if "weight" in table else np.ones(len(pairs))
    if (weight <= 0).any():
        row = int(np.flatnonzero(weight <= 0)[0])
        raise table.error(row, f"weight is {weight[row]:g}; it must be a number above 0.")
    known = (pairs >= 0).all(axis=1)
    if not known.all() and not skip:
        row = int(np.flatnonzero(~known)[0])
        raise names.unknown(table, row, query, first if pairs[row, 0] < 0 else second)
    same = known & (pairs[:, 0] == pairs[:, 1])
    if same.any():
        row = int(np.flatnonzero(same)[0])
        raise table.error(row, f"document {names(int(pairs[row, 0]))!r} is compared with itself.")
    if not known.any() and len(pairs):
        raise DataError("None of the pairs names documents of the data; check the query and document ids.")
    return pairs[known], weight[known]


def _joined(parts: list[tuple[IntArray, FloatArray]]) -> tuple[IntArray, FloatArray | None]:
    if not parts:
        return np.empty((0, 2), dtype=np.int64), None
    return np.concatenate([pairs for pairs, _ in parts]), np.concatenate([weight for _, weight in parts])
