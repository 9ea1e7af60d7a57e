"""LightGBM and XGBoost with their own debiasing of positions, on the sessions of a simulated log."""

from __future__ import annotations

import numpy as np

from luce.clicks.simulation import SessionRows
from luce.data.groups import Groups
from luce.types import FloatArray

__all__ = ["peer_scores", "with_a_pair"]

SEED, TREES = 0, 100


def with_a_pair(log: SessionRows) -> SessionRows:
    """The sessions that have a click and a skip; both learn from pairs, so the others change nothing but their bins."""
    clicks, shown = np.bincount(log.session, log.clicked), np.bincount(log.session)
    used = ((clicks > 0) & (clicks < shown))[log.session]
    return SessionRows(log.row[used], log.session[used], log.position[used], log.clicked[used])


def peer_scores(data: Groups, log: SessionRows, test: Groups, *, naive: bool = False) -> dict[str, FloatArray]:
    """Scores of the test rows by each of them, in three settings; `naive` also runs both without debiasing.

    Both with their defaults and 100 trees; LightGBM with the first 50, XGBoost with the learning rate of the others;
    and both with small trees (8 leaves, or three levels; a rate of .1), since rows repeat the documents and overfit.
    """
    log = with_a_pair(log)
    X, clicked = data.X[log.row].astype(np.float32), log.clicked.astype(int)
    sizes = np.bincount(log.session)
    sizes = sizes[sizes > 0]
    found = _lightgbm(X, clicked, sizes, log.position - 1, test.X, naive=naive)
    return found | _xgboost(X, clicked, sizes, test.X, naive=naive)


def _lightgbm(
    X: FloatArray,
    clicked: np.ndarray,
    sizes: np.ndarray,
    position: np.ndarray,
    test: FloatArray,
    *,
    naive: bool,
) -> dict[str, FloatArray]:
    import lightgbm

    options = {"objective": "lambdarank", "verbosity": -1, "seed": SEED, "num_threads": 1, "deterministic": True}
    kinds = ({"LightGBM, naive": None} if naive else {}) | {"LightGBM, position": position}
    found = {}
    for name, places in kinds.items():
        part = lightgbm.Dataset(X, clicked, group=sizes, position=places, free_raw_data=False)
        booster = lightgbm.train(options, part, TREES)
        found[name] = booster.predict(test)
        found[f"{name}, 50 trees"] = booster.predict(test, num_iteration=50)
        found[f"{name}, 8 leaves"] = lightgbm.train(options | {"num_leaves": 8}, part, TREES).predict(test)
    return found


def _xgboost(
    X: FloatArray, clicked: np.ndarray, sizes: np.ndarray, test: FloatArray, *, naive: bool
) -> dict[str, FloatArray]:
    import xgboost

    options = {"objective": "rank:ndcg", "seed": SEED, "nthread": 1, "lambdarank_pair_method": "topk"}
    part = xgboost.DMatrix(X, clicked, group=sizes)  # rows of a session are in the order that was shown
    kinds = ({"XGBoost, naive": {}} if naive else {}) | {
        "XGBoost, unbiased": {"lambdarank_unbiased": True},
        "XGBoost, unbiased, rate 0.1": {"lambdarank_unbiased": True, "learning_rate": 0.1},
        "XGBoost, unbiased, rate 0.1, depth 3": {"lambdarank_unbiased": True, "learning_rate": 0.1, "max_depth": 3},
    }
    found = {}
    for name, kind in kinds.items():
        booster = xgboost.train(options | kind, part, TREES)
        found[name] = booster.predict(xgboost.DMatrix(test)).astype(np.float64)
    return found
