"""Production watch: drift in the figures, the log of requests, the shadow, and the page made of the log."""

from __future__ import annotations

import hashlib
import json
import shutil
from io import FileIO
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import luce
from luce.cli.app import app as command
from luce.data.simulate import simulate
from luce.errors import LuceError, SettingError
from luce.serve import create_app
from luce.serve.request_log import RequestLog
from tests.serve.conftest import FEATURES
from tests.serve.test_service import Client


def figures(client: Client, name: str) -> dict[str, float]:
    lines = client.request("GET", "/metrics").text.splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)}


def ask(client: Client, shift: float, requests: int = 30) -> None:
    data = simulate(queries=requests, features=FEATURES, seed=1)
    for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        X = data.X[a:b].astype(float)
        X[:, 2] += shift
        assert client.rank("linear", features=X.tolist()).status_code == 200


def test_drift_is_in_the_figures(models):
    client = Client(create_app({"linear": models["linear"]}))
    assert not figures(client, "luce_drift_psi{")
    ask(client, 0.0)
    quiet = figures(client, "luce_drift_psi{")
    assert len(quiet) == FEATURES + 1
    ask(client, 5.0, 60)
    moved = figures(client, "luce_drift_psi{")
    third = 'luce_drift_psi{column="3",model="linear"}'
    assert moved[third] > 1.0 + quiet[third]
    assert all(moved[name] < 1.0 for name in quiet if 'column="3"' not in name and "score" not in name)
    assert figures(client, 'luce_drift_ks{column="3"')['luce_drift_ks{column="3",model="linear"}'] > 0.4


def test_gaps_and_unknown_categories_are_counted(tmp_path):
    import pyarrow as pa

    rng = np.random.default_rng(0)
    columns = {"qid": np.repeat(np.arange(10), 6), "label": rng.integers(0, 2, 60), "price": rng.normal(size=60)}
    data = luce.from_frame(pa.table({**columns, "brand": rng.choice(["a", "b"], 60)}))
    luce.Ranker(loss="ranknet", scorer="trees", max_iter=3).fit(data).save(tmp_path / "m.luce")
    client = Client(create_app({"m": tmp_path / "m.luce"}))
    rows = [{"price": None, "brand": "a"}, {"price": 1.0, "brand": "new"}, {"price": None, "brand": "newer"}]
    answer = client.rank("m", documents=[{"features": row} for row in rows])
    assert answer.status_code == 200, answer.text
    assert figures(client, "luce_missing_values_total{") == {'luce_missing_values_total{feature="price",model="m"}': 2}
    found = figures(client, "luce_unknown_categories_total{")
    assert found == {'luce_unknown_categories_total{feature="brand",model="m"}': 2}


def test_a_reload_begins_a_new_window(models, tmp_path):
    path = tmp_path / "linear.luce"
    shutil.copy(models["linear"], path)
    client = Client(create_app({"linear": path}))
    ask(client, 0.0, 5)
    assert figures(client, "luce_drift_psi{")
    shutil.copy(models["within"], path)
    client.request("POST", "/reload")
    assert not figures(client, "luce_drift_psi{")


def test_a_shadow_disagrees_as_its_scores_do(models, rows):
    client = Client(create_app({"linear": models["linear"]}, shadows={"linear": models["trees"]}))
    client.rank("linear", features=rows.tolist())
    assert client.app.app.app.state.service.shadows["linear"].aside.wait(60)
    a, b = (np.argsort(-luce.load(models[name]).predict(rows), kind="stable") for name in ("linear", "trees"))
    found = figures(client, "luce_shadow")
    assert found['luce_shadow_requests_total{model="linear"}'] == 1
    assert found['luce_shadow_first_differs_total{model="linear"}'] == int(a[0] != b[0])
    overlap = len(set(a[:10].tolist()) & set(b[:10].tolist())) / 10
    assert found['luce_shadow_top_overlap_total{model="linear"}'] == pytest.approx(overlap)
    place = np.argsort(a), np.argsort(b)
    correlation = np.corrcoef(*place)[0, 1]
    assert found['luce_shadow_rank_correlation_total{model="linear"}'] == pytest.approx(correlation)


def test_a_shadow_of_other_features_is_refused(models, tmp_path):
    luce.Ranker(loss="ranknet").fit(simulate(queries=10, features=3, seed=0)).save(tmp_path / "other.luce")
    with pytest.raises(LuceError, match="other features"):
        create_app({"linear": models["linear"]}, shadows={"linear": tmp_path / "other.luce"})


