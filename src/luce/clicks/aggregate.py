"""Rows of a click log into counts: sessions are put together, checked, and added up batch by batch."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.clicks.counts import ClickCounts, PairCounts, counted
from luce.errors import DataError
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

_MERGE_ROWS = 1 << 20
"""Rows that wait at least before they are merged."""
_BLOCK = 1 << 22
"""Sessions that are compared at a time."""
_SPREAD = np.uint64(0xBF58476D1CE4E5B9)
_SAID = {
    "merged": "{merged:,} rows repeat session, document and position and were counted once.",
    "differing": "{differing:,} of these rows differ in the click, which was counted.",
    "repeated": "{repeated:,} rows repeat a document of their session further down and were left out.",
    "robots": "{robots:,} sessions with more than {max_clicks} clicks ({robot_clicks:,} clicks) were left out.",
    "below": "{below:,} rows stand below position {last_position} and were left out.",
}
"""Notes on what was merged or left out."""


class Rows(NamedTuple):
    """Rows of a log as numbers, an array a column.

    A session is a hash, and its number in the batch once it is counted; None where every row stands alone. Positions
    are 0 where the order of the rows tells them.
    """

    session: Any
    query: IntArray
    document: IntArray
    position: IntArray
    clicked: FloatArray
    propensity: FloatArray | None

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.query)

    def take(self, index: Any) -> Rows:
        """Some of the rows."""
        return Rows(*(None if column is None else column[index] for column in self))  # type: ignore[arg-type]

    @staticmethod
    def joined(parts: list[Rows]) -> Rows:
        """One after the other."""
        columns = zip(*parts, strict=True)
        return Rows(*(None if each[0] is None else np.concatenate(each) for each in columns))  # type: ignore[arg-type]

    def of_part(self, part: int, parts: int) -> Rows:
        """The sessions of one of several parts, which are equally large but for chance."""
        if parts == 1 or self.session is None:
            return self
        with np.errstate(over="ignore"):
            spread = (self.session * _SPREAD) >> np.uint64(40)
        return self.take(spread % np.uint64(parts) == part)


class Tally:
    """Rows of keys with sums, added batch by batch; memory grows with the number of different keys alone.

    >>> tally = Tally(width=1)
    >>> for _ in range(2):
    ...     tally.add(np.array([[7], [3], [7]]), np.ones((3, 1)))
    >>> tally.table().tolist()
    [[3.0, 2.0], [7.0, 4.0]]
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._merged = np.empty((0, width + 1))
        self._waiting: list[FloatArray] = []

    def add(self, keys: IntArray, sums: FloatArray) -> None:
        """Add rows; they are merged when more wait than were merged before, so that each is moved few times."""
        self._waiting.append(added_up(keys, sums))
        if sum(map(len, self._waiting)) > max(_MERGE_ROWS, len(self._merged)):
            self.table()

    def table(self) -> FloatArray:
        """Every key once, in order, with its sums."""
        if self._waiting:
            joint = np.concatenate([self._merged, *self._waiting] if len(self._merged) else self._waiting)
            self._merged, self._waiting = added_up(joint[:, : self.width].astype(np.int64), joint[:, self.width :]), []
        return self._merged


def added_up(keys: IntArray, sums: FloatArray) -> FloatArray:
    """Rows of keys, each once and in order, with the sums of what stood beside them."""
    if not len(keys):
        return np.empty((0, keys.shape[1] + sums.shape[1]))
    most = keys.max(axis=0) + 1
    if np.prod(most, dtype=np.float64) < 2.0**62:  # one number a row is sorted faster than several
        order = np.argsort(np.ravel_multi_index(tuple(keys.T), tuple(most)), kind="stable")
    else:
        order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    firsts = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)))
    return np.column_stack([ordered[firsts], np.add.reduceat(sums[order], firsts)])


