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
from luce.clicks.counts import KIND, ClickCounts, load_counts
from luce.clicks.ubi import ubi_sessions
from luce.data.readers.border import border
from luce.errors import DataError, SettingError
from luce.storage import container_kind
from luce.types import FloatArray, IntArray

__all__ = ["NONE", "read"]

NONE = "-"
"""As the name of a column: the log has none."""
_SORTED_ROWS = 1 << 24
"""Rows that are sorted at a time where those of a session stand apart: about a gigabyte."""
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
    repeated
        What to do with a document that stands at two positions of a session: "error", or "first" to keep the upper.
    pairs
        Also count what happened to two documents in one session (needed by `luce.clicks.pairs`).

    >>> log = {"session": [1, 1, 2, 2], "query": ["q"] * 4, "document": ["a", "b", "b", "a"],
    ...        "position": [1, 2, 1, 2], "clicked": [1, 0, 1, 1]}
    >>> read(log)
    ClickCounts(2 sessions, 1 queries, 2 documents, 3 clicks at 2 positions)
    """
    if isinstance(log, str | Path) and Path(log).is_file() and container_kind(log) == KIND:
        return load_counts(log)
    if isinstance(log, ClickCounts):
        return log
    if first_position not in (0, 1):
        raise SettingError(f"first_position is {first_position!r}; it must be 1 or 0.")
    if repeated not in ("error", "first"):
        raise SettingError(f"repeated={repeated!r}: it must be 'error' or 'first'.")
    if max_clicks is not None and not is_whole(max_clicks, 1):
        raise SettingError(f"max_clicks is {max_clicks!r}; it must be a whole number of at least 1.")
    columns = _Columns(session, query, document, position, clicked, propensity, first_position)
    if events is not None:
        log = ubi_sessions(log, events)
        columns = replace(columns, session=NONE, query="query", document="documents", clicked="clicked")
    with border(log) if isinstance(log, str | Path) else nullcontext():
        columns = columns.found_in(column_names(log), str(log) if isinstance(log, str | Path) else "The log")
        reader = _Reader(log, columns)
        rules: dict[str, Any] = {"max_clicks": max_clicks, "keep_first": repeated == "first", "with_pairs": pairs}
        with closing(Aggregator(**rules)) as aggregator:
            for rows in reader.rows():
                aggregator.add(rows)
            aggregator.flush()
            if not aggregator.sessions_are_apart():
                return aggregator.counts()
        with closing(Aggregator(**rules)) as aggregator:
            aggregator.notes.append(_add_sorted(aggregator, reader))
            return aggregator.counts()


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

    session: str | None
    query: str
    document: str
    position: str | None
    clicked: str
    propensity: str | None
    first_position: int

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
                    f"{role}= (--{role.replace('document', 'doc')})"
                    + (", or '-' if there is none." if role in ("session", "query") else ".")
                )
        return replace(self, session=session, position=None if position == NONE else position)

    @property
    def used(self) -> list[str]:
        """All that are to be read."""
        wanted = (self.session, self.query, self.document, self.position, self.clicked, self.propensity)
        return list(dict.fromkeys(name for name in wanted if name is not None and name != NONE))


class _Codes:
    """Numbers for texts, in order of first appearance."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def of(self, column: Any) -> IntArray:
        """The number of every entry of an Arrow array."""
        import pyarrow as pa
        import pyarrow.compute as pc

        encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
        if pa.types.is_floating(encoded.dictionary.type):  # 12.0 is the id 12
            whole = pc.cast(encoded.dictionary, pa.int64(), safe=False)
            same = pc.all(pc.equal(pc.cast(whole, encoded.dictionary.type), encoded.dictionary)).as_py()
            texts = pc.cast(whole if same else encoded.dictionary, pa.string())
        else:
            texts = pc.cast(encoded.dictionary, pa.string())
        known = self.number
        mapped = np.array([known.setdefault(text, len(known)) for text in texts.to_pylist()], dtype=np.int64)
        result: IntArray = mapped[encoded.indices.to_numpy(zero_copy_only=False)]
        return result

    @property
    def texts(self) -> np.ndarray[Any, Any]:
        """The texts, by number."""
        return np.array(list(self.number), dtype=object)


