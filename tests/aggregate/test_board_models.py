"""Estimates against known truths, other programs, and derivatives against finite differences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from luce.aggregate import leaderboard, simulate_battles
from luce.aggregate.board.battles import Battles
from luce.aggregate.board.design import Counts, Design, collapse
from luce.aggregate.board.fitting_problem import paired_problem
from luce.aggregate.board.likelihood import BattleLikelihood, Hodge, get_model
from luce.aggregate.board.newton import Point
from luce.aggregate.board.options import Inference
from luce.aggregate.board.race_likelihood import RaceLikelihood
from luce.aggregate.board.races import Races
from luce.aggregate.board.solve import estimate
from luce.losses.pmop import PMOP

PAIRED = ["bradley_terry", "rao_kupper", "davidson", "thurstone_mosteller"]


def differences(function, x: np.ndarray) -> Point:
    """Gradient and Hessian by central differences of value and gradient."""
    step = 1e-5
    gradient, hessian = np.empty(len(x)), np.empty((len(x), len(x)))
    for i in range(len(x)):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        gradient[i] = (function(up).value - function(down).value) / (2 * step)
        hessian[i] = (function(up).gradient - function(down).gradient) / (2 * step)
    return Point(function(x).value, gradient, hessian)


def random_counts(rng: np.random.Generator, extra: int) -> Counts:
    first, second = np.triu_indices(5, 1)
    total = rng.integers(0, 6, (len(first), 3)).astype(float)
    return Counts(Design(5, first, second, rng.normal(size=(len(first), extra))), total, total)


@pytest.mark.parametrize("draws", ["model", "half", "drop"])
@pytest.mark.parametrize("name", PAIRED)
def test_paired_derivatives(name: str, draws: str) -> None:
    rng = np.random.default_rng(1)
    objective = BattleLikelihood(random_counts(rng, 2), get_model(name).link, draws)  # type: ignore[arg-type]
    x = rng.normal(size=objective.n_parameters)
    exact, near = objective(x), differences(objective, x)
    np.testing.assert_allclose(exact.gradient, near.gradient, atol=1e-6)
    np.testing.assert_allclose(exact.hessian, near.hessian, atol=1e-6)


def test_hodge_derivatives() -> None:
    rng = np.random.default_rng(2)
    objective = Hodge(random_counts(rng, 1))
    x = rng.normal(size=6)
    near = differences(objective, x)
    np.testing.assert_allclose(objective(x).gradient, near.gradient, atol=1e-6)
    np.testing.assert_allclose(objective(x).hessian, near.hessian, atol=1e-6)


def random_races(rng: np.random.Generator, ties: bool, covariates: int = 0) -> Races:
    sizes = rng.integers(2, 7, 12)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    item = np.concatenate([rng.choice(7, size, replace=False) for size in sizes])
    place = np.concatenate([rng.integers(1, 4, size) if ties else 1 + rng.permutation(size) for size in sizes])
    count = rng.integers(1, 4, len(sizes)).astype(float)
    values = rng.normal(size=(len(item), covariates)) if covariates else None
    names = tuple("abcdefg")
    return Races(
        names, item, place.astype(float), offsets, count, count, None, values, tuple(f"z{i}" for i in range(covariates))
    )


@pytest.mark.parametrize("covariates", [0, 2])
@pytest.mark.parametrize("ties", [False, True])
def test_race_derivatives(ties: bool, covariates: int) -> None:
    rng = np.random.default_rng(3)
    objective = RaceLikelihood(random_races(rng, ties, covariates))
    x = rng.normal(size=objective.n_parameters)
    exact, near = objective(x), differences(objective, x)
    np.testing.assert_allclose(exact.gradient, near.gradient, atol=1e-6)
    np.testing.assert_allclose(exact.hessian, near.hessian, atol=1e-6)


def test_race_likelihood_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(4)
    races = random_races(rng, ties=True)
    x = rng.normal(size=7)
    expected = 0.0
    for r, count in enumerate(races.count):
        rows = slice(races.offsets[r], races.offsets[r + 1])
        expected += count * PMOP().log_prob(x[races.item[rows]], -races.place[rows])
    objective = RaceLikelihood(races)
    assert objective.log_likelihood(x, objective(x)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", PAIRED)
def test_meat_is_the_sum_over_battles(name: str) -> None:
    """The middle of the sandwich from counts equals the sum of outer products of single battles' gradients."""
    rng = np.random.default_rng(5)
    link, draws = get_model(name).link, get_model(name).draws
    a = rng.integers(0, 4, 60)
    b = (a + rng.integers(1, 4, 60)) % 4
    battles = Battles(tuple("wxyz"), a, b, rng.integers(0, 3, 60), weight=rng.uniform(0.5, 2.0, 60), side=np.ones(60))
    objective = BattleLikelihood(collapse(battles), link, draws)  # type: ignore[arg-type]
    x = rng.normal(size=objective.n_parameters)
    expected = np.zeros((len(x), len(x)))
    for i in range(60):
        one = Battles(battles.names, a[i : i + 1], b[i : i + 1], battles.outcome[i : i + 1], side=np.ones(1))
        score = BattleLikelihood(collapse(one), link, draws)(x).gradient  # type: ignore[arg-type]
        expected += battles.weight[i] ** 2 * np.outer(score, score)  # type: ignore[index]
    np.testing.assert_allclose(objective.meat(x), expected, atol=1e-10)