def test_the_log_rotates_and_the_page_is_made_of_it(models, tmp_path):
    path = tmp_path / "requests.jsonl"
    log = RequestLog(path, share=1.0, most_bytes=15_000, files=3)
    client = Client(create_app({"linear": models["linear"]}, request_log=log))
    ask(client, 5.0, 40)
    assert log.aside.wait(60)
    assert log.written == 40
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["requests.jsonl", "requests.jsonl.1", "requests.jsonl.2"]
    assert all(file.stat().st_size <= 15_000 for file in files)
    arguments = ["monitor", *map(str, files), "--model", str(models["linear"]), "--out", str(tmp_path / "page.html")]
    done = CliRunner().invoke(command, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["columns"][0]["column"] in ("3", "(score)")
    assert {row["column"]: row["verdict"] for row in record["columns"]}["3"] == "moved far"
    page = (tmp_path / "page.html").read_text()
    assert "moved far" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    refused = CliRunner().invoke(command, ["monitor", *map(str, files), "--model", str(models["within"])])
    assert "no request of this model" in str(refused.exception)


def test_a_share_of_the_requests_is_logged(tmp_path):
    log = RequestLog(tmp_path / "log.jsonl", share=0.5)
    for _ in range(400):
        log.add("m", "v", np.zeros((2, 1), np.float32), np.zeros(2))
        assert log.aside.wait(60)
    assert 120 < log.written < 280  # 400 draws of 1/2: further off once in 10^15
    with pytest.raises(SettingError, match="share"):
        RequestLog(tmp_path / "log.jsonl", share=0.0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: this is no request"),
        ('{"time": 1, "version": "v", "features": [[1]], "scores": [1]}', "line 1: the request does not have 5"),
        ('{"time": 1e99, "version": "v", "features": [[1,1,1,1,1]], "scores": [1]}', "out of range"),
        ('{"time": 1, "version": "v", "features": [[1,1,1,1,1]], "scores": [NaN]}', "a score for each"),
        ("[" * 100_000, "line 1: this is no request"),
    ],
)
def test_damaged_logs(models, tmp_path, line, said):
    (tmp_path / "log.jsonl").write_text(line + "\n")
    done = CliRunner().invoke(
        command, ["monitor", str(tmp_path / "log.jsonl"), "--model", str(models["linear"]), "--all-versions"]
    )
    assert said in str(done.exception)


def _line(model) -> str:
    ranker = luce.load(model)
    version = hashlib.sha256(model.read_bytes()).hexdigest()[:12]
    width = ranker.n_features_in_
    return json.dumps({"time": 1.0, "version": version, "features": [[0.0] * width], "scores": [0.0]}) + "\n"


def test_a_torn_last_line_is_left_out_and_said(models, tmp_path):
    path, line = tmp_path / "log.jsonl", _line(models["linear"])
    path.write_text(line * 3 + line[:40])
    arguments = ["monitor", str(path), "--model", str(models["linear"])]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    assert "1 lines end in the middle" in done.stderr
    record = json.loads(CliRunner().invoke(command, [*arguments, "--json"]).stdout)
    assert (record["requests"], record["torn_lines"]) == (3, 1)
    path.write_text(line * 3 + line[:40] + "\n" + line)
    assert "line 4: this is no request" in str(CliRunner().invoke(command, arguments).exception)


def test_a_log_goes_on_beside_a_torn_one(models, tmp_path):
    path, line = tmp_path / "log.jsonl", _line(models["linear"])
    path.write_text(line + line[:40])
    log = RequestLog(path, share=1.0)
    log.add("linear", "v", np.zeros((1, 5), np.float32), np.zeros(1))
    assert log.aside.wait(60)
    assert (tmp_path / "log.jsonl.1").read_text() == line + line[:40]
    assert json.loads(path.read_text())["documents"] == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_a_full_disk_is_counted_and_said_once(models, rows, caplog):
    log = RequestLog("/dev/full", share=1.0)
    client = Client(create_app({"linear": models["linear"]}, request_log=log))
    for _ in range(3):
        assert client.rank("linear", features=rows.tolist()).status_code == 200
    assert log.aside.wait(60)
    assert "luce_log_lines_lost_total 3.0" in client.request("GET", "/metrics").text
    assert "luce_log_lines_written_total 0.0" in client.request("GET", "/metrics").text
    said = [record.message for record in caplog.records if "Cannot write /dev/full" in record.message]
    assert len(said) == 1
    assert "No space left" in said[0]


def test_half_a_line_is_taken_back(tmp_path):
    """What a disk that becomes full takes of a line is cut off again, so that the next one is whole."""
    log = RequestLog(tmp_path / "log.jsonl", share=1.0)

    class Full(FileIO):
        def write(self, text):
            return super().write(text[:10])

    whole, log._stream = log._stream, Full(tmp_path / "log.jsonl", "ab")
    log.add("linear", "v", np.zeros((1, 5), np.float32), np.zeros(1))
    assert log.aside.wait(60)
    assert (log.failed, (tmp_path / "log.jsonl").stat().st_size) == (1, 0)
    log._stream.close()
    log._stream = whole
    log.add("linear", "v", np.zeros((1, 5), np.float32), np.zeros(1))
    assert log.aside.wait(60)
    assert json.loads((tmp_path / "log.jsonl").read_text())["documents"] == 1
