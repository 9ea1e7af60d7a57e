"""Strengths that move, against a dense Gaussian process; the filter against the refit; updates; categories."""

from __future__ import annotations

import json
import pickle
import re
import sys

import numpy as np
import pytest
from scipy.special import roots_hermitenorm

from luce.aggregate import leaderboard, save_board, simulate_battles, update_board
from luce.aggregate.history import walks
from luce.aggregate.history.walks import Games, Parameters, diagonal_filter, filtered, most_probable
from luce.cli import main
from luce.errors import DataError, SettingError
from luce.numerics import links

LINK = links.get("davidson")


def season(players: int = 5, games: int = 60, seed: int = 0, days: int = 12) -> Games:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, days, games)).astype(float)
    walk = rng.normal(size=players) + np.cumsum(0.3 * rng.normal(size=(days, players)), axis=0)
    a = rng.integers(0, players, games)
    b = (a + rng.integers(1, players, games)) % players
    seen: dict[int, int] = {}
    for i in np.column_stack([a, b]).ravel():
        seen.setdefault(int(i), len(seen))
    d = walk[times.astype(int), a] - walk[times.astype(int), b]
    win, loss = np.exp(LINK.win(d, -0.3).value), np.exp(LINK.win(-d, -0.3).value)
    u = rng.random(games)
    outcome = np.where(u < win, 0, np.where(u < win + loss, 1, 2))
    rows = np.column_stack([[seen[int(i)] for i in a], [seen[int(i)] for i in b], outcome])
    return Games(len(seen), rows, (rng.random(games) < 0.5).astype(float), times)


def dense(games: Games, p: Parameters) -> tuple[dict[tuple[int, float], float], np.ndarray, float]:
    """The posterior by brute force: every (player, time) a node of a Gaussian process, Newton with full matrices."""
    nodes = sorted({(int(i), t) for row, t in zip(games.games, games.times, strict=True) for i in row[:2]})
    number = {node: k for k, node in enumerate(nodes)}
    first = {i: min(t for j, t in nodes if j == i) for i, _ in nodes}
    prior = np.array([[(p.start + p.step * (min(s, t) - first[i])) * (i == j) for j, t in nodes] for i, s in nodes])
    design = np.zeros((len(games.games), len(nodes)))
    for g, ((i, j, _), t) in enumerate(zip(games.games, games.times, strict=True)):
        design[g, number[int(i), t]], design[g, number[int(j), t]] = 1.0, -1.0
    x, precision, outcome = np.zeros(len(nodes)), np.linalg.inv(prior), games.games[:, 2]
    for _ in range(50):
        d = design @ x + p.home * games.sides
        terms = [LINK.win(d, p.t), LINK.win(-d, p.t), LINK.tie(d, p.t)]
        pick = np.arange(len(d))
        value = np.stack([k.value for k in terms])[outcome, pick]
        slope = np.stack([terms[0].d, -terms[1].d, terms[2].d])[outcome, pick]
        curve = -np.stack([k.dd for k in terms])[outcome, pick]
        hessian = precision + design.T @ (curve[:, None] * design)
        x = x + np.linalg.solve(hessian, design.T @ slope - precision @ x)
    log_marginal = value.sum() - 0.5 * x @ precision @ x - 0.5 * np.linalg.slogdet(prior @ hessian)[1]
    return {node: x[k] for node, k in number.items()}, np.linalg.inv(hessian), float(log_marginal)


@pytest.mark.parametrize("seed", [0, 1])
def test_mode_covariance_and_marginal_likelihood_are_those_of_a_gaussian_process(seed) -> None:
    games, p = season(seed=seed), Parameters(0.08, 1.3, -0.3, 0.4)
    expected, covariance, log_marginal = dense(games, p)
    found = most_probable(games, LINK, p, tolerance=1e-9)
    assert found.converged
    nodes = sorted(expected)
    assert [(int(i), t) for i, t in zip(found.player, found.time, strict=True)] == nodes
    np.testing.assert_allclose(found.strength, [expected[n] for n in nodes], atol=1e-6)
    last = [max(k for k, (i, _) in enumerate(nodes) if i == player) for player in range(5)]
    np.testing.assert_allclose(found.present.covariance, covariance[np.ix_(last, last)], atol=1e-6)
    assert found.log_marginal == pytest.approx(log_marginal, abs=1e-6)
    assert np.all(found.variance <= np.diagonal(covariance) + 1e-9)