def centred(board) -> np.ndarray:
    """Strengths in the order of the names, with mean 0."""
    strength = board.strength[np.argsort(board.names)]
    return strength - strength.mean()


def test_bradley_terry_equals_choix() -> None:
    choix = pytest.importorskip("choix")
    battles = simulate_battles(3000, 12, model="bradley_terry", random_state=6)
    board = leaderboard(battles.table, model="bradley_terry")
    number = {name: i for i, name in enumerate(battles.names)}
    a, b, outcome = (battles.table[c].to_pylist() for c in ("a", "b", "outcome"))
    wins = [
        (number[x], number[y]) if o == "a" else (number[y], number[x]) for x, y, o in zip(a, b, outcome, strict=True)
    ]
    theirs = choix.ilsr_pairwise(12, wins, tol=1e-12)
    theirs -= theirs.mean()
    np.testing.assert_allclose(centred(board), theirs, atol=1e-6)


def test_plackett_luce_equals_choix() -> None:
    choix = pytest.importorskip("choix")
    rng = np.random.default_rng(7)
    truth = rng.normal(size=8)
    orders = [list(rng.permutation(8)[: rng.integers(3, 9)]) for _ in range(300)]
    orders = [sorted(o, key=lambda i: -(truth[i] + rng.gumbel())) for o in orders]
    rows = {
        "race": [r for r, o in enumerate(orders) for _ in o],
        "competitor": [f"c{i}" for o in orders for i in o],
        "place": [k + 1 for o in orders for k in range(len(o))],
    }
    board = leaderboard(rows, model="plackett_luce")
    theirs = choix.ilsr_rankings(8, [tuple(int(i) for i in o) for o in orders], tol=1e-12)
    theirs -= theirs.mean()
    np.testing.assert_allclose(centred(board), theirs, atol=1e-6)


@pytest.mark.parametrize(("name", "tie"), [("davidson", 0.8), ("rao_kupper", 1.7), ("thurstone_mosteller", 0.4)])
def test_recovers_known_parameters(name: str, tie: float) -> None:
    truth = np.linspace(1.2, -1.2, 9)
    battles = simulate_battles(150_000, truth, model=name, tie=tie, side=0.3, random_state=8)
    board = leaderboard(battles.table, model=name, side=True)
    ours = dict(zip(board.names, board.strength, strict=True))
    np.testing.assert_allclose([ours[n] for n in battles.names], truth, atol=0.05)
    assert board.tie is not None
    assert board.tie.value == pytest.approx(tie, abs=0.03)
    assert board.effects["side"].value == pytest.approx(0.3, abs=0.03)
    expected = np.exp(get_model(name).link.tie([truth[0] - truth[8]], get_model(name).link.unconstrained(tie)).value[0])
    assert board.draw_probability("player1", "player9") == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("name", "tie"), [("davidson", 0.8), ("rao_kupper", 1.7)])
