"""Simulated click logs: production rankers show lists, users of several kinds click; as rows or directly as counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from luce.checks import fits_in_memory, one_of, whole
from luce.clicks.aggregate import added_up
from luce.clicks.counts import ClickCounts, counted
from luce.data.clicks import SessionRows
from luce.data.groups import Groups
from luce.data.late import arrow_csv, pa, pq
from luce.data.named_rows import NO_IDS
from luce.data.trec import ranks
from luce.errors import DataError, SettingError
from luce.numerics.segments import differing, query_index
from luce.result import check_ending
from luce.spec import Spec, option
from luce.storage import atomic_write
from luce.types import FloatArray, IntArray

KINDS = ("position", "trust", "cascade")


class Users(Spec):
    r"""A kind of users, and how fast their attention falls.

    Examination of position $k$ is $\theta_k = k^{-\eta}$.

    - "position": a click with probability $\theta_k \gamma_d$, independently;
    - "trust": $\theta_k (\gamma_d + (1 - \gamma_d)\, \tau / k)$: what stands high is clicked for that alone;
    - "cascade": from the top down, clicking what is looked at with probability $\gamma_d$; on from $k$ with probability
      $(k / (k + 1))^\eta$, times `after_click` after a click.
    """

    kind: str = option(default="position", convert=lambda _, kind: one_of("users", kind, KINDS))
    eta: float = option(default=1.0, least=0)
    trust: float = option(default=0.3, least=0, most=1)
    after_click: float = option(default=0.5, least=0, most=1)

    @property
    def stop(self) -> bool:
        """Whether they go down the list and stop."""
        return self.kind == "cascade"

    def theta(self, positions: FloatArray) -> FloatArray:
        """Examination of positions, the first 1."""
        return np.asarray(positions, dtype=np.float64) ** -self.eta

    def chance(self, k: int, attracted: FloatArray) -> FloatArray:
        """Probability of a click at position k; for cascading users, given that they got there."""
        if self.kind == "cascade":
            return attracted
        looked = float(k) ** -self.eta
        if self.kind == "trust":
            attracted = attracted + (1.0 - attracted) * self.trust / k
        return np.asarray(looked * attracted)

    def goes_on(self, k: int, clicked: bool) -> float:
        """Probability that a cascading user who is at position k looks at the next one."""
        return float((k / (k + 1)) ** self.eta) * (self.after_click if clicked else 1.0)


def attraction(grades: FloatArray, noise: float = 0.1) -> FloatArray:
    r"""How likely one who looks at a document clicks it, $\epsilon + (1 - \epsilon)(2^y - 1)/(2^{y_{\max}} - 1)$.

    >>> attraction(np.array([0.0, 1.0, 2.0])).round(12).tolist()
    [0.1, 0.4, 1.0]
    """
    if not 0 <= noise <= 1:
        raise SettingError(f"noise is {noise}; it must be between 0 and 1.")
    above = grades - grades.min()
    return np.asarray(noise + (1 - noise) * (np.exp2(above) - 1) / max(float(np.exp2(above.max()) - 1), 1.0))


@dataclass(frozen=True, eq=False)
class Production:
    """What the search engine shows: the first documents of each ranker, in their order, with random swaps.

    In a session one of the rankers is drawn, and one of two ways to pair neighbours, (1, 2), (3, 4), ... or (2, 3),
    (4, 5), ...; each pair is swapped with probability `swap`.
    """

    lists: IntArray
    """(rankers, queries, shown) rows of the documents, -1 where a query has fewer."""
    swap: float

    @property
    def shown(self) -> int:
        """Positions."""
        return int(self.lists.shape[2])


def production(data: Groups, scores: Sequence[FloatArray], *, shown: int = 10, swap: float = 0.1) -> Production:
    """The lists of some rankers, given by their scores of all rows."""
    whole("shown", shown, 2)
    if not 0 <= swap <= 1:
        raise SettingError(f"swap is {swap}; it must be between 0 and 1.")
    if not len(scores):
        raise SettingError("No ranker was given; a production needs the scores of at least one.")
    cells = len(scores) * data.n_queries * shown
    fits_in_memory(8.0 * cells, f"Lists of {shown:,} positions for {data.n_queries:,} queries", "show fewer")
    query = query_index(data.offsets)
    lists = np.full((len(scores), data.n_queries, shown), -1, dtype=np.int64)
    for ranker, values in enumerate(scores):
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (data.n_rows,) or not np.isfinite(values).all():
            raise DataError(f"Ranker {ranker + 1} needs {data.n_rows} finite scores, one a row.")
        place = ranks(values, data.offsets) - 1
        top = np.flatnonzero(place < shown)
        lists[ranker, query[top], place[top]] = top
    return Production(lists, swap)


def weak_rankers(data: Groups, rng: np.random.Generator, *, rankers: int = 2, share: float = 0.05) -> list[FloatArray]:
    """Scores of linear rankers, each trained on the grades of another small share of the queries."""
    from luce.ranker import Ranker

    if not 0 < share <= 1:
        raise SettingError(f"The share of queries for weak rankers is {share}; it must be above 0 and at most 1.")
    graded = np.flatnonzero(differing(data.y, data.offsets))
    if not len(graded):
        raise DataError("All grades of every query are equal; weak rankers learn from grades that differ.")
    found = []
    for _ in range(rankers):
        taken = rng.choice(graded, min(max(round(share * data.n_queries), 1), len(graded)), replace=False)
        model = Ranker(loss="ranknet", l2=0.1, max_iter=20).fit(data.take(np.sort(taken)))
        found.append(model.predict(data))
    return found


def _sessions(data: Groups, rng: np.random.Generator, sessions: int) -> IntArray:
    whole("sessions", sessions, 1)
    weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    return rng.multinomial(sessions, weight / weight.sum())


def simulate_counts(
    data: Groups,
    made: Production,
    rng: np.random.Generator,
    *,
    sessions: int,
    users: Users | None = None,
    noise: float = 0.1,
) -> ClickCounts:
    """Counts of a log, drawn without its rows: the time does not depend on the number of sessions.

    Sessions of a query that are alike so far (ranker, pairing, last click, still looking) are one number, which
    binomial draws split from position to position.
    """
    users = users or Users()
    gamma = attraction(data.y, noise)
    per_query = _sessions(data, rng, sessions)
    walk = _Walk(users, gamma, rng)
    for lists, count in zip(made.lists, _split(per_query, len(made.lists), rng), strict=True):
        for offset, part in enumerate(_split(count, 2, rng)):
            walk.down(lists, offset, part, made.swap)
    if data.document_ids is None:
        raise DataError(NO_IDS)
    cells = np.concatenate(walk.cells)
    keys = np.column_stack([query_index(data.offsets)[cells[:, 0]], cells[:, :3]])
    queries, documents = (ids.astype(str).astype(object) for ids in (data.query_ids, data.document_ids))
    return counted(added_up(keys, cells[:, 3:].astype(np.float64)), queries, documents, per_query.astype(np.float64))


def _split(count: IntArray, ways: int, rng: np.random.Generator) -> IntArray:
    """(ways, queries): each number cut at random into equally likely parts."""
    return rng.multinomial(count, np.full(ways, 1.0 / ways)).T


_State: TypeAlias = dict[tuple[int, bool], IntArray]
"""How many sessions of each query are at one place: by their last click, and whether they still look."""


class _Walk:
    """Sessions on their way down; collects cells (row, position, last click, shown, clicked)."""

    def __init__(self, users: Users, gamma: FloatArray, rng: np.random.Generator) -> None:
        self.users, self.gamma, self.rng = users, gamma, rng
        self.cells: list[IntArray] = []

    def down(self, lists: IntArray, offset: int, count: IntArray, swap: float) -> None:
        """All sessions with this list and pairing."""
        sizes = (lists >= 0).sum(axis=1)
        state: _State = {(0, True): count}
        k, shown = 1, lists.shape[1]
        while k <= shown:
            ways = [(state, lists[:, k - 1 : k].T)]
            if k < shown and (k - 1 - offset) % 2 == 0:
                chance = (sizes >= k + 1).astype(np.float64) * swap
                swapped = {key: self.rng.binomial(value, chance) for key, value in state.items()}
                kept = {key: value - swapped[key] for key, value in state.items()}
                pair = lists[:, k - 1 : k + 1].T
                ways = [(kept, pair), (swapped, pair[::-1])]
            state = {}
            for sessions, documents in ways:
                for key, value in self._past(sessions, documents, k).items():
                    state[key] = state.get(key, 0) + value
            k += len(ways)

    def _past(self, state: _State, documents: IntArray, k: int) -> _State:
        """Show documents at positions k, k + 1, ...; where sessions are afterwards."""
        for at, rows in enumerate(documents, k):
            there = rows >= 0
            chance = np.where(there, self.users.chance(at, self.gamma[np.maximum(rows, 0)]), 0.0)
            following: _State = {}
            for (last, looks), value in state.items():
                clicked = self.rng.binomial(value, chance) if looks else np.zeros_like(value)
                some = there & (value > 0)
                places = np.full(int(some.sum()), at), np.full(int(some.sum()), last)
                self.cells.append(np.column_stack([rows[some], *places, value[some], clicked[some]]))
                for reached, number, hit in ((last, value - clicked, False), (at, clicked, True)):
                    on = number if looks else np.zeros_like(number)
                    if looks and self.users.stop:
                        on = self.rng.binomial(number, self.users.goes_on(at, hit))
                    for key, part in (((reached, True), on), ((reached, False), number - on)):
                        following[key] = following.get(key, 0) + part
            state = {key: value for key, value in following.items() if value.any()}
        return state


def simulate_sessions(
    data: Groups,
    made: Production,
    rng: np.random.Generator,
    *,
    sessions: int,
    users: Users | None = None,
    noise: float = 0.1,
) -> SessionRows:
    """The rows of a log, session by session."""
    users = users or Users()
    fits_in_memory(
        32.0 * sessions * made.shown, f"A log of {sessions:,} sessions of {made.shown:,} rows", "take fewer sessions"
    )
    gamma = attraction(data.y, noise)
    query = np.repeat(np.arange(data.n_queries), _sessions(data, rng, sessions))
    lists = made.lists[rng.integers(len(made.lists), size=sessions), query]
    offset = rng.integers(2, size=sessions)
    for first in range(made.shown - 1):
        swapped = (first % 2 == offset) & (lists[:, first + 1] >= 0) & (rng.random(sessions) < made.swap)
        lists[swapped, first], lists[swapped, first + 1] = lists[swapped, first + 1], lists[swapped, first]
    clicked = np.zeros(lists.shape)
    looks = np.ones(sessions, dtype=bool)
    for k in range(1, made.shown + 1):
        there = lists[:, k - 1] >= 0
        hit = looks & there & (rng.random(sessions) < users.chance(k, gamma[np.maximum(lists[:, k - 1], 0)]))
        clicked[:, k - 1] = hit
        if users.stop:
            on = np.where(hit, users.goes_on(k, True), users.goes_on(k, False))
            looks &= rng.random(sessions) < on
    there = lists >= 0
    session, position = np.nonzero(there)
    return SessionRows(lists[there], session.astype(np.int64), position.astype(np.int64) + 1, clicked[there])


ENDINGS = (".csv", ".parquet", ".lucedata")
"""Of a log, and of counts."""


def as_columns(log: SessionRows, data: Groups) -> dict[str, np.ndarray]:
    """A log as a table with the ids of queries and documents, which `luce.clicks.read` takes."""
    if data.document_ids is None:
        raise DataError(NO_IDS)
    query = query_index(data.offsets)[log.row]
    return {
        "query": data.query_ids[query].astype(str),
        "session": log.session,
        "position": log.position,
        "document": data.document_ids[log.row].astype(str),
        "clicked": log.clicked.astype(np.int8),
    }


def write_log(log: SessionRows, data: Groups, path: str | Path) -> None:
    """Write a click log as CSV or Parquet."""
    check_ending(path, ENDINGS[:2])
    table = pa.table(as_columns(log, data))
    with atomic_write(path) as stream:
        if Path(path).suffix.lower() == ".csv":
            arrow_csv.write_csv(table, stream)
        else:
            pq.write_table(table, stream)