def test_the_filter_is_near_the_refit() -> None:
    """The filter settles each game once: over a season it stays within a fifth of a standard error of the refit."""
    games, p = season(games=400, days=60), Parameters(0.02, 1.0, -0.3, 0.2)
    whole = most_probable(games, LINK, p).present
    present, foretold = filtered(games, LINK, p)
    np.testing.assert_allclose(foretold.sum(axis=1), 1.0, atol=1e-6)
    se = np.sqrt(np.diagonal(whole.covariance))
    assert np.max(np.abs(present.mean - whole.mean) / se) < 0.2
    np.testing.assert_allclose(np.sqrt(np.diagonal(present.covariance)), se, rtol=0.1)


def test_a_first_game_is_integrated_exactly() -> None:
    """Two unknown players: the probability of a draw is its mean over a normal difference."""
    games = Games(2, np.array([[0, 1, 2]]), np.zeros(1), np.zeros(1))
    nodes, weights = roots_hermitenorm(31)
    weights = weights / weights.sum()
    p = Parameters(0.1, 0.7, -0.2, 0.0)
    log_p = diagonal_filter(LINK.code, True, *games.arrays(p), p.step, p.start, p.t, nodes, weights)
    x = np.linspace(-12, 12, 20_001)
    density = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    expected = np.sum(density * np.exp(LINK.tie(x * np.sqrt(1.4), -0.2).value)) * (x[1] - x[0])
    assert np.exp(log_p) == pytest.approx(expected, rel=1e-6)


@pytest.fixture(scope="module")
def league() -> dict[str, list]:
    rng = np.random.default_rng(3)
    days, n = 600, 6
    walk = np.linspace(1, -1, n) + np.cumsum(0.05 * rng.normal(size=(days, n)), axis=0)
    rows: dict[str, list] = {"a": [], "b": [], "outcome": [], "date": []}
    for day in range(days):
        for _ in range(3):
            i, j = rng.choice(n, 2, replace=False)
            d = walk[day, i] - walk[day, j]
            win, loss = np.exp(LINK.win([d], -0.3).value[0]), np.exp(LINK.win([-d], -0.3).value[0])
            u = rng.random()
            rows["a"].append(f"p{i}")
            rows["b"].append(f"p{j}")
            rows["outcome"].append("a" if u < win else "b" if u < win + loss else "tie")
            rows["date"].append(str(np.datetime64("2020-01-01") + day))
    rows["truth"] = walk[-1].tolist()
    return rows


def battles_of(league: dict[str, list], cut: slice = slice(None)) -> dict[str, list]:
    return {k: league[k][cut] for k in ("a", "b", "outcome", "date")}


def test_drift_and_present_are_recovered(league) -> None:
    board = leaderboard(battles_of(league), time="date")
    yearly = 0.05 * np.sqrt(365.25)
    assert 0.5 * yearly < board.drift < 2.0 * yearly
    strength = dict(zip(board.names, board.strength, strict=True))
    truth = np.array(league["truth"])
    gap = np.array([strength[f"p{i}"] for i in range(6)]) - truth
    assert np.all(np.abs(gap - gap.mean()) < 4 * board.se.max())
    line = board.history("p0")
    assert np.all(np.diff(line.time) > 0)
    assert np.all(line.lower < line.upper)
    chance = board.win_probability("p0", "p5") + board.win_probability("p5", "p0") + board.draw_probability("p0", "p5")
    assert chance == pytest.approx(1.0, abs=1e-6)
    assert board.may_be_best[0] == board.names[0]


def test_inactivity_widens(league) -> None:
    rows = battles_of(league)
    board = leaderboard(rows, time="date")
    later = {k: [*v, x] for (k, v), x in zip(rows.items(), ("p1", "p2", "tie", "2031-01-01"), strict=True)}
    after = leaderboard(later, time="date", drift=board.drift)
    before, now = (dict(zip(b.names, b.se, strict=True)) for b in (board, after))
    assert now["p0"] > 3 * before["p0"]
    assert now["p0"] > now["p1"]
    assert any("future" in note for note in after.notes)


