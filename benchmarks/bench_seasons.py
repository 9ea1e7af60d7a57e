"""Strengths that move: matches of national teams foretold from the past alone, and all history at once, beside peers.

Every rating is tuned on the matches before 1990 (log-loss) and judged on those from 1990 on; nothing was chosen on the
latter. Peers that are not installed are left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from harness import Line
from scipy.optimize import minimize

from luce.aggregate.history.walks import Games, filtered, fit_parameters, most_probable
from luce.numerics import links

CUT = 1990.0 - 1970.0
DATA = Path(os.environ.get("LUCE_DATA", "../shared/data")) / "boards" / "football" / "results.csv.gz"
FREE: dict[str, float | None] = {"step": None, "start": None, "t": None, "home": None}


def run() -> list[Line]:
    if not DATA.is_file():
        print(f"  ({DATA} is not there; left out)")
        return []
    games = football()
    late = games.times >= CUT
    ours = log_loss(luce_forecasts(games), games, late)
    lines = [_beaten("log-loss from 1990", ours, name, log_loss(p, games, late)) for name, p in peers(games)]
    return [*lines, *_speed(games)]


def football() -> Games:
    """All matches with a result, in order of time; years since 1970."""
    frame = pd.read_csv(DATA)
    frame = frame[frame["home_score"].notna()].sort_values("date", kind="stable")
    teams: dict[str, int] = {}
    for pair in zip(frame["home_team"], frame["away_team"], strict=True):
        for team in pair:
            teams.setdefault(team, len(teams))
    gap = (frame["home_score"] - frame["away_score"]).to_numpy()
    outcome = np.where(gap > 0, 0, np.where(gap < 0, 1, 2))
    rows = np.column_stack([frame["home_team"].map(teams), frame["away_team"].map(teams), outcome]).astype(np.int64)
    days = frame["date"].to_numpy().astype("datetime64[D]").astype(np.float64)
    return Games(len(teams), rows, (~frame["neutral"].astype(bool)).to_numpy().astype(np.float64), days / 365.25)


def part(games: Games, rows: np.ndarray) -> Games:
    """Some of the games, with players numbered anew."""
    order: dict[int, int] = {}
    for i in games.games[rows][:, :2].ravel().tolist():
        order.setdefault(i, len(order))
    code = np.array([order.get(i, -1) for i in range(games.players)])
    cut = games.games[rows].copy()
    cut[:, :2] = code[cut[:, :2]]
    return Games(len(order), cut, games.sides[rows], games.times[rows])


def log_loss(chances: np.ndarray, games: Games, rows: np.ndarray) -> float:
    picked = chances[np.arange(len(chances)), games.games[:, 2]][rows]
    return float(-np.mean(np.log(np.maximum(picked, 1e-12))))


def luce_forecasts(games: Games) -> np.ndarray:
    link = links.get("davidson")
    fitted = fit_parameters(part(games, games.times < CUT), link, FREE, side=True)
    return filtered(games, link, fitted)[1]


def peers(games: Games) -> list[tuple[str, np.ndarray]]:
    found = [("Elo, tuned", _elo(games))]
    for name, module, make in (("openskill", "openskill", _openskill),):
        if find_spec(module) is None:
            print(f"  ({name} is not installed; left out)")
        else:
            found.append((name, make(games)))
    return found


def _draws(d: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Davidson's three probabilities of a rating difference, with a scale, an advantage and a tie parameter."""
    d = x[0] * d
    weights = np.column_stack([np.exp(d / 2), np.exp(-d / 2), np.full(len(d), np.exp(x[1]))])
    return weights / weights.sum(axis=1, keepdims=True)


def _calibrated(d: np.ndarray, games: Games) -> np.ndarray:
    """Differences of ratings as probabilities, by the scale and the tie parameter that suit the matches before 1990."""
    early = games.times < CUT
    loss = lambda x: log_loss(_draws(d[early], x), part_rows(games, early), np.ones(early.sum(), bool))  # noqa: E731
    return _draws(d, minimize(loss, np.array([1.0, -0.2]), method="Nelder-Mead").x)


def part_rows(games: Games, rows: np.ndarray) -> Games:
    return Games(games.players, games.games[rows], games.sides[rows], games.times[rows])


