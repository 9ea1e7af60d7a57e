"""The service through its routes: answers against `predict`, and every way to ask wrongly."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace

import anyio
import httpx
import numpy as np
import pytest

import luce
from luce.serve import Limits, create_app
from luce.serve.app import THREADS
from luce.serve.shelf import Served
from tests.serve.conftest import FEATURES


class Client:
    """Asks an application without a network, each request in an event loop of its own."""

    def __init__(self, app) -> None:
        self.app = app

    def request(self, method: str, path: str, **content) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, **content)

        return anyio.run(ask)

    def rank(self, model: str = "linear", **body) -> httpx.Response:
        return self.request("POST", f"/models/{model}/rank", json=body)


@pytest.fixture(scope="module")
def client(models) -> Client:
    return Client(create_app(models, Limits(documents=50, body_bytes=100_000, pair_documents=20, top_k_documents=30)))


def refusal(answer: httpx.Response) -> tuple[int, str]:
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"]["message"].endswith(".")
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize("model", ["linear", "trees", "within"])
def test_ranking_is_that_of_predict(client, models, rows, model):
    names = [f"d{i}" for i in range(len(rows))]
    documents = [{"id": name, "features": row.tolist()} for name, row in zip(names, rows, strict=True)]
    named = [{"features": {str(j + 1): value for j, value in enumerate(row.tolist())}} for row in rows]
    answers = [
        client.rank(model, documents=documents),
        client.rank(model, features=rows.tolist(), ids=names),
        client.rank(model, documents=[{"id": n, **d} for n, d in zip(names, named, strict=True)]),
    ]
    scores = luce.load(models[model]).predict(rows, qid=np.zeros(len(rows)))
    order = np.argsort(-scores, kind="stable")
    for answer in answers:
        found = answer.json()
        assert answer.status_code == 200
        assert found["documents"] == len(rows)
        assert [place["id"] for place in found["ranking"]] == [names[i] for i in order]
        assert [place["rank"] for place in found["ranking"]] == list(range(1, len(rows) + 1))
        np.testing.assert_array_equal([place["score"] for place in found["ranking"]], scores[order])


@pytest.mark.parametrize("model", ["linear", "trees"])
def test_named_features_in_any_order(client, rows, model):
    """Names in the order of the model, in another one, and in one of each document's own."""
    rng = np.random.default_rng(0)
    expected = client.rank(model, features=rows.tolist()).json()["ranking"]
    given = [[(str(j + 1), x) for j, x in enumerate(row)] for row in rows.tolist()]
    for documents in (
        given,
        [row[::-1] for row in given],
        [[row[j] for j in rng.permutation(FEATURES)] for row in given],
    ):
        assert (
            client.rank(model, documents=[{"features": dict(row)} for row in documents]).json()["ranking"] == expected
        )


def test_names_that_are_left_out_are_missing_where_the_service_allows_it(client, rows):
    partly = [{"features": {"2": row[1], "4": row[3]}} for row in rows.tolist()]
    unlike = [{"features": {"4": row[3], "2": row[1]} if i else row} for i, row in enumerate(rows.tolist())]
    matrix = [[None, row[1], None, row[3], None] for row in rows.tolist()]
    for documents in (partly, unlike):
        answer = client.rank("trees", documents=documents)
        assert refusal(answer) == (422, "missing_feature")
        assert "leaves out the feature '1'" in answer.json()["error"]["message"]
    service = client.app.app.app.state.service
    before = service.limits
    service.limits = replace(before, missing_features=True)
    try:
        assert client.rank("trees", documents=partly).json() == client.rank("trees", features=matrix).json()
        assert client.rank("trees", documents=unlike).status_code == 200
        answer = client.rank("linear", documents=partly)
    finally:
        service.limits = before
    assert refusal(answer) == (422, "missing_feature")
    assert "Document 0 has no value of feature '1'" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"documents": [{"features": {"1": 7, "2": 0, "1": 3, "3": 0, "4": 0, "5": 0}}]}',
        b'{"documents": [{"id": "a", "id": "b", "features": [1, 2, 3, 4, 5]}]}',
        b'{"documents": [{"id": ":", "id" : "b", "features": [1, 2, 3, 4, 5]}]}',
        b'{"features": [[1, 2, 3, 4, 5]], "top": 1, "top": 2}',
        b'{"features": [[1, 2, 3, 4, 5]], "feature\\u0073": [0, 1000000000]}',
        b'{"features": [[1, 2, 3, 4, 5]], "probabilities": {"top_k": 1, "top\\u005fk": 2}}',
    ],
)
def test_a_key_that_is_given_twice_is_refused(client, content):
    assert refusal(client.request("POST", "/models/linear/rank", content=content)) == (400, "invalid_json")


