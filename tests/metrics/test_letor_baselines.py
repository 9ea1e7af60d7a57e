"""The official LETOR figures, from the scores of a baseline on real data."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import luce
from luce.data.groups import Groups

pytestmark = pytest.mark.real
METRICS = {**{f"NDCG@{k}": f"ndcg@{k}" for k in range(1, 11)}, "MeanNDCG": "mean_ndcg", "MAP": "map"}


def labels_only(path: Path) -> Groups:
    with gzip.open(path, "rt") as stream:
        heads = [line.split(maxsplit=2)[:2] for line in stream]
    return luce.from_arrays(np.zeros((len(heads), 1)), [float(h[0]) for h in heads], qid=[h[1] for h in heads])


@pytest.mark.parametrize(
    ("name", "preset", "spelling"), [("MQ2008", "letor4", "Mq2008"), ("OHSUMED", "letor3", "OHSUMED")]
)
def test_official_figures(real_data: Callable[[str], Path], name: str, preset: str, spelling: str) -> None:
    folder, scores_folder = real_data(name), real_data("letor-baselines/scores")
    with open(scores_folder / "expected.csv", newline="") as stream:
        expected = {row["fold"]: row for row in csv.DictReader(stream) if row["dataset"] == spelling}
    folds = []
    for fold in range(1, 6):
        data = labels_only(folder / f"Fold{fold}" / "test.txt.gz")
        with gzip.open(scores_folder / name / "AdaRank" / f"Fold{fold}.test.score.gz", "rt") as stream:
            scores = np.array([float(line) for line in stream if line.strip()])
        means = luce.evaluate(
            scores[data.row_order] if data.row_order is not None else scores,
            data,
            list(METRICS.values()),
            preset=preset,
        ).means
        folds.append(means)
        for column, metric in METRICS.items():
            assert means[metric] == pytest.approx(float(expected[str(fold)][column]), abs=1e-4), (fold, column)
    for column, metric in METRICS.items():
        mean = np.mean([means[metric] for means in folds])
        assert mean == pytest.approx(float(expected["avg"][column]), abs=1e-4), column
