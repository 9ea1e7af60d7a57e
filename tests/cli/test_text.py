"""Raw text on the command line: train, evaluate, predict, and what is said where something is missing."""

import numpy as np
import pytest

import luce
from luce.errors import LuceError, SettingError
from luce.export import export_model
from luce.serve.shelf import Shelf
from tests.data.test_text import shop


def test_a_table_with_text_is_trained_and_scored(call, tmp_path):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    shop().to_csv(train, index=False)
    shop(seed=1).to_csv(test, index=False)
    model, scores = tmp_path / "m.luce", tmp_path / "scores.txt"
    words = ("--query-text", "search", "--text", "title", "--label", "grade")
    code, _, error = call("train", train, *words, "-o", model)
    assert code == 0, error
    assert "9 of the texts title against search" in error
    assert call("predict", test, "--model", model, "-o", scores)[0] == 0
    wanted = luce.load(model).predict(shop(seed=1))
    np.testing.assert_allclose(np.loadtxt(scores), wanted, rtol=1e-6)
    code, _, error = call("evaluate", test, "--model", model)
    assert code == 0, error
    assert call("predict", train, *words[:4], "--model", model)[0] != 0


def test_what_is_missing_is_named(call, tmp_path):
    train = tmp_path / "train.csv"
    shop().to_csv(train, index=False)
    for given, wanted in ((("--query-text", "search"), "--text"), (("--text", "title"), "--query-text")):
        code, _, error = call("train", train, *given, "--label", "grade", "-o", tmp_path / "m.luce")
        assert code != 0
        assert f"{wanted}, the column" in error


@pytest.mark.parametrize("command", [("compare", "--models", "listnet"), ("tune", "--model", "listnet")])
def test_searches_do_not_read_texts(call, tmp_path, command):
    train = tmp_path / "train.csv"
    shop().to_csv(train, index=False)
    words = ("--query-text", "search", "--text", "title", "--label", "grade")
    code, _, error = call(command[0], train, *command[1:], *words)
    assert (code, "--text is for luce train" in error) == (2, True)


def test_what_only_python_computes_is_not_exported_to_an_engine_nor_served(tmp_path):
    made = {
        kind: luce.Ranker("listnet", text=luce.Text("search", ["title"], features=kind)).fit(shop(), "grade")
        for kind in ("engine", "full")
    }
    with pytest.raises(SettingError, match="which only Python computes"):
        export_model(made["full"], "solr")
    for target in ("solr", "python"):
        assert "are expected as numbers" in export_model(made["engine"], target).remarks[-1]
    made["engine"].save(tmp_path / "m.luce")
    with pytest.raises(LuceError, match="which a service does not read"):
        Shelf({"m": tmp_path / "m.luce"})
