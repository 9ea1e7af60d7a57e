"""Click logs as people have them, also those of User Behavior Insights, read once and in bounded memory into counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.checks import is_whole
from luce.clicks.aggregate import Aggregator, Rows
from luce.clicks.counts import KIND, ClickCounts, load_counts
from luce.data.column import Column
from luce.data.table import Rows as TableRows
from luce.data.table import Table
from luce.data.table_file import json_objects
from luce.data.text_files import border
from luce.errors import DataError, ParseError, SettingError
from luce.storage import container_kind
from luce.types import FloatArray, IntArray

_PRIME = np.uint64(0x9E3779B97F4A7C15)


class Codes:
    """Numbers for texts, in order of first appearance."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def of(self, column: Column) -> IntArray:
        """The number of every entry of a column."""
        return column.numbered(self.number)

    @property
    def texts(self) -> NDArray[Any]:
        """The texts, by number."""
        return np.array(list(self.number), dtype=object)


def hashed(column: Column) -> NDArray[np.uint64]:
    """64 bits for every entry of a column; equal entries have equal bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.array.type
    if pa.types.is_integer(kind) and not column.array.null_count:
        plain = pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
        result: NDArray[np.uint64] = pc.cast(column.array, plain).to_numpy().astype(np.uint64)
        return result
    texts = pc.cast(column.texts(gaps=False), pa.large_binary())
    _, ends, content = texts.buffers()
    bounds = np.frombuffer(ends, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(content or b"", dtype=np.uint8)[bounds[0] : bounds[-1]].astype(np.uint64)
    bounds = bounds - bounds[0]
    sizes = np.diff(bounds)
    place = np.arange(len(letters)) - np.repeat(bounds[:-1], sizes)
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(max(int(sizes.max(initial=0)), 1), _PRIME, dtype=np.uint64))
        weighted = np.append((letters + np.uint64(1)) * powers[place], np.uint64(0))
        sums = np.add.reduceat(weighted, np.minimum(bounds[:-1], len(letters)))
        return np.where(sizes > 0, sums, np.uint64(0)) * _PRIME


_LISTS = ("query_response_object_ids", "query_response_hit_ids", "query_response_objects_ids")


def ubi_sessions(queries: str | Path, events: str | Path) -> Any:
    """A table with query, documents (best first) and clicked (documents), a row a search whose results are known.

    A search is a line of the query store: `query_id`, `user_query` and the ids of its results. A click is a line of the
    event store whose `action_name` is click, with the same `query_id` and the document in
    `event_attributes.object.object_id`. Lines may be documents of an index or hits around them (`_source`).
    """
    import pyarrow as pa

    clicks: dict[str, set[str]] = {}
    for line, event in _documents(events):
        if event.get("action_name") != "click":
            continue
        search, clicked = event.get("query_id"), _object_id(event)
        if search is None or clicked is None:
            raise ParseError(events, "a click needs query_id and event_attributes.object.object_id.", line)
        clicks.setdefault(str(search), set()).add(str(clicked))
    texts, shown, chosen = [], [], []
    for line, search in _documents(queries):
        name = next((name for name in _LISTS if search.get(name) is not None), None)
        if search.get("query_id") is None or search.get("user_query") is None or name is None:
            raise ParseError(queries, f"a search needs query_id, user_query and {_LISTS[0]} or {_LISTS[1]}.", line)
        documents = [str(document) for document in search[name]]
        if not documents:
            continue
        picked = clicks.pop(str(search["query_id"]), set())
        stray = picked - set(documents)
        if stray:
            raise ParseError(
                events,
                f"document {min(stray)!r} was clicked in search {search['query_id']!r}, which did not show it; object "
                "ids of events must be those of the results.",
            )
        texts.append(str(search["user_query"]))
        shown.append(documents)
        chosen.append(sorted(picked))
    if clicks:
        raise ParseError(
            events,
            f"clicks without an impression: search {min(clicks)!r} is not in {queries}; give the whole query store.",
        )
    if not texts:
        raise DataError(f"{queries} holds no search with results; give the query store of the log.")
    lists = pa.list_(pa.string())
    return pa.table({"query": texts, "documents": pa.array(shown, lists), "clicked": pa.array(chosen, lists)})


def _object_id(event: dict[str, Any]) -> Any:
    attributes = event.get("event_attributes")
    thing = attributes.get("object") if isinstance(attributes, dict) else None
    return thing.get("object_id") if isinstance(thing, dict) else None


def _documents(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file, a line each, with the numbers of their lines."""
    for line, found in json_objects(path):
        source = found.get("_source")
        yield line, source if isinstance(source, dict) else found