def test_colons_and_quotes_in_names_are_no_keys(client):
    for name in (":", "a:b", '\\":', '"x":1', "http://x"):
        found = client.rank(documents=[{"id": name, "features": ROW}])
        assert found.status_code == 200
        assert found.json()["ranking"][0]["id"] == name


def test_documents_without_id_are_named_by_position(client, rows):
    found = client.rank(documents=[{"features": row.tolist()} for row in rows]).json()["ranking"]
    assert sorted(place["id"] for place in found) == list(range(len(rows)))


def test_the_best_only(client, rows):
    whole = client.rank(features=rows.tolist()).json()["ranking"]
    assert client.rank(features=rows.tolist(), top=3).json()["ranking"] == whole[:3]


def test_chances_of_the_top(client, models, rows):
    found = client.rank(features=rows.tolist(), probabilities={"top_k": 3}).json()["ranking"]
    expected = luce.load(models["linear"]).topk_probability(rows, 3)
    np.testing.assert_allclose([place["top_k"] for place in found], expected[[p["id"] for p in found]], rtol=1e-12)
    assert sum(place["top_k"] for place in found) == pytest.approx(3)


def test_chances_of_pairs_follow_the_ranking(client, models, rows):
    found = client.rank("trees", features=rows.tolist(), top=4, probabilities={"pairs": True}).json()
    order = [place["id"] for place in found["ranking"]]
    better, tied = np.array(found["pairs"]["better"]), np.array(found["pairs"]["tied"])
    expected = luce.load(models["trees"]).pair_probability(rows)[0]
    np.testing.assert_allclose(better, expected[np.ix_(order, order)], atol=1e-9)
    away = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose((better + better.T + tied)[away], 1.0, atol=1e-9)


def test_missing_values_go_where_the_model_takes_them(client, models, rows):
    rows = rows.copy()
    rows[2, 1] = np.nan
    matrix = [[None if np.isnan(x) else x for x in row] for row in rows.astype(float).tolist()]
    found = client.rank("trees", features=matrix).json()["ranking"]
    scores = luce.load(models["trees"]).predict(rows)
    assert {place["id"]: place["score"] for place in found} == dict(enumerate(scores.tolist()))
    answer = client.rank("linear", features=matrix)
    assert refusal(answer) == (422, "missing_feature")
    assert "Document 2 has no value of feature '2'" in answer.json()["error"]["message"]


ROW = [0.0] * FEATURES
BAD = [
    ({}, 422, "invalid_request"),
    ({"documents": []}, 422, "no_documents"),
    ({"documents": [{"id": "a", "features": ROW}] * 2}, 422, "document_twice"),
    ({"documents": [{"features": ROW}, {"id": 0, "features": ROW}]}, 422, "document_twice"),
    ({"features": [ROW] * 2, "ids": ["a", "a"]}, 422, "document_twice"),
    ({"features": []}, 422, "no_documents"),
    ({"features": [ROW], "documents": [{"features": ROW}]}, 422, "invalid_request"),
    ({"features": [ROW], "ids": ["a", "b"]}, 422, "invalid_request"),
    ({"documents": [{"features": ROW}], "ids": ["a"]}, 422, "invalid_request"),
    ({"features": [ROW, ROW[1:]]}, 422, "wrong_number_of_features"),
    ({"documents": [{"id": "a", "features": [*ROW, 1]}]}, 422, "wrong_number_of_features"),
    ({"documents": [{"features": {"bm25": 1}}]}, 422, "unknown_feature"),
    ({"documents": [{"features": {"1": 1}}]}, 422, "missing_feature"),
    ({"documents": [{"features": ["a"] * FEATURES}]}, 422, "invalid_request"),
    ({"documents": [{"features": [True] * FEATURES}]}, 422, "invalid_request"),
    ({"documents": [{"id": 1.5, "features": ROW}]}, 422, "invalid_request"),
    ({"documents": [{"id": True, "features": ROW}]}, 422, "invalid_request"),
    ({"documents": [{"id": ["a"], "features": ROW}]}, 422, "invalid_request"),
    ({"documents": [{"id": "a"}]}, 422, "invalid_request"),
    ({"documents": ["a"]}, 422, "invalid_request"),
    ({"documents": {"a": 1}}, 422, "invalid_request"),
    ({"features": [ROW], "ids": [False]}, 422, "invalid_request"),
    ({"features": [ROW], "ids": "a"}, 422, "invalid_request"),
    ({"features": [{"1": 1}]}, 422, "invalid_request"),
    ({"features": [ROW], "top": True}, 422, "invalid_request"),
    ({"features": [ROW], "probabilities": {"pairs": 1}}, 422, "invalid_request"),
    ({"features": [ROW], "probabilities": []}, 422, "invalid_request"),
    ({"documents": [{"features": ROW, "grade": 1}]}, 422, "invalid_request"),
    ({"features": [[1e39, *ROW[1:]]]}, 422, "feature_too_large"),
    ({"features": [ROW], "top": 0}, 422, "invalid_request"),
    ({"features": [ROW], "top": "3"}, 422, "invalid_request"),
    ({"features": [ROW], "probabilities": {"top_k": -1}}, 422, "invalid_request"),
    ({"features": [ROW], "probabilities": {"tops": 1}}, 422, "invalid_request"),
    ({"features": [ROW], "other": 1}, 422, "invalid_request"),
    ({"features": [ROW] * 51}, 413, "too_many_documents"),
    ({"features": [ROW] * 21, "probabilities": {"pairs": True}}, 413, "too_many_documents"),
    ({"features": [ROW] * 31, "probabilities": {"top_k": 2}}, 413, "too_many_documents"),
]


