"""The paper page can be made again."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def paper():
    pytest.importorskip("matplotlib")
    return importlib.import_module("tracking")


def test_quick_run_makes_page_figures_and_numbers(paper, tmp_path, monkeypatch):
    monkeypatch.setenv("LUCE_DATA", str(tmp_path / "nothing"))
    assert paper.main(["--quick", "--out", str(tmp_path)]) == 0
    numbers = json.loads((tmp_path / "papers" / "results" / "tracking.json").read_text())
    assert set(numbers) == {"simulation", "sigma", "engines", "trust", "fresh", "digests", "stale"}
    page = (tmp_path / "docs" / "papers" / "tracking.md").read_text()
    assert "| straight | 1 |" in page
    assert (tmp_path / "docs" / "papers" / "tracking" / "clutter.png").exists()


def test_committed_page_belongs_to_the_committed_numbers(paper):
    results = json.loads((ROOT / "papers" / "results" / "tracking.json").read_text())
    assert (ROOT / "docs" / "papers" / "tracking.md").read_text() == paper.page(results)
    rows = results["simulation"]["rows"]
    assert len({row["seed"] for row in rows}) == 20
    ranked = [row["mse"] for row in rows if row["engine"] == "exact"]
    unranked = [row["mse"] for row in rows if row["engine"] == "unranked"]
    assert np.mean(ranked) < 0.5 * np.mean(unranked)


@pytest.mark.real
def test_boat_with_labels_is_as_good_as_the_reference(real_data):
    """Six earliest arrivals of each ping among 19 hydrophones, labels given, against GPS."""
    real_data("acoustic")
    pytest.importorskip("matplotlib")
    paper = importlib.import_module("kit.tracking_boat")
    data = paper.boat_data()
    reference = np.linalg.norm(data["reference"] - data["truth"], axis=1)[data["covered"]]
    assert np.median(reference) == pytest.approx(3.2, abs=0.05)
    chosen = np.flatnonzero(data["usable"])[:60]
    arrivals = [np.sort(t[np.isfinite(t)])[:6] for t in data["travel"][chosen]]
    labels = [
        [str(i + 1) for i in np.argsort(t)[: len(a)]] for t, a in zip(data["travel"][chosen], arrivals, strict=True)
    ]
    signals = paper.Signals.from_lists(data["time"][chosen], arrivals, labels=labels)
    settings = paper.BOAT | {"speed": data["speed"], "start": data["reference"][chosen[0]], "start_sd": 20.0, "r": 6}
    track = paper.follow(
        signals,
        data["sources"],
        dynamics=paper.BOAT_MOTION,
        engine="labelled",
        particles=2000,
        trajectories=200,
        **settings,
    )
    error = np.linalg.norm(track.positions - data["truth"][chosen], axis=1)[data["covered"][chosen]]
    assert np.median(error) < 4.5
