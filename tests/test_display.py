"""What results show of themselves: tables, pictures, progress, and what watches a training may ask for."""

from __future__ import annotations

import re
import signal
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import luce
from luce.cli.common import interruptible
from luce.data.simulate import simulate
from luce.display import progress_bar, progress_text
from luce.errors import SettingError
from luce.result import html_table, sheet_of

BATTLES = {"model_a": list("abca"), "model_b": list("bcac"), "winner": ["model_a"] * 4}


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=30, features=4, seed=2)


def test_tables_of_html_are_escaped_and_cut():
    text = html_table(sheet_of("<b>", ["name", "value"], [["a&b", 0.5], ["c", float("nan")], ["d", 1234]]), most=2)
    assert "<caption>&lt;b&gt;</caption>" in text
    assert "<td>a&amp;b</td><td>0.5000</td>" in text
    assert "<td>c</td><td></td>" in text
    assert "1,234" not in text
    assert "<p>... and 1 more</p>" in text


def test_results_show_themselves(data):
    model = luce.Ranker(max_iter=5).fit(data)
    assert "<td>queries</td><td>30</td>" in data._repr_html_()
    evaluation = luce.evaluate(model, data, ["ndcg@10", "map"])
    assert f"<td>ndcg@10</td><td>{evaluation.means['ndcg@10']:.4f}</td><td>" in evaluation._repr_html_()
    shown = model._repr_html_()
    assert "<caption>pmop on linear</caption>" in shown
    assert "Strongest features" in shown
    assert "sk-" in luce.Ranker()._repr_html_()  # not fitted: scikit-learn's own
    board = luce.aggregate.leaderboard(BATTLES)
    assert "<td>a</td>" in board._repr_html_()


@pytest.mark.parametrize(
    ("kind", "made"), [(pd.DataFrame, pd.DataFrame), (pl.DataFrame, pl.DataFrame), (pa.table, pa.Table)]
)
def test_tables_come_back_as_what_came_in(data, kind, made):
    columns = {"qid": data.qid.tolist(), "label": data.y.tolist()} | {f"x{j}": data.X[:, j].tolist() for j in range(4)}
    frame = kind(columns)
    model = luce.Ranker(max_iter=20).fit(frame)
    table = model.importance()
    assert isinstance(table, made)
    effect = np.asarray(table["importance"])
    assert (np.diff(np.abs(effect)) <= 0).all()
    order = [model.feature_names_.index(str(name)) for name in np.asarray(table["feature"])]
    np.testing.assert_array_equal(effect, model.scorer_.importance()[order])
    assert isinstance(luce.evaluate(model, luce.from_frame(frame)).to_frame(), made)
    assert isinstance(luce.evaluate(data.X[:, 0], data, ["map"]).to_frame(), pa.Table)


def test_pictures_are_figures_with_or_without_a_path(tmp_path):
    board = luce.aggregate.leaderboard(BATTLES)
    for draw in (board.plot, board.plot_win_matrix):
        figure = draw()
        assert figure._repr_png_().startswith(b"\x89PNG")
        assert draw(tmp_path / "board.svg").axes
        assert (tmp_path / "board.svg").read_bytes().startswith(b"<?xml")
        with pytest.raises(SettingError, match=r"its ending must be one of .png, .svg, .pdf"):
            draw(tmp_path / "board.doc")


def test_callbacks_watch_and_end_a_training(data):
    seen: list[tuple[int, int | None, dict]] = []

    def watch(step: int, total: int | None, info: dict) -> bool:
        seen.append((step, total, dict(info)))
        return step == 3

    other: list[int] = []
    model = luce.Ranker(tol=1e-14, max_iter=50)
    model.fit(data, valid=data, callbacks=[watch, lambda step, total, info: other.append(step)])
    assert [step for step, _, _ in seen] == other == [1, 2, 3]
    assert len(model.history_["objective"]) == 3
    assert set(seen[0][2]) == {"objective", "validation"}
    trees = luce.Ranker(scorer="trees", max_iter=20).fit(data, progress=lambda step, total, info: step == 2)
    assert len(trees.history_["objective"]) == 2


def test_the_time_left_is_that_of_the_rounds_left():
    assert progress_text(1, None, {}, 5.0) == "round 1"
    assert progress_text(10, 40, {"map": 0.25}, 10.0) == "round 10 of 40, map 0.25, at most 0:30 left"
    assert progress_text(40, 40, {}, 10.0) == "round 40 of 40"


def test_a_bar_in_a_notebook(monkeypatch):
    shown: list[str] = []
    handle = SimpleNamespace(update=shown.append)
    module = SimpleNamespace(HTML=str, display=lambda first, display_id: handle)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("luce.display._SECONDS", 0.0)
    with progress_bar("pmop", {"validation": "ndcg@10"}) as tell:
        tell(1, 4, {"validation": 0.5})
    assert shown[-1].startswith('<progress value="0.250"></progress> pmop: round 1 of 4, ndcg@10 0.5')


def test_a_kernel_that_is_only_imported_is_no_notebook(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    monkeypatch.setattr("luce.display._every", lambda seconds, show: show)
    with progress_bar("pmop") as tell:
        tell(1, 4, {})
    assert capsys.readouterr() == ("", "pmop: round 1 of 4, at most 0:00 left\n")


def test_compiling_is_said_while_it_compiles(monkeypatch):
    import numba

    said: list[str] = []
    monkeypatch.setattr("luce.display._every", lambda seconds, show: lambda text, share: said.append(text))
    with progress_bar("work") as tell:
        tell(1, 2, {})
        assert said == ["round 1 of 2, at most 0:00 left"]
        fresh = numba.njit(lambda x: x + 1)
        fresh(1)
        assert said[1:] == ["compiling"]
        fresh(2)
        tell(2, 2, {})
    assert said[2:] == ["round 2 of 2"]


def test_verbose_shows_rounds(data, capsys, monkeypatch):
    monkeypatch.setattr("luce.display._every", lambda seconds, show: show)
    luce.Ranker(max_iter=2, tol=1e-14).fit(data, verbose=True)
    assert "pmop on linear: round 1 of 2, objective" in capsys.readouterr().err


def test_verbose_says_the_last_round_of_a_quick_training_in_a_log(data, capsys):
    luce.Ranker(max_iter=2, tol=1e-14).fit(data, verbose=True)
    assert re.fullmatch(
        r"(pmop on linear: .*\n)*pmop on linear: round 2 of 2, objective \S+\n", capsys.readouterr().err
    )


def test_the_first_interruption_keeps_and_the_second_gives_up():
    said: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which background jobs ignore
    try:
        stopped: list[int] = []
        with interruptible(SimpleNamespace(say=said.append), lambda step, total, info: None, stopped) as tell:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)  # nothing there yet
            assert tell(1, 9, {}) is False
            signal.raise_signal(signal.SIGINT)
            assert tell(2, 9, {}) is True
            assert (stopped, len(said)) == ([2], 1)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