class _Reader:
    """Batches of a log as rows of numbers."""

    def __init__(self, log: Any, columns: _Columns) -> None:
        self.log, self.columns = log, columns
        self.queries, self.documents = _Codes(), _Codes()
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
        import pyarrow as pa

        c = self.columns
        documents = self._column(batch, c.document)
        if pa.types.is_list(documents.type) or pa.types.is_large_list(documents.type):
            return self._of_lists(batch, documents)
        if c.session is None:
            raise DataError(
                f"The log has no column {', '.join(_SESSION_NAMES)}; name what tells sessions apart by session= "
                "(--session), or '-' if every row stands alone."
            )
        n = batch.num_rows
        query = np.zeros(n, dtype=np.int64) if c.query == NONE else self.queries.of(self._column(batch, c.query))
        if c.query == NONE:
            self.queries.number.setdefault("all", 0)
        if c.session == NONE:
            session = np.arange(self._first_row, self._first_row + n).astype(np.uint64)
        else:
            session = _hashed(self._column(batch, str(c.session)))
        position = None
        if c.position is not None:
            position = self._position(self._numbers(batch, c.position, "position", "a whole number"))
        elif c.session == NONE:
            raise DataError("A log without sessions needs a column of positions; name it by position= (--position).")
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
        flat = self.documents.of(pc.list_flatten(documents))
        starts = np.cumsum(sizes) - sizes
        query = np.zeros(batch.num_rows, dtype=np.int64)
        if c.query == NONE:
            self.queries.number.setdefault("all", 0)
        else:
            query = self.queries.of(self._column(batch, c.query))
        if c.propensity is not None:
            raise DataError("A propensity goes with one row a shown document; here a row is a session with lists.")
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

        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            raise DataError(f"{self.columns.document} holds lists and {self.columns.clicked} none; give it lists, too.")
        values = pc.list_flatten(column)
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        flags = pa.types.is_boolean(values.type) or pa.types.is_integer(values.type) or pa.types.is_null(values.type)
        if flags and np.array_equal(lengths, sizes):
            numbers = pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)
            if np.isin(numbers, (0.0, 1.0)).all():
                result: FloatArray = numbers.astype(np.float64)
                return result
        named = self.documents.of(pc.cast(values, pa.string())) if len(values) else np.empty(0, dtype=np.int64)
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

    def _column(self, batch: Any, name: str) -> Any:
        column = batch.column(name)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise self._error(row, f"{name} is empty; every row needs a value.")
        return column

    def _numbers(self, batch: Any, name: str, what: str, allowed: str) -> FloatArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._column(batch, name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            encoded = pc.dictionary_encode(column)  # few different texts: look at each once
            texts = [text.strip().lower() for text in encoded.dictionary.to_pylist()]
            values = np.array([_number(text) for text in texts])
            if np.isnan(values).any():
                bad = int(np.flatnonzero(np.isnan(values[encoded.indices.to_numpy(zero_copy_only=False)]))[0])
                raise self._error(bad, f"{what} is {column[bad].as_py()!r}; it must be {allowed}.")
            result: FloatArray = values[encoded.indices.to_numpy(zero_copy_only=False)]
            return result
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        result = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
        return result

    def _position(self, values: FloatArray) -> IntArray:
        first = self.columns.first_position
        wrong = ~((values >= first) & (values == np.floor(values)) & (values < 1e6))
        if wrong.any():
            bad = int(np.flatnonzero(wrong)[0])
            advice = "a whole number, 1 at the top"
            if values[bad] == 0:
                advice += "; where the log counts from 0, say so by first_position=0 (--first-position 0)"
            elif first == 0:
                advice = "a whole number, 0 at the top"
            raise self._error(bad, f"position is {values[bad]:g}; it must be {advice}.")
        return values.astype(np.int64) + (1 - first)

    def _clicked(self, batch: Any, name: str) -> FloatArray:
        values = self._numbers(batch, name, "clicked", "0 or 1")
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

    queries: _Codes
    documents: _Codes


def _number(text: str) -> float:
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(text)
    except ValueError:
        return np.nan


def _hashed(column: Any) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """64 bits for every entry of an Arrow array; equal entries have equal bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        result: np.ndarray[Any, np.dtype[np.uint64]] = (
            pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False).astype(np.uint64)
        )
        return result
    texts = pc.cast(column, pa.large_binary())
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


_PRIME = np.uint64(0x9E3779B97F4A7C15)
