"""Who is compared: auto, named systems, and LightGBM, XGBoost and CatBoost, all with the same trees and patience.

Every method gets the same training queries. Those that stop early hold out the same fifth of them; auto needs none.
Trees have 15 leaves (or depth 4), a step of 0.05 and at most 500 rounds, and stop after 60 without a better NDCG@10.
A peer that is refitted is fitted again on all training queries with the rounds that were best on those held out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import luce
from luce.auto.weights import spread
from luce.data.groups import Groups
from luce.experiments.folds import hold_out

__all__ = ["METHODS", "NOT_HERE", "fit"]

_ROUNDS, _PATIENCE, _STEP, _LEAVES = 500, 60, 0.05, 15
_TREES = {
    "max_iter": _ROUNDS,
    "early_stopping": _PATIENCE,
    "scorer__learning_rate": _STEP,
    "scorer__num_leaves": _LEAVES,
}
Predict = Callable[[Groups], Any]
NOT_HERE: set[str] = set()
"""Peers that are not installed, once one was asked for."""


def _auto(train: Groups, seed: int) -> Predict:
    return luce.model("auto", random_state=seed).fit(train).predict


def _system(name: str, **settings: Any) -> Callable[[Groups, int], Predict]:
    def make(train: Groups, seed: int) -> Predict:
        part, valid = hold_out(train, seed)
        return luce.model(name, random_state=seed, **settings).fit(part, valid=valid).predict

    return make


def _tuned(name: str, penalties: tuple[float, ...]) -> Callable[[Groups, int], Predict]:
    """A linear system whose penalty is chosen on the queries that were held out."""

    def make(train: Groups, seed: int) -> Predict:
        part, valid = hold_out(train, seed)
        found = [luce.model(name, l2=l2, random_state=seed).fit(part, valid=valid) for l2 in penalties]
        return max(found, key=lambda model: model.score(valid)).predict

    return make


def _lightgbm(objective: str, refit: bool = False) -> Callable[[Groups, int], Predict]:
    def make(train: Groups, seed: int) -> Predict:
        import lightgbm

        part, valid = hold_out(train, seed)
        settings = {
            "objective": objective,
            "metric": "ndcg",
            "eval_at": [10],
            "num_leaves": _LEAVES,
            "learning_rate": _STEP,
            "verbosity": -1,
            "seed": seed,
            "num_threads": 1,
        }
        own = lightgbm.Dataset(part.X, part.y, group=part.sizes)
        held = lightgbm.Dataset(valid.X, valid.y, group=valid.sizes, reference=own)
        stop = [lightgbm.early_stopping(_PATIENCE, verbose=False)]
        booster = lightgbm.train(settings, own, _ROUNDS, valid_sets=[held], callbacks=stop)
        if refit:
            whole = lightgbm.Dataset(train.X, train.y, group=train.sizes)
            booster = lightgbm.train(settings, whole, max(1, booster.best_iteration))
        return lambda data: booster.predict(data.X)

    return make


def _xgboost(objective: str, refit: bool = False) -> Callable[[Groups, int], Predict]:
    def make(train: Groups, seed: int) -> Predict:
        import xgboost

        part, valid = hold_out(train, seed)
        own, held = (xgboost.DMatrix(one.X, one.y, group=one.sizes) for one in (part, valid))
        settings = {
            "objective": objective,
            "eval_metric": "ndcg@10",
            "eta": _STEP,
            "max_depth": 4,
            "seed": seed,
            "nthread": 1,
            "verbosity": 0,
        }
        booster = xgboost.train(
            settings, own, _ROUNDS, [(held, "held")], early_stopping_rounds=_PATIENCE, verbose_eval=False
        )
        best = (0, booster.best_iteration + 1)
        if refit:
            booster = xgboost.train(settings, xgboost.DMatrix(train.X, train.y, group=train.sizes), best[1])
        return lambda data: booster.predict(xgboost.DMatrix(data.X), iteration_range=best)

    return make


def _catboost(objective: str) -> Callable[[Groups, int], Predict]:
    def make(train: Groups, seed: int) -> Predict:
        import catboost

        part, valid = hold_out(train, seed)
        top = max(part.y.max(), valid.y.max(), 1.0)
        pools = [
            catboost.Pool(one.X, one.y / top, group_id=np.repeat(np.arange(one.n_queries), one.sizes))
            for one in (part, valid)
        ]
        model = catboost.CatBoost(
            {
                "loss_function": objective,
                "eval_metric": "NDCG:top=10;type=Exp",
                "iterations": _ROUNDS,
                "learning_rate": _STEP,
                "depth": 4,
                "random_seed": seed,
                "thread_count": 1,
                "verbose": False,
                "allow_writing_files": False,
            }
        )
        model.fit(pools[0], eval_set=pools[1], early_stopping_rounds=_PATIENCE)
        return lambda data: model.predict(data.X)

    return make


def _mean(*peers: Callable[[Groups, int], Predict]) -> Callable[[Groups, int], Predict]:
    """The plain mean of their scores, each in units of its deviation within queries."""

    def make(train: Groups, seed: int) -> Predict:
        fits = [peer(train, seed) for peer in peers]

        def predict(data: Groups) -> Any:
            scores = [np.asarray(one(data), dtype=np.float64) for one in fits]
            return sum(score / (spread(score, data) or 1.0) for score in scores)

        return predict

    return make


METHODS: dict[str, Callable[[Groups, int], Predict]] = {
    "auto": _auto,
    "mart": _system("mart", **_TREES),
    "lambdamart": _system("lambdamart", **_TREES),
    "pmop-trees": _system("pmop-trees", **_TREES),
    "plackett-luce-trees": _system("plackett-luce-trees", **_TREES),
    "bt-ties": _system("bt-ties", **_TREES),
    "pmop-fd": _tuned("pmop-fd", (1e-3, 1e-2, 1e-1, 1.0)),
    "plackett-luce": _tuned("plackett-luce", (1e-2, 1e-1, 1.0, 10.0)),
    "LightGBM rmse": _lightgbm("regression"),
    "LightGBM lambdarank": _lightgbm("lambdarank"),
    "LightGBM xendcg": _lightgbm("rank_xendcg"),
    "refitted LightGBM rmse": _lightgbm("regression", refit=True),
    "refitted LightGBM lambdarank": _lightgbm("lambdarank", refit=True),
    "mean of four refitted peers": _mean(
        _lightgbm("regression", refit=True),
        _lightgbm("lambdarank", refit=True),
        _lightgbm("rank_xendcg", refit=True),
        _xgboost("rank:pairwise", refit=True),
    ),
    "XGBoost ndcg": _xgboost("rank:ndcg"),
    "XGBoost pairwise": _xgboost("rank:pairwise"),
    "CatBoost YetiRank": _catboost("YetiRank"),
    "CatBoost QueryRMSE": _catboost("QueryRMSE"),
}


def fit(name: str, train: Groups, seed: int) -> Predict | None:
    """What predicts, or None where the peer is not installed."""
    try:
        return METHODS[name](train, seed)
    except ImportError:
        NOT_HERE.add(name)
        return None