def test_intervals_cover(name: str, tie: float) -> None:
    """95% intervals of strengths and tie parameter cover 93 to 97% of the time over 1,000 boards."""
    link = get_model(name).link
    assert link is not None
    rng = np.random.default_rng(9)
    truth = np.array([0.8, 0.3, 0.0, -0.2, -0.9])
    t = link.unconstrained(tie)
    first, second = np.triu_indices(5, 1)
    d = truth[first] - truth[second]
    win, loss = np.exp(link.win(d, t).value), np.exp(link.win(-d, t).value)
    p = np.column_stack([win, loss, 1.0 - win - loss])
    hits = np.zeros(6)
    names = tuple("abcde")
    a, b = np.repeat(first, 3), np.repeat(second, 3)
    outcome = np.tile([0, 1, 2], len(first))
    for _ in range(1000):
        count = np.concatenate([rng.multinomial(60, row) for row in p]).astype(float)
        keep = count > 0
        battles = Battles(names, a[keep], b[keep], outcome[keep], count=count[keep])
        found = estimate(paired_problem(battles, get_model(name)), Inference())
        assert found.converged
        expected = np.append(truth - truth @ found.weights[:, 0], t)
        hits += np.abs(found.x - expected) < 1.959964 * np.sqrt(np.diagonal(found.covariance))
    share = hits / 1000
    assert 0.93 < share[:5].mean() < 0.97
    assert 0.93 < share[5] < 0.97
    # Of a single strength the sampling error of this check is 0.7%.
    assert np.all((share > 0.925) & (share < 0.975))


def test_half_wins_shrink() -> None:
    """Half-win Bradley-Terry of Davidson's draws: strengths come out at about two thirds of the truth."""
    truth = np.linspace(1.5, -1.5, 10)
    battles = simulate_battles(200_000, truth, model="davidson", tie=1.0, random_state=10)
    half = leaderboard(battles.table, model="bradley_terry")
    whole = leaderboard(battles.table, model="davidson")
    order = np.argsort(half.names)
    assert 0.6 < np.polyfit(truth, half.strength[order], 1)[0] < 0.75
    assert np.polyfit(truth, whole.strength[np.argsort(whole.names)], 1)[0] == pytest.approx(1.0, abs=0.03)


def test_pmop_of_races_with_ties_recovers_strengths() -> None:
    rng = np.random.default_rng(11)
    truth = np.array([1.0, 0.5, 0.0, -0.5, -1.0])
    labels = np.concatenate([PMOP().sample(truth, rng) for _ in range(4000)])
    rows = {
        "race": np.repeat(np.arange(4000), 5),
        "competitor": np.tile(np.array(list("abcde")), 4000),
        "place": 10 - labels,
    }
    board = leaderboard(rows, model="pmop")
    order = np.argsort(board.names)
    assert np.all(board.se < 0.08)
    expected = truth - truth @ board.weights[order]
    assert np.all(np.abs(board.strength[order] - expected) < 3.5 * board.se[order])
    assert board.win_probability("a", "e") + board.win_probability("e", "a") + board.draw_probability(
        "a", "e"
    ) == pytest.approx(1.0)


def test_davidson_of_two_players_in_closed_form() -> None:
    """Two players and three outcomes: the fitted probabilities are the observed shares."""
    rows = {"a": ["x", "x", "x"], "b": ["y", "y", "y"], "outcome": ["a", "b", "tie"], "n": [50, 20, 30]}
    for name in ("davidson", "rao_kupper", "thurstone_mosteller"):
        board = leaderboard(rows, model=name, count="n")
        assert board.win_probability("x", "y") == pytest.approx(0.5, abs=1e-9)
        assert board.draw_probability("x", "y") == pytest.approx(0.3, abs=1e-9)
        assert board.log_likelihood == pytest.approx(50 * np.log(0.5) + 20 * np.log(0.2) + 30 * np.log(0.3))


def test_likelihood_on_arena_counts() -> None:
    """On real arena counts the maximum is that of leaderbot's own likelihood, evaluated at our estimate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leaderbot = pytest.importorskip("leaderbot")
    data = leaderbot.data.load()
    names, pairs, counts = np.array(data["models"]), np.asarray(data["X"]), np.asarray(data["Y"])
    rows = {
        "a": np.tile(names[pairs[:, 0]], 3),
        "b": np.tile(names[pairs[:, 1]], 3),
        "outcome": np.repeat(["a", "b", "tie"], len(pairs)),
        "n": counts.T.ravel().astype(int),
    }
    for name, theirs in (("rao_kupper", leaderbot.models.RaoKupper), ("davidson", leaderbot.models.Davidson)):
        board = leaderboard(rows, model=name, count="n")
        strength = dict(zip(board.names, board.logits, strict=True))
        model = theirs(data, k_cov=None, k_tie=0)
        w = np.append([strength[n] for n in names], _leaderbot_tie(name, board))
        assert -board.log_likelihood == pytest.approx(float(model.loss(w)) * counts.sum(), rel=1e-6)


def _leaderbot_tie(name: str, board) -> float:
    return float(np.log(board.tie.value))
