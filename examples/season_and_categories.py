"""A season with draws: who is best on which ground, who is best now, and a board that takes the last weeks later."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np

from luce.aggregate import leaderboard, save_board, simulate_battles, update_board

GROUNDS, PLAYERS, GAMES = ("clay", "grass", "hall"), 8, 20

# Strengths differ by ground, and player 8 rises from the last place to the first.
rng = np.random.default_rng(2)
rows: dict[str, list] = {"a": [], "b": [], "outcome": [], "ground": [], "day": [], "id": []}
for week in range(50):
    for ground in GROUNDS:
        truth = np.linspace(1, -1, PLAYERS) + 0.3 * np.random.default_rng(GROUNDS.index(ground)).normal(size=PLAYERS)
        truth[-1] += 3 * week / 50
        games = simulate_battles(GAMES, truth, tie=0.8, random_state=rng).table.to_pydict()
        for name in ("a", "b", "outcome"):
            rows[name] += games[name]
        rows["ground"] += [ground] * (GAMES)
        rows["day"] += [(date(2024, 1, 1) + timedelta(weeks=week)).isoformat()] * (GAMES)
rows["id"] = list(range(len(rows["a"])))

boards = leaderboard(rows, by="ground")
print(f"Strengths of a player differ by {boards.spread:.2f} between grounds. First on each, and who may be:")
for ground, board in boards.boards.items():
    print(f"  {ground}: {board.names[0]}; {', '.join(board.may_be_best)}")

# The weeks until October are kept; the update repeats September, which the ids tell.
cut, again = (sum(day < limit for day in rows["day"]) for limit in ("2024-10-01", "2024-09-01"))
season = leaderboard({name: values[:cut] for name, values in rows.items()}, time="day")
save_board(season, "season.luce")
now = update_board("season.luce", {name: values[again:] for name, values in rows.items()}, time="day")
print(f"\nOver all time {boards.overall.names[0]} is first, now {now.names[0]} (drift {now.drift:.2f} a year).")
print("\n".join(now.notes))
