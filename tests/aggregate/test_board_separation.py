"""Newcomers and separated items: errors that they do not spoil, one-sided intervals, quasi-variances."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from benchmarks.board_coverage import contradictions, newcomer_board
from luce.aggregate import leaderboard, simulate_battles
from luce.aggregate.board.likelihood import get_model
from luce.aggregate.board.posterior import quasi_variances
from luce.aggregate.board.separation import Results, runs_away
from luce.errors import DataError, UnknownNameError


@pytest.fixture(scope="module")
def arena() -> dict[str, list[str]]:
    return simulate_battles(1500, np.linspace(1.0, -1.0, 8), tie=0.8, random_state=0).table.to_pydict()


def joined(arena: dict[str, list[str]], *rows: tuple[str, str, str]) -> dict[str, list[str]]:
    return {c: [*arena[c], *(row[k] for row in rows)] for k, c in enumerate(("a", "b", "outcome"))}


def column(board, name: str) -> dict[str, float]:
    return dict(zip(board.names, np.asarray(getattr(board, name)).tolist(), strict=True))


@pytest.mark.parametrize("errors", ["sandwich", "curvature"])
def test_a_newcomer_spoils_no_error(arena, errors) -> None:
    before = leaderboard(arena, errors=errors)
    after = leaderboard(joined(arena, ("new", "player1", "b"), ("player4", "new", "a")), errors=errors)
    assert after.separated == {"new": "below"}
    for name, se in column(before, "se").items():
        assert column(after, "se")[name] == pytest.approx(se, rel=0.01)
        assert column(after, "strength")[name] == pytest.approx(column(before, "strength")[name], abs=0.02)
    assert any("'new'" in note for note in after.notes)


def test_draws_alone_do_not_make_a_strength_certain(arena) -> None:
    """Draws with equals have scores of 0, and no scatter: by the sandwich alone the newcomer would be known exactly."""
    rows = joined(arena, *(("new", opponent, "tie") for opponent in sorted(set(arena["a"]))[:3]))
    curvature = column(leaderboard(rows, errors="curvature"), "se")["new"]
    for settings in ({}, {"bootstrap": 200}):
        board = leaderboard(rows, random_state=0, **settings)
        assert column(board, "se")["new"] > 0.6 * curvature
        assert column(board, "rank_upper")["new"] == len(board.names)


def test_intervals_with_newcomers_cover() -> None:
    """Sixty boards of six items and two newcomers with four battles, often separated.

    Of 120 intervals of newcomers at 95% at least 100 hold, and of 360 of the others 328 (four standard errors less;
    benchmarks/board_coverage.py has the figures of 2,000 boards).
    """
    rng = np.random.default_rng(0)
    truth = np.append(np.linspace(0.8, -0.8, 6), [-2.0, 2.0])
    first, second = np.triu_indices(6, 1)
    names = np.array([f"p{i}" for i in range(8)])
    held, separated = np.zeros(8), 0
    for _ in range(60):
        a = np.concatenate([np.repeat(first, 30), np.repeat([6, 7], 4)])
        b = np.concatenate([np.repeat(second, 30), rng.integers(0, 6, 8)])
        # Davidson with nu = 1: weights e^(d/2), e^(-d/2) and 1.
        half = 0.5 * (truth[a] - truth[b])
        weights = np.column_stack([np.exp(half), np.exp(-half), np.ones(len(a))])
        drawn = (rng.random((len(a), 1)) > np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
        board = leaderboard({"a": names[a], "b": names[b], "outcome": np.array(["a", "b", "tie"])[drawn]})
        row = np.array([int(name[1:]) for name in board.names])
        true = truth[row] - truth[row] @ board.weights
        held[row] += (board.lower <= true) & (true <= board.upper)
        separated += len(board.separated)
    assert separated > 20
    assert held[6:].sum() >= 100
    assert held[:6].sum() >= 328


def reference_end(rows: dict[str, list[str]], item: str, others: dict[str, float], model: str, sign: float) -> float:
    """The profile by a general optimiser, with the item held at a distance from the weighted mean of the others."""
    link = get_model(model).link
    assert link is not None
    names = [item, *others]
    weight = np.array([0.0, *others.values()])
    number = {name: i for i, name in enumerate(names)}
    a, b = (np.array([number[x] for x in rows[c]]) for c in ("a", "b"))
    won = np.array([{"a": 0, "b": 1, "tie": 2}[o] for o in rows["outcome"]])

    def loss(free: np.ndarray, tau: float) -> float:
        s = np.concatenate([[0.0], free[:-1]])
        s[0] = s @ weight + tau
        d = s[a] - s[b]
        logs = np.stack([link.win(d, free[-1]).value, link.win(-d, free[-1]).value, link.tie(d, free[-1]).value])
        return -float(np.sum(logs[won, np.arange(len(d))]))

    def profile(tau: float) -> float:
        return float(minimize(loss, np.zeros(len(names)), (tau,), "BFGS", options={"gtol": 1e-8}).fun)

    best = profile(-30.0 * sign)
    return float(brentq(lambda tau: 2 * (profile(tau) - best) - 2 * np.log(40), -9.0, 9.0, xtol=1e-5))


@pytest.mark.parametrize("model", ["davidson", "rao_kupper"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_sided_intervals_are_profiles(model, sign) -> None:
    few = simulate_battles(40, [0.4, 0.0, -0.4], tie=0.8, random_state=1).table.to_pydict()
    result = "b" if sign > 0 else "a"
    rows = joined(few, ("z", "player1", result), ("z", "player2", result), ("z", "player2", result))
    for bootstrap in (0, 20):
        board = leaderboard(rows, model=model, bootstrap=bootstrap)
        others = {n: w for n, w in column(board, "weights").items() if n != "z"}
        end = reference_end(rows, "z", others, model, sign)
        assert column(board, "weights")["z"] == 0.0
        near, far = ("upper", "lower") if sign > 0 else ("lower", "upper")
        assert column(board, near)["z"] == pytest.approx(end, abs=1e-4)
        assert column(board, far)["z"] == -sign * np.inf
        assert abs(column(board, "strength")["z"]) > abs(end)


def test_one_sided_interval_of_a_race() -> None:
    """Item z is last in every race: at a distance tau below an equal pair it loses to both."""
    rows = {"race": [1, 1, 1, 2, 2, 2], "competitor": list("xyzyxz"), "place": [1, 2, 3] * 2}
    board = leaderboard(rows, model="plackett_luce")
    assert board.separated == {"z": "below"}
    # By symmetry x = y = 0, so that only P(z is not chosen) at two stages of two races is at stake.
    expected = brentq(lambda t: 4 * (np.log1p(np.exp(t) / 2) + np.log1p(np.exp(t))) - 2 * np.log(40), -9, 9)
    assert column(board, "upper")["z"] == pytest.approx(expected, abs=1e-4)


def test_components_above_below_and_apart(arena) -> None:
    """A pair that beats all, one that loses to all, and two that only met the one below."""
    rows = joined(
        arena,
        *[("up1", "up2", "a"), ("up2", "up1", "a"), ("up1", "player1", "a"), ("up2", "player8", "a")],
        *[("low1", "low2", "tie"), ("low1", "player3", "b")],
        *[("odd", "low1", "a")],
    )
    board = leaderboard(rows)
    assert board.separated == {"up1": "above", "up2": "above", "low1": "below", "low2": "below", "odd": "apart"}
    assert (column(board, "lower")["odd"], column(board, "upper")["odd"]) == (-np.inf, np.inf)
    assert np.isfinite(column(board, "lower")["up2"])
    assert np.isfinite(column(board, "upper")["low2"])
    with pytest.raises(DataError, match="'low1', 'low2'"):
        leaderboard(rows, prior=0.0)


def test_a_chain_of_single_wins() -> None:
    """Nothing is known but the order, and there is no mean to measure a distance from."""
    board = leaderboard({"a": ["x", "y"], "b": ["y", "z"], "outcome": ["a", "a"]}, model="bradley_terry")
    assert board.names == ("x", "y", "z")
    assert np.isfinite(board.strength).all()
    assert board.separated == dict.fromkeys("xyz", "apart")
    assert np.all(np.isinf(board.lower) & np.isinf(board.upper))


def test_the_tie_parameter_runs_away_iff_no_cycle_has_more_wins_than_draws() -> None:
    """Against all simple cycles of random graphs of four items."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        pairs = list(itertools.combinations(range(4), 2))
        kind = rng.choice(5, len(pairs), p=[0.3, 0.2, 0.2, 0.2, 0.1])
        wins = [p for p, k in zip(pairs, kind, strict=True) if k in (1, 4)]
        wins += [(j, i) for (i, j), k in zip(pairs, kind, strict=True) if k == 2]
        draws = [p for p, k in zip(pairs, kind, strict=True) if k in (3, 4)]
        if not wins or not draws:
            continue
        cost = {(i, j): 1.0 for a, b in draws for i, j in ((a, b), (b, a))} | dict.fromkeys(wins, -1.0)
        cycles = (c for size in (2, 3, 4) for c in itertools.permutations(range(4), size))
        lengths = (sum(cost.get(e, np.inf) for e in zip(c, (*c[1:], c[0]), strict=True)) for c in cycles)
        expected = not any(length < 0 for length in lengths)
        w, d = np.array(wins).T, np.array(draws).T
        assert runs_away(Results(4, w[0], w[1], d[0], d[1], True)) == expected
        seen.add(expected)
    assert seen == {True, False}


