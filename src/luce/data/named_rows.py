"""Tables that name documents by query and document id, joined to rows: preferences, relations, subtopics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.data.late import pa, pc
from luce.data.table import Rows, Source, Table
from luce.data.table_file import WordFile
from luce.data.text_files import is_table
from luce.errors import DataError, SettingError
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.data.trec import JudgedRun

_JOINT = "\x1f"
NO_IDS = (
    "The data have no document ids, so no document can be named; say which column holds them by doc= (--doc, or "
    "--data-doc where --data names the documents), or give document_ids."
)


class RowNames:
    """Finds the row of a document by the id of its query and its own; `plain` spells ids as 12.0 without decimals."""

    def __init__(self, data: Groups | JudgedRun, plain: bool = False) -> None:
        if data.document_ids is None:
            raise DataError(NO_IDS)
        queries = np.repeat(data.query_ids.astype(str), np.diff(data.offsets))
        self._queries = pa.array(data.query_ids.astype(str))
        names = pa.array(queries), pa.array(data.document_ids.astype(str))
        self._names = _join(*map(without_decimals, names)) if plain else _join(*names)
        self.data = data
        if len(self._names.unique()) < len(self._names):
            query, document = Counter(self._names.to_pylist()).most_common(1)[0][0].split(_JOINT)
            raise DataError(f"Document {document!r} stands twice in query {query!r}; ids must be unique in a query.")

    def __call__(self, row: int) -> str:
        """The document of a row, for messages."""
        assert self.data.document_ids is not None
        return str(self.data.document_ids[row])

    def rows(self, queries: Any, documents: Any) -> IntArray:
        """Rows of the documents of these queries, texts of Arrow both; -1 where the data do not have them."""
        names = _join(queries, documents)
        return np.asarray(pc.fill_null(pc.index_in(names, value_set=self._names), -1), dtype=np.int64)

    def named(self, table: Rows, query: str, documents: Sequence[str], missing: str) -> IntArray:
        """(rows of the table, columns): the rows of the documents, -1 where the data do not have them.

        Those are errors; "skip" in `missing` allows them, and "skip_queries" those whose query the data do not have.
        """
        queries = table[query].texts()
        found = np.column_stack([self.rows(queries, table[document].texts()) for document in documents])
        known_query = np.asarray(pc.is_in(queries, value_set=self._queries), dtype=bool)
        wrong = (found < 0).any(axis=1) & (known_query if missing == "skip_queries" else missing == "error")
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            absent = documents[int(np.argmax(found[row] < 0))]
            what = f"query {table[query].text()[row]!r} is not in the data"
            if known_query[row]:
                what = (
                    f"document {table[absent].text()[row]!r} is not in query {table[query].text()[row]!r} of the data"
                )
            raise table.error(row, f"{what}; mend the file, or leave such rows out in Python by missing='skip'.")
        return found

    def pairs(
        self, table: Rows, columns: Sequence[str], missing: str, itself: str, above: float | None = None
    ) -> tuple[IntArray, FloatArray]:
        """The two rows that each row of a table names, and its weight; none may name one document twice."""
        query, *ends = columns
        pairs = self.named(table, query, ends, missing)
        weight = table["weight"].number(above=above) if "weight" in table else np.ones(len(pairs))
        same = np.flatnonzero((pairs[:, 0] == pairs[:, 1]) & (pairs[:, 0] >= 0))
        if len(same):
            raise table.error(int(same[0]), f"document {self(int(pairs[same[0], 0]))!r} is {itself}")
        return pairs, weight


def check_missing(missing: str, *others: str) -> None:
    """What is done with documents that the data do not have: "error", "skip", or one of the others."""
    known = ("error", "skip", *others)
    if missing not in known:
        listed = ", ".join(map(repr, known[:-1]))
        raise SettingError(f"missing={missing!r}: it must be {listed} or {known[-1]!r}.")


def without_decimals(texts: Any) -> Any:
    """The same texts, whole numbers with decimals such as 12.0 as 12."""
    return pc.replace_substring_regex(texts, pattern=r"^(-?[0-9]+)\.0+$", replacement=r"\1")


def _join(queries: Any, documents: Any) -> Any:
    return pc.binary_join_element_wise(queries, documents, _JOINT)


WINS = ("query", "better", "worse")
TIES = ("query", "tied_a", "tied_b")
JUDGES = ("judge", "user", "annotator", "session")


def read_comparisons(source: Source | Sequence[Source], data: Groups, *, missing: str = "error") -> Comparisons:
    """Preferences and ties between the documents of `data`, named by query and document id.

    A table has the columns `query, better, worse` or `query, tied_a, tied_b`, and may have a column `weight` (a count)
    and one of who said so (`judge`, `user`, `annotator` or `session`), whose statements of a query belong together.
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
    check_missing(missing)
    names = RowNames(data)
    parts = [_compared(one, names, missing) for one in (source if isinstance(source, list | tuple) else [source])]
    if not sum(len(pairs) for pairs, *_ in parts):
        raise DataError("The comparisons hold no pair; give at least one preference or tie.")
    pairs, weight, judge, won = (np.concatenate(part) for part in zip(*parts, strict=True))
    number = {name: i for i, name in enumerate(dict.fromkeys([*judge[won], *judge[~won]]))}
    kinds: dict[str, Any] = {"wins": pairs[won], "ties": pairs[~won]}
    kinds |= {"win_weight": weight[won] if won.any() else None, "tie_weight": weight[~won] if (~won).any() else None}
    if set(number) - {""}:
        who = np.array([number[name] for name in judge], dtype=np.int64)
        kinds |= {"win_judge": who[won], "tie_judge": who[~won]}
    result = Comparisons(**kinds)
    result.report_cycles(names)
    return result


