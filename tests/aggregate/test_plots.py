from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from luce.aggregate import Ballots, consensus
from luce.aggregate.plots import bump_chart, majority_graph, margin_heat_map
from luce.display import finished
from luce.errors import SettingError

VOTES = Ballots.from_orders(["abcd", "bcad", "cabd"], weights=[4, 3, 2])


def test_the_majority_graph_has_an_arrow_a_majority():
    figure = majority_graph(VOTES, consensus(VOTES, "kemeny"))
    axes = figure.axes[0]
    arrows = [t.arrow_patch for t in axes.texts if getattr(t, "arrow_patch", None) is not None]
    assert len(arrows) == 6
    assert len({a.get_edgecolor()[:3] for a in arrows}) == 2  # c before a is overruled and drawn in another colour


def test_the_heat_map_shows_every_share_in_the_order_of_the_answer():
    figure = margin_heat_map(VOTES, consensus(VOTES, "kemeny"))
    axes = figure.axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b", "c", "d"]
    shown = [t.get_text() for t in axes.texts]
    assert len(shown) == 12
    assert shown[0] == "67"  # 6 of 9 put a before b


def test_the_bump_chart_has_a_line_an_item_and_keeps_ties_apart():
    answers = [consensus(VOTES, rule) for rule in ("borda", "plurality", "kemeny")]
    figure = bump_chart(answers)
    axes = figure.axes[0]
    assert len(axes.lines) == 4
    for k in range(3):
        assert len({round(float(line.get_ydata()[k]), 6) for line in axes.lines}) == 4
    with pytest.raises(SettingError, match="at least one"):
        bump_chart([])
    with pytest.raises(SettingError, match="same items"):
        bump_chart([answers[0], consensus(Ballots.from_orders(["ab"]), "borda")])


def test_saving(tmp_path):
    figure = margin_heat_map(VOTES)
    finished(figure, tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text().startswith("<?xml")
    with pytest.raises(SettingError, match=r"\.png, \.svg, \.pdf"):
        finished(figure, tmp_path / "x.doc")
    assert not (tmp_path / "x.doc").exists()
