"""How often intervals and rank sets of boards hold the truth: 2,000 simulated boards of each kind.

python benchmarks/board_coverage.py [repetitions [newcomers | categories | contradictions]]; see docs/leaderboard.md.
The simulation error of a coverage of .95 is .005.
"""

from __future__ import annotations

import sys

import numpy as np

from luce.aggregate import Board, leaderboard
from luce.aggregate.board.battles import Battles
from luce.aggregate.board.fit import fit_battles
from luce.aggregate.board.fitting_problem import Request, paired_problem
from luce.aggregate.board.likelihood import get_model
from luce.aggregate.board.options import Columns, Inference, Scale, Treatment
from luce.aggregate.board.posterior import centre, draw_normal, mean_weights, rank_sets
from luce.aggregate.board.solve import estimate
from luce.aggregate.scores.methods import METHODS
from luce.aggregate.scores.shuffles import covariance_of, shuffled_sets
from luce.aggregate.scores.table import ScoreTable, races_of
from luce.data.table import Table


def false_decision(better: np.ndarray, truth: np.ndarray) -> bool:
    """Whether an item is called surely better than one that it is not better than."""
    return bool(np.any(better & (truth[None, :] <= truth[:, None])))


def true_ranks(truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ranks that a set of every item must hold: all that its equals leave open."""
    return 1 + np.sum(truth > truth[:, None], axis=1), np.sum(truth >= truth[:, None], axis=1)


def battles(truth: np.ndarray, games: int, repetitions: int, rng: np.random.Generator) -> dict[str, float]:
    """Davidson, `games` battles a pair: coverage of 95% intervals of strengths, of all rank sets at once and of each
    rank interval by itself, and the mean width of the sets.
    """
    model = get_model("davidson")
    assert model.link is not None
    first, second = np.triu_indices(len(truth), 1)
    d = truth[first] - truth[second]
    win, loss = (np.exp(model.link.win(sign * d, -0.2).value) for sign in (1.0, -1.0))
    p = np.column_stack([win, loss, 1.0 - win - loss])
    names = tuple(f"p{i}" for i in range(len(truth)))
    a, b, outcome = np.repeat(first, 3), np.repeat(second, 3), np.tile([0, 1, 2], len(first))
    inside, whole, each, widths = 0.0, 0, 0.0, np.zeros(2)
    least, greatest = true_ranks(truth)
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
        each += np.mean((sets.each_lower <= least) & (greatest <= sets.each_upper))
        widths += [np.mean(sets.upper - sets.lower + 1), np.mean(sets.each_upper - sets.each_lower + 1)]
    found = {"strengths": inside, "all at once": whole, "each": each, "width": widths[0], "width of each": widths[1]}
    return {name: value / repetitions for name, value in found.items()}


def gaps_of(kind: str, hard: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Cells that are missing: a share of all at random, or the harder half of the tasks of every second model."""
    if kind == "hard":
        return np.outer(np.arange(n) % 2 == 0, hard > np.median(hard))
    return rng.random((n, len(hard))) < float(kind)


def scores(
    truth: np.ndarray, tasks: int, gaps: str, method: str, repetitions: int, rng: np.random.Generator
) -> dict[str, float]:
    """Models on tasks of different difficulty: coverage of strengths (of Plackett-Luce, the only true model here), of
    all rank sets at once and of each rank interval by itself, and the mean width of the sets.
    """
    n, inside, whole, each, widths = len(truth), 0.0, 0, 0.0, np.zeros(2)
    names, labels = tuple(f"m{i}" for i in range(n)), tuple(f"t{i}" for i in range(tasks))
    least, greatest = true_ranks(truth)
    for _ in range(repetitions):
        hard = rng.normal(size=tasks)
        drawn = truth[:, None] - hard + rng.gumbel(size=(n, tasks))
        drawn[gaps_of(gaps, hard, n, rng)] = np.nan
        drawn = drawn[:, np.isfinite(drawn).any(axis=0)]
        there = drawn.shape[1]
        table = ScoreTable(names, labels[:there], drawn, None, np.zeros(there), np.ones(there))
        fit = METHODS[method](table, races_of(table, 0.95))
        mean = mean_weights(np.ones(n), fit.component)
        error = centre(fit.strength - truth, mean, fit.component)
        inside += np.mean(np.abs(error) < 1.959964 * np.sqrt(np.diagonal(covariance_of(fit, mean))))
        sets = shuffled_sets(fit, 0.95, 499, rng)
        whole += not false_decision(sets.surely_better, truth)
        each += np.mean((sets.each_lower <= least) & (greatest <= sets.each_upper))
        widths += [np.mean(sets.upper - sets.lower + 1), np.mean(sets.each_upper - sets.each_lower + 1)]
    found = {"all at once": whole, "each": each, "width": widths[0], "width of each": widths[1]}
    found |= {"strengths": inside} if method == "plackett_luce" else {}
    return {name: value / repetitions for name, value in found.items()}


def newcomers(far: float, games: int, repetitions: int, rng: np.random.Generator) -> dict[str, float]:
    """Davidson, eight items with 40 battles a pair, and newcomers at -far and far with `games` battles each.

    How often a newcomer is separated (no win and no draw, or no loss and no draw); how often its interval at 95%,
    one-sided where it is, holds its strength; and on the boards with a separated newcomer how often the intervals of
    the eight and the rank sets of all ten do. Coverage among separated newcomers alone would be no fair question: a
    strong one is separated only by bad luck.
    """
    model = get_model("davidson")
    assert model.link is not None
    truth = np.append(np.linspace(0.8, -0.8, 8), [-far, far])
    first, second = np.triu_indices(8, 1)
    names, source = tuple(f"p{i}" for i in range(10)), Table.open({"a": [1]})
    separated, held_new, boards, others, sets = 0, 0, 0, 0.0, 0
    for _ in range(repetitions):
        a = np.concatenate([np.repeat(first, 40), np.repeat([8, 9], games)])
        b = np.concatenate([np.repeat(second, 40), rng.integers(0, 8, 2 * games)])
        d = truth[a] - truth[b]
        win, loss = (np.exp(model.link.win(sign * d, -0.2).value) for sign in (1.0, -1.0))
        u = rng.random(len(a))
        battles = Battles(names, a, b, np.where(u < win, 0, np.where(u < win + loss, 1, 2)))
        asked = Request(source, Columns(), Treatment(), model, Inference(), Scale(), rng)
        board = fit_battles(asked, battles, {})
        row = np.array([names.index(name) for name in board.names])
        true = truth[row] - truth[row] @ board.weights
        held = (board.lower <= true) & (true <= board.upper)
        separated += len(board.separated)
        held_new += int(np.sum(held[row >= 8]))
        if board.separated:
            boards += 1
            others += float(np.mean(held[row < 8]))
            sets += not false_decision(board.surely_better, truth[row])
    return {
        "separated": separated / (2 * repetitions),
        "newcomers": held_new / (2 * repetitions),
        "others": others / max(boards, 1),
        "rank sets": sets / max(boards, 1),
    }


def contradictions(board: Board) -> list[str]:
    """What strengths, intervals, differences, rank sets and `may_be_best` of a board say against each other."""
    found = [
        f"{n}: strength outside its interval"
        for n, s, a, b in zip(board.names, board.strength, board.lower, board.upper, strict=True)
        if not a <= s <= b
    ]
    best = set(board.may_be_best)
    for i, name in enumerate(board.names):
        if (name in best) != (board.rank_lower[i] == 1):
            found.append(f"{name}: may be best, and a best rank of {board.rank_lower[i]}")
        if not board.rank_lower[i] <= board.rank[i] <= board.rank_upper[i]:
            found.append(f"{name}: a rank outside its set")
        for j, row in enumerate(board.differences(name)):
            if j != i and board.surely_better[j, i] and not row["upper"] < 0.0:
                found.append(f"{row['name']} is surely worse than {name}, and their difference may be above 0")
            if j != i and not row["lower"] <= row["difference"] <= row["upper"]:
                found.append(f"{row['name']} - {name}: a difference outside its interval")
    return found


def newcomer_board(far: float, games: int, rng: np.random.Generator, field: int = 8) -> Board:
    """Some items with 40 battles a pair, and a newcomer at `far` with so many battles."""
    link = get_model("davidson").link
    assert link is not None
    truth = np.append(np.linspace(0.8, -0.8, field), far)
    first, second = np.triu_indices(field, 1)
    a = np.concatenate([np.repeat(first, 40), np.full(games, field)])
    b = np.concatenate([np.repeat(second, 40), rng.integers(0, field, games)])
    win, loss = (np.exp(link.win(sign * (truth[a] - truth[b]), -0.2).value) for sign in (1.0, -1.0))
    u = rng.random(len(a))
    rows = {"a": [f"p{i}" for i in a], "b": [f"p{i}" for i in b]}
    return leaderboard(rows | {"outcome": np.where(u < win, "a", np.where(u < win + loss, "b", "tie"))})


def categories(
    items: int, kinds: int, games: int, spread: float, repetitions: int, rng: np.random.Generator
) -> dict[str, float]:
    """Davidson, nu = 1.48, strengths with a standard deviation of .9, and `spread` around them in every category.

    Coverage of the strengths of all categories at 95%, the mean estimate of the spread, and how often no item of a
    category is falsely called surely better than another.
    """
    link, held, estimates, right = get_model("davidson").link, 0.0, 0.0, 0
    assert link is not None
    names = np.array([f"p{i}" for i in range(items)])
    for _ in range(repetitions):
        truth = 0.9 * rng.normal(size=items) + spread * rng.normal(size=(kinds, items))
        kind, a = rng.integers(0, kinds, games), rng.integers(0, items, games)
        b = (a + rng.integers(1, items, games)) % items
        win, loss = (np.exp(link.win(sign * (truth[kind, a] - truth[kind, b]), np.log(1.48)).value) for sign in (1, -1))
        u = rng.random(games)
        outcome = np.where(u < win, "a", np.where(u < win + loss, "b", "tie"))
        boards = leaderboard({"a": names[a], "b": names[b], "outcome": outcome, "kind": kind}, by="kind")
        inside = []
        for name, board in boards.items():
            true = truth[int(name)][[int(item[1:]) for item in board.names]]
            at = true - true @ board.weights
            inside += ((board.lower <= at) & (at <= board.upper)).tolist()
            right += not false_decision(board.surely_better, true)
        held += np.mean(inside)
        estimates += boards.spread or 0.0
    share = right / (kinds * repetitions)
    return {"strengths": held / repetitions, "spread": estimates / repetitions, "rank sets": share}


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    rng = np.random.default_rng(0)
    if "contradictions" in sys.argv:
        said, apart = 0, 0
        for k in range(repetitions):
            far, games = [(-1.0, 3), (1.0, 3), (-2.0, 8), (-4.0, 30), (4.0, 12), (-8.0, 100), (-12.0, 400)][k % 7]
            board = newcomer_board(far, games, rng)
            apart += bool(board.separated)
            said += bool(contradictions(board))
        print(f"{repetitions} boards with a newcomer, {apart} of them separated: {said} contradict themselves")
        return
    if "categories" in sys.argv:
        for items, kinds, games, boards in ((59, 13, 8931, 25), (20, 5, 1500, 100), (8, 3, 600, 200)):
            for spread in (0.1, 0.2, 0.3, 0.5, 0.7):
                found = categories(items, kinds, games, spread, boards, rng)
                said = ", ".join(f"{k} {v:.3f}" for k, v in found.items())
                print(f"{items} items x {kinds} categories, {games:,} battles, spread {spread:g}: {said}", flush=True)
        return
    for far, games in ((1.0, 3), (1.0, 8), (2.0, 3), (2.0, 8), (4.0, 8)):
        found = newcomers(far, games, repetitions, rng)
        print(
            f"newcomers at {far:g}, {games} battles:", ", ".join(f"{k} {v:.3f}" for k, v in found.items()), flush=True
        )
    if "newcomers" in sys.argv:
        return
    pairs = np.repeat(np.linspace(1, -1, 4), 2)
    for name, truth in (("equal", np.zeros(8)), ("spaced", np.linspace(1, -1, 8)), ("pairs of equals", pairs)):
        said = ", ".join(f"{k} {v:.3f}" for k, v in battles(truth, 40, repetitions, rng).items())
        print(f"battles, 8 items, {name}: {said}", flush=True)
    for models in (8, 20):
        for method in METHODS:
            for gaps in ("0", "0.3", "0.5", "hard"):
                found = scores(np.zeros(models), 20, gaps, method, repetitions, rng)
                said = ", ".join(f"{k} {v:.3f}" for k, v in found.items())
                print(f"scores, {models} equal models x 20 tasks, {method}, gaps {gaps}: {said}", flush=True)


if __name__ == "__main__":
    main()