@pytest.mark.parametrize("time", [None, "date"])
def test_an_update_is_near_the_refit(league, tmp_path, time) -> None:
    columns = ("a", "b", "outcome") if time is None else ("a", "b", "outcome", "date")
    rows = {k: league[k] for k in columns}
    old, new = ({k: v[cut] for k, v in rows.items()} for cut in (slice(0, 1500), slice(1500, None)))
    settings = {} if time is None else {"time": time}
    first = leaderboard(old, **settings)
    save_board(first, tmp_path / "b.luce")
    updated = update_board(tmp_path / "b.luce", new, **settings)
    whole = leaderboard(rows, **settings, **({} if time is None else {"drift": first.drift}))
    ours, theirs = (dict(zip(b.names, b.strength, strict=True)) for b in (updated, whole))
    gap = max(abs(ours[n] - theirs[n]) for n in theirs)
    # Counts are kept whole; the filter moves within a fifth of a standard error.
    assert gap < (1e-9 if time is None else 0.2 * whole.se.max())
    with pytest.raises(SettingError, match="made with the model"):
        update_board(tmp_path / "b.luce", new, "rao_kupper", **settings)


@pytest.mark.parametrize("time", [None, "date"])
def test_an_update_leaves_out_what_the_board_has_seen(league, tmp_path, time) -> None:
    rows = battles_of(league) | {"battle_id": [str(i) for i in range(len(league["a"]))]}
    settings = {} if time is None else {"time": time}
    old, new, repeats = ({k: v[cut] for k, v in rows.items()} for cut in (slice(1500), slice(1500, None), slice(9, 99)))
    overlapping = {k: [*repeats[k], *new[k]] for k in rows}
    save_board(leaderboard(old, **settings), tmp_path / "b.luce")
    once = update_board(tmp_path / "b.luce", new, **settings)
    again = update_board(tmp_path / "b.luce", overlapping, **settings)
    np.testing.assert_array_equal(again.strength, once.strength)
    assert any(f"90 of {len(overlapping['a'])} battles were already among the 1,500" in n for n in again.notes)
    # The ids of the update are kept with it, whatever kind of number they are; nothing new leaves the board as it is.
    save_board(again, tmp_path / "c.luce")
    numbered = overlapping | {"battle_id": [float(i) for i in overlapping["battle_id"]]}
    same = update_board(tmp_path / "c.luce", numbered, **settings)
    np.testing.assert_allclose(same.strength, again.strength, atol=1e-9)
    if time is None:
        assert len(pickle.loads(pickle.dumps(leaderboard(old).kept)).read_ids()) == 1500
    # Another form of the names changes nothing, and is said.
    wide = new | {"a": [f"{name} " for name in new["a"]]}
    other = update_board(tmp_path / "b.luce", wide, **settings)
    np.testing.assert_allclose(other.strength, once.strength, atol=1e-9)
    assert any("are one" in note for note in other.notes)
    # Ids that are not ids: those of questions that many battles share are said, a column that was named is refused.
    shared = {k: v for k, v in new.items() if k != "battle_id"} | {"question_id": ["q"] * len(new["a"])}
    assert any(
        "repeats 'q'" in n and "count twice" in n for n in update_board(tmp_path / "b.luce", shared, **settings).notes
    )
    with pytest.raises(DataError, match="every battle needs an id of its own"):
        update_board(tmp_path / "b.luce", shared, id="question_id", **settings)
    with pytest.raises(DataError, match="no column 'no' for the id"):
        update_board(tmp_path / "b.luce", shared, id="no", **settings)


def test_mistakes(league, tmp_path) -> None:
    rows = battles_of(league)
    with pytest.raises(DataError, match="must be a date such as"):
        leaderboard({**rows, "date": ["soon"] * len(rows["a"])}, time="date")
    with pytest.raises(SettingError, match="does nothing for strengths that move"):
        leaderboard(rows, time="date", bootstrap=50)
    with pytest.raises(SettingError, match="a model of battles of two"):
        leaderboard(rows, "hodge", time="date")
    with pytest.raises(SettingError, match="a team has several"):
        leaderboard(rows, time="date", team_separator="+")
    with pytest.raises(DataError, match="Every battle is a draw"):
        leaderboard({**rows, "outcome": ["tie"] * len(rows["a"])}, time="date")
    with pytest.raises(SettingError, match="without time"):
        leaderboard(rows, drift=0.1)
    turned = {k: v[::-1] for k, v in rows.items()}
    assert any("sorted" in note for note in leaderboard(turned, time="date", drift=0.5).notes)
    save_board(leaderboard(rows, time="date", drift=0.5), tmp_path / "h.luce")
    again = update_board(tmp_path / "h.luce", rows, time="date")
    assert any("count twice" in note for note in again.notes)


