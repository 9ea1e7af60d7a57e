"""Forecasts of national teams from 1990 on by the ratings that see all history: TrueSkill Through Time and WHR.

python benchmarks/season_forecasts.py [ttt|whr]; takes most of an hour, so it is no part of `make bench`. The figures
are in docs/leaderboard.md. As in `bench_seasons.py`, everything is tuned on matches before 1990 and each match is
foretold from the past alone:

- TrueSkill Through Time smooths all history at the start of 1975, 1990, 2000, 2010 and 2020 and goes forward match by
  match from what it then knows (its own online mode). The home side has a member "home".
- Whole-history rating takes the matches of a quarter of a year at a time, followed by one sweep of Newton steps over
  all players.
  The home side has a handicap of its own, and draws are Davidson's; both are fitted by the package.

The differences of ratings that they give become probabilities as those of the other peers do, by a scale, a tie
parameter and a shift for the home side that suit the matches before 1990.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from bench_seasons import CUT, _draws, football, log_loss
from scipy.optimize import minimize

from luce.aggregate.history.walks import Games

RESULTS = Path(__file__).resolve().parent / "results" / "season_forecasts.json"
BEFORE = 1975.0 - 1970.0
"""Tuning looks at the forecasts from here to 1990."""


def tuned(d: np.ndarray, games: Games) -> tuple[float, float]:
    """Log-loss from 1975 to 1990 and from 1990 on; scale, draws and home are those that suit the former."""
    early, late = (games.times >= BEFORE) & (games.times < CUT), games.times >= CUT
    known = np.isfinite(d)

    def loss(x: np.ndarray) -> float:
        return log_loss(_draws(np.nan_to_num(d) + x[2] * games.sides, x), games, early & known)

    best = minimize(loss, np.array([1.0, -0.2, 0.3]), method="Nelder-Mead")
    if not (late & known).any():
        return float(best.fun), float("nan")
    return float(best.fun), log_loss(_draws(np.nan_to_num(d) + best.x[2] * games.sides, best.x), games, late & known)


def ttt_differences(games: Games, gamma: float, sigma: float, refits: list[float], end: float) -> np.ndarray:
    """Difference of the means over its standard deviation before every match; NaN where it was not asked for."""
    import trueskillthroughtime as ttt

    d = np.full(len(games.games), np.nan)
    days = np.round(games.times * 365.25).astype(int)
    cuts = np.searchsorted(games.times, [-1e9, *refits, end])
    known: dict[str, tuple[float, float, int]] = {}
    for start, (low, high) in zip([None, *refits], itertools.pairwise(cuts), strict=True):
        if start is not None and low > 0:
            history = ttt.History(*_events(games, days, 0, low), sigma=sigma, beta=1.0, gamma=gamma, p_draw=0.25)
            history.convergence(epsilon=0.01, iterations=4, verbose=False)
            known = {a: (*curve[-1][1], curve[-1][0]) for a, curve in history.learning_curves().items()}
        for g in range(low, high):
            d[g] = _ttt_match(ttt, games, days, g, known, gamma, sigma)
    return d


def _events(games: Games, days: np.ndarray, low: int, high: int) -> tuple[list, list, list]:
    rows, sides = games.games[low:high].tolist(), games.sides[low:high].tolist()
    teams = [[[str(a), "home"] if side else [str(a)], [str(b)]] for (a, b, _), side in zip(rows, sides, strict=True)]
    return teams, [[(1, 0), (0, 1), (0, 0)][o] for _, _, o in rows], days[low:high].tolist()


def _ttt_match(ttt, games, days, g, known, gamma, sigma) -> float:  # type: ignore[no-untyped-def]
    """The forecast of one match, after which the two sides and "home" are what it has taught."""
    ((first, second),), (result,), _ = _events(games, days, g, g + 1)
    sides = [[_now(ttt, name, known, int(days[g]), gamma, sigma) for name in side] for side in (first, second)]
    means = [sum(p.prior.mu for p in side) for side in sides]
    variance = sum(p.prior.sigma**2 + p.beta**2 for side in sides for p in side)
    after = ttt.Game(sides, list(result), 0.25).posteriors()
    for side, found in zip((first, second), after, strict=True):
        for name, belief in zip(side, found, strict=True):
            known[name] = (belief.mu, belief.sigma, int(days[g]))
    return float((means[0] - means[1]) / np.sqrt(variance))


def _now(ttt, name, known, day, gamma, sigma):  # type: ignore[no-untyped-def]
    mu, spread, last = known.get(name, (0.0, sigma, day))
    return ttt.Player(ttt.Gaussian(mu, float(np.sqrt(spread**2 + gamma**2 * (day - last)))), 1.0, gamma)


def whr_differences(games: Games, w2: float, end: float) -> np.ndarray:
    """Difference of ratings and handicap before every match, with ratings that are brought up to date now and then."""
    from whr import whole_history_rating as whr

    warnings.simplefilter("ignore")
    base = whr.WHR({"w2": w2})
    days = np.round(games.times * 365.25).astype(int)
    days -= days[0]
    quarter = np.floor(games.times * 4).astype(int)
    d, rating = np.full(len(games.games), np.nan), {}
    limit = int(np.searchsorted(games.times, end))
    for low in np.flatnonzero(np.append(True, quarter[1:] != quarter[:-1])):
        if low >= limit:
            break
        high = int(np.searchsorted(quarter, quarter[low], "right"))
        home = np.log(base.handicap_gamma.get("home", 1.0))
        for g in range(low, high):
            a, b, o = games.games[g].tolist()
            d[g] = rating.get(a, 0.0) - rating.get(b, 0.0) + home * games.sides[g]
            base.create_game(str(a), str(b), "BWD"[o], int(days[g]), "home" if games.sides[g] else 0)
        # Forecasts before 1975 do not count, and sweeps over all players are what takes long.
        if games.times[low] >= BEFORE or quarter[low] % 4 == 0:
            base.iterate(1)
            rating = {int(name): player.days[-1].r for name, player in base.players.items() if player.days}
    return d


def main() -> None:
    games, found = football(), json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    if "ttt" in sys.argv[1:] or len(sys.argv) == 1:
        trials = {}
        for gamma, sigma in ((0.006, 2.5), (0.01, 2.5), (0.015, 2.5), (0.01, 4.0)):
            trials[gamma, sigma] = tuned(ttt_differences(games, gamma, sigma, [BEFORE], CUT), games)[0]
            print("ttt", gamma, sigma, trials[gamma, sigma], flush=True)
        gamma, sigma = min(trials, key=lambda key: trials[key])
        start = time.process_time()
        d = ttt_differences(games, gamma, sigma, [BEFORE, CUT, 30.0, 40.0, 50.0], 1e9)
        online = tuned(ttt_differences(games, gamma, sigma, [], 1e9), games)[1]
        found["TrueSkill Through Time"] = {
            "gamma": gamma, "sigma": sigma, "before": trials[gamma, sigma], "log_loss": tuned(d, games)[1],
            "log_loss_online_only": online, "seconds": time.process_time() - start,
        }  # fmt: skip
        print(found, flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    if "whr" in sys.argv[1:] or len(sys.argv) == 1:
        trials = {}
        for w2 in (4.0, 10.0, 25.0):
            trials[w2] = tuned(whr_differences(games, w2, CUT), games)[0]
            print("whr", w2, trials[w2], flush=True)
        w2 = min(trials, key=lambda key: trials[key])
        start = time.process_time()
        loss = tuned(whr_differences(games, w2, 1e9), games)[1]
        found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        found["whole-history rating"] = {
            "w2": w2, "before": trials[w2], "log_loss": loss, "seconds": time.process_time() - start
        }  # fmt: skip
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(found, flush=True)


if __name__ == "__main__":
    main()
