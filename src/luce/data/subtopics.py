"""Subtopics of documents: what a diverse ranking should cover, from a column, a table, or TREC diversity judgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy import sparse

from luce.data.readers.compressed import plain_suffix
from luce.data.table_file import TABLE_SUFFIXES, table_kind
from luce.data.text_files import finite_number, numbered_lines
from luce.errors import DataError, ParseError, SettingError
from luce.numerics.segments import query_index
from luce.types import IntArray

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.data.named_rows import RowNames
    from luce.data.table import Rows, Source
    from luce.data.trec import JudgedRun

Data = TypeVar("Data", "Groups", "JudgedRun")
_COLUMNS = ("query", "document", "subtopic")


def subtopic_matrix(cells: Sequence[Any]) -> sparse.csr_array:
    """The 0/1 matrix of documents by subtopics from a cell a document: a list, or a text with blanks between names.

    >>> subtopic_matrix(["a b", "", ["b"], None]).toarray().tolist()
    [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    listed = [_names(cell) for cell in cells]
    column = {name: i for i, name in enumerate(sorted({name for names in listed for name in names}))}
    rows = np.repeat(np.arange(len(listed)), [len(names) for names in listed])
    columns = np.array([column[name] for names in listed for name in names], dtype=np.int64)
    return _matrix(rows, columns, (len(listed), len(column)))


def _names(cell: Any) -> list[str]:
    if cell is None:
        return []
    return str(cell).split() if not isinstance(cell, list | tuple) else [str(name) for name in cell]


def _matrix(rows: IntArray, columns: IntArray, shape: tuple[int, int]) -> sparse.csr_array:
    matrix = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    matrix.data[:] = 1.0  # a subtopic that is named twice counts once
    return matrix


def numbered_by_query(subtopics: sparse.csr_array, offsets: IntArray) -> sparse.csr_array:
    """The same subtopics, numbered anew from 0 in every query: as few columns as the query with the most needs.

    >>> numbered_by_query(sparse.csr_array(np.eye(3)), np.array([0, 2, 3])).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    rows = np.repeat(np.arange(subtopics.shape[0]), np.diff(subtopics.indptr))
    query = query_index(offsets)[rows]
    known, place = np.unique(query * max(subtopics.shape[1], 1) + subtopics.indices, return_inverse=True)
    first = np.searchsorted(known, np.arange(len(offsets)) * max(subtopics.shape[1], 1))
    columns = place - first[query]
    return sparse.csr_array(
        (subtopics.data, columns, subtopics.indptr), shape=(subtopics.shape[0], int(columns.max(initial=-1)) + 1)
    )


def with_subtopics(data: Data, source: Source, *, missing: str = "error") -> Data:
    """The same documents with their subtopics.

    Parameters
    ----------
    data
        `Groups` with document ids, or a run joined with judgements.
    source
        A table (CSV, Parquet, data frame or mapping) with the columns `query`, `document` and `subtopic`, a row a
        subtopic of a document; or a file of TREC diversity judgements, `topic subtopic document judgement`, in which a
        judgement above 0 means that the document is about the subtopic.
    missing
        Rows that name a document that `data` does not have: an "error"; "skip" leaves them out; "skip_queries" does so
        where it is the query that the data do not have.

    Examples
    --------
    >>> import luce
    >>> data = luce.from_arrays(np.eye(3), qid=["q"] * 3, document_ids=["a", "b", "c"])
    >>> table = {"query": ["q", "q"], "document": ["a", "c"], "subtopic": ["1", "2"]}
    >>> with_subtopics(data, table).subtopics.toarray().tolist()
    [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """
    from luce.data.named_rows import RowNames
    from luce.data.table import Table

    if missing not in ("error", "skip", "skip_queries"):
        raise SettingError(f"missing={missing!r}: it must be 'error', 'skip' or 'skip_queries'.")
    if isinstance(source, str | Path) and _is_trec(Path(source)):
        source = _read_judgements(Path(source))
    table = Table.open(source).choose([_COLUMNS])
    names = RowNames(data)
    rows = names.rows(table, "query", "document")
    known = rows >= 0
    wrong = ~known & (names.in_known_query(table, "query") if missing == "skip_queries" else missing == "error")
    if wrong.any():
        raise names.unknown(table, int(np.flatnonzero(wrong)[0]), "query", "document")
    if not known.any():
        raise DataError("None of the subtopics names a document of the data; check the query and document ids.")
    return replace(data, subtopics=_numbered(names, table, rows, known))


def _numbered(names: RowNames, table: Rows, rows: IntArray, known: Any) -> sparse.csr_array:
    """The matrix, with as few columns as the query with the most subtopics needs."""
    columns: list[int] = []
    seen: dict[str, dict[str, int]] = {}
    chosen = np.flatnonzero(known)
    for query, subtopic in zip(
        *(table[name].texts().take(chosen).to_pylist() for name in ("query", "subtopic")), strict=True
    ):
        numbers = seen.setdefault(query, {})
        columns.append(numbers.setdefault(subtopic, len(numbers)))
    return _matrix(rows[known], np.array(columns), (len(names.data.y), max(columns) + 1))


def _is_trec(path: Path) -> bool:
    return plain_suffix(path) not in TABLE_SUFFIXES and table_kind(path) == "csv"


def _read_judgements(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in _COLUMNS}
    for number, text in numbered_lines(path):
        parts = text.split()
        if len(parts) != 4:
            raise ParseError(path, f"{len(parts)} columns; 4 were expected: topic subtopic document judgement.", number)
        topic, subtopic, document, judgement = parts
        if finite_number(path, number, "judgement", judgement) > 0:
            for name, value in zip(_COLUMNS, (topic, document, subtopic), strict=True):
                found[name].append(value)
    if not found["query"]:
        raise DataError(f"{path} has no judgement above 0, so that no document is about a subtopic.")
    return found
