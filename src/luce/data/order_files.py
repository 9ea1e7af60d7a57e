"""Ordered lists of documents: from files (`query: d7 > {d2 d9} > rest` a line, or TREC runs), and as judgements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.checks import one_of, truth, whole
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups, document_names
from luce.data.named_rows import check_missing
from luce.data.statements import graded_rows
from luce.data.table import Rows, Source, Table
from luce.data.table_file import WordFile
from luce.data.text_files import is_table, number, numbered_lines
from luce.errors import DataError, ParseError, SettingError
from luce.types import FloatArray, IntArray

REST = "rest"
_FORM = "`query: d7 > {d2 d9} > rest`"
_HEAD = re.compile(r"^(.*\S)\s+\*\s*(\S+)$")
_LONG, _BESIDE = ("query", "document", "rank"), ("judge", "weight")


class _List(NamedTuple):
    """One list of a file: its tiers, best first, and where it stands; in a run, the line is not known."""

    path: str | Path
    line: int | None
    query: str
    tiers: list[list[str]]
    weight: float = 1.0
    above_rest: bool = False

    def error(self, message: str) -> ParseError:
        """An error about this list."""
        return ParseError(self.path, message, self.line)


def read_orders(
    path: Source | Sequence[Source],
    data: Groups,
    *,
    k: int | None = None,
    top: bool = True,
    ties: str = "tied",
    missing: str = "error",
) -> Comparisons:
    """Ordered lists of documents of `data`, best first, named by query and document id.

    A line `query: d7 > d2 > d9` is a list, and a query may have several, by several judges. Documents in braces,
    `{d2 d9}` or `{d2, d9}`, or with ` = ` between them, share a tier, of whose order nothing is said. `> rest` at the
    end says that all other documents of the query are below, whatever `top` says. `query * 2.5: ...` gives a list a
    weight; a line that begins with `#` is a comment. A TREC run (`qid Q0 docno rank score tag`) gives one list a query,
    by falling score; several files, as of several judges, are taken together. A table (CSV, Parquet, a data frame or a
    mapping) is long, with the columns `query`, `document`, `rank` and, if it likes, `judge` and `weight` (equal ranks
    share a tier), or wide, a row a list: `query`, `rank1`, `rank2`, ..., empty after its end. Where the data have no
    document ids, they are `d1`, `d2`, ... by the row of the input.

    Parameters
    ----------
    k
        Keep the first k of every list, and with the k-th the others of its tier; shorter lists are kept whole. None
        keeps lists as they are.
    top
        True where the documents that a list leaves out are below it; False leaves them open.
    ties
        Equal scores in a run: "tied" puts them into one tier, "stable" takes the order of the file, "error" refuses
        them.
    missing
        "skip" leaves out documents and queries that the data do not have; else they are an error.

    Examples
    --------
    >>> import luce, tempfile
    >>> data = luce.from_arrays(np.eye(3), qid=["q", "q", "q"])
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     print("q: d3 > d1", file=file, flush=True)
    ...     lists = read_orders(file.name, data)
    >>> lists.order_rows.tolist(), lists.order_is_top.tolist()
    ([2, 0], [True])
    """
    if k is not None:
        whole("k", k, 1)
    truth("top", top)
    if k is not None and not top:
        raise SettingError("k cuts top lists; with top=False nothing is known of what is cut off, so leave k out.")
    one_of("ties", ties, ("tied", "stable", "error"))
    check_missing(missing)
    sources: list[Any] = list(path) if isinstance(path, list | tuple) else [path]
    known = _Known(data, missing == "skip")
    orders: list[list[list[int]]] = []
    is_top: list[bool] = []
    weights: list[float] = []
    for source in sources:
        for found in _lists_of(source, k, ties):
            rows = known.rows(found, k, top or found.above_rest)
            if rows:
                orders.append(rows)
                is_top.append(top or found.above_rest)
                weights.append(found.weight)
    if not orders:
        names = ", ".join(str(source) if isinstance(source, str | Path) else "the table" for source in sources)
        raise DataError(f"{names}: none of the lists names documents of the data; check the query and document ids.")
    return Comparisons.from_orders(orders, top=is_top, weights=None if set(weights) == {1.0} else weights)


class _Known:
    """Finds the rows of a list, and says what is wrong with it by query and document."""

    def __init__(self, data: Groups, skip: bool) -> None:
        self.skip = skip
        self.sizes = dict(zip(map(str, data.query_ids.tolist()), data.sizes.tolist(), strict=True))
        self.place: dict[tuple[str, str], int] = {}
        names = zip(map(str, data.qid.tolist()), document_names(data).tolist(), strict=True)
        for row, key in enumerate(names):
            if self.place.setdefault(key, row) != row:
                raise DataError(f"Document {key[1]!r} stands twice in query {key[0]!r}; ids must be unique in a query.")

    def rows(self, found: _List, k: int | None, is_top: bool) -> list[list[int]]:
        """The rows of the tiers that are kept, none where the data do not have the query or a document."""
        query = found.query
        if query not in self.sizes:
            if self.skip:
                return []
            raise found.error(
                f"query {query!r} is not in the data; mend the file, or leave such lists out by missing='skip' "
                "(--missing-documents skip)."
            )
        if found.above_rest and (query, REST) in self.place:
            raise found.error(
                f"`{REST}` stands for all other documents of query {query!r}, which has a document of that name; "
                "rename it."
            )
        for document in (document for tier in found.tiers for document in tier):
            if (query, document) not in self.place and not self.skip:
                raise found.error(
                    f"document {document!r} is not in query {query!r} of the data; mend the file, or leave such "
                    "documents out by missing='skip' (--missing-documents skip)."
                )
        present = ([document for document in tier if (query, document) in self.place] for tier in found.tiers)
        tiers = [tier for tier in present if tier]
        listed = sum(map(len, tiers))
        if len(tiers) == 1 and listed > 1 and (not is_top or listed == self.sizes[query]):
            shown = ", ".join(map(repr, tiers[0][:3])) + (", ..." if listed > 3 else "")
            raise found.error(
                f"the list of query {query!r} has {shown} in one tier and nothing below them, which says nothing; "
                "take it out."
            )
        above = accumulate(map(len, tiers), initial=0)
        kept = [tier for tier, before in zip(tiers, above, strict=False) if k is None or before < k]
        return [[self.place[query, document] for document in tier] for tier in kept]


def _lists_of(source: Any, k: int | None, ties: str) -> Iterator[_List]:
    """The lists of a file of lines, a run or a table."""
    if not isinstance(source, str | Path) or is_table(source):
        return _table_lists(Table.open(source))
    # A run has six columns, a score in the fifth, and neither `:` after the query nor `>` nor `{`.
    _, text = next(_commented_lines(source), (0, ""))
    words = text.split()
    is_run = len(words) == 6 and not set(">{") & set(text) and not words[0].endswith(":") and words[1] != "*"
    if not is_run:
        return _line_lists(source)
    rows = WordFile(source, ("query", "Q0", "document", "rank", "score", "tag")).read()
    return _long_lists(source, rows, -rows["score"].called("the score").number(), ties, k)


def _table_lists(table: Table) -> Iterator[_List]:
    """The lists of a table, which is long (a row a document) or wide (a row a list)."""
    where = table.label if table.path is None else table.path
    if set(_LONG) <= set(table.names):
        rows = table.choose([_LONG], _BESIDE)
        table.say_unused([*_LONG, *_BESIDE])
        yield from _long_lists(where, rows, rows["rank"].number())
        return
    ranks = [name for name in table.names if re.fullmatch(r"rank_?\d+", name)]
    ranks.sort(key=lambda name: int(name[4:].strip("_")))
    if "query" not in table.names or not ranks:
        raise table.wrong(
            f"the columns are {', '.join(table.names)}; needed are {', '.join(_LONG)}, or query, rank1, rank2, ...."
        )
    rows = table.choose([["query", *ranks]], _BESIDE, gaps=ranks)
    table.say_unused(["query", *ranks, *_BESIDE])
    columns = [rows[name].text() for name in ranks]
    weight = rows["weight"].number(above=0) if "weight" in rows else np.ones(len(rows))
    for row, query in enumerate(rows["query"].text()):
        named = [column[row] for column in columns]
        filled = [one for one in named if one]
        if not filled or named[: len(filled)] != filled or len(set(filled)) < len(filled):
            raise rows.error(row, f"the list of query {query!r} is {filled}; name documents from rank 1 on, each once.")
        yield _List(where, None, query, [[one] for one in filled], float(weight[row]))


def _long_lists(
    where: str | Path, rows: Rows, key: FloatArray, ties: str = "tied", k: int | None = None
) -> Iterator[_List]:
    """The lists of rows of a document each, by query and judge, the least key first; equal keys share a tier."""
    judge = rows["judge"].text() if "judge" in rows else [""] * len(rows)
    lists: dict[tuple[str, str], list[int]] = {}
    for row, name in enumerate(zip(rows["query"].text(), judge, strict=True)):
        lists.setdefault(name, []).append(row)
    documents = rows["document"].text()
    weight = rows["weight"].number(above=0) if "weight" in rows else np.ones(len(rows))
    for (query, _), places in lists.items():
        order = np.array(places)[np.argsort(key[places], kind="stable")].tolist()
        seen: set[str] = set()
        for row in order:
            if documents[row] in seen:
                raise rows.error(row, f"document {documents[row]!r} stands twice in a list of query {query!r}.")
            seen.add(documents[row])
        if len(set(weight[places].tolist())) > 1:
            raise rows.error(places[0], f"the weight of a list of query {query!r} must be one number above 0.")
        tied = np.diff(key[order]) == 0
        # What is below the cut is not told apart; only ties that reach into the list matter.
        early = np.flatnonzero(tied[:k])
        if ties == "error" and len(early):
            a, b = (documents[order[early[0] + i]] for i in (0, 1))
            said = (
                f"documents {a!r} and {b!r} of query {query!r} have equal scores; ties='tied' puts them into one tier."
            )
            raise rows.error(order[early[0] + 1], said)
        starts = np.append(0, np.flatnonzero(~tied | (ties == "stable")) + 1)
        tiers = [[documents[row] for row in order[a:b]] for a, b in pairwise([*starts.tolist(), len(order)])]
        yield _List(where, None, query, tiers, float(weight[places[0]]))


def _commented_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    return ((line, text) for line, text in numbered_lines(path) if not text.lstrip().startswith("#"))


def _line_lists(path: str | Path) -> Iterator[_List]:
    for line, text in _commented_lines(path):
        head, colon, body = text.partition(":")
        if not colon or not head.strip():
            raise ParseError(path, f"expected {_FORM}, best document first, or a TREC run.", line)
        query, weight, found = head.strip(), 1.0, _HEAD.match(head.strip())
        if found is not None:  # `query * weight`
            query, weight = found[1], number(found[2])
            if not 0 < weight < np.inf:
                said = f"is {found[2]!r}; it must be a finite number above 0."
                raise ParseError(path, f"the weight of a list of query {query!r} {said}", line)
        parts = [part.strip() for part in body.split(">")]
        above_rest = len(parts) > 1 and parts[-1] == REST
        tiers = [_tier(path, line, part) for part in (parts[:-1] if above_rest else parts)]
        if tiers == [[]]:
            raise ParseError(path, f"the list of query {query!r} is empty; name a document, as in {_FORM}.", line)
        if not all(tiers):
            raise ParseError(path, f"expected {_FORM}, best document first, or a TREC run.", line)
        document, times = Counter(document for tier in tiers for document in tier).most_common(1)[0]
        if times > 1:
            raise ParseError(path, f"document {document!r} stands twice in the list of query {query!r}.", line)
        yield _List(path, line, query, tiers, weight, above_rest)


def _tier(path: str | Path, line: int, text: str) -> list[str]:
    """The documents of one tier: one, several in braces, or several with ` = ` between them."""
    if not text.startswith("{"):
        return [document.strip() for document in re.split(r"\s=\s", text)] if text else []
    if not text.endswith("}"):
        raise ParseError(path, f"a tier opens with {{ and does not end with }}: {text!r}.", line)
    inside = text[1:-1]
    return [document.strip() for document in inside.split(",")] if "," in inside else inside.split()


@dataclass(frozen=True, eq=False)
class JudgedLists:
    """What `luce.evaluate` needs of lists; `rows` says which row of the data each judged document is.

    A top list judges all documents of its query: those it does not name have grade 0. An open one judges those that
    it names. The last tier has grade 1, the one before it 2, and so on.
    """

    rows: IntArray
    y: FloatArray
    offsets: IntArray
    query_ids: NDArray[Any]
    document_ids: NDArray[Any] | None

    def groups(self, data: Groups) -> Groups:
        """The same with the features of `data`, for validation while training."""
        whole = np.array_equal(self.rows, np.arange(data.n_rows))
        X = data.X if whole else np.ascontiguousarray(data.X[self.rows])
        return Groups(X, self.y, self.offsets, self.query_ids, self.document_ids, feature_names=data.feature_names)


def judged_lists(data: Groups, lists: Comparisons) -> JudgedLists:
    """The lists and pairs of `lists` as judged queries, in the order of the queries of `data`.

    >>> import luce
    >>> data = luce.from_arrays([[0.0]] * 4, qid=["a", "a", "a", "b"])
    >>> judged = judged_lists(data, Comparisons.from_orders([[2, 0], [[0, 1]]], top=True))
    >>> judged.rows.tolist(), judged.y.tolist(), judged.query_ids.tolist()
    ([0, 1, 2, 0, 1, 2], [1.0, 0.0, 2.0, 1.0, 1.0, 0.0], ['a', 'a'])
    """
    found = graded_rows(lists, data.offsets)
    if not len(found.queries):
        raise DataError("The comparisons hold neither a list nor a pair that says something; give at least one.")
    ids = None if data.document_ids is None else data.document_ids[found.rows]
    return JudgedLists(found.rows, found.grades, found.offsets, data.query_ids[found.queries], ids)
