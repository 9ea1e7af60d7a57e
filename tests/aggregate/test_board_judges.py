"""Covariates as pairs of columns, judges, and the page of a board."""

from __future__ import annotations

import json

import numpy as np
import pytest

from luce.aggregate import judge_agreement, leaderboard, score_board, simulate_battles
from luce.errors import DataError, SettingError
from luce.report.board_pages import write_board_page


@pytest.fixture(scope="module")
def arena() -> dict[str, list]:
    rng = np.random.default_rng(0)
    rows = simulate_battles(2000, np.linspace(1.2, -1.2, 6), tie=0.8, random_state=1).table.to_pydict()
    rows["judge"] = [f"j{i:02d}" for i in rng.integers(0, 20, 2000)]
    turned = {"a": "b", "b": "a", "tie": "tie"}
    rows["outcome"] = [turned[o] if j == "j07" else o for o, j in zip(rows["outcome"], rows["judge"], strict=True)]
    rows["len_a"], rows["len_b"] = rng.integers(1, 99, (2, 2000)).tolist()
    return rows


def test_a_judge_with_mixed_up_sides_is_odd(arena) -> None:
    board = leaderboard(arena, group="judge")
    judges = judge_agreement(board, arena, group="judge")
    assert [j.name for j in judges if j.odd] == ["j07"]
    assert judges[0].agreement < 0.5 < np.median([j.agreement for j in judges])
    assert sum(j.battles for j in judges) == 2000
    with pytest.raises(SettingError, match="give group"):
        judge_agreement(board, arena)


def test_a_covariate_of_two_columns_is_their_standardised_difference(arena) -> None:
    board = leaderboard(arena, covariates={"length": ("len_a", "len_b")})
    gap = np.array(arena["len_a"], float) - np.array(arena["len_b"], float)
    plain = leaderboard({**arena, "gap": (gap / gap.std()).tolist()}, covariates=["gap"])
    assert board.effects["length"].value == pytest.approx(plain.effects["gap"].value)
    assert board.effects["length"].lower < 0.0 < board.effects["length"].upper
    with pytest.raises(DataError, match="never differs"):
        leaderboard(arena, covariates={"length": ("len_a", "len_a")})


def data_of(path) -> dict:
    text = path.read_text()
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


def test_pages_hold_what_the_boards_say(arena, tmp_path) -> None:
    rows = {**arena, "a": [x.replace("player1", "<b>x</script>") for x in arena["a"]]}
    rows["b"] = [x.replace("player1", "<b>x</script>") for x in arena["b"]]
    board = leaderboard(rows, scale="elo")
    write_board_page(board, tmp_path / "b.html")
    page = data_of(tmp_path / "b.html")
    assert [r["name"] for r in page["rows"]] == list(board.names)
    assert page["digits"] == 0
    assert page["wins"][0][1] == round(1000 * board.win_matrix()[0, 1])
    assert page["wins"][0][0] is None
    kinds = leaderboard({**arena, "kind": ["x", "y"] * 1000}, by="kind")
    write_board_page(kinds, tmp_path / "k.html")
    assert data_of(tmp_path / "k.html")["kinds"]["names"] == ["x", "y"]
    moving = leaderboard({**arena, "day": list(range(2000))}, time="day")
    write_board_page(moving, tmp_path / "h.html")
    assert len(data_of(tmp_path / "h.html")["history"]) == 6
    tasks = {f"t{k}": np.random.default_rng(k).normal(size=5).tolist() for k in range(8)}
    write_board_page(score_board({"model": list("abcde")} | tasks, resamples=100), tmp_path / "s.html")
    assert "ranks on 8 tasks" in data_of(tmp_path / "s.html")["methods"]
    assert all("://" not in p.read_text().replace("http://www.w3.org/2000/svg", "") for p in tmp_path.glob("*.html"))


def test_a_page_of_three_hundred_models_is_small(tmp_path) -> None:
    board = leaderboard(simulate_battles(60_000, 300, random_state=0).table)
    write_board_page(board, tmp_path / "b.html")
    assert (tmp_path / "b.html").stat().st_size < 5_000_000
