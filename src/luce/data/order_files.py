"""Ordered lists of documents from files: `query: d7 > d2 > d9` a line, or a TREC run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luce.checks import is_whole
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.data.text_files import numbered_lines
from luce.data.trec import document_names, read_run
from luce.errors import DataError, ParseError, SettingError

__all__ = ["read_orders"]


class _List(NamedTuple):
    """One list of a file; in a run, the line is not known."""

    query: str
    documents: list[str]
    line: int | None


def read_orders(
    path: str | Path,
    data: Groups,
    *,
    k: int | None = None,
    top: bool = True,
    ties: str = "stable",
    missing: str = "error",
) -> Comparisons:
    """Ordered lists of documents of `data`, best first, named by query and document id.

    A line `query: d7 > d2 > d9` is a list, and a query may have several. A TREC run (`qid Q0 docno rank score tag`)
    gives one list a query, by falling score. Where the data have no document ids, they are `d1`, `d2`, ... by the row
    of the input.

    Parameters
    ----------
    k
        Keep the first k of every list; a list that is shorter, and does not name its whole query, is an error. None
        keeps lists as they are.
    top
        True where the documents that a list leaves out are below it; False leaves them open.
    ties
        Equal scores in a run: "stable" takes the order of the file, "error" refuses them.
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
    _check_settings(k, top, ties, missing)
    rows, sizes = _rows(data), dict(zip(map(str, data.query_ids.tolist()), data.sizes.tolist(), strict=True))
    orders: list[list[int]] = []
    for found in _run_lists(path, k, ties) if _is_run(path) else _line_lists(path):
        if found.query not in sizes:
            if missing == "skip":
                continue
            raise ParseError(
                path,
                f"query {found.query!r} is not in the data; mend the file (in Python: missing='skip').",
                found.line,
            )
        kept = [document for document in found.documents if missing == "error" or (found.query, document) in rows]
        for document in kept:
            if (found.query, document) not in rows:
                raise ParseError(
                    path,
                    f"document {document!r} is not in query {found.query!r} of the data; "
                    "mend the file (in Python: missing='skip').",
                    found.line,
                )
        if k is not None and len(kept) < min(k, sizes[found.query]):
            raise ParseError(
                path,
                f"the list of query {found.query!r} names {len(kept)} documents, fewer than k = {k}; "
                "take a smaller k, or leave it out.",
                found.line,
            )
        if kept:
            orders.append([rows[found.query, document] for document in kept[:k]])
    if not orders:
        raise DataError(f"{path}: none of the lists names documents of the data; check the query and document ids.")
    return Comparisons.from_orders(orders, top=top)


def _check_settings(k: int | None, top: bool, ties: str, missing: str) -> None:
    if k is not None and not is_whole(k, 1):
        raise SettingError(f"k is {k!r}; it must be a whole number of at least 1, or None.")
    if k is not None and not top:
        raise SettingError("k cuts top lists; with top=False nothing is known of what is cut off, so leave k out.")
    if ties not in ("stable", "error"):
        raise SettingError(f"ties={ties!r}: it must be 'stable' or 'error'.")
    if missing not in ("error", "skip"):
        raise SettingError(f"missing={missing!r}: it must be 'error' or 'skip'.")


def _rows(data: Groups) -> dict[tuple[str, str], int]:
    names = zip(map(str, data.qid.tolist()), document_names(data).tolist(), strict=True)
    rows: dict[tuple[str, str], int] = {}
    for row, key in enumerate(names):
        if rows.setdefault(key, row) != row:
            raise DataError(f"Document {key[1]!r} stands twice in query {key[0]!r}; ids must be unique in a query.")
    return rows


def _is_run(path: str | Path) -> bool:
    """A run has six columns and neither `:` after the query nor `>`."""
    _, text = next(iter(numbered_lines(path)))
    return len(text.split()) == 6 and ">" not in text and not text.split()[0].endswith(":")


def _line_lists(path: str | Path) -> Iterator[_List]:
    for number, text in numbered_lines(path):
        query, colon, rest = text.partition(":")
        documents = [document.strip() for document in rest.split(">")]
        if not colon or not query.strip() or not all(documents):
            raise ParseError(path, "expected `query: d7 > d2 > d9`, best document first, or a TREC run.", number)
        seen: set[str] = set()
        for document in documents:
            if document in seen:
                raise ParseError(
                    path, f"document {document!r} stands twice in the list of query {query.strip()!r}.", number
                )
            seen.add(document)
        yield _List(query.strip(), documents, number)


def _run_lists(path: str | Path, k: int | None, ties: str) -> Iterator[_List]:
    run = read_run(path)
    by_query: dict[str, list[int]] = {}
    for i, query in enumerate(run.qid.tolist()):
        by_query.setdefault(query, []).append(i)
    for query, places in by_query.items():
        scores = run.scores[places]
        order = np.argsort(-scores, kind="stable")
        documents = run.docno[places][order].tolist()
        # What is below the cut is not told apart; only ties that reach into the list matter.
        tied = np.flatnonzero(np.diff(scores[order])[:k] == 0)
        if ties == "error" and len(tied):
            a, b = documents[tied[0]], documents[tied[0] + 1]
            raise ParseError(
                path,
                f"documents {a!r} and {b!r} of query {query!r} have equal scores; "
                "ties='stable' takes them in the order of the file.",
            )
        yield _List(query, documents, None)
