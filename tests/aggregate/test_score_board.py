"""Boards of models x tasks: the tied likelihood, rank sets, and tables as they come."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from luce.aggregate import score_board
from luce.aggregate.board.race_likelihood import RaceLikelihood
from luce.aggregate.scores.methods import METHODS, plackett_luce
from luce.aggregate.scores.shuffles import shuffled_sets
from luce.aggregate.scores.table import ScoreTable, races_of
from luce.cli import main
from luce.errors import DataError, SettingError, UnknownNameError
from luce.numerics.races import dead_heats


def table_of(scores: np.ndarray, weights: np.ndarray | None = None, tolerance: float = 0.0) -> ScoreTable:
    models, tasks = scores.shape
    names = tuple(f"m{i}" for i in range(models))
    weights = np.ones(tasks) if weights is None else weights
    return ScoreTable(names, tuple(f"t{i}" for i in range(tasks)), scores, None, np.full(tasks, tolerance), weights)


def drawn_scores(rng: np.random.Generator, models: int = 8, tasks: int = 12, gaps: bool = True) -> np.ndarray:
    scores = np.round(np.linspace(1, -1, models)[:, None] + rng.gumbel(size=(models, tasks)))
    return np.where(rng.random(scores.shape) < 0.15, np.nan, scores) if gaps else scores


@pytest.mark.parametrize(
    ("size", "shift", "spread"), [(2, 0, 1), (5, -8, 1), (40, 3, 2), (300, 0, 0.3), (30, 12, 3), (3, 0, 9)]
)
def test_a_tier_by_a_fine_grid(size, shift, spread) -> None:
    """The integral on a grid of 40,001 points; gradient and Hessian by differences of value and gradient."""
    z = shift + spread * np.random.default_rng(0).normal(size=size)

    def heat(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = np.empty(1), np.empty(size), np.empty(size**2)
        dead_heats(z, np.array([0, size]), *found)
        return found

    value, gradient, blocks = heat(z)
    x = np.linspace(-75.0, 8.0, 40_001)
    logs = sum(np.where(zi + x < -20, zi + x, np.log(-np.expm1(-np.exp(np.maximum(zi + x, -20.0))))) for zi in z)
    whole = x - np.exp(x) + logs
    expected = whole.max() + np.log(np.sum(np.exp(whole - whole.max())) * (x[1] - x[0]))
    assert value[0] == pytest.approx(expected, abs=1e-9)
    step = 1e-4 * np.eye(size)[0]
    up, down = heat(z + step), heat(z - step)
    assert (up[0][0] - down[0][0]) / 2e-4 == pytest.approx(gradient[0], abs=1e-7)
    np.testing.assert_allclose((up[1] - down[1]) / 2e-4, blocks[:size], atol=1e-7)


def test_races_by_differences() -> None:
    rng = np.random.default_rng(1)
    races = races_of(table_of(drawn_scores(rng)), 0.95)
    of = RaceLikelihood(replace(races, count=rng.uniform(0.5, 2.0, 12)), integrated=True)
    x = rng.normal(size=8)
    at, steps = of(x), 1e-5 * np.eye(8)
    np.testing.assert_allclose(at.gradient, [(of(x + s).value - of(x - s).value) / 2e-5 for s in steps], atol=1e-6)
    np.testing.assert_allclose(at.hessian, [(of(x + s).gradient - of(x - s).gradient) / 2e-5 for s in steps], atol=1e-6)


def test_races_are_those_of_the_loss() -> None:
    """Value and gradient of the loss `plackett_luce`, which has ties integrated out too."""
    losses = pytest.importorskip("luce.losses")
    if "plackett_luce" not in losses.names():
        pytest.skip("the loss plackett_luce is not there")
    rng = np.random.default_rng(2)
    scores = drawn_scores(rng, gaps=False)
    x = rng.normal(size=8)
    value, gradient = losses.get("plackett_luce").value_and_grad(np.tile(x, 12), scores.T.ravel(), np.arange(0, 97, 8))
    at = RaceLikelihood(races_of(table_of(scores), 0.95), integrated=True)(x)
    assert at.value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(at.gradient, gradient.reshape(12, 8).sum(axis=0), atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_terms_of_every_method_sum_to_zero_and_tasks_add_up(method) -> None:
    """At the fit the gradients cancel, the Hessians of single tasks add up, and their diagonals are the bends."""
    rng = np.random.default_rng(3)
    table = table_of(drawn_scores(rng, tasks=30, gaps=method != "z_score"), rng.uniform(0.5, 2.0, 30))
    fit = METHODS[method](table, races_of(table, 0.95))
    at = fit.method.terms(fit.x, fit.method.races.item)
    np.testing.assert_allclose(at.gradients.sum(axis=0), 0.0, atol=1e-5)
    alone = np.array([fit.hessian_of(t) for t in range(30)])
    np.testing.assert_allclose(alone.sum(axis=0), at.hessian[:8, :8], atol=1e-9)
    np.testing.assert_allclose(np.einsum("tii->ti", alone), at.bends[:, :8], atol=1e-9)


def test_one_task_decides_nothing() -> None:
    table = table_of(np.array([[3.0], [1.0], [2.0]]))
    sets = shuffled_sets(plackett_luce(table, races_of(table, 0.95)), 0.9, 99, np.random.default_rng(0))
    assert sets.critical == np.inf
    assert not sets.surely_better.any()


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_rank_sets_cover_all_models_at_once(spread) -> None:
    """Ten models on 20 tasks: at 90% no set misses a true rank in at least 78% of 60 boards (three errors less)."""
    rng = np.random.default_rng(4)
    truth, covered = spread * np.linspace(1, -1, 10), 0
    for _ in range(60):
        table = table_of(truth[:, None] + rng.gumbel(size=(10, 20)))
        fit = plackett_luce(table, races_of(table, 0.95))
        sets = shuffled_sets(fit, 0.9, 99, rng)
        covered += not np.any(sets.surely_better & (truth[None, :] <= truth[:, None]))
    assert covered >= 0.78 * 60


def wide() -> dict[str, list]:
    rng = np.random.default_rng(5)
    scores = np.linspace(3, 0, 6)[:, None] + rng.gumbel(size=(6, 15))
    return {"model": list("abcdef")} | {f"t{k:02d}": scores[:, k].tolist() for k in range(15)}


def test_wide_and_long_tables_agree() -> None:
    rows = wide()
    tasks = [t for t in rows if t != "model"]
    long = {
        "model": [m for m in rows["model"] for _ in tasks],
        "task": tasks * 6,
        "score": [rows[t][i] for i in range(6) for t in tasks],
    }
    one, two = score_board(rows, resamples=100), score_board(long, resamples=100)
    assert one.names == two.names
    np.testing.assert_allclose(one.strength, two.strength, atol=1e-9)
    assert one.table.column_names[:6] == ["name", "strength", "se", "rank", "rank_lower", "rank_upper"]
    assert one.may_be_best[0] == one.names[0]
    assert [name for tier in one.tiers for name in tier] == list(one.names)
    assert len(one.influence) == 15


def test_lower_is_better_and_tolerance_and_weights() -> None:
    rows = wide()
    turned = {k: v if k != "t03" else [-x for x in v] for k, v in rows.items()}
    one, two = score_board(rows, resamples=100), score_board(turned, lower=["t03"], resamples=100)
    np.testing.assert_allclose(one.strength, two.strength, atol=1e-9)
    everything = score_board(rows, tolerance={"t00": 100.0}, resamples=100)
    assert any("t00" in note for note in everything.notes)
    alone = score_board(rows, task_weights={t: 0.0 for t in rows if t not in ("model", "t00")}, resamples=100)
    best = rows["model"][int(np.argmax(rows["t00"]))]
    assert alone.names[0] == best
    with pytest.raises(UnknownNameError, match="Unknown task 't3'"):
        score_board(rows, lower=["t3"])


def test_odd_tables() -> None:
    rows = wide()
    with pytest.raises(DataError, match="tells two models apart"):
        score_board({"model": ["x", "y"], "t1": [1, 1], "t2": [2, 2]})
    one = score_board({k: rows[k] for k in ("model", "t00")}, resamples=100)
    assert np.isnan(one.se).all()
    assert (one.rank_lower.tolist(), one.rank_upper.tolist()) == ([1] * 6, [6] * 6)
    flat = score_board({**rows, "same": [1.0] * 6}, resamples=100)
    assert any("same" in note for note in flat.notes)
    last = score_board({**rows, **{t: [*rows[t][:5], -9.0] for t in rows if t != "model"}}, resamples=100)
    assert last.separated == {"f": "below"}
    assert any("'f'" in note for note in last.notes)
    words = score_board({**rows, "t00": ["1%", "NaN", "", "2.5 %", "n/a", "3%"]}, resamples=100)
    assert words.n_tasks.min() == 14
    with pytest.raises(DataError, match="Row 1: t00 is 'bad'"):
        score_board({**rows, "t00": ["1", "bad", "3", "4", "5", "6"]})
    with pytest.raises(DataError, match="needs two models"):
        score_board({k: v[:1] for k, v in rows.items()})
    with pytest.raises(DataError, match="two rows"):
        score_board({**rows, "model": list("aacdef")})
    with pytest.raises(SettingError, match="at least 100"):
        score_board(rows, resamples=5)


def test_command(monkeypatch, capsys, tmp_path) -> None:
    rows = wide()
    path = tmp_path / "scores.tsv"
    lines = ["\t".join(rows), *("\t".join(str(rows[c][i]) for c in rows) for i in range(6))]
    path.write_text("\n".join(lines) + "\n")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["luce", "leaderboard", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capsys.readouterr()

    code, out, _ = run("--scores", path, "--resamples", 100, "--json", "--out", tmp_path / "b.csv")
    assert code == 0
    assert json.loads(out)["table"][0]["rank"] == 1
    assert (tmp_path / "b.csv").read_text().startswith("name,strength")
    code, out, err = run("--scores", path, "--resamples", 100, "--model", "borda", "--drop", "t00")
    assert code == 0
    assert "May be best" in err
    code, _, err = run("--scores", path, "--side")
    assert code == 2
    assert "--side does nothing with --scores" in err
    code, _, err = run(path, "--lower", "t00")
    assert code == 2
    assert "--lower does nothing without --scores" in err


def test_an_index_names_the_models_where_no_column_does() -> None:
    wide = pd.DataFrame({"t1": [3.0, 2.0, 1.0], "t2": [2.0, 3.0, 1.0], "t3": [5.0, 4.0, 4.5]}, index=["x", "y", "z"])
    expected = score_board(wide.reset_index(names="model"), resamples=100)
    long = wide.stack().rename_axis(["model", "task"]).rename("score").to_frame()
    turned = wide.set_axis(pd.CategoricalIndex(["x", "y", "z"]), axis=0)
    for frame in (wide, wide.rename_axis("model"), wide.rename_axis("llm"), turned, long):
        board = score_board(frame, resamples=100)
        assert (board.names, board.tasks) == (expected.names, expected.tasks)
        np.testing.assert_array_equal(board.strength, expected.strength)
    assert score_board(wide.rename_axis("llm"), name="llm", resamples=100).names == expected.names
    # A column comes before the index, and numbers are no names.
    own = wide.assign(model=["p", "q", "r"])
    assert set(score_board(own, resamples=100).names) == {"p", "q", "r"}
    with pytest.raises(DataError, match="has no column of models"):
        score_board(wide.reset_index(drop=True))
    with pytest.raises(DataError, match="model is empty"):
        score_board(wide.set_axis(["x", None, "z"], axis=0))


@pytest.mark.real
def test_an_index_of_real_models(real_data) -> None:
    frame = pd.read_csv(real_data("boards") / "livebench" / "table_2026_01_08.csv")
    one, two = score_board(frame, resamples=100), score_board(frame.set_index("model"), resamples=100)
    assert one.names == two.names
    np.testing.assert_array_equal(one.strength, two.strength)


def test_item_is_the_word_for_the_column_of_models() -> None:
    rows = {"who": ["x", "y", "z"], "maths": [3, 2, 1], "code": [3, 1, 2]}
    new, old = score_board(rows, item="who", resamples=100), score_board(rows, name="who", resamples=100)
    assert new.names == old.names
    with pytest.raises(SettingError, match="old word for item"):
        score_board(rows, name="who", item="who")


def test_short_rows_of_scores_are_gaps_where_asked_for(tmp_path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("model,maths,code,prose\nx,3,3,1\ny,2,1,2\nz,1,2\n")
    with pytest.raises(DataError, match="line 4: 3 cells"):
        score_board(path, resamples=100)
    filled = score_board(path, resamples=100, short_rows="fill")
    assert dict(zip(filled.names, filled.n_tasks.tolist(), strict=True)) == {"x": 3, "y": 3, "z": 2}
    assert "1 rows have fewer cells" in filled.notes[0]
    assert sorted(score_board(path, resamples=100, short_rows="drop").names) == ["x", "y"]
    with pytest.raises(SettingError, match="short_rows"):
        score_board(path, short_rows="guess")
