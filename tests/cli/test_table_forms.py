"""Tables of `luce evaluate` and others as LaTeX and Markdown, and beside a model of LightGBM."""

from __future__ import annotations

import json

import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import luce
from luce.data.simulate import simulate


def test_tables_are_printed_as_latex_and_markdown(call, tmp_path):
    data, file, model = simulate(queries=20, features=3, seed=0), tmp_path / "data.txt", tmp_path / "m.luce"
    luce.write_letor(data, file)
    fitted = luce.Ranker("listnet").fit(data)
    fitted.save(model)
    value = f"{luce.evaluate(fitted, data, ['ndcg@5'])['ndcg@5']:.4f}"
    shell = ("evaluate", file, "--model", model, "--metrics", "ndcg@5")
    code, out, _ = call(*shell, "--latex")
    assert (code, f"ndcg@5 & {value} \\\\" in out, "\\begin{tabular}{lr}" in out) == (0, True, True)
    code, out, _ = call(*shell, "--markdown")
    assert (code, f"| ndcg@5 | {value} |" in out) == (0, True)
    compared = ("compare", file, "--models", "listnet,ranknet", "--folds", 3, "--jobs", 1)
    code, out, _ = call(*compared, "--markdown", "--plot", tmp_path / "means.pdf")
    assert (code, "| listnet |" in out) == (0, True)
    assert (tmp_path / "means.pdf").read_bytes().startswith(b"%PDF")
    for ending, first in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        picture = tmp_path / f"apart{ending}"
        assert call(*shell, "--compare", model, "--plot", picture)[0] == 0
        assert picture.read_bytes().startswith(first)
    for wrong, said in (
        ((*compared, "--plot", tmp_path / "a.doc"), ".png, .svg, .pdf"),
        ((*shell, "--plot", tmp_path / "a.pdf"), "give --compare"),
    ):
        code, _, err = call(*wrong)
        assert (code, said in err) == (2, True)
    for two in (("--json", "--latex"), ("--latex", "--markdown")):
        code, _, err = call(*shell, *two)
        assert (code, f"{two[0]} and {two[1]} were given" in err) == (2, True)


def test_a_model_is_compared_with_one_of_lightgbm_on_the_same_table(call, tmp_path):
    """The data are read by the schema of the first model: the other one names no columns of a query or a label."""
    rng, table = np.random.default_rng(0), tmp_path / "test.parquet"
    price, stars, grade = rng.normal(size=120), rng.normal(size=120), rng.integers(0, 3, 120)
    stars[::9] = np.nan
    columns = {"search": np.repeat(np.arange(12), 10), "price": price, "stars": stars, "grade": grade}
    pq.write_table(pa.table(columns), table)
    booster = lightgbm.train(
        {"objective": "regression", "verbosity": -1, "min_data_in_leaf": 5},
        lightgbm.Dataset(np.column_stack([price, stars]), grade, feature_name=["price", "stars"]),
        5,
    )
    booster.save_model(tmp_path / "lgb.txt")
    own = ("--qid", "search", "--label", "grade", "--scorer", "trees", "--max-iter", 5, "--out", tmp_path / "m.luce")
    assert call("train", table, *own)[0] == 0
    code, out, _ = call("evaluate", table, "--model", tmp_path / "m.luce", "--compare", tmp_path / "lgb.txt", "--json")
    assert code == 0
    data = luce.load(tmp_path / "m.luce")._groups(pq.read_table(table), "grade", "search", None, reset=False)
    wanted = luce.evaluate(booster.predict(np.column_stack([price, stars])), data, ["ndcg@10"], order="input")
    (found,) = [row for row in json.loads(out)["comparisons"] if row["metric"] == "ndcg@10"]
    mine = luce.evaluate(luce.load(tmp_path / "m.luce"), data, ["ndcg@10"])["ndcg@10"]
    assert found["difference"] == pytest.approx(mine - wanted["ndcg@10"])
