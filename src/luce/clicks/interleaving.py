r"""Interleaved results: users see one list made of two rankers, and their clicks choose between them.

Each session is a win of a, a win of b or a draw. With two rankers Davidson's model of draws fits the counts exactly,
$\log(\lambda_a / \lambda_b) = \log(w_a / w_b)$, whose error is $\sqrt{1/w_a + 1/w_b}$.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from luce.checks import one_of
from luce.clicks.choice import Estimate
from luce.data.column import Column
from luce.data.table import Table
from luce.errors import DataError
from luce.result import Result, Sheet, plain, sheet_of
from luce.types import FloatArray, IntArray

_ROLES = {"team_draft": ("session", "click", "team"), "balanced": ("session", "click", "rank in a", "rank in b")}
METHODS = tuple(_ROLES)


@dataclass(frozen=True)
class Interleaving(Result):
    """How often each ranker won, and by how much."""

    wins_a: int
    wins_b: int
    draws: int
    empty: int
    """Sessions without a click, which say nothing and do not count."""
    preference: Estimate
    """(wins of a - wins of b) / sessions with a click."""
    log_ratio: Estimate
    """log(wins of a / wins of b): the strength of a over b in Davidson's model."""
    p_value: float
    """Of the sign test that both win equally often."""
    method: str = "team_draft"

    @property
    def winner(self) -> str | None:
        """The ranker whose preference is above 0 with its whole interval, else None."""
        if self.preference.low > 0:
            return "a"
        return "b" if self.preference.high < 0 else None

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """What is infinite, and why."""
        if self.wins_a and self.wins_b:
            return ()
        who = "Neither ranker" if not (self.wins_a or self.wins_b) else "a" if self.wins_b else "b"
        return (f"{who} won no session, so that the logarithm of the ratio of wins has no finite interval.",)

    def as_dict(self) -> dict[str, Any]:
        """For machines; what is infinite is None."""
        found = asdict(self) | {"winner": self.winner, "notes": list(self.notes)}
        found |= {name: plain(getattr(self, name)._asdict()) for name in ("preference", "log_ratio")}
        del found["method"]
        return found

    def sheets(self) -> list[Sheet]:
        """One row: sessions won, and the preference with its interval."""
        won = "neither ranker won" if self.winner is None else f"ranker {self.winner} won"
        row = [self.wins_a, self.wins_b, self.draws, self.empty, *self.preference, self.p_value]
        header = ["a won", "b won", "draws", "no click", "preference for a", "error", "95% from", "to", "p"]
        return [sheet_of(f"Interleaving ({self.method}): {won}", header, [row])]


def interleaving(
    log: Any,
    method: str = "team_draft",
    *,
    session: str = "session",
    clicked: str = "clicked",
    team: str = "team",
    rank_a: str = "rank_a",
    rank_b: str = "rank_b",
    level: float = 0.95,
) -> Interleaving:
    """Which of two rankers won, from a log with one row a shown document.

    Team draft: the column `team` says who contributed a document (a, b, or empty for both); the ranker with more clicks
    wins the session. Balanced: `rank_a` and `rank_b` are the ranks of the document in the two lists; with k the smaller
    rank, of the two, of the lowest clicked document, the ranker with more clicks among its first k wins.

    >>> log = {"session": [1, 1, 2, 2, 3, 3], "team": list("abbaab"), "clicked": [1, 0, 0, 1, 0, 1]}
    >>> found = interleaving(log)
    >>> found.wins_a, found.wins_b, found.draws
    (2, 1, 0)
    """
    one_of("method", method, METHODS)
    names = [session, clicked, team] if method == "team_draft" else [session, clicked, rank_a, rank_b]
    table = Table.open(log)
    rows = table.read([table.name(name, role=role) for name, role in zip(names, _ROLES[method], strict=True)], names)
    number, _ = rows[session].codes()
    hit = rows[clicked].flags("0 or 1, or true or false").astype(np.float64)
    if method == "team_draft":
        gain = _by_team(rows[team], number, hit)
    else:
        a, b = (rows[name].number("empty, or a rank", least=1, default=np.inf) for name in (rank_a, rank_b))
        gain = _balanced(a, b, number, hit)
    any_click = np.bincount(number, hit) > 0
    n, outcome = int(any_click.sum()), gain[any_click]
    if not n:
        raise DataError("No session has a click; interleaving is decided by clicks.")
    won, lost = int((outcome > 0).sum()), int((outcome < 0).sum())
    mean = (won - lost) / n
    error = float(np.sqrt(max(won + lost - n * mean**2, 0.0)) / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.log(np.float64(won) / lost)) if won or lost else 0.0
        ratio_error = float(np.sqrt(np.float64(1.0) / won + np.float64(1.0) / lost))
    preference, log_ratio = Estimate.around(mean, error, level), Estimate.around(ratio, ratio_error, level)
    p_value = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
    return Interleaving(won, lost, n - won - lost, len(gain) - n, preference, log_ratio, p_value, method)


def _by_team(team: Column, number: IntArray, hit: FloatArray) -> FloatArray:
    """Clicks for a less clicks for b, by session."""
    names = np.array([text.lower() for text in team.text()])
    wrong = np.flatnonzero(~np.isin(names, ["a", "b", ""]))
    if len(wrong):
        message = f"is {str(names[wrong[0]])!r}; it must be a, b, or empty for a document of both."
        raise team.called("the team").error(int(wrong[0]), message)
    return np.bincount(number, hit * ((names == "a").astype(float) - (names == "b"))).astype(np.float64)


def _balanced(a: FloatArray, b: FloatArray, number: IntArray, hit: FloatArray) -> FloatArray:
    """Clicks among the first k of a less those among the first k of b, by session."""
    if np.any(np.isinf(a) & np.isinf(b)):
        raise DataError("Every document needs a rank of at least 1 in one of the two lists.")
    least = np.minimum(a, b)
    k = np.zeros(int(number.max()) + 1)
    np.maximum.at(k, number[hit > 0], least[hit > 0])
    inside = (a <= k[number]).astype(float) - (b <= k[number])
    return np.bincount(number, hit * inside).astype(np.float64)