NONE = "-"
"""As the name of a column: the log has none."""
_SORTED_ROWS = 1 << 24
"""Rows that are sorted at a time where those of a session stand apart: about a gigabyte."""
_FURTHEST = 999_999
"""Positions further down are a mistake."""
_SESSION_NAMES = ("session", "impression", "session_id")
_USUAL = {
    "session": _SESSION_NAMES,
    "query": ("query", "qid", "query_id"),
    "document": ("document", "document_id", "docid", "doc"),
    "position": ("position",),
    "clicked": ("clicked", "click"),
    "propensity": (),
}
_CLICKED = "0 or 1, or true or false"


def read(
    log: Any,
    *,
    session: str | None = None,
    query: str = "query",
    document: str = "document",
    position: str | None = None,
    clicked: str = "clicked",
    propensity: str | None = None,
    first_position: int = 1,
    last_position: int | None = None,
    max_clicks: int | None = None,
    repeated: str = "error",
    pairs: bool = False,
    events: str | Path | None = None,
) -> ClickCounts:
    """Aggregate a click log to counts; a file of counts that was saved is read back.

    A log has one row a shown document (Parquet, Arrow, CSV, JSON, compressed or not, a data frame or a mapping), or one
    row a session whose documents are a list, best first, and whose `clicked` is a list of 0 and 1 or of the documents
    that were clicked. With `events`, `log` is the query store and `events` the event store of User Behavior Insights
    (OpenSearch), both as JSON lines. It is read in batches: memory grows with the number of different documents,
    positions and queries, not with the rows.

    Rules, each reported in `notes` where it did something: rows that are equal in session, document and position count
    once, as clicked if one of them is; a session with more than `max_clicks` clicks is left out as a robot's.

    Parameters
    ----------
    session, query, document, position, clicked, propensity
        Names of columns. `session` (default: session, impression or session_id) is what was shown at once, for one
        query; "-" says that there is none and every row stands alone. `query="-"` makes the log one query. Without a
        column of positions, the order of the rows of a session counts. `propensity` is the probability with which the
        policy that was logged showed the document there.
    first_position
        What the log calls the top: 1 or 0.
    last_position
        Leave out what stands further down, counted from 1.
    max_clicks
        Leave out sessions with more clicks.
    repeated
        What to do with a document that stands at two positions of a session: "error", or "first" to keep the upper.
    pairs
        Also count what happened to two documents in one session (needed by `luce.clicks.pairs`).

    >>> log = {"session": [1, 1, 2, 2], "query": ["q"] * 4, "document": ["a", "b", "b", "a"],
    ...        "position": [1, 2, 1, 2], "clicked": [1, 0, 1, 1]}
    >>> read(log)
    ClickCounts(2 sessions, 1 queries, 2 documents, 3 clicks at 2 positions)
    """
    columns = _Columns(session, query, document, position, clicked, propensity, first_position, position)
    rules: dict[str, Any] = {
        "max_clicks": max_clicks,
        "keep_first": repeated == "first",
        "last_position": last_position,
    }
    if isinstance(log, ClickCounts) or (isinstance(log, str | Path) and _are_counts(Path(log))):
        if columns != _Columns() or any(rules.values()) or events is not None:
            raise SettingError("Names of columns and rules are for a log, and these are counts of one; leave them out.")
        return log if isinstance(log, ClickCounts) else load_counts(log)
    if first_position not in (0, 1):
        raise SettingError(f"first_position is {first_position!r}; it must be 1 or 0.")
    if repeated not in ("error", "first"):
        raise SettingError(f"repeated={repeated!r}: it must be 'error' or 'first'.")
    for name in ("max_clicks", "last_position"):
        if rules[name] is not None and not is_whole(rules[name], 1):
            raise SettingError(f"{name} is {rules[name]!r}; it must be a whole number of at least 1.")
    if events is not None:
        if columns != _Columns():
            raise SettingError(
                "User Behavior Insights name their columns themselves; leave the names out beside events."
            )
        log = ubi_sessions(log, events)
        columns = replace(columns, session=NONE, query="query", document="documents", clicked="clicked")
    with border(log) if isinstance(log, str | Path) else nullcontext():
        table = Table.open(log)
        said = ["The column 'propensity' was not used; name it by propensity= (--propensity)."]
        said = said if propensity is None and "propensity" in table.names else []
        reader = _Reader(table, columns.found_in(table))
        with closing(Aggregator(**rules, with_pairs=pairs)) as aggregator:
            aggregator.notes += said
            for rows in reader.rows():
                aggregator.add(rows)
            aggregator.flush()
            if not aggregator.sessions_are_apart():
                return aggregator.counts()
        with closing(Aggregator(**rules, with_pairs=pairs)) as aggregator:
            aggregator.notes += [*said, _add_sorted(aggregator, reader)]
            return aggregator.counts()


