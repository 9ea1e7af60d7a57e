"""`luce export` and logs at the command line: results, remarks and bad input."""

from __future__ import annotations

import ast
import json
import shlex

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = simulate(queries=40, features=6, seed=1)
    luce.write_letor(data, "data.txt")
    luce.Ranker(max_iter=5).fit(data).save("linear.luce")
    luce.Ranker(scorer="trees", max_iter=4).fit(data).save("trees.luce")
    return tmp_path


ENDINGS = {"onnx": "onnx", "python": "py", "lightgbm": "txt", "ranklib": "txt"}


@pytest.mark.parametrize("target", luce.export.targets())
def test_trees_to_every_target(call, folder, target):
    out = f"model.{ENDINGS.get(target, 'json')}"
    code, printed, complaint = call(
        "export", "trees.luce", "--to", target, "--out", out, "--check", "data.txt", "--json"
    )
    assert (code, complaint) == (0, "")
    found = json.loads(printed)
    assert found["target"] == target
    assert found["bytes"] == (folder / out).stat().st_size
    assert found["check"]["largest"] < 1e-6
    assert found["check"]["reordered"] == 0
    if out.endswith(".json"):
        json.loads((folder / out).read_text())


def test_without_a_file_the_model_goes_to_standard_output(call, folder):
    code, printed, _ = call("export", "linear.luce", "--to", "solr")
    assert code == 0
    assert json.loads(printed)["class"].endswith("LinearModel")
    for more in (["--to", "onnx"], ["--to", "solr", "--json"]):
        code, printed, complaint = call("export", "linear.luce", *more)
        assert (code, printed) == (2, "")
        assert "give --out FILE" in complaint


def test_offset_names_and_upload_command(call, folder):
    (folder / "names.csv").write_text("1,bm25\n2,clicks\n")
    more = ["--offset", "auto", "--feature-names", "names.csv", "--store", "movies", "--name", "ranker1"]
    code, printed, said = call(
        "export", "linear.luce", "--to", "elasticsearch", "-o", "m.json", "--check", "data.txt", *more
    )
    assert code == 0
    assert "Wrote m.json, m-features.json, m-query.json for elasticsearch" in printed
    assert "0 queries in another order" in printed
    assert "_ltr/_featureset/movies/_createmodel" in said
    assert "@m.json" in said
    model = json.loads((folder / "m.json").read_text())["model"]
    assert model["name"] == "ranker1"
    assert {"bm25", "clicks", "3"} <= set(json.loads(model["model"]["definition"]))


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "solr"])
@pytest.mark.parametrize("name", ["my model's.json", "$(touch x).json", "a;b&c.json", "plain.json"])
def test_upload_commands_can_be_given_to_a_shell(call, folder, target, name):
    code, _, said = call("export", "linear.luce", "--to", target, "--out", name)
    assert code == 0
    command = next(line for line in said.splitlines() if line.startswith("Upload: "))
    assert shlex.split(command)[-1] == f"@{name}"
    assert ("'" in command.partition("--data-binary")[2]) == (name != "plain.json")


@pytest.mark.parametrize("target", ["onnx", "lightgbm", "xgboost-json"])
def test_lines_of_python_hold_the_file_as_a_string(call, folder, target):
    name = "my 'own' FILE model"
    code, printed, _ = call("export", "trees.luce", "--to", target, "--out", name, "--json")
    assert code == 0
    line = json.loads(printed)["remarks"][-1].partition(": ")[2].removesuffix(", X float32")
    strings = [node.value for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Constant)]
    assert name in strings


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "elastic"], "Did you mean 'elasticsearch'?"),
        (["--to", "lightgbm"], "linear model, which LightGBM's text cannot express"),
        (["--to", "xgboost-dump"], "cannot express"),
        (["--to", "elasticsearch", "--offset", "auto"], "give --check DATA"),
        (["--to", "solr", "--offset", "much"], "a number or auto"),
        (["--to", "solr", "--offset", "nan"], "finite number"),
        (["--to", "solr", "--name", "a b"], "model name 'a b'"),
        (["--to", "solr", "--store", "a/b"], "feature store 'a/b'"),
        (["--to", "solr", "--feature-names", "nowhere.json"], "nowhere.json cannot be read"),
        (["--to", "solr", "--feature-names", "bad.json"], "no valid JSON"),
        (["--to", "solr", "--feature-names", "blank.json"], "feature name 'a b' cannot be used in Solr"),
        (["--to", "solr", "--check", "nowhere.txt"], "does not exist"),
        (["--to", "solr", "--check", "narrow.txt"], "features"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(call, folder, options, said):
    (folder / "bad.json").write_text("{")
    (folder / "blank.json").write_text('{"1": "a b"}')
    (folder / "narrow.txt").write_text("1 qid:1 1:1\n")
    before = sorted(folder.iterdir())
    code, printed, complaint = call("export", "linear.luce", "--out", "m.json", *options)
    assert (code, printed) == (2, "")
    assert said in complaint
    assert complaint.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_a_file_that_is_no_model(call, folder):
    code, _, complaint = call("export", "data.txt", "--to", "solr", "--out", "m.json")
    assert code == 2
    assert complaint.startswith("luce: ")


def _response(query: str, documents: dict[str, list[float]]) -> str:
    hits = [
        {"_id": name, "fields": {"_ltrlog": [{"main": [{"name": f"f{i}", "value": x} for i, x in enumerate(row)]}]}}
        for name, row in documents.items()
    ]
    return json.dumps({"qid": query, "response": {"hits": {"hits": hits}}}) + "\n"


def test_train_and_convert_from_logs(call, folder):
    rng = np.random.default_rng(0)
    lines, grades = [], ["query,document,grade"]
    for query in range(20):
        rows = {f"d{i}": rng.random(3).round(3).tolist() for i in range(6)}
        lines.append(_response(str(query), rows))
        grades += [f"{query},{name},{int(row[0] * 3)}" for name, row in rows.items()]
    (folder / "log.jsonl").write_text("".join(lines))
    (folder / "grades.csv").write_text("\n".join(grades))
    code, printed, _ = call("train", "log.jsonl", "--judgements", "grades.csv", "--out", "m.luce", "--json")
    assert code == 0
    assert json.loads(printed)["scorer"] == "linear"
    code, printed, _ = call("convert", "log.jsonl", "--judgements", "grades.csv", "--out", "t.parquet", "--json")
    assert json.loads(printed)["documents"] == 120
    assert luce.read("t.parquet").feature_names == ("f0", "f1", "f2")
    code, printed, _ = call("predict", "log.jsonl", "--model", "m.luce")
    assert (code, len(printed.split())) == (0, 120)
    code, _, complaint = call("convert", "data.txt", "--judgements", "grades.csv", "--out", "t.parquet", "--quiet")
    assert code == 2
    assert "no option 'judgements'" in complaint
