"""`luce train --base` and `luce rerank` on files of LightGBM and XGBoost."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

import luce
from luce.data.simulate import simulate


@pytest.mark.parametrize("ending", ["txt", "json", "ubj"])
def test_trees_on_the_file_of_another_library(call, tmp_path, ending):
    luce.write_letor(simulate(queries=30, features=6, seed=4), tmp_path / "data.txt")
    data, base = luce.read(tmp_path / "data.txt"), tmp_path / f"base.{ending}"
    if ending == "txt":
        told = {"verbose": -1, "min_data_in_leaf": 5, "objective": "regression"}
        lightgbm.train(told, lightgbm.Dataset(data.X, data.y), 10).save_model(base)
        own = lightgbm.Booster(model_file=base).predict(data.X)
    else:
        xgboost = pytest.importorskip("xgboost")
        matrix = xgboost.DMatrix(data.X, data.y)
        fitted = xgboost.train({"max_depth": 3}, matrix, 10)
        fitted.save_model(base)
        own = fitted.predict(matrix)
    model = tmp_path / "model.luce"
    code, _, err = call("train", tmp_path / "data.txt", "--scorer", "trees", "--max-iter", "5", "--base", base,
                        "--out", model)  # fmt: skip
    assert code == 0, err
    code, _, err = call("predict", tmp_path / "data.txt", "--model", model, "--out", tmp_path / "scores.txt")
    assert code == 0, err
    trained = luce.load(model)
    above = trained.scorer_.score(data.X, data.offsets)
    np.testing.assert_allclose(trained.predict(data), own + above, atol=1e-5)
    np.testing.assert_allclose(np.loadtxt(tmp_path / "scores.txt"), trained.predict(data), rtol=1e-9, atol=1e-9)
    code, _, err = call("rerank", base, tmp_path / "data.txt", "--save", tmp_path / "reranker.luce")
    assert code == 0, err
    np.testing.assert_allclose(luce.load(tmp_path / "reranker.luce").base_.scores(data), own, atol=1e-5)


def test_mistakes_are_one_sentence(call, tmp_path):
    luce.write_letor(simulate(queries=30, features=6, seed=4), tmp_path / "data.txt")
    (tmp_path / "cut.txt").write_text("tree\nversion=v4\n")
    code, out, err = call("train", tmp_path / "data.txt", "--scorer", "trees", "--base", tmp_path / "cut.txt",
                          "--out", tmp_path / "model.luce")  # fmt: skip
    assert (code, out) == (2, "")
    assert "cut.txt" in err
    assert len(err.strip().splitlines()) == 1