def _are_counts(path: Path) -> bool:
    return path.is_file() and container_kind(path) == KIND


def _add_sorted(aggregator: Aggregator, reader: _Reader) -> str:
    """Sessions whose rows are no neighbours: some of them at a time, sorted in memory, each part by another reading."""
    parts = -(-reader.n_rows // _SORTED_ROWS)
    for part in range(parts):
        rows = Rows.sorted_by_session([rows.of_part(part, parts) for rows in reader.rows()])
        if len(rows):
            aggregator.add(rows)
            aggregator.flush()
    how = "sorted by session in memory" if parts == 1 else f"read {parts} times more and sorted by session in parts"
    return f"Rows of one session stand apart in the log; it was {how}."


@dataclass(frozen=True)
class _Columns:
    """What the columns of a log are called."""

    session: str | None = None
    query: str = "query"
    document: str = "document"
    position: str | None = None
    clicked: str = "clicked"
    propensity: str | None = None
    first_position: int = 1
    given_position: str | None = None

    def found_in(self, table: Table) -> _Columns:
        """The same with the defaults that the log has, or an error that names what is missing."""
        found: dict[str, Any] = {}
        for role, usual in _USUAL.items():
            given = getattr(self, role)
            if given == NONE or (given is None and not set(usual) & set(table.names)):
                found[role] = None if role == "position" else given
                continue
            advice = f": name the one that holds the {role} by {role}= (luce clicks --{role.replace('ument', '')})"
            advice += ", or '-' if there is none" if role in ("session", "query") else ""
            named = None if given == getattr(_Columns, role) else given
            found[role] = table.name(named, role=role.replace("clicked", "clicks"), usual=usual, advice=advice)
        return replace(self, **found)

    @property
    def used(self) -> list[str]:
        """All that are to be read."""
        wanted = (self.session, self.query, self.document, self.position, self.clicked, self.propensity)
        return list(dict.fromkeys(name for name in wanted if name is not None and name != NONE))


class _Reader:
    """Pieces of a log as rows of numbers."""

    def __init__(self, table: Table, columns: _Columns) -> None:
        self.table, self.columns = table, columns
        self.queries, self.documents = Codes(), Codes()
        self.n_rows = 0
        """Rows that were read last time."""

    def rows(self) -> Iterator[Rows]:
        """The rows of one piece after the other."""
        self.n_rows = 0
        for rows in self.table.pieces(self.columns.used):
            yield self._of(rows)
            self.n_rows += len(rows)

    def _of(self, rows: TableRows) -> Rows:
        c = self.columns
        if rows[c.document].is_list:
            return self._of_lists(rows)
        if c.session is None:
            raise DataError(
                f"The log has no column {', '.join(_SESSION_NAMES)}; name what tells sessions apart by session= "
                "(luce clicks --session), or '-' if every row stands alone."
            )
        position = None
        if c.position is not None:
            position = self._position(rows[c.position].called("position"))
        elif c.session == NONE:
            raise DataError(
                "A log without sessions needs a column of positions; name it by position= (luce clicks --position)."
            )
        alone = c.session == NONE
        return Rows(
            session=np.arange(rows.first, rows.first + len(rows), dtype=np.uint64)
            if alone
            else hashed(rows[c.session]),
            query=self._queries(rows),
            document=self.documents.of(rows[c.document]),
            position=position,
            clicked=rows[c.clicked].called("clicked").flags(_CLICKED).astype(np.float64),
            propensity=None if c.propensity is None else _propensity(rows[c.propensity].called("the propensity")),
            alone=alone,
            names=_Names(self.queries, self.documents),
        )

    def _queries(self, rows: TableRows) -> IntArray:
        if self.columns.query != NONE:
            return self.queries.of(rows[self.columns.query])
        self.queries.number.setdefault("all", 0)
        return np.zeros(len(rows), dtype=np.int64)

    def _of_lists(self, rows: TableRows) -> Rows:
        """One row a session: its lists laid end to end."""
        c = self.columns
        sizes, documents = rows[c.document].lists()
        inside = np.repeat(np.arange(len(rows)), sizes)
        flat = self.documents.of(documents)
        starts = np.cumsum(sizes) - sizes
        query = self._queries(rows)
        for role, name in (("propensity", c.propensity), ("position", c.given_position)):
            if name is not None:
                raise DataError(f"A {role} goes with one row a shown document; here a row is a session with lists.")
        return Rows(
            session=(inside + rows.first).astype(np.uint64),
            query=query[inside],
            document=flat,
            position=np.arange(len(flat)) - starts[inside] + 1,
            clicked=self._clicked_in_lists(rows[c.clicked], sizes, inside, flat),
            propensity=None,
            alone=False,
            names=_Names(self.queries, self.documents),
        )

    def _clicked_in_lists(self, column: Column, sizes: IntArray, inside: IntArray, flat: IntArray) -> FloatArray:
        if not column.is_list:
            raise DataError(f"{self.columns.document} holds lists and {self.columns.clicked} none; give it lists, too.")
        lengths, values = column.lists()
        if (values.is_flag or values.is_number) and np.array_equal(lengths, sizes):
            numbers = values.number(_CLICKED)
            if np.isin(numbers, (0.0, 1.0)).all():
                return numbers
        named = self.documents.of(values)
        base = len(self.documents.number) + 1
        row = np.repeat(np.arange(len(lengths)), lengths)
        keys, shown = row * base + named, inside * base + flat
        stray = ~np.isin(keys, shown)
        if stray.any():
            at, code = divmod(int(keys[stray][0]), base)
            raise column.rows.error(
                at,
                f"document {str(self.documents.texts[code])!r} was clicked and not shown; {self.columns.clicked} must "
                "hold 0 and 1, one a document, or documents of the list.",
            )
        return np.isin(shown, keys).astype(np.float64)

    def _position(self, column: Column) -> IntArray:
        first, values = self.columns.first_position, column.number("a whole number")
        wrong = ~((values >= first) & (values == np.floor(values)) & (values <= _FURTHEST))
        if wrong.any():
            bad = int(np.flatnonzero(wrong)[0])
            advice = f"a whole number, {first} at the top and at most {_FURTHEST:,}"
            if values[bad] == 0:
                advice += "; where the log counts from 0, say so by first_position=0 (luce clicks --first-position 0)"
            raise column.error(bad, f"is {values[bad]:g}; it must be {advice}.")
        return values.astype(np.int64) + (1 - first)


def _propensity(column: Column) -> FloatArray:
    values = column.number("a probability")
    wrong = ~((values > 0) & (values <= 1))
    if wrong.any():
        bad = int(np.flatnonzero(wrong)[0])
        raise column.error(bad, f"is {values[bad]:g}; a document that was shown had a probability in (0, 1].")
    return values


class _Names(NamedTuple):
    """Names of queries and documents by their numbers, for messages and results."""

    queries: Codes
    documents: Codes
