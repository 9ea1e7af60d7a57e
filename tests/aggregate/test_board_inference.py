"""Intervals, ranks, components, priors, effects, teams, anchors, bootstrap and HodgeRank."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from luce.aggregate import leaderboard, score_board, simulate_battles
from luce.aggregate.board.newton import inverse
from luce.aggregate.board.posterior import rank_sets
from luce.errors import DataError, LuceWarning, SettingError
from luce.numerics import links


def by_name(board, column: str = "strength") -> np.ndarray:
    return np.asarray(getattr(board, column))[np.argsort(board.names)]


@pytest.fixture(scope="module")
def arena():
    return simulate_battles(4000, np.linspace(1.0, -1.0, 6), tie=0.8, random_state=0)


def test_covariance_has_no_location(arena) -> None:
    board = leaderboard(arena.table)
    assert board.weights.sum() == pytest.approx(1.0)
    assert board.strength @ board.weights == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(board.covariance @ board.weights, 0.0, atol=1e-9)


@pytest.mark.parametrize("scale", ["log", "elo"])
def test_an_anchor_only_shifts(arena, scale) -> None:
    free = leaderboard(arena.table, scale=scale)
    tied = leaderboard(arena.table, scale=scale, anchor="player3", anchor_at=7.0)
    assert by_name(tied)[2] == pytest.approx(7.0)
    shift = tied.strength - free.strength
    np.testing.assert_allclose(shift, shift[0], atol=1e-9)
    for column in ("se", "rank", "rank_lower", "rank_upper"):
        np.testing.assert_array_equal(getattr(tied, column), getattr(free, column))
    np.testing.assert_allclose(tied.upper - tied.lower, free.upper - free.lower, atol=1e-9)
    with pytest.raises(SettingError, match="without an anchor"):
        leaderboard(arena.table, anchor_at=3.0)


def test_elo_scale(arena) -> None:
    logits, elo = leaderboard(arena.table), leaderboard(arena.table, scale="elo")
    np.testing.assert_allclose(elo.strength, 1000 + logits.strength * 400 / np.log(10), atol=1e-9)
    np.testing.assert_allclose(elo.se, logits.se * 400 / np.log(10), atol=1e-9)
    assert elo.win_probability("player1", "player6") == logits.win_probability("player1", "player6")
    # Without draws, 400 points are odds of ten to one.
    board = leaderboard({"a": ["x"] * 2, "b": ["y"] * 2, "outcome": ["a", "b"], "n": [10, 1]}, count="n", scale="elo")
    assert board.strength[0] - board.strength[1] == pytest.approx(400.0)
    with pytest.raises(SettingError, match="no odds"):
        leaderboard(arena.table, model="hodge", scale="elo")


def test_sandwich_equals_curvature_where_the_model_is_true() -> None:
    battles = simulate_battles(60_000, np.linspace(1.0, -1.0, 6), tie=0.8, random_state=1)
    robust, plain = (leaderboard(battles.table, errors=e) for e in ("sandwich", "curvature"))
    np.testing.assert_allclose(robust.se, plain.se, rtol=0.03)


def test_bootstrap_agrees_with_sandwich(arena) -> None:
    plain = leaderboard(arena.table)
    sampled = leaderboard(arena.table, bootstrap=300, random_state=2)
    np.testing.assert_array_equal(sampled.strength, plain.strength)
    np.testing.assert_allclose(sampled.se, plain.se, rtol=0.2)
    assert sampled.draws is not None
    assert sampled.draws.shape == (300, 6)
    again = leaderboard(arena.table, bootstrap=300, random_state=2)
    np.testing.assert_array_equal(sampled.lower, again.lower)


@pytest.mark.parametrize("bootstrap", [0, 200])
def test_groups_that_repeat_themselves_widen_the_intervals(arena, bootstrap: int) -> None:
    """Every battle told nine times by one judge says no more than once; its errors are three times the naive ones."""
    rows = {c: np.repeat(arena.table[c].to_numpy(zero_copy_only=False), 9) for c in arena.table.column_names}
    rows["judge"] = np.repeat(np.arange(arena.table.num_rows), 9)
    naive = leaderboard(rows)
    grouped = leaderboard(rows, group="judge", bootstrap=bootstrap)
    np.testing.assert_allclose(grouped.strength, naive.strength, atol=1e-9)
    np.testing.assert_allclose(grouped.se, 3 * naive.se, rtol=1e-6 if not bootstrap else 0.2)


@pytest.mark.parametrize("weighted", [False, True])
def test_bootstrap_of_rows_with_weights(arena, weighted: bool) -> None:
    rows = {c: arena.table[c].to_numpy(zero_copy_only=False)[:1500] for c in arena.table.column_names}
    rows["w"] = np.where(np.arange(1500) % 2, 1.0, 3.0) if weighted else np.ones(1500)
    plain = leaderboard(rows, weight="w")
    sampled = leaderboard(rows, weight="w", bootstrap=200)
    np.testing.assert_allclose(sampled.se, plain.se, rtol=0.2)


def test_rank_sets_cover() -> None:
    """Sets of ranks at 90% hold the true rank at least 90% of the time, also where two items are equal or close."""
    rng = np.random.default_rng(3)
    truth, n = np.array([1.0, 0.3, 0.28, 0.0, -0.5]), 5
    covariance = 0.04 * (np.eye(n) - 1.0 / n)
    component = np.zeros(n, dtype=np.int64)
    hits = np.zeros(n)
    for _ in range(400):
        estimate = truth + rng.multivariate_normal(np.zeros(n), covariance, method="eigh")
        deviations = rng.multivariate_normal(np.zeros(n), covariance, 400, method="eigh")
        sets = rank_sets(estimate, covariance, deviations, component, 0.9)
        hits += (sets.lower <= np.arange(1, n + 1)) & (np.arange(1, n + 1) <= sets.upper)
    assert np.all(hits / 400 >= 0.87)


def test_equal_items_share_a_rank() -> None:
    rows = {"a": ["x", "y", "x", "y"], "b": ["y", "x", "z", "z"], "outcome": ["a", "a", "a", "a"]}
    board = leaderboard(rows, model="bradley_terry")
    assert by_name(board, "rank").tolist() == [1, 1, 3]


def test_components_are_ranked_apart() -> None:
    rows = {
        "a": ["x", "y", "x", "u", "v", "u"],
        "b": ["y", "x", "y", "v", "u", "v"],
        "outcome": ["a", "a", "a", "a", "a", "tie"],
    }
    board = leaderboard(rows)
    assert sorted(map(sorted, board.components)) == [["u", "v"], ["x", "y"]]
    assert by_name(board, "rank").tolist() == [1, 1, 1, 2]
    assert by_name(board, "rank_upper").max() == 2
    assert any("2 components" in note for note in board.notes)
    with pytest.raises(DataError, match="not linked by any chain"):
        board.win_probability("x", "u")
    assert np.isnan(board.win_matrix()[board.names.index("x"), board.names.index("u")])


def test_an_item_that_never_wins_is_finite_and_said() -> None:
    rows = {"a": ["x", "y", "x", "y", "x"], "b": ["y", "x", "z", "z", "y"], "outcome": ["a", "a", "a", "a", "tie"]}
    board = leaderboard(rows)
    assert board.names[-1] == "z"
    assert np.isfinite(board.strength).all()
    assert np.isnan(board.se).tolist() == [False, False, True]
    assert board.prior == 0.1
    assert any("'z'" in note and "prior" in note for note in board.notes)
    with pytest.raises(DataError, match="infinite"):
        leaderboard(rows, prior=0.0)
    assert abs(by_name(leaderboard(rows, prior=1.0))[2]) < abs(by_name(board)[2])


def test_a_prior_is_a_ridge(arena) -> None:
    """At the maximum of the posterior the gradient of the likelihood equals prior times strength."""
    rows = {"a": ["x", "x"], "b": ["y", "y"], "outcome": ["a", "b"], "n": [7, 3]}
    board = leaderboard(rows, model="bradley_terry", count="n", prior=0.5)
    s = by_name(board)
    p = board.win_probability("x", "y")
    assert 7 * (1 - p) - 3 * p == pytest.approx(0.5 * s[0])
    assert s.sum() == pytest.approx(0.0, abs=1e-12)


def test_unbounded_races_get_a_prior() -> None:
    """PMOP ties give no lower bound to a member of a tied tier; the failed search is noticed, said and mended."""
    rows = {"race": [1, 1, 1, 2, 2], "competitor": ["i", "j", "k", "k", "i"], "place": [1, 1, 2, 1, 2]}
    board = leaderboard(rows, model="pmop")
    assert board.converged
    assert np.isfinite(board.strength).all()
    assert board.prior > 0
    assert any("no finite maximum" in note for note in board.notes)


def test_not_converged_is_never_silent() -> None:
    rows = {"race": [1, 1, 1, 2, 2], "competitor": ["i", "j", "k", "k", "i"], "place": [1, 1, 2, 1, 2]}
    with pytest.warns(LuceWarning, match="did not converge"):
        board = leaderboard(rows, model="pmop", prior=0.0)
    assert not board.converged


def test_side_effect_with_neutral_ground() -> None:
    battles = simulate_battles(40_000, np.linspace(1, -1, 5), tie=0.7, side=0.5, random_state=4)
    more = simulate_battles(10_000, np.linspace(1, -1, 5), tie=0.7, side=0.0, random_state=5)
    import pyarrow as pa

    table = pa.concat_tables([battles.table, more.table])
    table = table.append_column("neutral", pa.array(np.arange(50_000) >= 40_000))
    board = leaderboard(table, side=True, neutral="neutral")
    assert board.effects["side"].value == pytest.approx(0.5, abs=0.06)
    assert board.effects["side"].lower < 0.5 < board.effects["side"].upper
    home = board.win_probability("player1", "player2", side=1)
    assert home > board.win_probability("player1", "player2") > board.win_probability("player1", "player2", side=-1)
    with pytest.raises(SettingError, match="no effect 'wind'"):
        board.win_probability("player1", "player2", covariates={"wind": 1.0})


def test_covariates_are_recovered_in_their_own_units() -> None:
    rng = np.random.default_rng(6)
    n, truth = 30_000, np.array([0.5, 0.0, -0.5])
    a = rng.integers(0, 3, n)
    b = (a + rng.integers(1, 3, n)) % 3
    z = rng.normal(size=(n, 2)) * [100.0, 0.01]
    link = links.get("davidson")
    d = truth[a] - truth[b] + z @ [0.004, 30.0]
    win, loss = np.exp(link.win(d, -0.3).value), np.exp(link.win(-d, -0.3).value)
    u = rng.random(n)
    outcome = np.where(u < win, "a", np.where(u < win + loss, "b", "tie"))
    names = np.array(["x", "y", "z"])
    rows = {"a": names[a], "b": names[b], "outcome": outcome, "length": z[:, 0], "style": z[:, 1]}
    board = leaderboard(rows, covariates=["length", "style"])
    for name, expected in (("length", 0.004), ("style", 30.0)):
        effect = board.effects[name]
        assert abs(effect.value - expected) < 4 * effect.se
        assert effect.se < 0.05 * expected
    np.testing.assert_allclose(by_name(board), truth, atol=0.06)
    with pytest.raises(DataError, match="cannot be told from"):
        leaderboard({**rows, "twice": 2 * z[:, 0]}, covariates=["length", "twice"])
    with pytest.raises(DataError, match="is 0 in every battle"):
        leaderboard({**rows, "none": np.zeros(n)}, covariates=["none"])


def test_teams_are_sums() -> None:
    rng = np.random.default_rng(7)
    truth = np.array([0.8, 0.4, 0.0, -0.4, -0.8, 0.0])
    names, n = list("uvwxyz"), 20_000
    order = rng.permuted(np.tile(np.arange(6), (n, 1)), axis=1)
    d = truth[order[:, :2]].sum(axis=1) - truth[order[:, 2:4]].sum(axis=1)
    outcome = np.where(rng.random(n) < 1 / (1 + np.exp(-d)), "a", "b")
    a = ["+".join(names[i] for i in row[:2]) for row in order]
    b = ["+".join(names[i] for i in row[2:4]) for row in order]
    board = leaderboard({"a": a, "b": b, "outcome": outcome}, model="bradley_terry", team_separator="+")
    assert np.all(np.abs(by_name(board) - truth) < 4 * by_name(board, "se"))
    assert board.games.sum() == 4 * n
    lists = {"a": [t.split("+") for t in a], "b": [t.split("+") for t in b], "outcome": outcome}
    np.testing.assert_allclose(by_name(leaderboard(lists, model="bradley_terry")), by_name(board), atol=1e-9)
    expected = 1 / (1 + np.exp(-(by_name(board)[[0, 4]].sum() - by_name(board)[[1, 2]].sum())))
    assert board.win_probability(["u", "y"], ["v", "w"]) == pytest.approx(expected)
    with pytest.raises(DataError, match="plays on both sides"):
        leaderboard({"a": ["u+v"], "b": ["v+w"], "outcome": ["a"]}, team_separator="+")


def test_members_that_never_play_apart_share() -> None:
    rows = {"a": ["u+v", "w+x", "u+v"], "b": ["w+x", "u+v", "w+x"], "outcome": ["a", "a", "a"]}
    board = leaderboard(rows, model="bradley_terry", team_separator="+")
    s = by_name(board)
    assert s[0] == pytest.approx(s[1])
    assert s[:2].sum() - s[2:].sum() == pytest.approx(np.log(2.0))
    assert any("never play apart" in note for note in board.notes)


def test_hodge_is_least_squares() -> None:
    """Strengths from the normal equations, and shares of gradient, curl and harmonic from dense projections."""
    rng = np.random.default_rng(8)
    pairs = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 0)]
    counts = rng.integers(1, 9, (len(pairs), 3))
    rows = {
        "a": [f"p{i}" for i, _ in pairs for _ in range(3)],
        "b": [f"p{j}" for _, j in pairs for _ in range(3)],
        "outcome": ["a", "b", "tie"] * len(pairs),
        "n": counts.ravel(),
    }
    board = leaderboard(rows, model="hodge", count="n")
    games = counts.sum(axis=1)
    margin = (counts[:, 0] - counts[:, 1]) / games
    X = np.zeros((len(pairs), 5))
    for r, (i, j) in enumerate(pairs):
        X[r, i], X[r, j] = 1.0, -1.0
    root = np.sqrt(games)[:, None]
    s = np.linalg.lstsq(root * X, root[:, 0] * margin)[0]
    np.testing.assert_allclose(by_name(board), s - s @ by_name(board, "weights"), atol=1e-9)
    whole = np.sum(games * margin**2)
    residual = margin - X @ s
    curl_basis = np.array([1.0, 1.0, -1.0, 0, 0, 0])[:, None] / root
    fitted = curl_basis @ np.linalg.lstsq(curl_basis, root[:, 0] * residual)[0]
    assert board.hodge is not None
    assert board.hodge.cyclic == pytest.approx(np.sum(games * residual**2) / whole)
    assert board.hodge.curl == pytest.approx(np.sum(fitted**2) / whole, abs=1e-8)
    assert board.hodge.gradient + board.hodge.curl + board.hodge.harmonic == pytest.approx(1.0)
    assert np.isnan(board.log_likelihood)
    with pytest.raises(SettingError, match="no probabilities"):
        board.win_probability("p0", "p1")


def test_hodge_of_a_pure_cycle() -> None:
    rows = {"a": ["rock", "scissors", "paper"], "b": ["scissors", "paper", "rock"], "outcome": ["a", "a", "a"]}
    board = leaderboard(rows, model="hodge")
    assert board.hodge is not None
    assert board.hodge.cyclic == pytest.approx(1.0)
    assert board.hodge.curl == pytest.approx(1.0)
    np.testing.assert_allclose(board.strength, 0.0, atol=1e-12)
    first, second, third, curl = board.triangles[0]
    assert (first, second, third) in set(itertools.permutations(("rock", "scissors", "paper")))
    assert {"rock": "scissors", "scissors": "paper", "paper": "rock"}[first] == second
    assert curl == pytest.approx(3.0)


def test_probabilities_and_matrices_agree(arena) -> None:
    for model in ("davidson", "rao_kupper", "thurstone_mosteller", "bradley_terry", "plackett_luce", "pmop"):
        table = arena.table
        if model == "plackett_luce":
            table = table.filter(np.asarray(table["outcome"]) != "tie")
        board = leaderboard(table, model=model)
        wins, draws = board.win_matrix(), board.draw_matrix()
        off = ~np.eye(6, dtype=bool)
        np.testing.assert_allclose((wins + wins.T + draws)[off], 1.0, atol=1e-12)
        i, j = board.names.index("player2"), board.names.index("player5")
        assert wins[i, j] == pytest.approx(board.win_probability("player2", "player5"))
        assert draws[i, j] == pytest.approx(board.draw_probability("player2", "player5"))


def test_plackett_luce_of_battles_is_bradley_terry() -> None:
    battles = simulate_battles(500, 5, model="bradley_terry", random_state=9).table
    one, two = (leaderboard(battles, model=m) for m in ("plackett_luce", "bradley_terry"))
    np.testing.assert_allclose(by_name(one), by_name(two), atol=1e-8)
    np.testing.assert_allclose(by_name(one, "se"), by_name(two, "se"), atol=1e-8)
    assert one.log_likelihood == pytest.approx(two.log_likelihood)


def test_no_draws_is_bradley_terry_and_said() -> None:
    battles = simulate_battles(500, 5, model="bradley_terry", random_state=10).table
    one, two = (leaderboard(battles, model=m) for m in ("davidson", "bradley_terry"))
    np.testing.assert_allclose(one.strength, two.strength, atol=1e-9)
    assert one.draw_probability("player1", "player2") == 0.0
    assert any("No battle is a draw" in note for note in one.notes)


def test_pictures(arena, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    board = leaderboard(arena.table)
    board.plot(tmp_path / "board.svg")
    board.plot_win_matrix(tmp_path / "wins.svg", top=4)
    assert "player6" in (tmp_path / "board.svg").read_text()
    assert (tmp_path / "wins.svg").read_text().count("<image") >= 1
    with pytest.raises(SettingError, match=r"\.png, \.svg, \.pdf"):
        board.plot(tmp_path / "board.gif")


def test_a_long_chain_of_opponents_converges() -> None:
    """60 players who each meet only their neighbours: strengths span 118 logits, and the closed form is exact."""
    names = [f"p{i:02d}" for i in range(60)]
    rows = {"a": names[:-1] * 2, "b": names[1:] * 2, "outcome": ["a"] * 59 + ["b"] * 59, "n": [74] * 59 + [10] * 59}
    board = leaderboard(rows, model="bradley_terry", count="n")
    assert board.converged
    np.testing.assert_allclose(np.diff(by_name(board)), -np.log(7.4), atol=1e-8)


def test_inverse_leaves_out_what_has_no_curvature() -> None:
    null = np.full((3, 1), 3**-0.5)
    laplacian = np.array([[2.0, -1, -1], [-1, 2, -1], [-1, -1, 2]])
    np.testing.assert_allclose(inverse(laplacian, null), np.linalg.pinv(laplacian), atol=1e-12)
    np.testing.assert_allclose(inverse(np.diag([4.0, -1.0, 0.0]), null[:, :0]), np.diag([0.25, 0.0, 0.0]), atol=1e-12)


@pytest.mark.parametrize("circle", ["xyz", "zyx"])
def test_a_circle_is_named_in_the_direction_in_which_it_runs(circle) -> None:
    """Each item of the triangle does better than it should against the next one."""
    rows = {"a": list(circle), "b": [*circle[1:], circle[0]], "outcome": ["a"] * 3}
    board = leaderboard(rows, model="hodge")
    first, second, third, curl = board.triangles[0]
    assert first + second + third in (circle * 2)
    assert curl == pytest.approx(3.0)


def test_cycles_are_kept_as_positions_and_handed_out_as_copies() -> None:
    rows = {"a": list("xyzxy"), "b": list("yzxzz"), "outcome": list("aaaba")}
    board = leaderboard(rows, model="hodge")
    assert board.hodge is not None
    i, j, k, curl = board.hodge.triangles[0]
    assert board.triangles[0] == (board.names[i], board.names[j], board.names[k], curl)
    told = board.as_dict()["hodge"]
    assert told["triangles"] == board.triangles
    told["gradient"] = 99.0
    assert board.hodge.gradient < 1.0
    assert board.treatment == board.model.draws == "model"


@pytest.mark.parametrize("model", ["davidson", "hodge", "bradley_terry", "plackett_luce"])
def test_a_category_without_a_battle_of_two_sides_is_left_out(model) -> None:
    rows = {"a": list("xyzxyxxyy"), "b": list("yzxzzyzxy"), "outcome": list("aaabababa"), "kind": [*"p" * 8, "q"]}
    boards = leaderboard(rows, model, by="kind", self_battles="drop")
    assert list(boards) == ["p"]
    assert "No board of 'q': No battle of two sides is left; at least one is needed." in boards.notes


def test_a_picture_can_be_pickled_before_it_is_drawn() -> None:
    rows = {"a": list("xyx"), "b": list("yxy"), "outcome": list("aab"), "kind": list("ppp")}
    boards = leaderboard(rows, by="kind")
    for drawn_by in (boards.plot, boards.overall.plot, boards.overall.plot_win_matrix):
        assert pickle.loads(pickle.dumps(drawn_by)).__name__ == drawn_by.__name__


def test_boards_of_every_kind_share_one_posterior() -> None:
    """Differences, components and quasi-variances of battles, of strengths that move, and of scores."""
    battles = simulate_battles(400, 5, random_state=2).table.to_pydict()
    tasks = {f"t{k}": np.random.default_rng(k).normal(size=5) for k in range(8)}
    moving = leaderboard({**battles, "time": np.linspace(0.0, 1.0, 400)}, time="time")
    scored = score_board({"model": list("vwxyz"), **tasks}, resamples=100)
    for board in (leaderboard(battles), moving, scored):
        first, *others = board.differences(board.names[0])
        assert (first["difference"], first["se"]) == (0.0, 0.0)
        assert [row["name"] for row in others] == list(board.names[1:])
        variance = board.covariance[0, 0] + board.covariance[1, 1] - 2.0 * board.covariance[0, 1]
        assert others[0]["se"] == pytest.approx(np.sqrt(variance))
        assert board.components == [list(board.names)]
        assert board.quasi_variances is None or len(board.quasi_variances.values) == 5
