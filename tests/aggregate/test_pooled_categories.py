"""Boards of categories by one likelihood: against a dense maximum, and coverage of their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.board_coverage import categories
from luce.aggregate import leaderboard, simulate_battles
from luce.aggregate.board.battles import by_category
from luce.aggregate.board.fitting_problem import Request, battle_problem
from luce.aggregate.board.options import Inference
from luce.aggregate.board.pooling import _Categories, _Top
from luce.aggregate.board.solve import estimate, start_near

TRUTH = np.linspace(1, -1, 4)


def battles_of(counts: dict[str, int], spread: float, seed: int) -> dict[str, list]:
    rng, parts = np.random.default_rng(seed), []
    for kind, count in counts.items():
        part = simulate_battles(count, TRUTH + spread * rng.normal(size=4), tie=0.8, random_state=rng).table.to_pydict()
        parts.append(part | {"kind": [kind] * count})
    return {key: [x for part in parts for x in part[key]] for key in parts[0]}


@pytest.mark.parametrize("tau", [0.1, 0.7])
def test_a_top_is_that_of_all_parameters_at_once(tau: float) -> None:
    """Value, strengths, covariances and log m by a general optimiser and the dense Hessian of everything."""
    asked = Request.of(battles_of({"x": 60, "y": 90, "z": 40}, 0.5, 0), "davidson", {"by": "kind"}, 0)
    whole = asked.battles()
    problems = [battle_problem(asked, part) for part in by_category(whole).values()]
    rows = [np.array([whole.names.index(name) for name in problem.names]) for problem in problems]
    null = np.full((4, 1), 0.5)
    model = _Categories(problems, rows, null, np.zeros((4, 4)), 1.0)
    start = [problem.likelihood.start() for problem in problems]
    found = model.top(tau, _Top(start, np.zeros(4), model.likelihoods(start)))
    assert found.converged
    cuts = np.cumsum([problem.likelihood.n_parameters for problem in problems])

    def minus_f(v: np.ndarray) -> float:
        *xs, mean = np.split(v, cuts)
        return model.terms(xs, mean, model.likelihoods(xs), tau**-2)[0]

    def gradient(v: np.ndarray) -> np.ndarray:
        *xs, mean = np.split(v, cuts)
        _, points = model.terms(xs, mean, model.likelihoods(xs), tau**-2)
        of_mean = np.zeros(4)
        for x, row in zip(xs, rows, strict=True):
            of_mean[row] -= (x[: len(row)] - mean[row]) / tau**2
        return np.concatenate([*(point.gradient for point in points), of_mean])

    dense = minimize(minus_f, np.zeros(cuts[-1] + 4), jac=gradient, method="BFGS", options={"gtol": 1e-8})
    ours = np.concatenate([*found.xs, found.mean])
    shift = np.concatenate([*(np.append(np.ones(4), 0.0) for _ in problems), np.ones(4)])
    level = shift @ (dense.x - ours) / (shift @ shift)
    np.testing.assert_allclose(ours + level * shift, dense.x, atol=1e-5)
    hessian = np.column_stack(
        [(gradient(ours + 1e-5 * e) - gradient(ours - 1e-5 * e)) / 2e-5 for e in np.eye(len(ours))]
    )
    # The mean is held along the shift, as a flat prior leaves it free there.
    fixed = np.zeros_like(hessian)
    fixed[-4:, -4:] = null @ null.T / tau**2
    log_det = np.linalg.slogdet(hessian + fixed)[1]
    assert found.log_m == pytest.approx(-minus_f(ours) - 0.5 * log_det - 13 * np.log(tau), abs=1e-4)
    unit = np.linalg.inv(hessian + fixed)
    low = 0
    for c, (high, row) in enumerate(zip(cuts, rows, strict=True)):
        covariance = found.covariance(c, row)
        contrast = np.eye(high - low)[: len(row)] - np.append(np.full(len(row), 1 / len(row)), 0.0)
        expected = contrast @ unit[low:high, low:high] @ contrast.T
        np.testing.assert_allclose(contrast @ covariance @ contrast.T, expected, rtol=1e-3, atol=1e-5)
        low = high


def test_categories_without_a_difference_are_the_whole() -> None:
    """With no spread between categories a board is nearly the overall one, with little more than its errors."""
    rows = simulate_battles(3000, np.linspace(1, -1, 6), tie=0.8, random_state=0).table.to_pydict()
    rows["kind"] = np.random.default_rng(0).choice(["x", "y", "z"], 3000).tolist()
    boards = leaderboard(rows, by="kind")
    middle = dict(zip(boards.overall.names, boards.overall.strength, strict=True))
    gaps = [s - middle[n] for n, s in zip(boards["x"].names, boards["x"].strength, strict=True)]
    assert boards.spread < 0.2
    assert np.std(gaps) < 0.5 * np.mean(leaderboard(rows, by="kind", pool=False)["x"].se)
    assert np.mean(boards.overall.se) < np.mean(boards["x"].se) < 2.0 * np.mean(boards.overall.se)


def test_the_spread_is_on_the_scale_that_is_shown_and_has_no_unit_of_time() -> None:
    rows = battles_of({"x": 400, "y": 400, "z": 400}, 0.6, 3)
    log, elo = (leaderboard(rows, by="kind", scale=scale) for scale in ("log", "elo"))
    assert elo.spread == pytest.approx(400 / np.log(10) * log.spread)
    np.testing.assert_allclose(elo["x"].se, 400 / np.log(10) * log["x"].se)


def test_battles_that_are_repeated_for_one_judge_count_once() -> None:
    """Ten copies of every battle by its own judge: the same errors as without the copies."""
    rows = battles_of({"x": 150, "y": 150, "z": 150}, 0.5, 1)
    plain = leaderboard(rows | {"who": list(range(450))}, by="kind", group="who")
    copies = {key: values * 10 for key, values in rows.items()} | {"who": list(range(450)) * 10}
    again = leaderboard(copies, by="kind", group="who")
    assert again.spread == pytest.approx(plain.spread, rel=0.1)
    for kind, board in plain.items():
        # The share of the likelihood that counts is that of one judge a battle, which is near 1 and at most 1.
        np.testing.assert_allclose(sorted(again[kind].se), sorted(board.se), rtol=0.1)


def test_an_item_that_never_wins_has_an_open_end_in_every_category() -> None:
    rows = battles_of({"x": 80, "y": 80}, 0.3, 2)
    losses = [("new", f"player{1 + k % 4}", "b", "xy"[k % 2]) for k in range(8)]
    for key, column in zip(("a", "b", "outcome", "kind"), zip(*losses, strict=True), strict=True):
        rows[key] = [*rows[key], *column]
    boards = leaderboard(rows, by="kind")
    for board in boards.boards.values():
        at = board.names.index("new")
        assert board.separated == {"new": "below"}
        assert board.lower[at] == -np.inf
        assert np.isnan(board.se[at])
        assert np.isfinite(np.delete(board.lower, at)).all()


def test_a_bootstrap_of_categories_is_said_to_be_of_the_whole() -> None:
    boards = leaderboard(battles_of({"x": 80, "y": 80}, 0.3, 2), by="kind", bootstrap=20)
    assert boards.overall.errors == "bootstrap"
    assert boards["x"].errors == "pooled"
    assert any("bootstrap is of the board of all" in note for note in boards.notes)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.1, 0.3, 0.7])
def test_intervals_of_categories_hold(spread: float) -> None:
    """60 boards of 100 strengths, which depend on each other within a board; the error of the mean is about .006."""
    found = categories(20, 5, 1500, spread, 60, np.random.default_rng(5))
    assert 0.93 < found["strengths"] < 0.99
    assert found["rank sets"] >= 0.95


@pytest.mark.parametrize("model", ["davidson", "plackett_luce"])
def test_a_category_starts_at_the_strengths_of_all_results(model: str) -> None:
    """A model of races has no tie parameter: what stands last is the strength of an item."""
    link = "bradley_terry" if model == "plackett_luce" else "davidson"
    rows = simulate_battles(200, TRUTH, model=link, random_state=0).table.to_pydict()
    asked = Request.of(rows, model, {}, 0)
    problem = battle_problem(asked, asked.battles())
    found = estimate(problem, Inference())
    np.testing.assert_array_equal(start_near(problem, problem, found), found.x)