def test_a_runaway_is_finite_and_said() -> None:
    rows = {"a": ["x", "x"], "b": ["y", "y"], "outcome": ["a", "tie"]}
    board = leaderboard(rows)
    assert board.converged
    assert np.isfinite(board.strength).all()
    assert any("more wins than draws" in note for note in board.notes)


def test_differences_from_an_anchor_have_their_own_errors(arena) -> None:
    board = leaderboard(arena)
    rows = {row["name"]: row for row in board.differences("player3")}
    i, j = board.names.index("player1"), board.names.index("player3")
    step = np.zeros(8)
    step[i], step[j] = 1.0, -1.0
    assert rows["player1"]["se"] == pytest.approx(np.sqrt(step @ board.covariance @ step))
    assert rows["player1"]["difference"] == pytest.approx(board.strength[i] - board.strength[j])
    assert rows["player3"]["se"] == 0.0


def test_quasi_variances_reproduce_differences(arena) -> None:
    """At the minimum the gradient is 0; a diagonal covariance is given back; too few items have none."""
    rng = np.random.default_rng(1)
    q = rng.uniform(0.5, 2.0, 6)
    found = quasi_variances(np.diag(q) + 3.0)
    assert found is not None
    np.testing.assert_allclose(found.values, q, rtol=1e-8)
    assert found.worst < 1e-8
    board = leaderboard(arena)
    mine = board.quasi_variances
    assert mine is not None
    assert mine.worst < 0.05
    variance = np.diagonal(board.covariance)
    spread = variance[:, None] + variance - 2 * board.covariance + np.eye(8)
    total = mine.values[:, None] + mine.values
    gradient = np.sum((np.log(total) - np.log(spread)) / total * ~np.eye(8, dtype=bool), axis=1)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)
    assert quasi_variances(np.eye(2)) is None