class MetSessions:
    """Whether a session was met twice, by 64 bits a session, which wait in a temporary file and are sorted there."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115

    def add(self, sessions: NDArray[np.uint64]) -> None:
        """Sessions that ended."""
        self._file.write(sessions.tobytes())

    def met_again(self) -> bool:
        """Whether one of them was added more than once."""
        self._file.flush()
        if not self._file.tell():
            return False
        met: Any = np.memmap(self._file, dtype=np.uint64, mode="r+")
        met.sort()
        blocks = (met[start : start + _BLOCK + 1] for start in range(0, len(met), _BLOCK))
        return any(bool(np.any(block[1:] == block[:-1])) for block in blocks)

    def close(self) -> None:
        """Delete the temporary file."""
        self._file.close()


class Aggregator:
    """Adds up rows; a session that a batch cuts waits for its rest.

    `options` are the rules of reading; `queries` and `documents` say the numbers of their names.
    """

    def __init__(
        self, options: Any, queries: dict[str, int], documents: dict[str, int], notes: list[str], *, with_pairs: bool
    ) -> None:
        self.options, self.queries, self.documents, self.with_pairs = options, queries, documents, with_pairs
        self.notes = notes
        self._waiting: Rows | None = None
        self._cells = Tally(width=4)
        self._pairs = {"with_shown": Tally(width=4), "both": Tally(width=5)}
        self._sessions = np.zeros(0)
        self._met = MetSessions()
        self._done: Counter[str] = Counter()
        """How often each of `_SAID` was done."""
        self._alone = False

    def add(self, rows: Rows) -> None:
        """Count whole sessions, keep the last one."""
        if rows.session is None:
            self._count(rows)
            return
        if self._waiting is not None:
            rows = Rows.joined([self._waiting, rows])
        first = _starts(rows)[-1]
        self._waiting = rows.take(slice(first, None))
        if first:
            self._count(rows.take(slice(0, first)))

    def flush(self) -> None:
        """Count the session that is left."""
        if self._waiting is not None:
            self._count(self._waiting)
            self._waiting = None

    def sessions_are_apart(self) -> bool:
        """Whether a session was met again after it had ended."""
        return not self._alone and self._met.met_again()

    def close(self) -> None:
        """Delete what waits in a temporary file."""
        self._met.close()

    def _count(self, rows: Rows) -> None:
        self._alone = rows.session is None
        starts = _starts(rows)
        if not self._alone:
            with np.errstate(over="ignore"):
                self._met.add(rows.session[starts] * _SPREAD + rows.query[starts].astype(np.uint64))
        rows = rows._replace(session=query_index(np.append(starts, rows.size)))
        if not rows.position.any():
            rows = rows._replace(position=np.arange(rows.size) - starts[rows.session] + 1)
        if not self._alone:
            rows = self._tidy(rows)
        if self.options.last_position is not None:
            keep = rows.position <= self.options.last_position
            self._done["below"] += int((~keep).sum())
            rows = rows.take(keep)
        if not rows.size:
            return
        starts = np.flatnonzero(np.diff(rows.session, prepend=-1))
        count = np.bincount(rows.query[starts], minlength=len(self._sessions)).astype(np.float64)
        count[: len(self._sessions)] += self._sessions
        self._sessions = count
        sums = [np.ones(rows.size), rows.clicked]
        if rows.propensity is not None:
            inverse = 1.0 / rows.propensity
            sums += [inverse, inverse**2, rows.clicked * inverse, rows.clicked * inverse**2]
        # The position of the last click above each row of its session, 0 where there is none.
        last = np.maximum.accumulate(np.where(rows.clicked > 0, np.arange(rows.size), -1))
        above = np.append(-1, last[:-1])
        after = np.where(
            above >= starts[query_index(np.append(starts, rows.size))], rows.position[np.maximum(above, 0)], 0
        )
        self._cells.add(np.column_stack([rows.query, rows.document, rows.position, after]), np.column_stack(sums))
        if self.with_pairs and not self._alone:
            for name, keys in _pair_keys(rows, starts).items():
                self._pairs[name].add(keys, np.ones((len(keys), 1)))

    def _tidy(self, rows: Rows) -> Rows:
        """Sorted by position; equal rows merged, robots out, and what contradicts itself refused."""
        if np.any((np.diff(rows.session) == 0) & (np.diff(rows.position) < 0)):
            rows = rows.take(np.lexsort((rows.position, rows.session)))
        same = (np.diff(rows.session) == 0) & (np.diff(rows.position) == 0)
        if same.any():
            rows = self._merged(rows, same)
        keep = self._not_repeated(rows)
        if self.options.max_clicks is not None:
            clicks = np.bincount(rows.session, rows.clicked * keep)
            robot = clicks > self.options.max_clicks
            self._done["robots"] += int(robot.sum())
            self._done["robot_clicks"] += int(clicks[robot].sum())
            keep &= ~robot[rows.session]
        return rows if keep.all() else rows.take(keep)

    def _merged(self, rows: Rows, same: NDArray[np.bool_]) -> Rows:
        differ = same & (np.diff(rows.document) != 0)
        if differ.any():
            at = int(np.flatnonzero(differ)[0])
            raise DataError(
                f"Documents {self._document(rows, at)} and {self._document(rows, at + 1)} have the same position, "
                f"{rows.position[at]}, in one session of query {self._query(rows, at)}; a position shows one document: "
                "give the column that tells impressions apart as session= (luce clicks --session)."
            )
        differ = same & (np.diff(rows.propensity) != 0) if rows.propensity is not None else differ
        if differ.any():
            at = int(np.flatnonzero(differ)[0])
            raise DataError(
                f"Document {self._document(rows, at)} has two propensities at position {rows.position[at]} of one "
                f"session of query {self._query(rows, at)}; it was shown there with one: mend the log."
            )
        self._done["merged"] += int(same.sum())
        self._done["differing"] += int((same & (np.diff(rows.clicked) != 0)).sum())
        firsts = np.flatnonzero(np.append(True, ~same))
        return rows.take(firsts)._replace(clicked=np.maximum.reduceat(rows.clicked, firsts))

    def _not_repeated(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows are the first of their document in their session."""
        order = np.lexsort((rows.document, rows.session))
        equal = (np.diff(rows.session[order]) == 0) & (np.diff(rows.document[order]) == 0)
        again = order[np.flatnonzero(equal) + 1]
        if len(again) and self.options.repeated == "error":
            at = int(again[0])
            raise DataError(
                f"Document {self._document(rows, at)} stands twice in one session of query {self._query(rows, at)}; "
                "a session shows it once: mend the log, or keep the upper one by repeated='first' (luce clicks "
                "--repeated first)."
            )
        self._done["repeated"] += len(again)
        keep = np.ones(rows.size, dtype=bool)
        keep[again] = False
        return keep

    def _document(self, rows: Rows, at: int) -> str:
        return repr(list(self.documents)[rows.document[at]])

    def _query(self, rows: Rows, at: int) -> str:
        return repr(list(self.queries)[rows.query[at]])

    def counts(self) -> ClickCounts:
        """Everything that was added."""
        table = self._cells.table()
        if not len(table):
            left_out = "".join(f" {note}" for note in self._all_notes(np.empty(0)))
            raise DataError(f"The log shows no document; at least one impression is needed.{left_out}")
        queries, documents = (np.array(list(n), dtype=object) for n in (self.queries, self.documents))
        pairs = self._pair_counts(table) if self.with_pairs and not self._alone else None
        notes = tuple(self._all_notes(np.unique(table[:, 2])))
        counts = replace(counted(table, queries, documents, self._sessions), pairs=pairs, notes=notes)
        if self._alone:  # each position was shown once an impression
            at = counts.document_query[counts.document] * (counts.position.max() + 1) + counts.position
            most = np.bincount(at, counts.shown, minlength=counts.n_queries * (counts.position.max() + 1))
            counts = replace(counts, sessions=most.reshape(counts.n_queries, -1).max(axis=1))
        return counts

    def _all_notes(self, positions: FloatArray) -> list[str]:
        facts = {**self.options.settings, **self._done}
        notes = self.notes + [text.format_map(facts) for name, text in _SAID.items() if self._done[name]]
        gaps = np.setdiff1d(np.arange(1, positions.max(initial=0) + 1), positions).astype(int)
        if len(gaps):
            listed = ", ".join(map(str, gaps[:5])) + (", ..." if len(gaps) > 5 else "")
            notes.append(f"No row shows position {listed}; examination is told for the positions that are there.")
        return notes

    def _pair_counts(self, cells: FloatArray) -> PairCounts:
        """With documents numbered as in the counts."""
        query, document = cells[:, :2].astype(np.int64).T
        base = int(document.max()) + 1
        keys = np.unique(query * base + document)

        def numbers(table: FloatArray, column: int) -> IntArray:
            wanted = table[:, 0].astype(np.int64) * base + table[:, column].astype(np.int64)
            return np.searchsorted(keys, wanted)

        shown, both = (self._pairs[name].table() for name in ("with_shown", "both"))
        return PairCounts(
            clicked=numbers(shown, 1),
            clicked_at=shown[:, 2].astype(np.int64),
            other=numbers(shown, 3),
            with_shown=np.ascontiguousarray(shown[:, 4]),
            first=numbers(both, 1),
            first_at=both[:, 2].astype(np.int64),
            second=numbers(both, 3),
            second_at=both[:, 4].astype(np.int64),
            both=np.ascontiguousarray(both[:, 5]),
        )