def _compared(source: Source, names: RowNames, missing: str) -> tuple[IntArray, FloatArray, Any, NDArray[np.bool_]]:
    """The pairs of rows, weights and judges of a table, and whether the first row of each won."""
    table = Table.open(source)
    rows = table.choose([WINS, TIES], ["weight", *JUDGES])
    columns = WINS if "better" in rows else TIES
    table.say_unused([*columns, "weight", *JUDGES])
    pairs, weight = names.pairs(rows, columns, missing, "compared with itself.", above=0.0)
    known = (pairs >= 0).all(axis=1)
    if not known.any() and len(pairs):
        raise DataError("None of the pairs names documents of the data; check the query and document ids.")
    who = [name for name in JUDGES if name in rows]
    if len(who) > 1:
        raise DataError(f"The columns {who[0]} and {who[1]} both say who judged; leave one of them out.")
    judge = np.array(rows[who[0]].text() if who else [""] * len(pairs), dtype=object)
    return pairs[known], weight[known], judge[known], np.full(int(known.sum()), columns == WINS)


def with_statements(
    data: Groups,
    comparisons: Source | Sequence[Source] | None = None,
    orders: Source | Sequence[Source] | None = None,
    *,
    missing: str = "error",
) -> Groups:
    """The same data with the preferences (as `read_comparisons`) or the lists (as `read_orders`) that tables state.

    Wherever the queries go (folds, validation, tests), what is stated of their documents goes with them.

    >>> import luce
    >>> data = luce.from_arrays(np.eye(3), qid=["q", "q", "p"], document_ids=["a", "b", "c"])
    >>> stated = with_statements(data, {"query": ["q"], "better": ["b"], "worse": ["a"]})
    >>> stated.take([0]).stated.wins.tolist()
    [[1, 0]]
    """
    if comparisons is not None and orders is not None:
        raise SettingError("comparisons and orders were both given; give one of them.")
    if comparisons is not None:
        return replace(data, stated=read_comparisons(comparisons, data, missing=missing))
    if orders is None:
        return data
    from luce.data.order_files import read_orders  # and all forms of lists

    return replace(data, stated=read_orders(orders, data, missing=missing))


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
    check_missing(missing, "skip_queries")
    names = RowNames(data)
    found = {name: _relation(source, names, missing) for name, source in sources.items()}
    related = replace(data, relations={**data.relations, **{name: matrix for name, (matrix, _) in found.items()}})
    return related, {name: left_out for name, (_, left_out) in found.items()}


def _relation(source: Source, names: RowNames, missing: str) -> tuple[sparse.csr_array, int]:
    table = Table.open(source).choose([SYMMETRIC, DIRECTED], ["weight"])
    symmetric = "document_a" in table
    columns = SYMMETRIC if symmetric else DIRECTED
    edges, weight = names.pairs(table, columns, missing, "related to itself; leave such edges out.")
    known = (edges >= 0).all(axis=1)
    _, first = np.unique(np.sort(edges[known], axis=1) if symmetric else edges[known], axis=0, return_index=True)
    again = np.setdiff1d(np.arange(known.sum()), first)
    if len(again):
        row = int(np.flatnonzero(known)[again[0]])
        a, b = (names(int(end)) for end in edges[row])
        raise table.error(row, f"the edge between {a!r} and {b!r} is given twice; once is allowed.")
    edges, weight = edges[known], weight[known]
    if symmetric:
        edges, weight = np.concatenate([edges, edges[:, ::-1]]), np.concatenate([weight, weight])
    rows = len(names.data.y)
    matrix = sparse.csr_array((weight, (edges[:, 0], edges[:, 1])), shape=(rows, rows))
    return matrix, int(np.count_nonzero(~known))


Data = TypeVar("Data", "Groups", "JudgedRun")
_SUBTOPICS = ("query", "document", "subtopic")
_DIVERSITY = ("topic", "subtopic", "document", "judgement")


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
    check_missing(missing, "skip_queries")
    if isinstance(source, str | Path) and not is_table(source):
        table = WordFile(source, _DIVERSITY).read()
        table = table.filter(table["judgement"].called("the judgement").number() > 0)
        if not len(table):
            raise DataError(f"{source} has no judgement above 0, so that no document is about a subtopic.")
    else:
        table = Table.open(source).choose([_SUBTOPICS])
    query, names = "query" if "query" in table else "topic", RowNames(data)
    rows = names.named(table, query, ["document"], missing)[:, 0]
    known = rows >= 0
    if not known.any():
        raise DataError("None of the subtopics names a document of the data; check the query and document ids.")
    # As few columns as the query with the most subtopics needs.
    columns: list[int] = []
    seen: dict[str, dict[str, int]] = {}
    for name, subtopic, use in zip(table[query].text(), table["subtopic"].text(), known, strict=True):
        if use:
            numbers = seen.setdefault(name, {})
            columns.append(numbers.setdefault(subtopic, len(numbers)))
    shape = (len(names.data.y), max(columns) + 1)
    return replace(data, subtopics=_matrix(rows[known], np.array(columns), shape))
