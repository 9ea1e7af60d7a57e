"""How many battles an arena needs for the same rank sets: those that `Board.next` proposes, beside other pairings.

python benchmarks/bench_next.py [arenas] [seed of the first] [battles an item in a batch]; the figures are in
docs/leaderboard.md. Every arena starts with the same random battles; each policy then adds batches until its rank sets
are as short as those of random pairing at the end.
"uncertain" holds the battles of the pairs whose difference is least known (greatest information times variance), as
arenas do that sample by uncertainty; "close" draws pairs of neighbours by strength.
"""

from __future__ import annotations

import sys

import numpy as np

from luce.aggregate import leaderboard
from luce.aggregate.board.likelihood import get_model

POLICIES = ("random", "uncertain", "close", "next")


def play(truth: np.ndarray, pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Outcomes of pairs by Davidson's model with nu = 1."""
    link = get_model("davidson").link
    assert link is not None
    d = truth[pairs[:, 0]] - truth[pairs[:, 1]]
    win, loss = (np.exp(link.win(sign * d, 0.0).value) for sign in (1.0, -1.0))
    u = rng.random(len(pairs))
    return np.where(u < win, "a", np.where(u < win + loss, "b", "tie"))


def at_random(items: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Pairs of two different items, all alike."""
    first = rng.integers(0, items, n)
    return np.column_stack([first, (first + rng.integers(1, items, n)) % items])


def choose(policy: str, board, n: int, rng: np.random.Generator) -> np.ndarray:
    """The next n pairs."""
    items = len(board.names)
    number = np.array([int(name[1:]) for name in board.names])
    if policy == "random":
        return at_random(items, n, rng)
    if policy == "close":
        first = rng.integers(0, items - 1, n)
        return number[np.column_stack([first, first + 1])]
    if policy == "uncertain":
        covariance, pairs = board.covariance.copy(), []
        d = board.logits[:, None] - board.logits
        told = board.outcomes(d.ravel())[0].reshape(d.shape) * board.outcomes(-d.ravel())[0].reshape(d.shape)
        for _ in range(n):
            v = np.diagonal(covariance)[:, None] + np.diagonal(covariance) - 2 * covariance
            a, b = np.unravel_index(int(np.argmax(told * v)), v.shape)
            u = covariance[a] - covariance[b]
            covariance -= np.outer(u, u) * told[a, b] / (1 + told[a, b] * v[a, b])
            pairs.append((a, b))
        return number[np.array(pairs)]
    found = board.next(n)
    rows = [[int(name[1:]) for name in pair] for pair in found.pairs]
    pairs = np.repeat(np.array(rows).reshape(-1, 2), found.battles, axis=0)
    return np.vstack([pairs, at_random(items, n - len(pairs), rng)])


def run(policy: str, truth: np.ndarray, start: int, batch: int, steps: int, seed: int) -> list[tuple[int, float]]:
    """Battles and the mean width of the rank sets, after every batch."""
    rng = np.random.default_rng(seed)
    pairs = at_random(len(truth), start, rng)
    outcomes = play(truth, pairs, rng)
    line = []
    for _ in range(steps + 1):
        a, b = ([f"p{i}" for i in pairs[:, k]] for k in (0, 1))
        board = leaderboard({"a": a, "b": b, "outcome": outcomes})
        line.append((len(pairs), float(np.mean(board.rank_upper - board.rank_lower + 1))))
        more = choose(policy, board, batch, rng)
        pairs, outcomes = np.vstack([pairs, more]), np.append(outcomes, play(truth, more, rng))
    return line


def main() -> None:
    given = [int(value) for value in sys.argv[1:]]
    arenas, first, batch = given + [20, 0, 5][len(given) :]
    kinds = {
        "20 items, sd .9": (lambda rng: 0.9 * rng.normal(size=20), 40),
        "20 items, evenly from 1.5 to -1.5": (lambda rng: np.linspace(1.5, -1.5, 20), 40),
        "50 items, sd .9": (lambda rng: 0.9 * rng.normal(size=50), 16),
    }
    for name, (draw, steps) in kinds.items():
        mean: dict[str, np.ndarray] = {}
        for policy in POLICIES:
            lines = []
            for seed in range(first, first + arenas):
                truth = draw(np.random.default_rng(1000 + seed))
                items = len(truth)
                lines.append(run(policy, truth, 10 * items, batch * items, 5 * steps // batch, seed))
            mean[policy] = np.mean(lines, axis=0)
        goal = mean["random"][-1, 1]
        said = []
        for policy, line in mean.items():
            # The first point at or below the goal, by a straight line between batches.
            needed = float(np.interp(-goal, -np.minimum.accumulate(line[:, 1]), line[:, 0]))
            reached = line[:, 1].min() <= goal
            said.append(
                f"{policy} {needed / mean['random'][-1, 0]:.2f}{'' if reached else '+'} (width {line[-1, 1]:.2f})"
            )
        print(f"{name}, {mean['random'][-1, 0]:,.0f} battles at random: {', '.join(said)}", flush=True)


if __name__ == "__main__":
    main()
