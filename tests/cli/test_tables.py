"""From a table as people have it to a trained, saved and applied ranker, in Python and on the command line."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import luce
from luce.errors import DataError, LuceWarning, ModelFormatError, SettingError
from luce.export import export_model
from luce.model_file import packed, unpacked

EFFECT = {"acme": 2.0, "best": 0.0, "cheap": -2.0}


def shop(seed: int, queries: int = 40) -> pd.DataFrame:
    """Searches whose grades follow the brand and the price, with gaps, dates, an index and a title."""
    rng = np.random.default_rng(seed)
    rows = queries * 8
    brand = rng.choice(list(EFFECT), rows)
    price = rng.normal(size=rows)
    score = np.array([EFFECT[name] for name in brand]) - price
    frame = pd.DataFrame(
        {
            "search": np.repeat([f"s{seed}-{q}" for q in range(queries)], 8),
            "grade": np.digitize(score, [-2, 0, 2]),
            "sku": [f"sku-{seed}-{i}" for i in range(rows)],
            "price": np.where(rng.random(rows) < 0.2, np.nan, price),
            "brand": np.where(rng.random(rows) < 0.05, None, brand),
            "new": rng.random(rows) < 0.5,
            "listed": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, rows), "D"),
            "title": [f"title {seed} {i}" for i in range(rows)],
        },
        index=rng.permutation(rows) + 10 * rows,
    )
    return frame


WORDS = {"qid": "search", "label": "grade", "doc": "sku"}
SCORERS = {
    "linear": {"loss": "pmop", "max_iter": 30},
    "trees": {"loss": "pmop", "scorer": "trees", "max_iter": 10},
    "mlp": {"loss": "listnet", "scorer": "mlp", "max_iter": 5},
}


@pytest.fixture(scope="module")
def train():
    return luce.from_frame(shop(0), **WORDS)


@pytest.mark.parametrize("name", SCORERS)
def test_gaps_and_categories_are_a_property_of_the_model(train, name, tmp_path):
    model = luce.Ranker(**SCORERS[name], random_state=0).fit(train)
    test = luce.from_frame(shop(1), schema=model.schema_)
    scores = model.predict(test)
    assert np.isfinite(scores).all()
    model.save(tmp_path / "m.luce")
    loaded = luce.load(tmp_path / "m.luce")
    assert loaded.schema_ == train.schema
    assert loaded.filling_ == model.filling_
    np.testing.assert_array_equal(loaded.predict(test), scores)
    if name != "mlp":  # five steps are no training
        assert luce.evaluate(model, test, ["ndcg@5"]).means["ndcg@5"] > 0.9
        by_brand = [np.nanmean(scores[test.X[:, 1] == code]) for code in range(3)]
        assert by_brand == sorted(by_brand, reverse=True)
    assert len(model.scored_names) == model.scorer_.n_features


def test_what_a_linear_model_sees(train):
    model = luce.Ranker(loss="pmop", max_iter=20).fit(train)
    assert model.scored_names == (
        *("price", "new", "listed", "price is missing"),
        *("brand = acme", "brand = best", "brand = cheap"),
    )
    assert luce.Ranker(scorer="trees", max_iter=2).fit(train).filling_ is None


def test_a_new_category_is_scored_and_said(train):
    model = luce.Ranker(loss="pmop", max_iter=20).fit(train)
    frame = shop(1, queries=2)
    frame["brand"] = frame["brand"].astype(object)
    frame.iloc[0, frame.columns.get_loc("brand")] = "unheard"
    with pytest.warns(LuceWarning, match="1 of .* values of the column 'brand' were not seen"):
        data = luce.from_frame(frame, schema=model.schema_)
    assert np.isfinite(model.predict(data)).all()


def test_other_codes_are_refused(train):
    model = luce.Ranker(loss="pmop", max_iter=5).fit(train)
    frame = shop(1)
    other = luce.from_frame(frame[frame["brand"] != "acme"], **WORDS)
    with pytest.raises(DataError, match=r"'brand' have other codes than in training; read the data with schema="):
        model.predict(other)
    with pytest.raises(DataError, match="A stream takes numbers without gaps"):
        luce.Ranker(loss="pmop").partial_fit(train)


def test_a_service_takes_what_the_table_had(train, tmp_path):
    from luce.serve.errors import Refused
    from luce.serve.requests import parse
    from luce.serve.settings import Limits
    from luce.serve.shelf import Shelf

    luce.Ranker(loss="pmop", max_iter=20).fit(train).save(tmp_path / "m.luce")
    served = Shelf({"m": tmp_path / "m.luce"}).served["m"]

    def ask(**features):
        whole = {"price": 0.5, "brand": "acme", "new": 1, "listed": 19800} | features
        body = json.dumps({"documents": [{"features": whole}]}).encode()
        return parse(body, served.features, served.takes_missing, Limits(), served.codes, served.types).X

    assert ask()[0].tolist() == [0.5, 0, 1, 19800]
    assert ask(brand="unheard")[0, 1] == 3
    scores = [float(served.ranker.predict(served.groups(ask(brand=name)))[0]) for name in ("acme", "best", "cheap")]
    assert scores == sorted(scores, reverse=True)
    assert np.isfinite(served.ranker.predict(served.groups(ask(price=None)))).all()
    assert ask(new=True, listed="2024-03-18")[0].tolist() == [0.5, 0, 1, 19800]
    assert ask(new=False, listed="2024-03-18T18:00:00+06:00")[0, 2:].tolist() == [0, 19800.5]
    for wrong, words in (
        ({"price": "high"}, "\"high\" as feature 'price'; it must be a number"),
        ({"price": True}, "true as feature 'price'; it must be a number"),
        ({"new": "yes"}, "\"yes\" as feature 'new'; it must be true or false"),
        ({"listed": "18.3.2024"}, "as feature 'listed', a date; write it as '2026-11-16'"),
        ({"listed": True}, "it must be a date such as"),
    ):
        with pytest.raises(Refused, match=re.escape(words)):
            ask(**wrong)


def test_exports_hold_the_codes_or_refuse(train):
    linear = luce.Ranker(loss="pmop", max_iter=5).fit(train)
    assert export_model(linear, "solr", check=train).comparison.largest < 1e-5
    trees = luce.Ranker(loss="pmop", scorer="trees", max_iter=3).fit(train)
    with pytest.raises(SettingError, match="send missing values another way than 0"):
        export_model(trees, "ranklib")
    assert "Codes of brand: acme = 0, best = 1, cheap = 2" in export_model(trees, "onnx", check=train).remarks


def test_damaged_columns_of_a_model_are_refused(train):
    settings, arrays = packed(luce.Ranker(loss="pmop", max_iter=5).fit(train))
    for key, change in (
        ("schema", {"columns": []}),
        ("filling", {"medians": [], "marked": [], "categories": []}),
        ("filling", {**settings["filling"], "marked": []}),
        ("filling", {**settings["filling"], "categories": [0, 9, 0, 0]}),
        ("schema", 7),
    ):
        with pytest.raises((ModelFormatError, DataError)):
            unpacked(({**settings, key: change}, arrays))
    without = {key: value for key, value in settings.items() if key != "filling"}
    with pytest.raises(ModelFormatError, match="The scorer has"):
        unpacked((without, arrays))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop(0).to_parquet("train.parquet")
    shop(1).to_parquet("test.parquet")
    shop(2).drop(columns="grade").to_csv("new.csv")
    return tmp_path


REMARK = (
    "Features: price, brand (3 categories), new, listed (days since 1970-01-01 UTC). Query: search. Label: grade. "
    "Document: sku. Left out: title (a text that is different in every row), __index_level_0__ (the index of a data "
    "frame)."
)
ROLES = ("--qid", "search", "--label", "grade", "--doc", "sku")


def test_commands_say_the_columns_once_and_the_model_knows_them(folder, call):
    code, out, err = call("train", "train.parquet", *ROLES, "--max-iter", 20, "--out", "m.luce")
    assert (code, " ".join(err.split()).count(REMARK)) == (0, 1), err
    code, out, err = call("evaluate", "test.parquet", "--model", "m.luce", "--metrics", "ndcg@5", "--json")
    assert code == 0, err
    assert json.loads(out)["means"]["ndcg@5"] > 0.9
    code, out, err = call("predict", "new.csv", "--model", "m.luce", "--format", "csv")
    assert code == 0, err
    assert out.startswith("qid,docid,score,rank\ns2-0,sku-2-0,")
    code, _, err = call("predict", "new.csv", "--model", "m.luce", "--drop", "title")
    assert (code, "leave drop (--drop) out" in err) == (2, True)


def test_the_page_of_a_table_runs(tmp_path, monkeypatch, call):
    """The file that the page makes, through every command that the page shows."""
    page = (Path(__file__).resolve().parents[2] / "docs/table.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1], {})
    lines = re.findall(r"^\$ luce (.*)$", page.replace("\\\n", " "), re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["info", "train", "evaluate", "predict", "serve"]
    for line in lines[:-1]:
        code, _, err = call(*shlex.split(line))
        assert code == 0, (line, err)


def test_labels_that_are_text(folder, call):
    words = {0: "bad", 1: "ok", 2: "good", 3: "perfect"}
    shop(0).assign(grade=lambda frame: frame.grade.map(words)).to_parquet("words.parquet")
    code, _, err = call("train", "words.parquet", *ROLES, "--out", "w.luce")
    assert (code, "--label-map perfect=3,good=2,ok=1,bad=0" in err) == (2, True)
    grades = ("--label-map", "perfect=3,good=2", "--label-map", "ok=1,bad=0")
    code, _, err = call("train", "words.parquet", *ROLES, *grades, "--max-iter", 20, "--out", "w.luce")
    assert code == 0, err
    direct = luce.Ranker(max_iter=20, random_state=0).fit(luce.from_frame(shop(0), **WORDS))
    test = luce.from_frame(shop(1), schema=direct.schema_)
    np.testing.assert_array_equal(luce.load("w.luce").predict(test), direct.predict(test))
    code, _, err = call("evaluate", "words.parquet", "--model", "w.luce", "--json")
    assert code == 0, err
    assert "--label-map of 'good' is 'x'" in call("info", "words.parquet", *ROLES, "--label-map", "good=x")[2]
    for bad in ("good", "good=2,good=1", "=1"):
        code, _, err = call("info", "words.parquet", *ROLES, "--label-map", bad)
        assert (code, "write every label once" in err) == (2, True)


def test_a_reranker_reads_the_columns_of_its_base(folder, call):
    assert call("train", "train.parquet", *ROLES, "--max-iter", 20, "--out", "m.luce")[0] == 0
    code, _, err = call("rerank", "m.luce", "test.parquet", "--save", "r.luce")
    assert code == 0, err


def test_info_lists_every_column(folder, call):
    code, out, _ = call("info", "train.parquet", *ROLES)
    assert code == 0
    for name in ("search", "grade", "sku", "price", "brand", "new", "listed", "title", "__index_level_0__"):
        assert f"\n  {name} " in out
    assert "feature: category; 3 categories (acme, best, cheap); any other has the code 3;" in out
    assert "% missing" in out
    more = ("--drop", "price,new", "--categorical", "listed", "--json")
    code, out, _ = call("info", "train.parquet", *ROLES, *more)
    columns = {column["name"]: column for column in json.loads(out)["columns"]}
    assert (columns["price"]["why"], columns["listed"]["type"]) == ("dropped", "category")


def test_a_system_says_its_own_name(folder, call):
    code, out, _ = call("train", "train.parquet", *ROLES, "--model", "lambdamart", "--max-iter", 3, "--out", "m.luce")
    assert (code, out.startswith("Wrote m.luce: lambdamart, 3 iterations")) == (0, True)
    assert "model                    lambdarank on trees" in call("info", "m.luce")[1]


def test_info_lists_the_columns_of_a_model(folder, call):
    assert call("train", "train.parquet", *ROLES, "--max-iter", 5, "--out", "m.luce")[0] == 0
    code, out, _ = call("info", "m.luce")
    assert code == 0
    assert "brand                  feature: category; 3 categories (acme, best, cheap); any other has the code 3" in out
    assert "listed                 feature: date; days since 1970-01-01 UTC" in out
    assert "grade                  label: number" in out


def test_convert_keeps_names_and_codes(folder, call):
    for target in ("t.lucedata", "t.parquet"):
        code, _, err = call("convert", "train.parquet", *ROLES, "--out", target)
        assert code == 0, err
        assert luce.read(target).schema.categories == {1: ("acme", "best", "cheap")}
    code, _, err = call("convert", "train.parquet", *ROLES, "--out", "t.txt")
    assert (code, "'brand' is a category" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--qid", "nothing"), "There is no column 'nothing' for qid"),
        ((), "There is no column 'qid' for the query; the columns are search"),
        (("--qid", "search", "--label", "title"), "The label column 'title' holds text"),
        (("--qid", "search", "--features", "price,cost"), "There is no column 'cost' (features)"),
    ],
)
def test_bad_words(folder, call, words, said):
    code, _, err = call("train", "train.parquet", *words, "--out", "m.luce")
    assert (code, said in " ".join(err.split())) == (2, True), err
    code, _, err = call("info", "train.parquet", *words)
    assert (code, said in " ".join(err.split())) == (2, True), err
