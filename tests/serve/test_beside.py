"""Requests with texts, outside scores, relations, tables of Arrow and reasons."""

from __future__ import annotations

import asyncio
import io

import httpx
import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import luce
from luce.data.simulate import simulate
from luce.serve import Limits
from luce.serve.app import create_app

SEARCHES = ["red shoes", "blue hat", "steel angle bracket", "garden hose"]
TITLES = ["Red running shoes", "Blue hat", "Angle brackets, steel", "Hose for gardens", "Shoe rack", "", "Red hat"]


@pytest.fixture(scope="module")
def shop():
    rows = [(q, t) for q in SEARCHES for t in TITLES]
    grade = [len(set(q.split()) & set(t.lower().replace(",", "").split())) for q, t in rows]
    price = np.random.default_rng(0).random(len(rows))
    return pa.table({"search": [q for q, _ in rows], "title": [t for _, t in rows], "price": price, "grade": grade})


@pytest.fixture(scope="module")
def searched(shop, tmp_path_factory):
    """A model of texts and a price, and its service."""
    model = luce.Ranker("listnet", text=luce.Text("search", ["title"])).fit(shop, "grade")
    path = tmp_path_factory.mktemp("shop") / "shop.luce"
    model.save(path)
    return model, path


def ask(path, body, limits=None, where="/rank", **how):
    sent = {"json": body} if not isinstance(body, bytes) else {"content": body}

    async def post():
        transport = httpx.ASGITransport(create_app({"m": path}, limits), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.post(where, **sent, **how)

    return asyncio.run(post())


def by_id(answer):
    assert answer.status_code == 200, answer.text
    return {place["id"]: place for place in answer.json()["ranking"]}


def documents(shop, query):
    return [
        {"id": str(i), "text": {"title": row["title"]}, "features": {"price": row["price"]}}
        for i, row in enumerate(shop.to_pylist())
        if row["search"] == query
    ]


def test_raw_text_has_the_scores_of_predict(searched, shop):
    model, path = searched
    expected = model.predict(shop)
    found = by_id(ask(path, {"query": "blue hat", "documents": documents(shop, "blue hat"), "explain": True}))
    assert len(found) == len(TITLES)
    for name, place in found.items():
        assert place["score"] == expected[int(name)]
        assert place["reference"] + sum(place["adds"].values()) == pytest.approx(place["score"], abs=1e-9)
    some = shop.slice(0, len(TITLES))
    matrix = {"query": SEARCHES[0], "texts": {"title": TITLES}, "features": [[x] for x in some["price"].to_pylist()]}
    found = by_id(ask(path, matrix, where="/rank?explain=true"))
    assert [found[i]["score"] for i in range(len(TITLES))] == expected[: len(TITLES)].tolist()
    assert "adds" in found[0]


def test_what_is_missing_or_too_long(searched, shop):
    _, path = searched
    two = documents(shop, "blue hat")
    assert ask(path, {"documents": two}).json()["error"]["message"].startswith("query is missing")
    bare = [{"id": "a", "features": {"price": 1.0}}]
    assert ask(path, {"query": "hat", "documents": bare}).json()["error"]["code"] == "missing_text"
    assert ask(path, {"query": "hat", "documents": bare}, Limits(missing_features=True)).status_code == 200
    long = [{"id": "a", "features": {"price": 1.0}, "text": {"title": "x" * 20_001}}]
    answer = ask(path, {"query": "hat", "documents": long})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "text_too_long")
    assert ask(path, {"query": "x" * 1001, "documents": two}).status_code == 413
    for text in ({"title": 5}, {"name": "a"}, "title"):
        wrong = [{"id": "a", "features": {"price": 1.0}, "text": text}]
        assert ask(path, {"query": "hat", "documents": wrong}).status_code == 422
    assert ask(path, {"query": 5, "documents": two}).status_code == 422
    assert ask(path, {"query": "hat", "documents": two}, where="/rank?depth=3").status_code == 422
    empty = [{"id": "a", "features": {"price": 1.0}, "text": {"title": None}}]
    assert ask(path, {"query": "", "documents": empty}).status_code == 200


def stream(table, options=None):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_tables_of_arrow(searched, shop):
    model, path = searched
    some = shop.slice(0, len(TITLES))
    table = pa.table({"id": [f"d{i}" for i in range(len(TITLES))], "title": TITLES, "price": some["price"]})
    kind = {"headers": {"content-type": "application/vnd.apache.arrow.stream"}}
    found = by_id(ask(path, stream(table), where="/rank?query=red%20shoes&explain=true&top=3", **kind))
    expected = model.predict(some)
    assert len(found) == 3
    assert all(place["score"] == expected[int(name[1:])] for name, place in found.items())
    packed = stream(table, pa.ipc.IpcWriteOptions(compression="zstd"))
    assert ask(path, packed, where="/rank?query=red", **kind).json()["error"]["code"] == "packed_body"
    coded = table.set_column(1, "title", table["title"].dictionary_encode())
    assert ask(path, stream(coded), where="/rank?query=red", **kind).status_code == 200
    packed = stream(coded, pa.ipc.IpcWriteOptions(compression="lz4"))
    assert ask(path, packed, where="/rank?query=red", **kind).json()["error"]["code"] == "packed_body"
    for wrong in (b"", b"nothing of Arrow", stream(table)[:100]):
        assert ask(path, wrong, where="/rank?query=red", **kind).status_code in (400, 422)
    assert ask(path, stream(table.drop_columns(["price"])), where="/rank?query=red", **kind).status_code == 422
    assert ask(path, stream(table.append_column("x", table["id"])), where="/rank?query=red", **kind).status_code == 422