def _starts(rows: Rows) -> IntArray:
    """Where sessions start: the session or the query is another one than in the row before."""
    if rows.session is None:
        return np.arange(rows.size)
    new = (rows.session[1:] != rows.session[:-1]) | (rows.query[1:] != rows.query[:-1])
    return np.flatnonzero(np.append(True, new))


def _pair_keys(rows: Rows, starts: IntArray) -> dict[str, IntArray]:
    """(query, clicked, at, other) for a click beside what was shown, (query, first, at, second, at) for two clicks."""
    run, position = rows.session, rows.position
    longest = int(np.diff(np.append(starts, rows.size)).max(initial=0))
    shown, both = [np.empty((0, 4), dtype=np.int64)], [np.empty((0, 5), dtype=np.int64)]
    clicked = rows.clicked > 0
    for lag in range(1, longest):
        upper = np.flatnonzero(run[lag:] == run[:-lag])
        for one, other in ((upper, upper + lag), (upper + lag, upper)):
            at = clicked[one]
            a, b = one[at], other[at]
            shown.append(np.column_stack([rows.query[a], rows.document[a], position[a], rows.document[b]]))
        a = upper[clicked[upper] & clicked[upper + lag]]
        b = a + lag
        swap = rows.document[a] > rows.document[b]
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        both.append(np.column_stack([rows.query[a], rows.document[a], position[a], rows.document[b], position[b]]))
    return {"with_shown": np.concatenate(shown), "both": np.concatenate(both)}
