"""LightGBM and XGBoost with their own debiasing of positions, on the sessions of a simulated log."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.clicks.simulation import SessionRows
from luce.data.groups import Groups
from luce.types import FloatArray

__all__ = ["PEERS", "peer_scores", "with_a_pair"]

SEED, TREES = 0, 100
_SLOW = {"lambdarank_unbiased": True, "learning_rate": 0.1}
PEERS: dict[str, dict[str, Any]] = {
    "LightGBM, position, 8 leaves": {"num_leaves": 8},
    "XGBoost, unbiased, rate 0.1, depth 3": {**_SLOW, "max_depth": 3},
    "LightGBM, position": {},
    "XGBoost, unbiased, rate 0.1": _SLOW,
    "XGBoost, unbiased": {"lambdarank_unbiased": True},
}
"""Both with small trees, since rows repeat the documents and overfit; XGBoost with the learning rate of the others; and
both with their defaults. All have 100 trees."""


def with_a_pair(log: SessionRows) -> SessionRows:
    """The sessions that have a click and a skip; both learn from pairs, so the others change nothing but their bins."""
    clicks, shown = np.bincount(log.session, log.clicked), np.bincount(log.session)
    used = ((clicks > 0) & (clicks < shown))[log.session]
    return SessionRows(log.row[used], log.session[used], log.position[used], log.clicked[used])


def peer_scores(name: str, data: Groups, log: SessionRows, test: Groups) -> dict[str, FloatArray]:
    """Scores of the test rows by one of them; LightGBM with its defaults also by its first 50 trees."""
    log = with_a_pair(log)
    X, clicked = data.X[log.row].astype(np.float32), log.clicked.astype(int)
    sizes = np.bincount(log.session)
    sizes = sizes[sizes > 0]
    if name.startswith("LightGBM"):
        import lightgbm

        options = {"objective": "lambdarank", "verbosity": -1, "seed": SEED, "num_threads": 1, "deterministic": True}
        part = lightgbm.Dataset(X, clicked, group=sizes, position=log.position - 1)
        booster = lightgbm.train(options | PEERS[name], part, TREES)
        found = {name: booster.predict(test.X)}
        return found if PEERS[name] else found | {f"{name}, 50 trees": booster.predict(test.X, num_iteration=50)}
    import xgboost

    options = {"objective": "rank:ndcg", "seed": SEED, "nthread": 1, "lambdarank_pair_method": "topk"}
    rows = xgboost.DMatrix(X, clicked, group=sizes)  # rows of a session are in the order that was shown
    forest = xgboost.train(options | PEERS[name], rows, TREES)
    return {name: forest.predict(xgboost.DMatrix(test.X)).astype(np.float64)}
