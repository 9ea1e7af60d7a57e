"""Models of texts: the plain Python file has the bits of `predict`, and engines get index, features and check."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import luce
from luce.data.text.tokens import grams, runs
from luce.errors import SettingError
from luce.export import export_model
from luce.export.texts import solr_schema

QUERIES = ["red shoes", "Blue hat 10.5", "steel steel angle bracket", "Café chairs", "", "hats", "青い 帽子", "x" * 60]
TITLES = [
    "Red running shoes",
    "Blue hats 10.5",
    "Angle brackets, steel",
    "Straße café CHAIR",
    "",
    "<b>Red</b> hat",
    "青い帽子",
]
BODIES = [
    "a shoe for running",
    "",
    "steel " * 40 + "bracket",
    "chairs & tables",
    "the of and",
    "12 34 1.5",
    "emoji 😀 hat",
]


def shop() -> pa.Table:
    rows = [(q, t, b) for q in QUERIES for t, b in zip(TITLES, BODIES, strict=True)]
    rng = np.random.default_rng(0)
    columns = {"qid": [i // len(TITLES) for i in range(len(rows))]}
    columns |= dict(zip(("search", "title", "body"), map(list, zip(*rows, strict=True)), strict=True))
    return pa.table(columns | {"price": rng.random(len(rows)), "grade": rng.integers(0, 3, len(rows))})


@pytest.fixture(scope="module")
def models():
    table = shop()
    text = luce.Text("search", ["title", "body"], numbers=True)
    one = luce.Text("search", ["title"], language="none", k1=0.9, b=0.4, query_features=False)
    return {
        "linear": luce.Ranker("listnet", text=text, max_iter=20).fit(table.drop_columns("price"), "grade", qid="qid"),
        "trees": luce.Ranker("pmop", "trees", text=one, max_iter=5).fit(table.drop_columns("body"), "grade", qid="qid"),
    }


@pytest.mark.parametrize("name", ["linear", "trees"])
def test_the_python_file_has_the_bits_of_predict(models, name):
    model, table = models[name], shop()
    space: dict = {}
    exec(export_model(model, "python").content, space)
    fields = model.schema_.text.fields
    expected, data = model.predict(table), model._groups(table, None, "qid", None, reset=False)
    made = np.asarray(data.X)[np.argsort(np.asarray(data.row_order))] if data.row_order is not None else data.X
    for i, row in enumerate(table.to_pylist()):
        texts = {field: row[field] for field in fields}
        found = np.array(space["text_features"](row["search"], texts), dtype=np.float32)
        np.testing.assert_array_equal(found, made[i][-len(found) :])
        other = {"price": row["price"]} if name == "trees" else ()
        assert space["score_text"](row["search"], texts, other) == pytest.approx(expected[i], rel=1e-12)
    with pytest.raises(ValueError, match="exactly these fields"):
        space["score_text"]("a", {})


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch"])
@pytest.mark.parametrize("name", ["linear", "trees"])
def test_an_engine_gets_all_that_it_needs(models, name, target, tmp_path):
    model, table = models[name], shop()
    data = model._groups(table, None, "qid", None, reset=False)
    made = export_model(model, target, check=data, texts=table, store="shop", name="m", offset="auto")
    assert made.comparison.reordered == 0
    made.save(tmp_path / "m.json")
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {"m.json", "m-features.json", "m-query.json", "m-index.json", "m-check.jsonl", "m-check.py"}
    features = json.loads((tmp_path / "m-features.json").read_text())["featureset"]["features"]
    index = json.loads((tmp_path / "m-index.json").read_text())
    known = index["mappings"]["properties"]
    for feature in features:
        for field in (feature["template"].get("match") or {}) if isinstance(feature["template"], dict) else {}:
            owner, _, sub = field.rpartition(".")
            kind = known[owner]["fields"][sub]
            assert kind["analyzer"] in index["settings"]["analysis"]["analyzer"]
            assert kind["similarity"] in (*index["settings"]["similarity"], "boolean")
            assert feature["params"] == ["keywords"]
    lines = [json.loads(line) for line in (tmp_path / "m-check.jsonl").read_text().splitlines()]
    names = {feature["name"] for feature in features}
    assert lines
    assert all(set(line["features"]) == names for line in lines)
    passed = {feature["name"]: feature for feature in features if feature["name"] in ("q_words", "q_idf")}
    assert list(passed) == list(model.schema_.text.of_query)
    (asked, *_) = json.loads((tmp_path / "m-query.json").read_text())["rescore"]["query"]["rescore_query"]["bool"][
        "should"
    ]
    assert set(asked["sltr"]["params"]) == {"keywords", *passed}
    for one, feature in passed.items():
        filled = json.loads(feature["template"].replace("{{" + one + "}}", "2.5"))
        assert filled["function_score"]["weight"] == 2.5
    compile((tmp_path / "m-check.py").read_text(), "check", "exec")


class Engine(BaseHTTPRequestHandler):
    """Answers a search as the plugin does, with what the rows of a check should have, and `off` more."""

    rows: ClassVar[dict[str, dict]] = {}
    off = 0.0

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        terms, log = asked["query"]["bool"]["filter"]
        row = self.rows[terms["terms"]["sku"][0]]
        assert self.path == "/shop/_search"
        assert log["sltr"]["params"]["keywords"] == row["query"]
        assert asked["ext"]["ltr_log"]["log_specs"]["named_query"] == log["sltr"]["_name"]
        models = asked["rescore"]["query"]["rescore_query"]["bool"]["should"]
        assert [one["sltr"]["model"] for one in models] == ["m", "m-2"]
        found = [{"name": name, "value": value} for name, value in row["features"].items() if value]
        hit = {"_score": row["score"] + self.off, "fields": {"_ltrlog": [{"main": found}]}}
        body = json.dumps({"hits": {"hits": [hit]}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def test_the_script_asks_the_engine_and_says_where_it_parts(models, tmp_path):
    model, table = models["linear"], shop()
    data = model._groups(table, None, "qid", None, reset=False)
    made = export_model(model, "elasticsearch", check=data, texts=table, store="shop", name="m", offset="auto")
    made.save(tmp_path / "m.json")
    rows = [json.loads(line) for line in (tmp_path / "m-check.jsonl").read_text().splitlines()]
    Engine.rows = {row["id"]: row for row in rows}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [sys.executable, "m-check.py", "m-check.jsonl", f"http://127.0.0.1:{server.server_port}/shop", "m,m-2"]
    try:
        for off, code in ((0.0, 0), (1e-5, 0), (0.01, 1)):
            Engine.off = off
            done = subprocess.run(
                [*command, "shop", "sku"], cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (code, "")
            assert (done.stdout.split()[0] == "score") == (off > 0)
    finally:
        server.shutdown()
        server.server_close()


def test_solr_has_its_own_words(models, tmp_path):
    model, table = models["trees"], shop()
    data = model._groups(table, None, "qid", None, reset=False)
    export_model(model, "solr", check=data, texts=table, name="m").save(tmp_path / "m.json")
    features = {one["name"]: one for one in json.loads((tmp_path / "m-features.json").read_text())}
    listed = {one["name"] for one in json.loads((tmp_path / "m.json").read_text())["features"]}
    assert listed == set(features)
    assert not {"q_words", "q_idf"} & listed
    assert "efi.keywords=${keywords}}" in json.loads((tmp_path / "m-query.json").read_text())["params"]["rq"]
    fields = {one["name"] for one in json.loads((tmp_path / "m-index.json").read_text())["add-field"]}
    for one in features.values():
        asked = re.search(r"qf=(\w+)", one["params"].get("q", ""))
        assert asked is None or asked[1] in fields


def test_the_pattern_of_grams_gives_those_of_luce():
    schema = solr_schema(luce.Text("search", ["title"]))
    (gram,) = {t["analyzer"]["tokenizer"]["pattern"] for t in schema["add-field-type"] if "gram" in t["name"]}
    pattern = re.compile(gram.replace(r"\p{L}", "a-zA-Z").replace(r"\p{Nd}", "0-9"))
    text = "Wood-screws 3/4in. x 10mm, a b"
    found = [match[1].lower() for match in pattern.finditer(text)]
    assert found == [gram for run in runs(text) for gram in grams(run)]


def test_what_only_python_computes_and_no_tree_asks_for_is_no_part_of_the_index():
    table = shop().drop_columns(["body", "price"])
    full = luce.Text("search", ["title"], features="full")
    model = luce.Ranker("pmop", "trees", text=full, max_iter=1).fit(table, "grade", qid="qid")
    forest = model.scorer_.forest
    forest.feature[:] = full.names.index("title.length")
    made = export_model(model, "elasticsearch", store="shop", name="m")
    subfields = json.loads(made.beside["-index"])["mappings"]["properties"]["title"]["fields"]
    assert set(subfields) == {name.partition(".")[2] for name in luce.Text("search", ["title"]).names[:-2]}
    assert len(solr_schema(full)["add-field"]) == len(subfields)


def test_what_only_python_computes_is_refused_by_name():
    table = shop()
    full = luce.Text("search", ["title"], features="full")
    model = luce.Ranker("listnet", text=full, max_iter=5).fit(table.drop_columns(["body", "price"]), "grade", qid="qid")
    with pytest.raises(SettingError, match="word_cosine"):
        export_model(model, "elasticsearch")
    for target in ("onnx", "python"):
        assert any("as numbers" in remark for remark in export_model(model, target).remarks)
    with pytest.raises(SettingError, match="only Python computes"):
        luce.model("auto", text=full, export_to="solr").fit(table.drop_columns(["body", "price"]), "grade", qid="qid")


def test_a_product_with_a_query_is_an_expression_of_names_or_refused():
    table = shop().drop_columns(["body"])
    text = luce.Text("search", ["title"])
    model = luce.Ranker("listnet", "second_order", text=text, max_iter=5, scorer__count=4)
    model.fit(table, "grade", qid="qid")
    features = json.loads(export_model(model, "elasticsearch").beside["-features"])["featureset"]["features"]
    made = [one for one in features if "_x_" in one["name"]]
    names = {one["name"] for one in features}
    assert made
    assert all(one["template_language"] == "derived_expression" for one in made)
    assert all(name in names for one in made for name in one["template"].split(" * "))
    with pytest.raises(SettingError, match="which Solr computes by a query"):
        export_model(model, "solr")
    renamed = {name: name.replace("title", "a-title") for name in model.feature_names_}
    with pytest.raises(SettingError, match="rename the features"):
        export_model(model, "elasticsearch", feature_names=renamed)
