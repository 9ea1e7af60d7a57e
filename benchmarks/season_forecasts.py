"""Forecasts of national teams by ratings that see all history, TrueSkill Through Time and WHR, beside the others.

python benchmarks/season_forecasts.py all|late [luce elo openskill ttt whr]; too long for `make bench`, the figures are
in docs/leaderboard.md. Each match is foretold from the past alone, and all settings suit the matches before the years
that are judged. Two windows: all history, judged from 1990 on; and history from 2010, judged from 2020 on, which
whole-history rating can be run on.

- TrueSkill Through Time smooths all history every tenth (second) year and goes forward match by match from what it then
  knows, its own online mode. The home side has a member "home".
- Whole-history rating takes the matches of a quarter of a year at a time, followed by one sweep of Newton steps over
  all players. The home side has a handicap, and draws are Davidson's; both are fitted by the package.

Differences of ratings become probabilities by a scale, a tie parameter and a shift for the home side.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_seasons import FREE, _draws, football, log_loss, openskill_differences, part
from scipy.optimize import minimize

from luce.aggregate.history.walks import Games, filtered, fit_parameters
from luce.numerics import links

RESULTS = Path(__file__).resolve().parent / "results" / "season_forecasts.json"


class Window(NamedTuple):
    """Forecasts from `tune` to `judge` choose the settings, those from `judge` on are judged; history from `start`."""

    start: float
    tune: float
    judge: float


ALL, LATE = Window(-1e9, 5.0, 20.0), Window(40.0, 45.0, 50.0)
"""Years since 1970: all history, judged from 1990 on; and history since 2010, judged from 2020 on."""


def tuned(d: np.ndarray, games: Games, window: Window) -> tuple[float, float]:
    """Log-loss on the years for tuning and on those judged; scale, draws and home are those that suit the former."""
    known = np.isfinite(d)
    early = known & (games.times >= window.tune) & (games.times < window.judge)
    late = known & (games.times >= window.judge)

    def chances(x: np.ndarray) -> np.ndarray:
        return _draws(np.nan_to_num(d) + x[2] * games.sides, x)

    best = minimize(lambda x: log_loss(chances(x), games, early), np.array([1.0, -0.2, 0.3]), method="Nelder-Mead")
    return float(best.fun), log_loss(chances(best.x), games, late) if late.any() else float("nan")


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
            history.convergence(epsilon=0.01, iterations=3, verbose=False)
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


def whr_differences(games: Games, w2: float, window: Window) -> np.ndarray:
    """Difference of ratings and handicap before every match, with ratings that are brought up to date every quarter."""
    from whr import whole_history_rating as whr

    warnings.simplefilter("ignore")
    base = whr.WHR({"w2": w2})
    days = np.round(games.times * 365.25).astype(int)
    days -= days[0]
    quarter = np.floor(games.times * 4).astype(int)
    d, rating = np.full(len(games.games), np.nan), {}
    for low in np.flatnonzero(np.append(True, quarter[1:] != quarter[:-1])):
        high = int(np.searchsorted(quarter, quarter[low], "right"))
        home = np.log(base.handicap_gamma.get("home", 1.0))
        for g in range(low, high):
            a, b, o = games.games[g].tolist()
            d[g] = rating.get(a, 0.0) - rating.get(b, 0.0) + home * games.sides[g]
            base.create_game(str(a), str(b), "BWD"[o], int(days[g]), "home" if games.sides[g] else 0)
        # Forecasts before the years of tuning do not count, and sweeps over all players are what takes long.
        if games.times[low] >= window.tune or quarter[low] % 4 == 0:
            base.iterate(1)
            rating = {int(name): player.days[-1].r for name, player in base.players.items() if player.days}
    return d


def luce_losses(games: Games, window: Window) -> tuple[float, float]:
    """Log-loss of the filter on both parts, with the parameters that suit the matches before the years judged."""
    link = links.get("davidson")
    fitted = fit_parameters(part(games, games.times < window.judge), link, FREE, side=True)
    chances = filtered(games, link, fitted)[1]
    early, late = (games.times >= window.tune) & (games.times < window.judge), games.times >= window.judge
    return log_loss(chances, games, early), log_loss(chances, games, late)


def elo_differences(games: Games, gain: float, home: float) -> np.ndarray:
    rating, d, score = np.zeros(games.players), np.empty(len(games.games)), (1.0, 0.0, 0.5)
    for g, ((a, b, o), side) in enumerate(zip(games.games.tolist(), games.sides.tolist(), strict=True)):
        d[g] = rating[a] - rating[b] + home * side
        move = gain * (score[o] - 1.0 / (1.0 + np.exp(-d[g])))
        rating[a] += move
        rating[b] -= move
    return d


def best_setting(trials: dict[object, np.ndarray], games: Games, window: Window) -> dict[str, object]:
    losses = {setting: tuned(d, games, window) for setting, d in trials.items()}
    setting = min(losses, key=lambda key: losses[key][0])
    tuning = {str(key): round(value[0], 4) for key, value in losses.items()}
    return {"setting": setting, "tuning": tuning, "log_loss": losses[setting][1]}


def judge(window: Window, only: list[str]) -> dict[str, dict[str, object]]:
    games = football()
    games = part(games, games.times >= window.start)
    found: dict[str, dict[str, object]] = {}
    if "luce" in only:
        before, after = luce_losses(games, window)
        found["luce"] = {"before": before, "log_loss": after, "matches": int(np.sum(games.times >= window.judge))}
    if "elo" in only:
        settings = [(gain, home) for gain in (0.1, 0.2, 0.3, 0.45, 0.6) for home in (0.1, 0.3, 0.5)]
        trials = {s: elo_differences(games, *s) for s in settings}
        found["Elo"] = best_setting(trials, games, window)
    if "openskill" in only:
        found["openskill"] = best_setting({"": openskill_differences(games)}, games, window)
    if "ttt" in only:
        refits = [window.tune, *np.arange(window.judge, 56.0, 10.0 if window is ALL else 2.0)]
        settings = [(0.006, 2.5), (0.01, 2.5), (0.015, 2.5), (0.01, 4.0)]
        online = best_setting({s: ttt_differences(games, *s, [], 1e9) for s in settings}, games, window)
        found["TrueSkill Through Time, forward only"] = online
        smoothed = ttt_differences(games, *online["setting"], refits, 1e9)
        found["TrueSkill Through Time"] = best_setting({online["setting"]: smoothed}, games, window)
    if "whr" in only:
        trials = {w2: whr_differences(games, w2, window) for w2 in (1.0, 2.5, 5.0, 10.0, 20.0)}
        found["whole-history rating"] = best_setting(trials, games, window)
    return found


def main() -> None:
    name, *only = sys.argv[1:]
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    start = time.process_time()
    found = judge({"all": ALL, "late": LATE}[name], only or ["luce", "elo", "openskill", "ttt", "whr"])
    print(found, time.process_time() - start, flush=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    results[name] = results.get(name, {}) | found
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
