"""`luce simulate clicks`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import luce
from luce.cli.app import app
from luce.errors import DataError, OutputError, SettingError

JUDGED = "\n".join(f"{d % 3} qid:{q} 1:{d} 2:{d % 3} # doc{q}-{d}" for q in range(4) for d in range(6)) + "\n"


@pytest.fixture
def judged(tmp_path):
    path = tmp_path / "judged.txt"
    path.write_text(JUDGED)
    return path


def run(*arguments: object):
    return CliRunner().invoke(app, ["simulate", "clicks", *map(str, arguments)])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".lucedata"])
def test_a_log_that_can_be_read_back(judged, tmp_path, suffix):
    out = tmp_path / f"clicks{suffix}"
    result = run(judged, "--out", out, "--impressions", 40, "--seed", 5, "--json")
    assert result.exit_code == 0
    facts = json.loads(result.output)
    assert facts["sessions"] == 160
    assert facts["rows"] == 160 * 6
    counts = luce.clicks.read(out)
    assert counts.sessions.sum() == 160
    assert counts.shown.sum() == 160 * 6
    assert counts.clicked.sum() == facts["clicks"]
    assert facts["theta"][:2] == [1.0, 0.5]


def test_the_same_seed_gives_the_same_log(judged, tmp_path):
    logs = []
    for seed, name in ((1, "a.csv"), (1, "b.csv"), (2, "c.csv")):
        assert run(judged, "--out", tmp_path / name, "--seed", seed).exit_code == 0
        logs.append((tmp_path / name).read_bytes())
    assert logs[0] == logs[1] != logs[2]


def test_a_given_ranker_decides_what_is_shown(judged, tmp_path):
    data = luce.read(judged)
    model = luce.Ranker(loss="ranknet").fit(data)
    model.save(tmp_path / "m.luce")
    out = tmp_path / "clicks.lucedata"
    options = ("--ranker", tmp_path / "m.luce", "--swap", 0, "--shown", 3)
    assert run(judged, "--out", out, "--sessions", 200, *options).exit_code == 0
    counts = luce.clicks.read(out)
    scores = model.predict(data)
    for q in range(data.n_queries):
        own = slice(data.offsets[q], data.offsets[q + 1])
        best = data.document_ids[own][np.argsort(-scores[own], kind="stable")][:3]
        cells = counts.by_position()
        names = {(str(cells.document_ids[d]), int(k)) for d, k in zip(cells.document, cells.position, strict=True)}
        assert {(str(name), k + 1) for k, name in enumerate(best)} <= names


def test_better_grades_get_more_clicks(judged, tmp_path):
    assert run(judged, "--out", tmp_path / "clicks.csv", "--impressions", 300, "--swap", 0.5).exit_code == 0
    log = np.genfromtxt(tmp_path / "clicks.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    grade = np.array([int(name.strip('"').split("-")[1]) % 3 for name in log["document"]])
    weight = log["position"].astype(float)  # 1 / theta
    rates = [(log["clicked"] * weight)[grade == g].mean() for g in range(3)]
    assert rates[0] < rates[1] < rates[2]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (["--out", "clicks.txt"], SettingError, "its ending must be one of .csv, .parquet, .lucedata"),
        (["--out", "none/clicks.csv"], OutputError, "does not exist"),
        (["--out", "clicks.csv", "--noise", "1.6"], SettingError, "between 0 and 1"),
        (["--out", "clicks.csv", "--shown", "1"], SettingError, "at least 2"),
        (["--out", "clicks.csv", "--impressions", "0"], SettingError, "at least 1"),
        (["--out", "clicks.csv", "--sessions", "0"], SettingError, "at least 1"),
        (["--out", "clicks.csv", "--swap", "2"], SettingError, "between 0 and 1"),
        (["--out", "clicks.csv", "--eta", "-1"], SettingError, "at least 0"),
        (["--out", "clicks.csv", "--users", "robots"], SettingError, "position, trust, cascade"),
        (["--out", "clicks.csv", "--weak-share", "0"], SettingError, "above 0"),
    ],
)
def test_bad_settings_write_nothing(judged, tmp_path, monkeypatch, options, error, message):
    monkeypatch.chdir(tmp_path)
    result = run(judged, *options)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["judged.txt"]


def test_data_without_document_ids_are_refused(tmp_path):
    path = tmp_path / "plain.txt"
    path.write_text("1 qid:1 1:0\n0 qid:1 1:1\n")
    result = run(path, "--out", tmp_path / "clicks.csv")
    assert isinstance(result.exception, DataError)
    assert "document ids" in str(result.exception)