def _elo(games: Games) -> np.ndarray:
    """Elo with its gain and its home advantage tuned before 1990."""

    def differences(x: np.ndarray) -> np.ndarray:
        rating, gain, home = np.zeros(games.players), float(np.exp(x[0])), float(x[1])
        result = np.empty(len(games.games))
        score = (1.0, 0.0, 0.5)
        for g, ((a, b, o), side) in enumerate(zip(games.games.tolist(), games.sides.tolist(), strict=True)):
            d = rating[a] - rating[b] + home * side
            result[g] = d
            move = gain * (score[o] - 1.0 / (1.0 + np.exp(-d)))
            rating[a] += move
            rating[b] -= move
        return result

    early = games.times < CUT
    loss = lambda x: log_loss(_calibrated(differences(x), games), games, early)  # noqa: E731
    best = minimize(loss, np.array([-1.5, 0.5]), method="Nelder-Mead", options={"maxfev": 30}).x
    return _calibrated(differences(best), games)


def openskill_differences(games: Games) -> np.ndarray:
    """Differences of the means of openskill's Plackett-Luce before every match, over their spread."""
    from openskill.models import PlackettLuce

    model = PlackettLuce()
    ratings = [model.rating() for _ in range(games.players)]
    d = np.empty(len(games.games))
    for g, (a, b, o) in enumerate(games.games.tolist()):
        spread = np.sqrt(2 * model.beta**2 + ratings[a].sigma ** 2 + ratings[b].sigma ** 2)
        d[g] = (ratings[a].mu - ratings[b].mu) / spread
        ranks = [[1, 2], [2, 1], [1, 1]][o]
        ((ratings[a],), (ratings[b],)) = model.rate([[ratings[a]], [ratings[b]]], ranks=ranks)
    return d


def _openskill(games: Games) -> np.ndarray:
    """Openskill with the home advantage as a shift of the difference of its means."""
    d = openskill_differences(games)
    early = games.times < CUT

    def loss(x: np.ndarray) -> float:
        return log_loss(_draws(d + x[2] * games.sides, x), games, early)

    return _draws(d + (x := minimize(loss, np.array([2.0, -0.2, 0.3]), method="Nelder-Mead").x)[2] * games.sides, x)


def _beaten(what: str, ours: float, peer: str, theirs: float) -> Line:
    return Line(what, ours, "nats", peer, theirs, f"below {peer}", ours < theirs)


def _speed(games: Games) -> list[Line]:
    """CPU seconds of all history at once: 49,520 matches, and 3,000 beside peers."""
    link = links.get("davidson")
    sample = part(games, np.arange(len(games.games) - 3000, len(games.games)))
    most_probable(sample, link, fit_parameters(sample, link, FREE, side=True))
    whole = _cpu(lambda: most_probable(games, link, fit_parameters(games, link, FREE, side=True)))
    lines = [Line("all matches, drift fitted", whole, goal="at most 5 s", met=whole <= 5.0)]
    ours = _cpu(lambda: most_probable(sample, link, fit_parameters(sample, link, FREE, side=True)))
    others = (("TrueSkill Through Time", "trueskillthroughtime", _ttt), ("whole-history rating", "whr", _whr))
    for name, module, make in others:
        if find_spec(module) is None:
            print(f"  ({name} is not installed; left out)")
            continue
        theirs = _cpu(lambda make=make: make(sample))
        what, goal = "3,000 matches, all history (drift fitted by luce only)", f"at least 10 times faster than {name}"
        lines.append(Line(what, ours, "s", name, theirs, goal, theirs >= 10 * ours))
    return lines


def _cpu(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def _ttt(games: Games) -> None:
    import trueskillthroughtime as ttt

    pairs = [[[str(a)], [str(b)]] for a, b, _ in games.games.tolist()]
    results = [[(1, 0), (0, 1), (0, 0)][o] for _, _, o in games.games.tolist()]
    history = ttt.History(pairs, results, [int(t * 365) for t in games.times], sigma=1.6, gamma=0.01, p_draw=0.25)
    history.convergence(epsilon=0.01, iterations=10)


def _whr(games: Games) -> None:
    from whr import whole_history_rating as whr

    base = whr.Base({"w2": 14})
    for (a, b, o), t in zip(games.games.tolist(), games.times.tolist(), strict=True):
        base.create_game(str(a), str(b), "BWD"[o] if o < 2 else "D", int(t * 365), 0)
    base.iterate(10)


if __name__ == "__main__":
    for line in run():
        print(line)