@pytest.mark.parametrize(("body", "status", "code"), BAD)
def test_requests_that_are_refused(client, body, status, code):
    answer = client.rank(**body)
    assert refusal(answer) == (status, code)
    assert not any(word in answer.json()["error"]["message"] for word in ("_Lifted", "nullable", "list["))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b'"x"', b'{"features": [[NaN]]}', b"null"])
def test_bodies_that_are_no_request(client, content):
    status, code = refusal(client.request("POST", "/models/linear/rank", content=content))
    assert (status, code) in {(400, "invalid_json"), (422, "invalid_request")}


@pytest.mark.parametrize(
    "content",
    [
        b'{"documents": [{"feature\\u0073": 99}]}',
        b'{"documents": [{"feature\\u0073": -1}, {"features": [1, 2, 3, 4, 5]}]}',
        b'{"feature\\u0073": [0, 1000000000]}',
    ],
)
def test_numbers_in_place_of_arrays_are_no_features(client, content):
    answer = client.request("POST", "/models/linear/rank", content=content)
    assert refusal(answer) == (422, "invalid_request")


def test_a_key_may_be_written_with_escapes(client, rows):
    content = b'{"feature\\u0073": ' + str(rows.tolist()).encode() + b"}"
    answer = client.request("POST", "/models/linear/rank", content=content)
    assert answer.json() == client.rank("linear", features=rows.tolist()).json()


def test_probabilities_that_a_model_lacks(client, rows):
    assert refusal(client.rank("trees", features=rows.tolist(), probabilities={"top_k": 2})) == (422, "cannot_rank")


def test_large_bodies_are_refused_by_their_header_and_by_their_size(client):
    large = b" " * 200_000

    async def pieces():
        for start in range(0, len(large), 1000):
            yield large[start : start + 1000]

    for content in (large, pieces()):
        answer = client.request("POST", "/models/linear/rank", content=content)
        assert refusal(answer) == (413, "body_too_large")


def test_unknown_models_and_paths(client, rows):
    assert refusal(client.rank("nobody", features=rows.tolist())) == (404, "unknown_model")
    assert refusal(client.request("GET", "/models/nobody")) == (404, "unknown_model")
    assert refusal(client.request("GET", "/nowhere")) == (404, "not_found")
    assert refusal(client.request("GET", "/models/linear/rank")) == (405, "method_not_allowed")
    assert refusal(client.request("POST", "/rank", json={"features": rows.tolist()})) == (404, "unknown_model")


def test_one_model_needs_no_name(models, rows):
    client = Client(create_app({"only": models["linear"]}))
    assert client.request("POST", "/rank", json={"features": rows.tolist()}).json()["model"] == "only"


def test_models_health_and_figures(client, rows):
    assert client.request("GET", "/health").json() == {"status": "ok", "models": ["linear", "trees", "within"]}
    described = {model["name"]: model for model in client.request("GET", "/models").json()}
    assert described["trees"]["takes_missing"]
    assert described["linear"]["features"] == [str(j + 1) for j in range(FEATURES)]
    before = _figure(client, 'luce_documents_total{model="within"}')
    client.rank("within", features=rows.tolist())
    client.request("GET", "/a/path/that/is/made/up")
    assert _figure(client, 'luce_documents_total{model="within"}') == before + len(rows)
    text = client.request("GET", "/metrics").text
    assert 'luce_requests_total{route="/models/{name}/rank",status="200"}' in text
    assert "made" not in text


