"""A leaderboard of language models from a simulated arena with draws.

Twelve models, 20,000 battles, three in ten of them draws. The arenas' usual recipe counts a draw as half a win for
either side; it shrinks the strengths. A model with draws gives them back, with intervals and rank intervals.
"""

from __future__ import annotations

import numpy as np

from luce.aggregate import leaderboard, simulate_battles

arena = simulate_battles(20_000, np.linspace(1.5, -1.5, 12), model="davidson", tie=1.0, random_state=0)
board = leaderboard(arena.table, model="davidson", scale="elo", anchor="player06", anchor_at=1000)
for row in board.as_dict()["table"]:
    ranks, interval = f"{row['rank_lower']}-{row['rank_upper']}", f"{row['lower']:.0f} to {row['upper']:.0f}"
    print(f"{row['rank']:>2} ({ranks:>5})  {row['name']}  {row['strength']:6.0f}  {interval}")
assert board.tie is not None
print(f"nu {board.tie.value:.3f} (true {arena.tie:g}), {board.tie.lower:.3f} to {board.tie.upper:.3f}")
print(f"P(player01 beats player02) {board.win_probability('player01', 'player02'):.3f}")
print(f"P(they draw)               {board.draw_probability('player01', 'player02'):.3f}")

print("\nSlope of the estimated on the true strengths:")
for model in ("bradley_terry", "rao_kupper", "davidson"):
    fitted = leaderboard(arena.table, model=model)
    slope = np.polyfit(arena.strength, fitted.strength[np.argsort(fitted.names)], 1)[0]
    print(f"  {model:<14} {slope:.2f}")
