"""Models of every kind on real rows, trained once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import luce
from luce.data.groups import Groups
from luce.ranker.parts import inner


@dataclass
class Case:
    """A fitted model and rows to score."""

    model: luce.Ranker
    rows: Groups


def _read(real_data, name: str, part: str, queries: int) -> Groups:
    data = luce.read_letor(next((real_data(name) / "Fold1").glob(f"{part}*.txt.gz")))
    return data.take(np.arange(queries))


def with_gaps(data: Groups, share: float, seed: int) -> Groups:
    X = data.X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return luce.from_arrays(X, data.y, group=data.sizes, allow_nan=True)


@pytest.fixture(scope="package")
def cases(real_data) -> dict[str, Case]:
    train, test = _read(real_data, "MQ2008", "train", 200), _read(real_data, "MQ2008", "test", 20)
    medical, patients = _read(real_data, "OHSUMED", "train", 25), _read(real_data, "OHSUMED", "test", 3)
    trees = {"scorer": "trees", "max_iter": 15, "random_state": 0}
    linear = luce.Ranker(loss="pmop", max_iter=15).fit(train)
    gaps = with_gaps(train, 0.3, 0)
    return {
        "linear": Case(linear, test),
        "linear on OHSUMED": Case(luce.Ranker(loss="listnet", max_iter=15).fit(medical), patients),
        "trees": Case(luce.Ranker(loss="listnet", **trees).fit(train), test),
        "trees on OHSUMED": Case(luce.Ranker(loss="ranknet", **trees).fit(medical), patients),
        "trees with gaps": Case(luce.Ranker(loss="listnet", **trees).fit(gaps), with_gaps(test, 0.3, 1)),
        "second order": Case(luce.Ranker(loss="listnet", scorer="second_order", max_iter=15).fit(medical), patients),
        "rankboost": Case(luce.Ranker(trainer="rankboost", max_iter=30).fit(gaps), with_gaps(test, 0.3, 2)),
        "frank": Case(luce.Ranker(trainer="frank", max_iter=10).fit(train), test),
        "adarank": Case(luce.Ranker(trainer="adarank", max_iter=10).fit(train), test),
        "linear regression": Case(luce.Ranker(trainer="linear_regression").fit(train), test),
        "random forest": Case(luce.Ranker(trainer="random_forest", trainer__trees=5, random_state=0).fit(train), test),
        "trees on trees": Case(_on_trees(train, trees), test),
        "trees on linear": Case(luce.Ranker(loss="listnet", base=linear, **trees).fit(train), test),
        "mlp": Case(_network(train, "tanh"), test),
        "mlp relu": Case(_network(train, "relu"), test),
        "mlp sigmoid": Case(_network(train, "sigmoid"), test),
    }


def _network(train: Groups, activation: str) -> luce.Ranker:
    settings = {"hidden": (8, 4), "activation": activation}
    return luce.Ranker(loss="listnet", scorer="mlp", max_iter=8, **inner("scorer", settings), random_state=0).fit(train)


def _on_trees(train: Groups, trees: dict) -> luce.Ranker:
    below = luce.Ranker(loss="listnet", **trees).fit(train)
    return luce.Ranker(loss="pmop", base=below, **trees).fit(train)
