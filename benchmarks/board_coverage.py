"""How often intervals and rank sets of boards hold the truth: 2,000 simulated boards of each kind.

python benchmarks/board_coverage.py [repetitions]; the figures are in docs/leaderboard.md. The simulation error of a
coverage of .95 is .005.
"""

from __future__ import annotations

import sys

import numpy as np

from luce.aggregate.board.battles import Battles
from luce.aggregate.board.contrast import mean_weights
from luce.aggregate.board.fitting_problem import paired_problem
from luce.aggregate.board.inference import draw_normal, rank_sets
from luce.aggregate.board.models import get_model
from luce.aggregate.board.options import Inference
from luce.aggregate.board.solve import estimate
from luce.aggregate.scores.methods import plackett_luce
from luce.aggregate.scores.resample import resample
from luce.aggregate.scores.table import ScoreTable
from luce.aggregate.scores.tiers import races_of


def false_decision(better: np.ndarray, truth: np.ndarray) -> bool:
    """Whether an item is called surely better than one that it is not better than."""
    return bool(np.any(better & (truth[None, :] <= truth[:, None])))


def battles(truth: np.ndarray, games: int, repetitions: int, rng: np.random.Generator) -> tuple[float, float]:
    """Davidson, `games` battles a pair: coverage of 95% intervals of strengths, and of all rank sets at once."""
    model = get_model("davidson")
    assert model.link is not None
    first, second = np.triu_indices(len(truth), 1)
    d = truth[first] - truth[second]
    win, loss = (np.exp(model.link.win(sign * d, -0.2).value) for sign in (1.0, -1.0))
    p = np.column_stack([win, loss, 1.0 - win - loss])
    names = tuple(f"p{i}" for i in range(len(truth)))
    a, b, outcome = np.repeat(first, 3), np.repeat(second, 3), np.tile([0, 1, 2], len(first))
    inside, whole = 0.0, 0
    for _ in range(repetitions):
        count = np.concatenate([rng.multinomial(games, row) for row in p]).astype(float)
        keep = count > 0
        problem = paired_problem(Battles(names, a[keep], b[keep], outcome[keep], count=count[keep]), model)
        found = estimate(problem, Inference())
        n = len(problem.names)
        expected = truth - truth @ found.weights[:, 0]
        covariance = found.covariance[:n, :n]
        inside += np.mean(np.abs(found.x[:n] - expected) < 1.959964 * np.sqrt(np.diagonal(covariance)))
        sets = rank_sets(found.x[:n], covariance, draw_normal(covariance, 400, rng), problem.component, 0.95)
        whole += not false_decision(sets.surely_better, truth)
    return inside / repetitions, whole / repetitions


def scores(
    truth: np.ndarray, tasks: int, grid: float, repetitions: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Tied Plackett-Luce of models on tasks: coverage of strengths, and of all rank sets at once.

    Scores are the strength and a Gumbel variable; rounded to a grid they tie, which the model does not foresee, so that
    only the ranks have a truth then.
    """
    n, inside, whole = len(truth), 0.0, 0
    names, labels = tuple(f"m{i}" for i in range(n)), tuple(f"t{i}" for i in range(tasks))
    for _ in range(repetitions):
        drawn = truth[:, None] + rng.gumbel(size=(n, tasks))
        drawn = np.round(drawn / grid) * grid if grid else drawn
        table = ScoreTable(names, labels, drawn, None, np.zeros(tasks), np.ones(tasks))
        fit = plackett_luce(table, races_of(table, 0.95))
        mean = mean_weights(np.ones(n), fit.component)
        found = resample(fit, table.weights, mean, 0.95, 300, rng)
        error = fit.strength - fit.strength.mean() - (truth - truth.mean())
        inside += np.mean(np.abs(error) < 1.959964 * np.sqrt(np.diagonal(found.covariance)))
        whole += not false_decision(found.sets.surely_better, truth)
    return inside / repetitions, whole / repetitions


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    rng = np.random.default_rng(0)
    for name, truth in (("equal", np.zeros(8)), ("spaced", np.linspace(1, -1, 8))):
        strengths, ranks = battles(truth, 40, repetitions, rng)
        print(f"battles, 8 items, {name}: strengths {strengths:.3f}, rank sets {ranks:.3f}", flush=True)
        for tasks in (20, 50):
            strengths, ranks = scores(truth, tasks, 0.0, repetitions, rng)
            what = f"scores, 8 models x {tasks} tasks, {name}"
            print(f"{what}: strengths {strengths:.3f}, rank sets {ranks:.3f}", flush=True)
    _, ranks = scores(np.zeros(8), 20, 1.0, repetitions, rng)
    print(f"scores with ties, 8 models x 20 tasks, equal: rank sets {ranks:.3f}", flush=True)


if __name__ == "__main__":
    main()
