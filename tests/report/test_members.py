"""The panel of members: what the blends of a run say of themselves, and what came of it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from luce.auto import plan
from luce.data.simulate import simulate
from luce.experiments import Candidate, compare, grouped_folds, write_run
from luce.experiments.run_folder import read_run
from luce.report import write_report
from luce.report.panels import _rows


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a blend of two members and of one model that is none, and the page of it."""
    folder = tmp_path_factory.mktemp("run")
    candidates = [
        Candidate("auto", {}, {"members": ["luce-linear", "regression"]}),
        Candidate("ranknet", {"l2": [0.1]}),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_FINE", 0.3)
        write_run(compare(grouped_folds(simulate(queries=60, features=6, seed=0), 3), candidates), folder)
    page = folder / "report.html"
    write_report(folder, page)
    return folder, page


def test_figures_are_those_of_the_models(run):
    folder, page = run
    found = json.loads(re.search(r'id="facts">(.*?)</script>', page.read_text(), re.S).group(1))
    names, members = found["models"], found["members"]
    assert members[str(names.index("ranknet"))] is None
    blend, saved = members[str(names.index("auto"))], read_run(folder)
    records = [saved.model("auto", fold).history_["blend"] for fold in saved.folds]
    assert {row["member"] for row in blend["members"]} == {"luce-linear", "regression"}
    for row in blend["members"]:
        own = [next(r for r in record["members"] if r["member"] == row["member"]) for record in records]
        for key in ("weight", "alone", "chosen"):
            assert row[key] == [one[key] for one in own]
        assert row["worse"] == sum(not one["kept"] for one in own)
    weights = [np.mean(row["weight"]) for row in blend["members"]]
    assert weights == sorted(weights, reverse=True)
    rows = saved.table("rows", ["model", "fold", "query", "metric"]).to_pylist()
    for one, record in zip(blend["worth"], records, strict=True):
        assert one["value"] == record["estimate"]["value"]
        values = [
            row["value"]
            for row in rows
            if row["model"] == "auto" and row["fold"] == saved.folds[one["fold"]] and row["metric"] == "ndcg@10"
        ]
        assert one["test"] == pytest.approx(np.mean(values))


def test_a_member_that_failed_in_one_fold_and_an_old_file():
    old = {"member": "ties", "about": "pairs", "weight": 1.0, "alone": 0.5, "steps": [7]}
    fitted = {"members": [old], "failed": {}}
    failed = {"members": [], "failed": {"ties": "no pair differs"}}
    (row,) = _rows([fitted, failed])
    assert row["weight"] == [1.0, 0.0]
    assert (row["chosen"], row["alone"], row["trees"]) == ([], [0.5], [7])
    assert row["failed"] == ["no pair differs"]


def test_the_panel_in_a_browser(browser, run):
    browser.open(run[1])
    assert "members" in browser.see_all()
    assert browser.console() == []
    assert sorted(browser.texts("#members th[scope=row]")) == ["luce-linear", "regression"]
    assert sum("was expected" in text for text in browser.texts("#members .note")) == 3
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
