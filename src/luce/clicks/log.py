"""Click logs as people have them, read once and in bounded memory into counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luce.checks import is_whole
from luce.clicks.aggregate import Aggregator, Rows
from luce.clicks.batches import batches, column_names
from luce.clicks.columns import BadEntry, Codes, entries, hashed, is_lists, numbers
from luce.clicks.counts import KIND, ClickCounts, load_counts
from luce.clicks.ubi import ubi_sessions
from luce.data.readers.border import border
from luce.errors import DataError, SettingError
from luce.storage import container_kind
from luce.types import FloatArray, IntArray

NONE = "-"
"""As the name of a column: the log has none."""
_SORTED_ROWS = 1 << 24
"""Rows that are sorted at a time where those of a session stand apart: about a gigabyte."""
_FURTHEST = 999_999
"""Positions further down are a mistake."""
_SESSION_NAMES = ("session", "impression", "session_id")


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

    A log has one row a shown document (Parquet, CSV, JSON lines, compressed or not, a data frame or a mapping), or one
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
        names = column_names(log)
        columns = columns.found_in(names, str(log) if isinstance(log, str | Path) else "The log")
        said = ["The column 'propensity' was not used; name it by propensity= (--propensity)."]
        said = said if propensity is None and "propensity" in names else []
        reader = _Reader(log, columns)
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

    def found_in(self, names: list[str], where: str) -> _Columns:
        """The same with the defaults that the log has, or an error that names what is missing."""
        session = self.session
        if session is None:
            session = next((name for name in _SESSION_NAMES if name in names), None)
        position = self.position
        if position is None and "position" in names:
            position = "position"
        wanted = {"query": self.query, "document": self.document, "clicked": self.clicked}
        wanted |= {"session": session or NONE, "position": position or NONE, "propensity": self.propensity or NONE}
        for role, name in wanted.items():
            if name != NONE and name not in names:
                raise DataError(
                    f"{where} has no column {name!r}; it has {', '.join(names)}: name the one that holds the {role} by "
                    f"{role}= (luce clicks --{role.replace('document', 'doc')})"
                    + (", or '-' if there is none." if role in ("session", "query") else ".")
                )
        return replace(self, session=session, position=None if position == NONE else position)

    @property
    def used(self) -> list[str]:
        """All that are to be read."""
        wanted = (self.session, self.query, self.document, self.position, self.clicked, self.propensity)
        return list(dict.fromkeys(name for name in wanted if name is not None and name != NONE))


class _Reader:
    """Batches of a log as rows of numbers."""

    def __init__(self, log: Any, columns: _Columns) -> None:
        self.log, self.columns = log, columns
        self.queries, self.documents = Codes(), Codes()
        self._first_row = 0

    @property
    def n_rows(self) -> int:
        """Rows that were read last time."""
        return self._first_row

    def rows(self) -> Iterator[Rows]:
        """The rows of one batch after the other."""
        self._first_row = 0
        for batch in batches(self.log, self.columns.used):
            if batch.num_rows:
                yield self._of(batch)
                self._first_row += batch.num_rows

    def _of(self, batch: Any) -> Rows:
        c = self.columns
        documents = self._column(batch, c.document)
        if is_lists(documents):
            return self._of_lists(batch, documents)
        if c.session is None:
            raise DataError(
                f"The log has no column {', '.join(_SESSION_NAMES)}; name what tells sessions apart by session= "
                "(luce clicks --session), or '-' if every row stands alone."
            )
        n = batch.num_rows
        query = np.zeros(n, dtype=np.int64) if c.query == NONE else self.queries.of(self._column(batch, c.query))
        if c.query == NONE:
            self.queries.number.setdefault("all", 0)
        if c.session == NONE:
            session = np.arange(self._first_row, self._first_row + n).astype(np.uint64)
        else:
            session = hashed(self._column(batch, str(c.session)))
        position = None
        if c.position is not None:
            position = self._position(self._numbers(batch, c.position, "position", "a whole number"))
        elif c.session == NONE:
            raise DataError(
                "A log without sessions needs a column of positions; name it by position= (luce clicks --position)."
            )
        return Rows(
            session=session,
            query=query,
            document=self.documents.of(documents),
            position=position,
            clicked=self._clicked(batch, c.clicked),
            propensity=None if c.propensity is None else self._propensity(batch, c.propensity),
            alone=c.session == NONE,
            names=_Names(self.queries, self.documents),
        )

    def _of_lists(self, batch: Any, documents: Any) -> Rows:
        """One row a session: its lists laid end to end."""
        import pyarrow.compute as pc

        c = self.columns
        sizes = pc.list_value_length(documents).to_numpy(zero_copy_only=False).astype(np.int64)
        inside = np.repeat(np.arange(batch.num_rows), sizes)
        flat = self.documents.of(self._in_lists(documents, c.document, inside))
        starts = np.cumsum(sizes) - sizes
        query = np.zeros(batch.num_rows, dtype=np.int64)
        if c.query == NONE:
            self.queries.number.setdefault("all", 0)
        else:
            query = self.queries.of(self._column(batch, c.query))
        for role, name in (("propensity", c.propensity), ("position", c.given_position)):
            if name is not None:
                raise DataError(f"A {role} goes with one row a shown document; here a row is a session with lists.")
        return Rows(
            session=(inside + self._first_row).astype(np.uint64),
            query=query[inside],
            document=flat,
            position=np.arange(len(flat)) - starts[inside] + 1,
            clicked=self._clicked_in_lists(self._column(batch, c.clicked), sizes, inside, flat),
            propensity=None,
            alone=False,
            names=_Names(self.queries, self.documents),
        )

    def _clicked_in_lists(self, column: Any, sizes: IntArray, inside: IntArray, flat: IntArray) -> FloatArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not is_lists(column):
            raise DataError(f"{self.columns.document} holds lists and {self.columns.clicked} none; give it lists, too.")
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
        values = self._in_lists(column, self.columns.clicked, np.repeat(np.arange(len(lengths)), lengths))
        flags = pa.types.is_boolean(values.type) or pa.types.is_integer(values.type) or pa.types.is_null(values.type)
        if flags and np.array_equal(lengths, sizes):
            numbers = pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)
            if np.isin(numbers, (0.0, 1.0)).all():
                result: FloatArray = numbers.astype(np.float64)
                return result
        named = self.documents.of(values) if len(values) else np.empty(0, dtype=np.int64)
        base = len(self.documents.number) + 1
        keys = np.repeat(np.arange(len(lengths)), lengths) * base + named
        shown = inside * base + flat
        stray = ~np.isin(keys, shown)
        if stray.any():
            row, code = divmod(int(keys[stray][0]), base)
            raise DataError(
                f"Row {self._first_row + row}: document {str(self.documents.texts[code])!r} was clicked and not shown; "
                f"{self.columns.clicked} must hold 0 and 1, one a document, or documents of the list."
            )
        return np.isin(shown, keys).astype(np.float64)

    def _in_lists(self, column: Any, name: str, inside: IntArray) -> Any:
        """The entries of lists, end to end; `inside` is the row of each."""
        import pyarrow as pa
        import pyarrow.compute as pc

        flat = pc.list_flatten(column)
        try:
            return entries(pa.record_batch([flat], names=[name]), name)
        except BadEntry as bad:
            raise self._error(int(inside[bad.row]), f"an entry of {bad.message}") from None

    def _column(self, batch: Any, name: str) -> Any:
        try:
            return entries(batch, name)
        except BadEntry as bad:
            raise self._error(bad.row, bad.message) from None

    def _numbers(self, batch: Any, name: str, what: str, allowed: str) -> FloatArray:
        try:
            return numbers(self._column(batch, name), what, allowed)
        except BadEntry as bad:
            raise self._error(bad.row, bad.message) from None

    def _position(self, values: FloatArray) -> IntArray:
        first = self.columns.first_position
        wrong = ~((values >= first) & (values == np.floor(values)) & (values <= _FURTHEST))
        if wrong.any():
            bad = int(np.flatnonzero(wrong)[0])
            advice = f"a whole number, {first} at the top and at most {_FURTHEST:,}"
            if values[bad] == 0:
                advice += "; where the log counts from 0, say so by first_position=0 (luce clicks --first-position 0)"
            raise self._error(bad, f"position is {values[bad]:g}; it must be {advice}.")
        return values.astype(np.int64) + (1 - first)

    def _clicked(self, batch: Any, name: str) -> FloatArray:
        values = self._numbers(batch, name, "clicked", "0 or 1, or true or false")
        wrong = (values != 0) & (values != 1)
        if wrong.any():
            bad = int(np.flatnonzero(wrong)[0])
            raise self._error(bad, f"clicked is {values[bad]:g}; it must be 0 or 1.")
        return values

    def _propensity(self, batch: Any, name: str) -> FloatArray:
        values = self._numbers(batch, name, "the propensity", "a probability")
        wrong = ~((values > 0) & (values <= 1))
        if wrong.any():
            bad = int(np.flatnonzero(wrong)[0])
            raise self._error(
                bad, f"the propensity is {values[bad]:g}; a document that was shown had a probability in (0, 1]."
            )
        return values

    def _error(self, row: int, message: str) -> DataError:
        where = f"{self.log}, row" if isinstance(self.log, str | Path) else "Row"
        return DataError(f"{where} {self._first_row + row}: {message}")


class _Names(NamedTuple):
    """Names of queries and documents by their numbers, for messages and results."""

    queries: Codes
    documents: Codes