def test_categories_gaps_and_dates_in_arrow(tmp_path):
    rng = np.random.default_rng(1)
    n = 200
    brand = rng.choice(["a", "b"], n)
    price = np.where(rng.random(n) < 0.2, np.nan, rng.random(n))
    table = pa.table({"qid": np.arange(n) // 10, "label": (brand == "a") * 1, "brand": brand, "price": price})
    model = luce.Ranker("pmop", "trees", max_iter=5).fit(table, "label", qid="qid")
    model.save(tmp_path / "m.luce")
    sent = pa.table({"brand": ["a", "b", "new"], "price": pa.array([1.0, None, 0.5])})
    kind = {"headers": {"content-type": "application/vnd.apache.arrow.stream"}}
    found = by_id(ask(tmp_path / "m.luce", stream(sent), **kind))
    with pytest.warns(luce.errors.LuceWarning, match="1 of 3 values"):
        expected = model.predict(sent.append_column("qid", pa.array([1, 1, 1])))
    assert [found[i]["score"] for i in range(3)] == expected.tolist()
    numbers = pa.table({"brand": [0, 1, 1], "price": [1.0, 2.0, 3.0]})
    assert ask(tmp_path / "m.luce", stream(numbers), **kind).status_code == 422


def test_a_model_on_outside_scores(tmp_path):
    data = simulate(queries=20, features=3, seed=0)
    given = np.random.default_rng(0).normal(size=data.n_rows)
    model = luce.Ranker("pmop", "trees", max_iter=5).fit(data, base_scores=given)
    model.save(tmp_path / "m.luce")
    rows = np.asarray(data.X[:6])
    expected = model.predict(rows, base_scores=given[:6])
    listed = [{"id": i, "features": x, "score": s} for i, (x, s) in enumerate(zip(rows.tolist(), given, strict=False))]
    found = by_id(ask(tmp_path / "m.luce", {"documents": listed, "explain": True}))
    assert [found[i]["score"] for i in range(6)] == expected.tolist()
    found = by_id(ask(tmp_path / "m.luce", {"features": rows.tolist(), "scores": given[:6].tolist()}))
    assert [found[i]["score"] for i in range(6)] == expected.tolist()
    bare = [{"id": i, "features": x} for i, x in enumerate(rows.tolist())]
    for wrong in (
        {"documents": bare},
        {"documents": [*listed[:2], bare[2]]},
        {"documents": [{**bare[0], "score": [1]}]},
        {"features": rows.tolist(), "scores": [1.0]},
        {"features": rows.tolist(), "scores": 3},
        {"documents": listed, "probabilities": {"pairs": True}},
    ):
        assert ask(tmp_path / "m.luce", wrong).status_code == 422


def test_relations_of_a_reranker(tmp_path):
    data = simulate(queries=20, features=3, seed=0)
    rng = np.random.default_rng(0)
    links = sparse.csr_array(sparse.block_diag([sparse.random(n, n, 0.5, random_state=rng) for n in data.sizes]))
    whole = luce.from_arrays(
        data.X, data.y, qid=data.qid, relations={"near": links}, feature_names=list(data.feature_names)
    )
    model = luce.Ranker(trainer="ccrf", trainer__form="distillation", trainer__relation="near").fit(whole)
    model.save(tmp_path / "m.luce")
    n = int(data.sizes[0])
    one = links[:n][:, :n].tocoo()
    sent = [[f"d{i}", f"d{j}", float(w)] for i, j, w in zip(*one.coords, one.data, strict=True)]
    body = {"features": data.X[:n].tolist(), "ids": [f"d{i}" for i in range(n)], "relations": {"near": sent}}
    found = by_id(ask(tmp_path / "m.luce", body))
    expected = model.predict(whole.take([0]))
    np.testing.assert_allclose([found[f"d{i}"]["score"] for i in range(n)], expected, rtol=1e-12)
    assert ask(tmp_path / "m.luce", {**body, "relations": None}).status_code == 422
    for wrong in (3, {"near": 3}, {"near": [["d0", "x", 1.0]]}, {"near": [["d0", "d1"]]}):
        assert ask(tmp_path / "m.luce", {**body, "relations": wrong}).status_code == 422


def test_others_take_none_of_it(models):
    for more in ({"query": "a"}, {"relations": {"near": []}}, {"scores": [1.0]}, {"texts": {"a": ["b"]}}):
        answer = ask(models["linear"], {"features": [[1.0] * 5], **more})
        assert answer.status_code == 422, more
        assert "leave" in answer.json()["error"]["message"]
