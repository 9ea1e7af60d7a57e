"""`luce compare` and then `luce report`, as a person runs them."""

from __future__ import annotations

import json
import subprocess
import sys

import luce
from luce.data.simulate import simulate


def test_from_data_to_page(call, tmp_path, monkeypatch):
    luce.write_letor(simulate(queries=30, features=6, seed=4), tmp_path / "data.txt")
    monkeypatch.chdir(tmp_path)
    compared = call("compare", "data.txt", "--models", "ranknet,linear_regression", "--folds", "3",
                    "--out", tmp_path / "run", "--quiet")  # fmt: skip
    assert compared[0] == 0, compared
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the data are found from any folder
    code, out, _ = call("report", tmp_path / "run", "--out", tmp_path / "page.html", "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["models"], facts["queries"], facts["remarks"]) == (2, 30, [])
    assert facts["bytes"] == (tmp_path / "page.html").stat().st_size
    code, out, _ = call("report", tmp_path / "run", "--out", tmp_path / "page.html", "--title", "Mine")
    assert code == 0
    assert "2 models, 30 test queries" in out
    assert "<title>Mine</title>" in (tmp_path / "page.html").read_text()


_MINE = """
import numpy as np
import luce

class MyRanker:
    def fit(self, X, y):
        self.weights = np.linalg.lstsq(X, y, rcond=None)[0]
        return self

    def predict(self, X):
        return X @ self.weights

def rank_of_best(scores, grades):
    return 1.0 + (scores > scores[np.argmax(grades)]).sum()

rank_of_best.greater_is_better = False
luce.metrics.register(rank_of_best)
"""


def test_own_model_and_own_metric(tmp_path):
    luce.write_letor(simulate(queries=30, features=6, seed=4), tmp_path / "data.txt")
    (tmp_path / "mine.py").write_text(_MINE)
    for command in (
        ["compare", "data.txt", "--models", "listnet,mine.py:MyRanker", "--metrics", "rank_of_best,ndcg@5",
         "--folds", "3", "--out", "run", "--quiet"],
        ["report", "run", "--out", "page.html", "--json"],  # a process of its own, which does not know mine.py
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "luce", *command], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["models"], facts["queries"]) == (2, 30)
    assert [remark for remark in facts["remarks"] if "MyRanker" in remark] == facts["remarks"]
    assert '"lower_is_better":["rank_of_best"]' in (tmp_path / "page.html").read_text()


def test_mistakes_are_one_sentence(call, tmp_path):
    for arguments, words in (
        (("report", tmp_path / "none"), "luce compare"),
        (("report", tmp_path, "--out", tmp_path / "page.pdf"), ".html"),
        (("report", tmp_path, "--out", tmp_path / "no" / "page.html"), "does not exist"),
    ):
        code, out, err = call(*arguments)
        assert (code, out) == (2, "")
        assert words in err
        assert len(err.strip().splitlines()) == 1
