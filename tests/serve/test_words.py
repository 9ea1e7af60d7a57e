"""Values of tables in requests: what would be misread without a word is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import luce
from luce.serve import create_app

client_module = pytest.importorskip("fastapi.testclient")
VALUES = {"price": 1.5, "kind": "2", "new": True, "day": "2024-05-31"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "q": np.repeat(np.arange(20), 5),
            "grade": rng.integers(0, 3, 100),
            "price": rng.normal(size=100),
            "kind": rng.choice(["1", "2", "10"], 100),
            "new": rng.random(100) < 0.5,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 100), unit="D"),
        }
    )
    path = tmp_path_factory.mktemp("words") / "m.luce"
    data = luce.from_frame(frame, qid="q", label="grade", categorical=["kind"])
    luce.Ranker("ranknet", scorer="trees", max_iter=3).fit(data).save(path)
    return client_module.TestClient(create_app({"m": path}))


def ask(client, **values):
    return client.post("/rank", json={"documents": [{"id": "d", "features": VALUES | values}]})


def test_values_as_the_table_has_them(client) -> None:
    assert ask(client).status_code == 200
    assert ask(client, kind=None).status_code == 200
    assert ask(client, day=19_874).status_code == 200


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": 2}, "has 2 as feature 'kind', a category"),
        ({"kind": 2.0}, "a category"),
        ({"day": 20240531}, "has 20240531 as feature 'day', a date"),
        ({"day": 1717113600}, "a date"),
    ],
)
def test_numbers_that_mean_something_else(client, values, message) -> None:
    answer = ask(client, **values)
    assert answer.status_code == 422
    assert message in answer.json()["error"]["message"]


def test_rows_of_numbers_have_no_categories(client) -> None:
    answer = client.post("/rank", json={"features": [[1.5, 1, 1, 19_874]]})
    assert answer.status_code == 422
    assert "a category" in answer.json()["error"]["message"]


def test_packed_bodies_are_refused(client) -> None:
    answer = client.post("/rank", content=b"{}", headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "packed_body"
