"""Given relations between documents of a query (similarity, links, parents) from edge lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy import sparse

from luce.data.groups import Groups
from luce.data.named_rows import RowNames
from luce.data.table import Rows, Source, Table
from luce.errors import SettingError
from luce.types import FloatArray, IntArray

SYMMETRIC = ("query", "document_a", "document_b")
DIRECTED = ("query", "source", "target")


def with_relations(data: Groups, sources: Mapping[str, Source], *, missing: str = "error") -> Groups:
    """The same documents with named relations between them, beside those that they have.

    Parameters
    ----------
    data
        Documents with ids.
    sources
        For each name a table (CSV, Parquet, data frame or mapping), a row an edge. The columns say its kind: `query`,
        `document_a`, `document_b` is symmetric and counts in both directions; `query`, `source`, `target` is directed.
        A column `weight` is optional; an edge may be given once.
    missing
        Edges that name a document that `data` does not have: an "error"; "skip" leaves them out; "skip_queries" does so
        where it is the query that the data do not have.

    Examples
    --------
    >>> import luce
    >>> data = luce.from_arrays(np.eye(3), qid=["q"] * 3, document_ids=["a", "b", "c"])
    >>> edges = {"query": ["q"], "source": ["a"], "target": ["c"], "weight": [0.5]}
    >>> with_relations(data, {"link": edges}).relations["link"].toarray().tolist()
    [[0.0, 0.0, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return relate(data, sources, missing)[0]


def relate(data: Groups, sources: Mapping[str, Source], missing: str) -> tuple[Groups, dict[str, int]]:
    """As `with_relations`, and how many edges of each relation were left out."""
    if missing not in ("error", "skip", "skip_queries"):
        raise SettingError(f"missing={missing!r}: it must be 'error', 'skip' or 'skip_queries'.")
    names = RowNames(data)
    found = {name: _relation(source, names, missing) for name, source in sources.items()}
    related = replace(data, relations={**data.relations, **{name: matrix for name, (matrix, _) in found.items()}})
    return related, {name: left_out for name, (_, left_out) in found.items()}


def _relation(source: Source, names: RowNames, missing: str) -> tuple[sparse.csr_array, int]:
    table = Table.open(source).choose([SYMMETRIC, DIRECTED], ["weight"])
    symmetric = "document_a" in table
    edges, weight = _edges(table, names, SYMMETRIC if symmetric else DIRECTED, missing)
    _check_once(table, edges, names, symmetric)
    known = (edges >= 0).all(axis=1)
    edges, weight = edges[known], weight[known]
    if symmetric:
        edges, weight = np.concatenate([edges, edges[:, ::-1]]), np.concatenate([weight, weight])
    rows = len(names.data.y)
    matrix = sparse.csr_array((weight, (edges[:, 0], edges[:, 1])), shape=(rows, rows))
    return matrix, int(np.count_nonzero(~known))


def _edges(table: Rows, names: RowNames, columns: tuple[str, str, str], missing: str) -> tuple[IntArray, FloatArray]:
    query, first, second = columns
    edges = np.column_stack([names.rows(table, query, first), names.rows(table, query, second)])
    weight = table["weight"].number() if "weight" in table else np.ones(len(edges))
    absent = (edges < 0).any(axis=1)
    wrong = absent & (names.in_known_query(table, query) if missing == "skip_queries" else missing == "error")
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise names.unknown(table, row, query, first if edges[row, 0] < 0 else second)
    itself = np.flatnonzero((edges[:, 0] == edges[:, 1]) & (edges[:, 0] >= 0))
    if itself.size:
        row = int(itself[0])
        raise table.error(row, f"document {names(int(edges[row, 0]))!r} is related to itself; leave such edges out.")
    return edges, weight


def _check_once(table: Rows, edges: IntArray, names: RowNames, symmetric: bool) -> None:
    known = np.flatnonzero((edges >= 0).all(axis=1))
    pairs = np.sort(edges[known], axis=1) if symmetric else edges[known]
    _, first = np.unique(pairs, axis=0, return_index=True)
    if len(first) < len(known):
        row = int(known[np.setdiff1d(np.arange(len(known)), first)[0]])
        a, b = (names(int(end)) for end in edges[row])
        raise table.error(row, f"the edge between {a!r} and {b!r} is given twice; once is allowed.")
