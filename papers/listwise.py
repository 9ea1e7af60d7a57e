"""Makes docs/papers/listwise.md and its numbers: reranked base rankers on the LETOR sets at hand, and diversity.

    python papers/listwise.py [--quick] [--page] [--only SET ...] [--part rerank|rivals|diversity ...]

Numbers go to papers/results/listwise.json with their settings and seed; the page is made from them. `--quick` runs one
fold with one base ranker into a temporary folder; `--page` only makes the page again. Base rankers are fitted once, and
their scores kept in the temporary folder of the system. The sets are read from LUCE_DATA, else ../shared/data beside
the project; a set that is absent keeps its last numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import luce
from luce.data.near_duplicates import simulate_duplicates
from luce.experiments import find_folds
from luce.metrics.significance import randomisation_test
from luce.storage import atomic_write

ROOT = Path(__file__).resolve().parents[1]
SETS = ("OHSUMED", "OHSUMED-2.0", "MQ2008")
METRICS = ["ndcg@1", "ndcg@2", "ndcg@5", "ndcg@10"]
SEED = 0
STEPS = {"max_iter": 200, "early_stopping": 30}
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "rankboost": ("RankBoost", STEPS),
    "mart": ("MART", STEPS),
    "random_forest": ("Random forest", {"scorer_params": {"trees": 50}}),
    "linear_regression": ("Linear regression", {}),
    "ranknet": ("RankNet", {}),
    "adarank": ("AdaRank", STEPS),
    "coordinate_ascent": ("Coordinate ascent", {"max_iter": 5, "scorer_params": {"restarts": 0}}),
    "lambdamart": ("LambdaMART", STEPS),
    "listnet": ("ListNet", {}),
    "frank": ("FRank", {"max_iter": 60, "early_stopping": 20, "scorer_params": {"thresholds": 16}}),
}
LOSSES = {"ndcg_cross_entropy": "cross entropy", "ndcg_square": "square", "ndcg_qnorm": "q-norm"}


def data_folder() -> Path:
    return Path(os.environ.get("LUCE_DATA", ROOT.parent / "shared" / "data"))


def base_scores(name: str, fold: str, base: str, parts: list[luce.Groups]) -> list[np.ndarray]:
    """Scores of a base ranker on train, validation and test data; fitted once."""
    folder = Path(tempfile.gettempdir()) / "luce-listwise-base"
    folder.mkdir(exist_ok=True)
    store = folder / f"{name}-{fold}-{base}.npz"
    if not store.exists():
        print(name, fold, base, flush=True)
        model = luce.model(base, random_state=SEED, metric="ndcg@10", **BASES[base][1]).fit(parts[0], valid=parts[1])
        with atomic_write(store) as stream:
            np.savez(stream, *[model.predict(part) for part in parts])
    with np.load(store) as found:
        scores = [found[key] for key in found.files]
    return scores


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for fold in find_folds(data_folder() / name):
            parts = list(fold.load())
            for base in BASES:
                base_scores(name, fold.name, base, parts)
