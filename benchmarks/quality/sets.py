"""The data of the quality bench: every judged set at hand, and three simulated families."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

import luce
from luce.auto.crossfit import joined
from luce.data.groups import Groups, from_arrays

__all__ = ["SETS", "folds_of_mq2008"]

DATA = Path(os.environ.get("LUCE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def folds_of_mq2008() -> list[tuple[Groups, Groups]]:
    """Training and validation queries together, and test queries, of the five given folds."""
    found = []
    for fold in range(1, 6):
        train, valid, test = (
            luce.read_letor(DATA / f"MQ2008/Fold{fold}/{part}.txt.gz", n_features=46)
            for part in ("train", "vali", "test")
        )
        found.append((joined(train, valid), test))
    return found


def _of_tests(name: str, features: int) -> Groups:
    """The five test parts, which are all queries once."""
    parts = [luce.read_letor(DATA / f"{name}/Fold{k}/test.txt.gz", n_features=features) for k in range(1, 6)]
    data = parts[0]
    for part in parts[1:]:
        data = joined(data, part)
    return data


def _mq2007() -> Groups:
    parts = [luce.read_letor(DATA / f"MQ2007/S{k}.txt.gz", n_features=46) for k in range(1, 6)]
    data = parts[0]
    for part in parts[1:]:
        data = joined(data, part)
    return data


def _lightgbm_example() -> Groups:
    from sklearn.datasets import load_svmlight_file

    parts = []
    for part in ("train", "test"):
        X, y = load_svmlight_file(str(DATA / f"lambdarank-example/rank.{part}.gz"), n_features=301)
        with gzip.open(DATA / f"lambdarank-example/rank.{part}.query.gz", "rt") as stream:
            sizes = [int(line) for line in stream]
        parts.append(from_arrays(np.asarray(X.todense(), dtype=np.float32), y, group=sizes))
    return joined(parts[0], parts[1])


def _capped(data: Groups) -> Groups:
    """Votes as grades of at most 4, so that their gains are no larger than those of the other sets."""
    from dataclasses import replace

    return replace(data, y=np.minimum(data.y, 4.0))


def _linear_with_ties(seed: int = 0, queries: int = 120, size: int = 20, features: int = 15) -> Groups:
    """Grades cut a linear utility with noise into four, most of them 0."""
    rng = np.random.default_rng([seed, 1])
    X = rng.normal(size=(queries * size, features)).astype(np.float32)
    utility = X @ rng.normal(size=features) / np.sqrt(features) + rng.normal(size=len(X))
    return _graded(X, utility, np.full(queries, size), (0.6, 0.8, 0.95))


def _interactions(seed: int = 0, queries: int = 60, size: int = 120, features: int = 20) -> Groups:
    """Long lists whose utility is in products and thresholds of features."""
    rng = np.random.default_rng([seed, 2])
    X = rng.normal(size=(queries * size, features)).astype(np.float32)
    utility = X[:, 0] * X[:, 1] + 1.5 * (X[:, 2] > 0.5) * X[:, 3] + np.abs(X[:, 4]) + 0.5 * X[:, 5]
    return _graded(X, utility + rng.normal(size=len(X)), np.full(queries, size), (0.8, 0.9, 0.97, 0.99))


def _few_and_noisy(seed: int = 0, queries: int = 40, size: int = 25, features: int = 100) -> Groups:
    """Few queries, and a hundred features of which five matter."""
    rng = np.random.default_rng([seed, 3])
    X = rng.normal(size=(queries * size, features)).astype(np.float32)
    utility = X[:, :5] @ np.array([1.0, -0.8, 0.6, 0.5, -0.4]) + np.maximum(X[:, 0], 0.0) + rng.normal(size=len(X))
    return _graded(X, utility, np.full(queries, size), (0.6, 0.8, 0.95))


def _graded(X: np.ndarray, utility: np.ndarray, sizes: np.ndarray, cuts: tuple[float, ...]) -> Groups:
    grades = np.digitize(utility, np.quantile(utility, cuts)).astype(float)
    return from_arrays(X, grades, group=sizes)


SETS: dict[str, Callable[[], Groups]] = {
    "few queries, many noise features": _few_and_noisy,
    "linear with ties": _linear_with_ties,
    "MSLR-sample": lambda: luce.read_letor(DATA / "MSLR-sample/all.txt.gz"),
    "lambdarank-example": _lightgbm_example,
    "TTI-2017": lambda: _capped(luce.read_letor(DATA / "TTI-2017/all.txt.gz")),
    "interactions, long lists": _interactions,
    "OHSUMED-2.0": lambda: _of_tests("OHSUMED-2.0", 25),
    "OHSUMED": lambda: _of_tests("OHSUMED", 45),
    "MQ2008": lambda: _of_tests("MQ2008", 46),
    "MQ2007": _mq2007,
}
"""Smallest first, so that an interrupted run has said most."""