def _figure(client: Client, name: str) -> float:
    lines = client.request("GET", "/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_the_page_asks_no_other_machine(client):
    page = client.request("GET", "/docs").text
    assert "swagger-ui" in page
    assert "http" not in page.replace("http-equiv", "")
    assert client.request("GET", "/assets/swagger-ui-bundle.js").status_code == 200
    assert client.request("GET", "/").status_code == 307


def test_reload_replaces_the_model_and_keeps_it_where_the_file_is_damaged(models, rows, tmp_path):
    path = tmp_path / "model.luce"
    shutil.copy(models["linear"], path)
    client = Client(create_app({"model": path}))
    first = client.rank("model", features=rows.tolist()).json()
    assert client.request("POST", "/reload").json() == {"changed": []}
    path.write_bytes(b"torn")
    assert refusal(client.request("POST", "/reload")) == (409, "cannot_reload")
    assert client.rank("model", features=rows.tolist()).json() == first
    shutil.copy(models["trees"], path)
    assert client.request("POST", "/reload").json() == {"changed": ["model"]}
    assert client.rank("model", features=rows.tolist()).json()["version"] != first["version"]
    assert _figure(client, 'luce_reloads_total{outcome="failed"}') == 1


def test_requests_under_way_keep_their_model(models, rows, tmp_path, monkeypatch):
    path = tmp_path / "model.luce"
    shutil.copy(models["linear"], path)
    client = Client(create_app({"model": path}))
    version = client.request("GET", "/models/model").json()["version"]
    entered, go_on, plain = threading.Event(), threading.Event(), Served.groups

    def slow(self, *given):
        if self.version == version and len(given[0]) > 2:
            entered.set()
            assert go_on.wait(120)
        return plain(self, *given)

    monkeypatch.setattr(Served, "groups", slow)
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(client.rank("model", features=rows.tolist())))
    asking.start()
    assert entered.wait(120)
    shutil.copy(models["trees"], path)
    assert client.request("POST", "/reload").json() == {"changed": ["model"]}
    assert client.rank("model", features=rows.tolist()).json()["version"] != version
    go_on.set()
    asking.join(120)
    assert not asking.is_alive()
    assert answers[0].status_code == 200
    assert answers[0].json()["version"] == version


def test_slow_work_is_given_up_and_the_service_goes_on(models, rows, monkeypatch):
    client = Client(create_app(models, Limits(seconds=0.2)))
    plain = Served.groups
    monkeypatch.setattr(Served, "groups", lambda self, *given: time.sleep(0.6) or plain(self, *given))
    assert refusal(client.rank(features=rows.tolist())) == (504, "too_slow")
    monkeypatch.setattr(Served, "groups", plain)
    client.app.app.app.state.service.limits = Limits()
    assert client.rank(features=rows.tolist()).status_code == 200


def test_work_that_was_given_up_counts_until_it_ends(models, rows, monkeypatch):
    client, gate = Client(create_app(models, Limits(seconds=0.1))), threading.Event()
    service, plain = client.app.app.app.state.service, Served.groups
    monkeypatch.setattr(Served, "groups", lambda self, *given: gate.wait(500) and plain(self, *given))
    answers = []
    while len(answers) < 100 and (503, "busy") not in answers:
        answers.append(refusal(client.rank(features=rows.tolist())))
    # On a busy machine a request may be given up before its work begins, and does not count.
    assert len(answers) > 2 * THREADS
    assert answers == [(504, "too_slow")] * (len(answers) - 1) + [(503, "busy")]
    assert service.in_threads == 2 * THREADS
    gate.set()
    end = time.monotonic() + 60.0
    while service.in_threads > 0 and time.monotonic() < end:
        time.sleep(0.02)
    service.limits = Limits()
    assert client.rank(features=rows.tolist()).status_code == 200


def test_too_many_at_once_are_sent_away(models, rows):
    client = Client(create_app(models, Limits(at_once=2)))
    client.app.app.app.state.service.at_work = 2
    answer = client.rank(features=rows.tolist())
    assert refusal(answer) == (503, "busy")
    assert answer.headers["retry-after"] == "1"
    client.app.app.app.state.service.at_work = 0
    assert client.rank(features=rows.tolist()).status_code == 200


def test_a_defect_is_answered_and_does_not_end_the_service(models, rows, monkeypatch):
    client = Client(create_app(models))
    with monkeypatch.context() as patch:
        patch.setattr(Served, "groups", lambda self, X: 1 / 0)
        assert refusal(client.rank(features=rows.tolist())) == (500, "defect")
    assert client.rank(features=rows.tolist()).status_code == 200
