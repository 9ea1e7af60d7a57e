"""Rows of a click log into counts: sessions are put together, checked, and added up batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.clicks.counts import ClickCounts, PairCounts
from luce.clicks.tally import MetSessions, Tally
from luce.errors import DataError
from luce.types import FloatArray, IntArray

_SPREAD = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a log as numbers; a session is a hash, `position=None` means the order of the rows."""

    session: NDArray[np.uint64]
    query: IntArray
    document: IntArray
    position: IntArray | None
    clicked: FloatArray
    propensity: FloatArray | None
    alone: bool
    names: Any

    def __len__(self) -> int:
        return len(self.session)

    def take(self, index: Any) -> Rows:
        """Some of the rows."""
        return replace(
            self,
            session=self.session[index],
            query=self.query[index],
            document=self.document[index],
            position=None if self.position is None else self.position[index],
            clicked=self.clicked[index],
            propensity=None if self.propensity is None else self.propensity[index],
        )

    @staticmethod
    def joined(parts: list[Rows]) -> Rows:
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        fields = ("session", "query", "document", "position", "clicked", "propensity")
        joint: dict[str, Any] = {
            name: None if getattr(parts[0], name) is None else np.concatenate([getattr(part, name) for part in parts])
            for name in fields
        }
        return replace(parts[-1], **joint)

    def of_part(self, part: int, parts: int) -> Rows:
        """The sessions of one of several parts, which are equally large but for chance."""
        if parts == 1:
            return self
        with np.errstate(over="ignore"):
            spread = (self.session * _SPREAD) >> np.uint64(40)
        return self.take(spread % np.uint64(parts) == part)

    @classmethod
    def sorted_by_session(cls, parts: list[Rows]) -> Rows:
        """All rows, those of a session side by side, in their order."""
        rows = cls.joined(parts)
        return rows.take(np.lexsort((rows.query, rows.session)))


