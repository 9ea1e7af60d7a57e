"""`luce train`, `compare` and `tune` on lists, preferences and clicks in place of grades."""

from __future__ import annotations

import csv
import warnings

import numpy as np
import pytest

import luce
from luce.data.named_rows import with_statements
from luce.data.simulate import simulate
from luce.errors import LuceWarning
from luce.experiments import find_folds
from tests.auto.test_stated import stated


@pytest.mark.parametrize("kind", ["pairs", "lists"])
def test_commands_take_statements_in_place_of_grades(tmp_path, call, kind):
    data, file = stated(kind, 30), tmp_path / "data.csv"
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["query", "doc", *(f"f{i}" for i in range(6))])
        rows.writerows([q, d, *x] for q, d, x in zip(data.qid, data.document_ids, data.X.tolist(), strict=True))
    said, ids, qid = tmp_path / "said.csv", data.document_ids, data.qid
    with said.open("w", newline="") as stream:
        rows = csv.writer(stream)
        if kind == "pairs":
            rows.writerow(["query", "better", "worse"])
            rows.writerows([qid[i], ids[i], ids[j]] for i, j in data.stated.wins)
        else:
            rows.writerow(["query", "document", "rank"])
            listed = zip(data.stated.order_rows, data.stated.order_tier, strict=True)
            rows.writerows([qid[row], ids[row], tier] for row, tier in listed)
    option = {"comparisons" if kind == "pairs" else "orders": [str(said)]}
    shell = [str(file), "--qid", "query", "--doc", "doc", f"--{next(iter(option))}", str(said)]
    folds = find_folds(file, folds=3, qid="query", doc="doc", **option)
    assert sum(len(fold.load()[2].stated.wins) for fold in folds) == len(data.stated.wins)
    again = with_statements(luce.read(file, qid="query", doc="doc"), **option)
    np.testing.assert_array_equal(again.stated.order_rows, data.stated.order_rows)
    name = "pairties-d" if kind == "pairs" else "plackett-luce"
    for words, shown in ((["compare", *shell, "--models", name, "--folds", 3], name),
                         (["tune", *shell, "--model", name, "--trials", 2], "luce train")):  # fmt: skip
        code, out, _ = call(*words)
        assert (code, shown in out) == (0, True)
    model = tmp_path / "m.luce"
    for more in (["--hold-out", "0.2"], ["--folds", "3"]):
        assert call("train", *shell, "--model", name, "--out", model, *more)[0] == 0
    assert luce.load(model).predict(again).shape == (data.n_rows,)


def test_searches_learn_from_a_log_of_clicks(tmp_path, call):
    """Preferences freed of position teach and judge; grades that the file has are left aside."""
    data = simulate(queries=12, features=3, seed=3)
    luce.write_letor(data, tmp_path / "all.txt")
    log, shell = tmp_path / "log.csv", [str(tmp_path / "all.txt"), "--clicks", str(tmp_path / "log.csv")]
    assert call("simulate", "clicks", tmp_path / "all.txt", "--out", log, "--sessions", 600)[0] == 0
    with pytest.warns(LuceWarning, match="Positions lean"):
        folds = find_folds(tmp_path / "all.txt", folds=3, clicks=str(log))
    train, _, test = folds[0].load()
    assert not train.y.any()
    assert train.stated.holds_pairs
    assert len(test.stated.wins) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of clicks this few, notes on positions and on what was not learned
        # A model without ties is judged by preferences alone, since a tie has no chance under it.
        code, out, _ = call("compare", *shell, "--models", "pairties-d,ranknet", "--folds", 3, "--jobs", 1)
        assert (code, out.count("failed")) == (0, 0)
        code, out, _ = call("tune", *shell, "--model", "pairties-d", "--trials", 2, "--jobs", 1)
        assert (code, "--ignore-grades --clicks" in out) == (0, True)
        held = ("--hold-out", "0.2", "--metric", "log_likelihood", "--out", tmp_path / "m.luce")
        assert call("train", *shell, "--ignore-grades", "--model", "pairties-d", *held)[0] == 0
    code, _, err = call("tune", *shell, "--orders", log, "--model", "ranknet")
    assert (code, "--orders and --clicks were given" in err) == (2, True)
