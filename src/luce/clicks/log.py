"""Click logs as people have them, also those of User Behavior Insights, read once and in bounded memory into counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from luce.clicks.aggregate import Aggregator, Rows
from luce.clicks.counts import KIND, ClickCounts, load_counts
from luce.data.column import Column
from luce.data.late import pa, pc
from luce.data.table import Rows as TableRows
from luce.data.table import Table
from luce.data.table_file import json_objects
from luce.data.text_files import border
from luce.errors import DataError, ParseError, SettingError
from luce.spec import Spec, option
from luce.storage import container_kind
from luce.types import FloatArray, IntArray

_PRIME = np.uint64(0x9E3779B97F4A7C15)


def hashed(column: Column) -> NDArray[np.uint64]:
    """64 bits for every entry of a column; equal entries have equal bits, in every process (Python salts its own)."""
    kind = column.array.type
    if pa.types.is_integer(kind) and not column.array.null_count:
        plain = pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
        return np.asarray(pc.cast(column.array, plain).to_numpy().astype(np.uint64))
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
    clicks: dict[str, set[str]] = {}
    for line, event in _documents(events):
        if event.get("action_name") != "click":
            continue
        place: Any = event
        for key in ("event_attributes", "object", "object_id"):
            place = place.get(key) if isinstance(place, dict) else None
        search, clicked = event.get("query_id"), place
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


def _top(name: str, value: Any) -> int:
    if value not in (0, 1):
        raise SettingError(f"{name} is {value!r}; it must be 1 or 0.")
    return int(value)


class LogOptions(Spec):
    """What the columns of a log are called, and by which rules it is read.

    Parameters
    ----------
    session
        Column of what was shown at once, for one query (default: session, impression or session_id); '-' if there is
        none, and every row stands alone.
    query
        Column of queries; '-' makes the log one query.
    document
        Column of documents, or of lists of them, best first.
    position
        Column of positions (default: position, else the order of the rows of a session).
    clicked
        Column of clicks, 0 or 1, or lists of clicked documents.
    propensity
        Column with the probability that the logged policy showed the document there.
    first_position
        What the log calls the top: 1 or 0.
    last_position
        Leave out what stands further down than this, counted from 1.
    max_clicks
        Leave out sessions with more clicks than this, as a robot's.
    repeated
        A document at two positions of a session: error, or first to keep the upper one.
    """

    session: str | None = None
    query: str = "query"
    document: str = "document"
    position: str | None = None
    clicked: str = "clicked"
    propensity: str | None = None
    first_position: int = option(default=1, convert=_top)
    last_position: int | None = option(default=None, least=1)
    max_clicks: int | None = option(default=None, least=1)
    repeated: Literal["error", "first"] = "error"

    def found_in(self, table: Table) -> dict[str, str | None]:
        """The column of every role; None where the log has none, or an error that names what is missing."""
        found: dict[str, str | None] = {}
        for role, usual in _USUAL.items():
            given = getattr(self, role)
            if given == NONE or (given is None and not set(usual) & set(table.names)):
                found[role] = None if role == "position" else given
                continue
            advice = f": name the one that holds the {role} by {role}= (luce clicks --{role.replace('ument', '')})"
            advice += ", or '-' if there is none" if role in ("session", "query") else ""
            named = None if given == getattr(LogOptions, role) else given
            found[role] = table.name(named, role=role.replace("clicked", "clicks"), usual=usual, advice=advice)
        return found


def read(log: Any, *, pairs: bool = False, events: str | Path | None = None, **options: Any) -> ClickCounts:
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
    pairs
        Also count what happened to two documents in one session (needed by `luce.clicks.pairs`).
    events
        The event store of User Behavior Insights.
    options
        The fields of `LogOptions`: session, query, document, position, clicked, propensity (names of columns),
        first_position, last_position, max_clicks, repeated (rules).

    >>> log = {"session": [1, 1, 2, 2], "query": ["q"] * 4, "document": ["a", "b", "b", "a"],
    ...        "position": [1, 2, 1, 2], "clicked": [1, 0, 1, 1]}
    >>> read(log)
    ClickCounts(2 sessions, 1 queries, 2 documents, 3 clicks at 2 positions)
    """
    chosen, usual = LogOptions(**options), LogOptions()
    is_file = isinstance(log, str | Path) and Path(log).is_file()
    if isinstance(log, ClickCounts) or (is_file and container_kind(log) == KIND):
        if chosen != usual or events is not None:
            raise SettingError("Names of columns and rules are for a log, and these are counts of one; leave them out.")
        return log if isinstance(log, ClickCounts) else load_counts(log)
    if events is not None:
        if any(getattr(chosen, name) != getattr(usual, name) for name in (*_USUAL, "first_position")):
            raise SettingError(
                "User Behavior Insights name their columns themselves; leave the names out beside events."
            )
        log = ubi_sessions(log, events)
        chosen = replace(chosen, session=NONE, document="documents")
    with border(log) if isinstance(log, str | Path) else nullcontext():
        reader = _Reader(Table.open(log), chosen)
        numbers, notes = (chosen, reader.queries, reader.documents), []
        if chosen.propensity is None and "propensity" in reader.table.names:
            notes.append("The column 'propensity' was not used; name it by propensity= (--propensity).")
        with closing(Aggregator(*numbers, notes, with_pairs=pairs)) as aggregator:
            for rows in reader.rows():
                aggregator.add(rows)
            aggregator.flush()
            if not aggregator.sessions_are_apart():
                return aggregator.counts()
        # Some of the sessions at a time, sorted in memory, each part by another reading.
        parts = -(-reader.n_rows // _SORTED_ROWS)
        how = "sorted by session in memory" if parts == 1 else f"read {parts} times more and sorted by session in parts"
        notes.append(f"Rows of one session stand apart in the log; it was {how}.")
        with closing(Aggregator(*numbers, notes, with_pairs=pairs)) as aggregator:
            for part in range(parts):
                found = Rows.joined([rows.of_part(part, parts) for rows in reader.rows()])
                if found.size:
                    aggregator.add(found.take(np.lexsort((found.query, found.session))))
                    aggregator.flush()
            return aggregator.counts()


class _Reader:
    """Pieces of a log as rows of numbers; queries and documents are numbered in order of first appearance."""

    def __init__(self, table: Table, options: LogOptions) -> None:
        self.table, self.options, self.columns = table, options, options.found_in(table)
        self.queries: dict[str, int] = {}
        self.documents: dict[str, int] = {}
        self.n_rows = 0
        """Rows that were read last time."""

    def rows(self) -> Iterator[Rows]:
        """The rows of one piece after the other."""
        self.n_rows = 0
        used = dict.fromkeys(name for name in self.columns.values() if name is not None and name != NONE)
        for rows in self.table.pieces(list(used)):
            yield self._of(rows)
            self.n_rows += len(rows)

    def _column(self, rows: TableRows, role: str) -> Column:
        name = self.columns[role]
        assert name is not None
        return rows[name]

    def _of(self, rows: TableRows) -> Rows:
        c = self.columns
        if self._column(rows, "document").is_list:
            return self._of_lists(rows)
        if c["session"] is None:
            raise DataError(
                f"The log has no column {', '.join(_SESSION_NAMES)}; name what tells sessions apart by session= "
                "(luce clicks --session), or '-' if every row stands alone."
            )
        alone = c["session"] == NONE
        if alone and c["position"] is None:
            raise DataError(
                "A log without sessions needs a column of positions; name it by position= (luce clicks --position)."
            )
        propensity = c["propensity"]
        return Rows(
            None if alone else hashed(self._column(rows, "session")),
            self._queries(rows),
            self._column(rows, "document").numbered(self.documents),
            np.zeros(len(rows), dtype=np.int64) if c["position"] is None else self._position(rows),
            self._column(rows, "clicked").called("clicked").flags(_CLICKED).astype(np.float64),
            None
            if propensity is None
            else rows[propensity].called("the propensity").number("a probability", above=0, most=1),
        )

    def _queries(self, rows: TableRows) -> IntArray:
        if self.columns["query"] != NONE:
            return self._column(rows, "query").numbered(self.queries)
        self.queries.setdefault("all", 0)
        return np.zeros(len(rows), dtype=np.int64)

    def _of_lists(self, rows: TableRows) -> Rows:
        """One row a session: its lists laid end to end."""
        sizes, documents = self._column(rows, "document").lists()
        inside = np.repeat(np.arange(len(rows)), sizes)
        flat = documents.numbered(self.documents)
        starts = np.cumsum(sizes) - sizes
        for role in ("propensity", "position"):
            if getattr(self.options, role) is not None:
                raise DataError(f"A {role} goes with one row a shown document; here a row is a session with lists.")
        return Rows(
            (inside + rows.first).astype(np.uint64),
            self._queries(rows)[inside],
            flat,
            np.arange(len(flat)) - starts[inside] + 1,
            self._clicked_in_lists(self._column(rows, "clicked"), sizes, inside, flat),
            None,
        )

    def _clicked_in_lists(self, column: Column, sizes: IntArray, inside: IntArray, flat: IntArray) -> FloatArray:
        if not column.is_list:
            documents = self.columns["document"]
            raise DataError(f"{documents} holds lists and {self.columns['clicked']} none; give it lists, too.")
        lengths, values = column.lists()
        if (values.is_flag or values.is_number) and np.array_equal(lengths, sizes):
            numbers = values.number(_CLICKED)
            if np.isin(numbers, (0.0, 1.0)).all():
                return numbers
        named = values.numbered(self.documents)
        base = len(self.documents) + 1
        row = np.repeat(np.arange(len(lengths)), lengths)
        keys, shown = row * base + named, inside * base + flat
        stray = ~np.isin(keys, shown)
        if stray.any():
            at, code = divmod(int(keys[stray][0]), base)
            raise column.rows.error(
                at,
                f"document {list(self.documents)[code]!r} was clicked and not shown; {self.columns['clicked']} must "
                "hold 0 and 1, one a document, or documents of the list.",
            )
        return np.isin(shown, keys).astype(np.float64)

    def _position(self, rows: TableRows) -> IntArray:
        column = self._column(rows, "position").called("position")
        first, values = self.options.first_position, column.number("a whole number")
        wrong = ~((values >= first) & (values == np.floor(values)) & (values <= _FURTHEST))
        if wrong.any():
            bad = int(np.flatnonzero(wrong)[0])
            advice = f"a whole number, {first} at the top and at most {_FURTHEST:,}"
            if values[bad] == 0:
                advice += "; where the log counts from 0, say so by first_position=0 (luce clicks --first-position 0)"
            raise column.error(bad, f"is {values[bad]:g}; it must be {advice}.")
        return values.astype(np.int64) + (1 - first)