class Aggregator:
    """Adds up rows; a session that a batch cuts waits for its rest."""

    def __init__(
        self, *, max_clicks: int | None, keep_first: bool, with_pairs: bool, last_position: int | None
    ) -> None:
        self.max_clicks, self.keep_first, self.with_pairs = max_clicks, keep_first, with_pairs
        self.last_position = last_position
        self.notes: list[str] = []
        self._waiting: Rows | None = None
        self._cells = Tally(width=4)
        self._pairs = {"with_shown": Tally(width=4), "both": Tally(width=5)}
        self._sessions = np.zeros(0)
        self._met = MetSessions()
        self._merged_rows = self._merged_clicks = self._robots = self._robot_clicks = self._repeated = self._below = 0
        self._names: Any = None
        self._alone = False

    def add(self, rows: Rows) -> None:
        """Count whole sessions, keep the last one."""
        if self._waiting is not None:
            rows = Rows.joined([self._waiting, rows])
        if rows.alone:
            self._waiting = None
            self._count(rows)
            return
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
        self._names, self._alone = rows.names, rows.alone
        starts = np.arange(len(rows)) if rows.alone else _starts(rows)
        if not rows.alone:
            with np.errstate(over="ignore"):
                mixed = rows.session[starts] * _SPREAD + rows.query[starts].astype(np.uint64)
            self._met.add(mixed)
        run = np.zeros(len(rows), dtype=np.int64)
        run[starts[1:]] = 1
        run = np.cumsum(run)
        if rows.position is None:
            rows = replace(rows, position=np.arange(len(rows)) - starts[run] + 1)
        assert rows.position is not None
        if not rows.alone:
            rows, run = self._tidy(rows, run)
        assert rows.position is not None
        if self.last_position is not None:
            keep = rows.position <= self.last_position
            self._below += int((~keep).sum())
            rows, run = rows.take(keep), run[keep]
        if not len(rows):
            return
        assert rows.position is not None
        starts = np.flatnonzero(np.diff(run, prepend=-1))
        run = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
        after = np.zeros(len(rows), dtype=np.int64) if rows.alone else _last_click(rows, starts[run])
        self._add_sessions(rows, starts)
        sums = [np.ones(len(rows)), rows.clicked]
        if rows.propensity is not None:
            inverse = 1.0 / rows.propensity
            sums += [inverse, inverse**2, rows.clicked * inverse, rows.clicked * inverse**2]
        self._cells.add(np.column_stack([rows.query, rows.document, rows.position, after]), np.column_stack(sums))
        if self.with_pairs and not rows.alone:
            for name, keys in _pair_keys(rows, run, starts).items():
                self._pairs[name].add(keys, np.ones((len(keys), 1)))

    def _tidy(self, rows: Rows, run: IntArray) -> tuple[Rows, IntArray]:
        """Sorted by position; equal rows merged, robots out, and what contradicts itself refused."""
        assert rows.position is not None
        if np.any((np.diff(run) == 0) & (np.diff(rows.position) < 0)):
            order = np.lexsort((rows.position, run))
            rows, run = rows.take(order), run[order]
        assert rows.position is not None
        same = (np.diff(run) == 0) & (np.diff(rows.position) == 0)
        if same.any():
            rows, run = self._merge(rows, run, same)
        rows, run = self._without_repeated(rows, run)
        if self.max_clicks is not None:
            clicks = np.bincount(run, rows.clicked)
            robot = clicks > self.max_clicks
            self._robots += int(robot.sum())
            self._robot_clicks += int(clicks[robot].sum())
            keep = ~robot[run]
            rows, run = rows.take(keep), run[keep]
        return rows, run

    def _merge(self, rows: Rows, run: IntArray, same: NDArray[np.bool_]) -> tuple[Rows, IntArray]:
        assert rows.position is not None
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
        self._merged_rows += int(same.sum())
        self._merged_clicks += int((same & (np.diff(rows.clicked) != 0)).sum())
        firsts = np.flatnonzero(np.append(True, ~same))
        clicked = np.maximum.reduceat(rows.clicked, firsts)
        return replace(rows.take(firsts), clicked=clicked), run[firsts]

    def _without_repeated(self, rows: Rows, run: IntArray) -> tuple[Rows, IntArray]:
        order = np.lexsort((rows.document, run))
        again = np.flatnonzero((np.diff(run[order]) == 0) & (np.diff(rows.document[order]) == 0))
        if not len(again):
            return rows, run
        if not self.keep_first:
            at = int(order[again[0] + 1])
            raise DataError(
                f"Document {self._document(rows, at)} stands twice in one session of query {self._query(rows, at)}; "
                "a session shows it once: mend the log, or keep the upper one by repeated='first' (luce clicks "
                "--repeated first)."
            )
        self._repeated += len(again)
        keep = np.ones(len(rows), dtype=bool)
        keep[order[again + 1]] = False
        return rows.take(keep), run[keep]

    def _document(self, rows: Rows, at: int) -> str:
        return repr(str(rows.names.documents.texts[rows.document[at]]))

    def _query(self, rows: Rows, at: int) -> str:
        return repr(str(rows.names.queries.texts[rows.query[at]]))

    def _add_sessions(self, rows: Rows, starts: IntArray) -> None:
        count = np.bincount(rows.query[starts]).astype(np.float64)
        if len(count) > len(self._sessions):
            self._sessions = np.append(self._sessions, np.zeros(len(count) - len(self._sessions)))
        self._sessions[: len(count)] += count

    def counts(self) -> ClickCounts:
        """Everything that was added."""
        table = self._cells.table()
        if not len(table):
            left_out = "".join(f" {note}" for note in self._all_notes(np.empty(0)))
            raise DataError(f"The log shows no document; at least one impression is needed.{left_out}")
        query, document = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
        new = np.append(True, (np.diff(query) != 0) | (np.diff(document) != 0))
        number = np.cumsum(new) - 1
        firsts = np.flatnonzero(new)
        queries, sizes = np.unique(query[firsts], return_counts=True)
        counts = ClickCounts(
            query_ids=self._names.queries.texts[queries],
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            document_ids=self._names.documents.texts[document[firsts]],
            sessions=self._sessions[queries],
            document=number,
            position=table[:, 2].astype(np.int64),
            after=table[:, 3].astype(np.int64),
            shown=np.ascontiguousarray(table[:, 4]),
            clicked=np.ascontiguousarray(table[:, 5]),
            propensity_sums=np.ascontiguousarray(table[:, 6:]) if table.shape[1] > 6 else None,
            pairs=self._pair_counts(query[firsts], document[firsts]) if self.with_pairs and not self._alone else None,
            notes=tuple(self._all_notes(np.unique(table[:, 2]))),
        )
        if self._alone:  # each position was shown once an impression
            at = counts.document_query[counts.document] * (counts.position.max() + 1) + counts.position
            most = np.bincount(at, counts.shown, minlength=counts.n_queries * (counts.position.max() + 1))
            counts = replace(counts, sessions=most.reshape(counts.n_queries, -1).max(axis=1))
        return counts

    def _all_notes(self, positions: FloatArray) -> list[str]:
        notes = list(self.notes)
        if self._merged_rows:
            notes.append(f"{self._merged_rows:,} rows repeat session, document and position and were counted once.")
        if self._merged_clicks:
            notes.append(f"{self._merged_clicks:,} of these rows differ in the click, which was counted.")
        if self._repeated:
            notes.append(f"{self._repeated:,} rows repeat a document of their session further down and were left out.")
        if self._robots:
            notes.append(
                f"{self._robots:,} sessions with more than {self.max_clicks} clicks ({self._robot_clicks:,} clicks) "
                "were left out."
            )
        if self._below:
            notes.append(f"{self._below:,} rows stand below position {self.last_position} and were left out.")
        gaps = np.setdiff1d(np.arange(1, positions.max(initial=0) + 1), positions).astype(int)
        if len(gaps):
            listed = ", ".join(map(str, gaps[:5])) + (", ..." if len(gaps) > 5 else "")
            notes.append(f"No row shows position {listed}; examination is told for the positions that are there.")
        return notes

    def _pair_counts(self, query: IntArray, document: IntArray) -> PairCounts:
        """With documents numbered as in the counts."""
        base = int(document.max()) + 1
        keys = query * base + document  # ascending: cells are sorted by query and document

        def numbers(table: FloatArray, column: int) -> IntArray:
            wanted = table[:, 0].astype(np.int64) * base + table[:, column].astype(np.int64)
            return np.searchsorted(keys, wanted)

        shown = self._pairs["with_shown"].table()
        both = self._pairs["both"].table()
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
    new = (rows.session[1:] != rows.session[:-1]) | (rows.query[1:] != rows.query[:-1])
    return np.flatnonzero(np.append(True, new))


