"""Two small models on disk, and a service of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")

FEATURES = 5


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    data = simulate(queries=30, features=FEATURES, seed=0)
    paths = {name: folder / f"{name}.luce" for name in ("linear", "trees", "within")}
    luce.Ranker(loss="listmle").fit(data).save(paths["linear"])
    luce.Ranker(loss="bradley_terry", scorer="trees", max_iter=5, random_state=0).fit(data).save(paths["trees"])
    luce.Ranker(loss="ranknet", query_norm="zscore").fit(data).save(paths["within"])
    return paths


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(12, FEATURES)).astype(np.float32)