def test_an_update_of_known_battles_is_still_checked(tmp_path) -> None:
    rows = {"a": list("xyxy"), "b": list("yxyx"), "outcome": ["a", "a", "b", "tie"], "id": list("1234")}
    save_board(leaderboard(rows, id="id"), tmp_path / "b.luce")
    with pytest.raises(DataError, match="no column 'nope' for the weights; its columns are a, b, outcome, id"):
        update_board(tmp_path / "b.luce", rows, id="id", weight="nope")
    with pytest.raises(DataError, match="no column 'nope' for the outcome"):
        update_board(tmp_path / "b.luce", rows, id="id", outcome="nope")
    dated = rows | {"t": [f"2024-01-0{day}" for day in range(1, 5)], "kind": list("ppqp")}
    for name, more in (("h", {}), ("k", {"by": "kind"})):
        path = tmp_path / f"{name}.luce"
        save_board(leaderboard(dated, id="id", time="t", drift=0.5, **more), path)
        for ids in ("1234", "5678"):
            numbers = dated | {"t": [1.0, 2.0, 3.0, 4.0], "id": list(ids)}
            with pytest.raises(DataError, match=r"^The board and the update measure time in different units"):
                update_board(path, numbers, id="id", time="t", **more)


def test_command_keeps_and_updates(league, tmp_path, monkeypatch, capsys) -> None:
    def write(name: str, cut: slice) -> None:
        rows = battles_of(league, cut)
        lines = [",".join(rows), *(",".join(row) for row in zip(*rows.values(), strict=True))]
        (tmp_path / name).write_text("\n".join(lines) + "\n")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["luce", "leaderboard", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capsys.readouterr()

    write("old.csv", slice(0, 1500))
    write("new.csv", slice(1500, None))
    keep = ("--save", tmp_path / "b.luce", "--out", tmp_path / "b.csv")
    code, _, err = run(tmp_path / "old.csv", "--time", "date", *keep)
    assert code == 0
    assert "drift" in err
    code, out, _ = run(tmp_path / "new.csv", "--update", tmp_path / "b.luce", "--time", "date", "--json")
    assert code == 0
    assert json.loads(out)["battles"] == 1800
    code, _, err = run(tmp_path / "new.csv", "--update", tmp_path / "no.luce", "--time", "date")
    assert code == 2
    assert "no such board" in err
    code, _, err = run(tmp_path / "new.csv", "--id", "a")
    assert code == 2
    assert "without --save or --update" in err
    code, _, err = run(tmp_path / "new.csv", "--update", tmp_path / "b.luce", "--time", "date", "--id", "a")
    assert code == 2
    assert "every battle needs an id" in err


def test_categories_are_shrunk_towards_the_whole(tmp_path) -> None:
    rng = np.random.default_rng(4)
    parts = []
    for c, shift in (("maths", 0.4), ("prose", -0.4), ("code", 0.0)):
        truth = np.linspace(1, -1, 6) + shift * rng.normal(size=6)
        part = simulate_battles(400, truth, tie=0.8, random_state=rng).table.to_pydict()
        parts.append(part | {"kind": [c] * 400})
    rows = {k: [x for part in parts for x in part[k]] for k in parts[0]}
    rows = {k: [*v, x] for (k, v), x in zip(rows.items(), ("player1", "player2", "tie", "rare"), strict=True)}
    own, pooled = (leaderboard(rows, by="kind", pool=pool) for pool in (False, True))
    assert list(own.boards) == ["maths", "prose", "code"]
    assert any("'rare'" in note for note in own.notes)
    assert own.spread is None
    assert pooled.spread is not None
    assert 0.0 < pooled.spread < 1.0
    alone = leaderboard({k: [x for x, c in zip(v, rows["kind"], strict=True) if c == "maths"] for k, v in rows.items()})
    np.testing.assert_allclose(own["maths"].strength, alone.strength, atol=1e-9)
    middle = dict(zip(pooled.overall.names, pooled.overall.strength, strict=True))

    def distance(boards) -> float:
        return sum(abs(s - middle[n]) for b in boards.boards.values() for n, s in zip(b.names, b.strength, strict=True))

    assert distance(pooled) < distance(own)
    # Errors hold what is not known of the whole too, so that they may come near to those of a board alone.
    assert all(np.mean(pooled[c].se) < 1.1 * np.mean(own[c].se) for c in own.boards)
    assert pooled.matrix().shape == (6, 3)
    assert pooled.table.num_rows == 18
    pooled.plot(tmp_path / "kinds.svg")
    assert "strengths by kind" in re.sub("<!--|-->", "", (tmp_path / "kinds.svg").read_text())
    with pytest.raises(DataError, match="no board of 'x'"):
        pooled["x"]


def test_a_fit_of_many_games_is_that_of_plain_descent(monkeypatch) -> None:
    """From the last games by Newton's steps, as without them; a start far from the minimum is not kept."""
    rng = np.random.default_rng(8)
    rows = np.column_stack([rng.integers(0, 10, (9000, 2)), np.zeros(9000, dtype=np.int64)])
    rows[:, 1] = np.where(rows[:, 0] == rows[:, 1], (rows[:, 1] + 1) % 10, rows[:, 1])
    truth = np.cumsum(0.05 * rng.normal(size=(90, 10)), axis=0)[np.arange(9000) // 100]
    d = truth[np.arange(9000), rows[:, 0]] - truth[np.arange(9000), rows[:, 1]] + 0.3
    shares = np.exp(np.column_stack([d / 2, -d / 2, np.zeros(9000)]))
    rows[:, 2] = (rng.random((9000, 1)) > np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
    games = Games(10, rows, np.ones(9000), np.arange(9000) / 100)
    free = dict.fromkeys(("step", "start", "t", "home"))
    quick = walks.fit_parameters(games, links.get("davidson"), free, side=True)
    monkeypatch.setattr(walks, "_newton_steps", lambda loss, x: None)
    slow = walks.fit_parameters(games, links.get("davidson"), free, side=True)
    np.testing.assert_allclose(np.log(quick[:2]), np.log(slow[:2]), atol=0.03)
    np.testing.assert_allclose(quick[2:4], slow[2:4], atol=0.005)


def test_newton_steps_refuse_to_go_astray() -> None:
    assert walks._newton_steps(lambda x: float(np.cos(x[0])), np.array([0.1])) is None
    near = walks._newton_steps(lambda x: float(np.cosh(x[0]) + (x[1] - 1.0) ** 2), np.array([0.3, 0.5]))
    np.testing.assert_allclose(near, [0.0, 1.0], atol=1e-3)


def test_a_matrix_of_categories_has_one_zero() -> None:
    """Who plays most moves the mean of a category, not the cells of the matrix."""
    rng, truth = np.random.default_rng(7), np.linspace(2, -2, 6)
    parts = []
    for kind, often in (("top", [9, 9, 9, 1, 1, 1]), ("bottom", [1, 1, 1, 9, 9, 9])):
        pairs = np.array([rng.choice(6, 2, replace=False, p=np.array(often) / sum(often)) for _ in range(4000)])
        ahead = rng.random(4000) < 1 / (1 + np.exp(truth[pairs[:, 1]] - truth[pairs[:, 0]]))
        parts += [(f"p{i}", f"p{j}", "a" if w else "b", kind) for (i, j), w in zip(pairs, ahead, strict=True)]
    rows = dict(zip(("a", "b", "outcome", "kind"), map(list, zip(*parts, strict=True)), strict=True))
    boards = leaderboard(rows, "bradley_terry", by="kind", pool=False)
    own = [dict(zip(b.names, b.strength, strict=True)) for b in boards.boards.values()]
    assert abs(np.mean([own[0][n] - own[1][n] for n in boards.overall.names])) > 0.5
    matrix, weights = boards.matrix(), boards.overall.weights
    np.testing.assert_allclose(weights @ matrix, weights @ boards.overall.strength, atol=1e-9)
    assert np.max(np.abs(matrix[:, 0] - matrix[:, 1])) < 5 * max(b.se.max() for b in boards.boards.values())