def _last_click(rows: Rows, start: IntArray) -> IntArray:
    """The position of the last click above each row, 0 where there is none; its session begins at row `start`."""
    assert rows.position is not None
    index = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(rows.clicked > 0, index, -1))
    above = np.append(-1, last[:-1])
    return np.where(above >= start, rows.position[np.maximum(above, 0)], 0)


def _pair_keys(rows: Rows, run: IntArray, starts: IntArray) -> dict[str, IntArray]:
    """(query, clicked, at, other) for a click beside what was shown, (query, first, at, second, at) for two clicks."""
    assert rows.position is not None
    longest = int(np.diff(np.append(starts, len(rows))).max(initial=0))
    shown, both = [np.empty((0, 4), dtype=np.int64)], [np.empty((0, 5), dtype=np.int64)]
    clicked = rows.clicked > 0
    for lag in range(1, longest):
        upper = np.flatnonzero(run[lag:] == run[:-lag])
        for one, other in ((upper, upper + lag), (upper + lag, upper)):
            at = clicked[one]
            a, b = one[at], other[at]
            shown.append(np.column_stack([rows.query[a], rows.document[a], rows.position[a], rows.document[b]]))
        a = upper[clicked[upper] & clicked[upper + lag]]
        b = a + lag
        swap = rows.document[a] > rows.document[b]
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        both.append(
            np.column_stack([rows.query[a], rows.document[a], rows.position[a], rows.document[b], rows.position[b]])
        )
    return {"with_shown": np.concatenate(shown), "both": np.concatenate(both)}
