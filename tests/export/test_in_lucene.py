"""What is exported for an engine, run with a real Lucene: the features of its set, and the sum of its models."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import luce
from luce.export import export_model
from tests.data import lucene
from tests.export import evaluators
from tests.export.test_texts import BODIES, QUERIES, TITLES, shop

FIELDS = ["title", "body"]
MAKERS = {
    "linear": lambda table, text: luce.Ranker("listnet", text=text, max_iter=20).fit(table, "grade", qid="qid"),
    "trees": lambda table, text: luce.Ranker("pmop", "trees", text=text, max_iter=5).fit(table, "grade", qid="qid"),
    "second order": lambda table, text: luce.Ranker(
        "listnet", "second_order", text=text, max_iter=5, scorer__count=6
    ).fit(table, "grade", qid="qid"),
    "linear and trees": lambda table, text: luce.Ranker(
        "pmop", "trees", base=MAKERS["linear"](table, text), text=text, max_iter=5
    ).fit(table, "grade", qid="qid"),
}


def bigger_shop() -> Any:
    """More documents than a check has rows, some without a price."""
    table = shop().to_pandas()
    rng = np.random.default_rng(1)
    more = [
        {"qid": q, "search": QUERIES[q], "title": " ".join(rng.permutation(" ".join(TITLES).split())[:6]),
         "body": " ".join(rng.permutation(" ".join(BODIES).split())[:20]), "grade": int(rng.integers(0, 3))}
        for q in range(len(QUERIES)) for _ in range(25)
    ]  # fmt: skip
    table = pd.concat([table, pd.DataFrame(more)], ignore_index=True)
    table["sku"] = [f"sku-{i}" for i in range(len(table))]
    return table


def feature(template: Any, scores: dict[str, float], values: dict[str, float], params: dict[str, float]) -> float:
    """One query of a feature set for one document, by what Lucene gave and what is stored."""
    if isinstance(template, str):
        return params[template.split('"weight": {{')[1].split("}}")[0]]
    ((kind, body),) = template.items()
    if kind == "match":
        ((field, asked),) = body.items()
        assert asked == "{{keywords}}"
        return scores[field]
    if kind == "constant_score":
        (field,) = body["filter"]["bool"]["must_not"][0].values()
        return float(values[field["field"]] is None)
    assert body["boost_mode"] == "replace"
    assert len(body.get("functions", [0])) == 1 or body["score_mode"] == "sum"
    total = 0.0
    for function in body.get("functions", [body]):
        factor = function["field_value_factor"]
        stored = scores[factor["field"]] if factor["field"] in scores else values[factor["field"]]
        if stored is None and "missing" not in factor:
            assert "exists" in body["query"]  # it does not match, which trees know
            return float("nan")
        total += factor["missing"] if stored is None else stored
    return total


@pytest.mark.parametrize("name", MAKERS)
def test_models_over_the_features_of_lucene_give_the_scores_of_luce(name, tmp_path):
    table = bigger_shop()
    corpus = table[[*FIELDS, "sku"]]
    text = luce.Text("search", FIELDS, corpus=corpus, doc="sku", numbers=True)
    model = MAKERS[name](table, text)
    data = model._groups(table, None, "qid", None, reset=False)
    export_model(model, "elasticsearch", check=data, texts=table, name="m", offset="auto").save(tmp_path / "m.json")
    index = json.loads((tmp_path / "m-index.json").read_text())
    lines = [json.loads(line) for line in (tmp_path / "m-check.jsonl").read_text().splitlines()]
    assert len(lines) == 200
    prices = table["price"].astype(object).where(table["price"].notna(), None)
    pairs = [(line["query"], int(line["id"])) for line in lines]
    documents = list(zip(table["title"], table["body"], strict=True))
    found = lucene.run(tmp_path, lucene.elasticsearch_fields(index, FIELDS), documents, pairs).scores
    features = json.loads((tmp_path / "m-features.json").read_text())["featureset"]["features"]
    models = sorted(path for path in tmp_path.glob("m*.json") if path.stem in ("m", "m-2"))
    assert len(models) == (2 if name == "linear and trees" else 1)
    assert name != "second order" or any(one["template_language"] == "derived_expression" for one in features)
    for row, line in enumerate(lines):
        scores = {field: float(values[row]) for field, values in found.items()}
        made: dict[str, np.float32] = {}
        for one in features:
            if one["template_language"] == "derived_expression":
                left, right = one["template"].split(" * ")
                value = made[left] * made[right]
            else:
                value = feature(one["template"], scores, {"price": prices[int(line["id"])]}, line["features"])
            made[one["name"]] = np.float32(value)
        for key, value in line["features"].items():
            wanted = float("nan") if value is None else value
            assert made[key] == pytest.approx(wanted, rel=1e-5, abs=1e-5, nan_ok=True), key
        total = sum(evaluators.elasticsearch(path.read_text(), made) for path in models)
        assert total == pytest.approx(line["score"], rel=1e-4, abs=1e-4)