def test_an_unknown_setting_is_named(arena) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'bootstrap'"):
        leaderboard(arena, bootstraps=3)


def test_a_separated_item_has_one_inference() -> None:
    """Random newcomers: strength inside its interval, rank inside its sets, and decided pairs have decided ends."""
    rng = np.random.default_rng(7)
    separated = 0
    for seed in range(12):
        rows = simulate_battles(200, np.linspace(0.8, -0.8, 5), tie=0.8, random_state=seed).table.to_pydict()
        losses = int(rng.integers(1, 14))
        rows = joined(rows, *(("new", f"player{rng.integers(1, 6)}", "b") for _ in range(losses)))
        board = leaderboard(rows)
        separated += "new" in board.separated
        assert np.all((board.lower <= board.strength) & (board.strength <= board.upper))
        assert np.all((board.rank_lower <= board.rank) & (board.rank <= board.rank_upper))
        assert np.all((board.rank_lower <= board.rank_each_lower) & (board.rank_each_upper <= board.rank_upper))
        i = board.names.index("new")
        ends = {row["name"]: row for row in board.differences("new")}
        for j in np.flatnonzero(board.surely_better[i]):
            assert ends[board.names[j]]["lower"] > 0.0
    assert separated == 12


def test_straight_losses_exclude_the_first_rank() -> None:
    """Twelve losses of twelve against equals: probability .5^12 were they equal, beyond any of these quantiles."""
    rows = {"a": ["x", "y"] * 20 + ["x", "y"] * 6, "b": ["y", "x"] * 20 + ["z"] * 12, "outcome": ["a"] * 52}
    board = leaderboard(rows, model="bradley_terry")
    assert board.separated == {"z": "below"}
    assert "z" not in board.may_be_best


@pytest.mark.parametrize(("far", "games"), [(-1.0, 3), (1.0, 3), (-4.0, 30), (4.0, 12), (-12.0, 400)])
def test_a_board_with_a_newcomer_does_not_contradict_itself(far: float, games: int) -> None:
    """Interval, differences, rank sets and `may_be_best` are one inference."""
    for seed in range(6):
        board = newcomer_board(far, games, np.random.default_rng(seed))
        assert contradictions(board) == []
