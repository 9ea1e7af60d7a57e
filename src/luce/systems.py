"""Complete systems by name: the rows of the papers' tables, each configured as there."""

from __future__ import annotations

from typing import Any

from luce.errors import SettingError
from luce.ranker import Ranker
from luce.registry import Registry, canonical, make, unknown_name

__all__ = ["model", "model_names", "ranker_names", "search_space"]

_PAPER_DESCENT = {"max_iter": 1000, "learning_rate": 0.1}
# As many rounds as validation wants; without validation data, give max_iter.
_BOOSTED: dict[str, Any] = {"scorer": "trees", "max_iter": 500, "early_stopping": 50}
_SAMPLED = {"bagging_fraction": 0.7, "feature_fraction": 0.5, "members": 3}
_STEPS: dict[str, Any] = {"max_iter": 500, "early_stopping": 50}
_ADARANK: dict[str, Any] = {"scorer": "adarank", "max_iter": 500, "early_stopping": 100}
# The paper's trainer, with a projection where it shrinks steps; a query is divided by its number of terms, so that
# queries count alike, and the first step is fitted to the gradients: the paper's 0.5 goes with a sum of millions.
_STRUCTRANK: dict[str, Any] = {
    "loss": "cdn",
    "scorer": "nadaraya_watson",
    "trainer": "projected",
    "max_epochs": 10,
    "l2": 0.0,
    "metric": "map",
    "early_stopping": None,
    "query_norm": "minmax",
    "trainer_params": {"radius": 40.0, "starts": 3},
}
_SYSTEMS: dict[str, dict[str, Any]] = {
    "adarank": _ADARANK,
    "adarank-map": {**_ADARANK, "scorer_params": {"metric": "map"}},
    "adarank-ndcg": {**_ADARANK, "scorer_params": {"metric": "ndcg"}},
    # One feature a round until validation falls; the weights of the three functions are chosen there as well.
    "best-surrogate": {"loss": "ndcg_mix", "loss_params": {"alpha": None}, "scorer": "single_feature", **_STEPS},
    "bt-noties": {"loss": "bradley_terry", "loss_params": {"ties": False}, **_BOOSTED},
    "bt-ties": {"loss": "bradley_terry", **_BOOSTED},
    "ccrf-prf": {"scorer": "ccrf", "scorer_params": {"form": "feedback"}},
    "ccrf-td": {"scorer": "ccrf", "scorer_params": {"form": "distillation"}},
    "coordinate_ascent": {"scorer": "coordinate_ascent", "max_iter": 50, "early_stopping": 10},
    "frank": {"scorer": "frank", **_STEPS},
    "hom-gg": {"loss": "hom_gg"},
    "hom-og": {"loss": "hom_og"},
    "hom-oo": {"loss": "hom_oo"},
    # LightGBM's own objectives; the loss beside them is only watched.
    "lambdamart": {"loss": "ranknet", "scorer_params": {"objective": "lambdarank"}, **_BOOSTED},
    "linear_regression": {"scorer": "linear_regression"},
    "listmle": {"loss": "listmle"},
    "listnet": {"loss": "listnet"},
    "lrf": {"loss": "ndcg_cross_entropy", "scorer": "listwise"},
    "lsr": {"scorer": "latent"},
    "mart": {"loss": "rank_regress", "scorer_params": {"objective": "regression"}, **_BOOSTED},
    "ndcg-boost-linear": {"loss": "ndcg_cross_entropy", "scorer": "single_feature", **_STEPS},
    "ndcg-boost-trees": {"loss": "ndcg_cross_entropy", "scorer": "gradient_trees", **_STEPS},
    "pairties-d": {"loss": "davidson"},
    "pairties-rk": {"loss": "rao_kupper"},
    "plackett-luce": {"loss": "plackett_luce"},
    "plackett-luce-trees": {"loss": "plackett_luce", **_BOOSTED, "scorer_params": _SAMPLED},
    "pmop-exact": {"loss": "pmop_exact"},
    "pmop-fd": {"loss": "pmop"},
    "pmop-gibbs": {"loss": "pmop_gibbs", "loss_params": {"value": "surrogate"}, **_PAPER_DESCENT},
    # One step of the right chain is too short to learn from; ten are enough (see the page on pmop).
    "pmop-mh": {"loss": "pmop_mh", "loss_params": {"value": "surrogate", "steps": 10}, **_PAPER_DESCENT},
    "pmop-trees": {"loss": "pmop", **_BOOSTED, "scorer_params": _SAMPLED},
    "random_forest": {"scorer": "random_forest"},
    "rank-regress": {"loss": "rank_regress"},
    "rankboost": {"scorer": "rankboost", **_STEPS},
    "ranknet": {"loss": "ranknet"},
    "ranksvm": {"loss": "ranksvm"},
    "structrank": {**_STRUCTRANK, "loss_params": {"weighting": "pairs"}},
    "structrank-disconnected": {**_STRUCTRANK, "loss_params": {"topology": "disconnected", "weighting": "pairs"}},
    "structrank-random": {**_STRUCTRANK, "loss_params": {"topology": "random", "weighting": "pairs"}},
    "tm-noties": {"loss": "thurstone_mosteller", "loss_params": {"ties": False}, **_BOOSTED},
    "tm-ties": {"loss": "thurstone_mosteller", **_BOOSTED},
    "topk-cps": {"loss": "topk_listmle", "scorer": "cps"},
    "topk-listmle": {"loss": "topk_listmle"},
}

_INNER = ("loss_params", "scorer_params", "trainer_params")
_LINEAR_GRID = {"l2": [1e-4, 1e-3, 1e-2, 1e-1, 1.0]}
_TREE_GRID = (
    {"num_leaves": 10, "learning_rate": 0.1, "min_data_in_leaf": 20},
    {"num_leaves": 10, "learning_rate": 0.05, "min_data_in_leaf": 50},
    {"num_leaves": 5, "learning_rate": 0.1, "min_data_in_leaf": 50},
    {"num_leaves": 20, "learning_rate": 0.05, "min_data_in_leaf": 20},
)
# The line search of boosting undoes the scale of a loss, so that beta of the entropy alone has no effect there; it has
# one in a mixture.
_FEATURE_GRID = [{"standardise": z, "learning_rate": rate} for z in (True, False) for rate in (1.0, 0.3)]
_MIX_GRID = [{"beta": beta} for beta in (1e-2, 1e-1)]
_GRADIENT_TREE_GRID = [{"learning_rate": rate, "max_depth": depth} for rate in (0.05, 0.1) for depth in (3, 5)]
_CLIMB_GRID = {"l2": [0.0, 0.1]}
_BALL_GRID = tuple({"radius": radius, "starts": 3} for radius in (20.0, 40.0, 80.0))
_THRESHOLDS = (16, 64, 254)
_OWN_GRIDS: dict[str, list[dict[str, Any]]] = {
    "adarank": [{"both_directions": both} for both in (True, False)],
    "frank": [{"thresholds": count} for count in _THRESHOLDS],
    "random_forest": [{"max_features": part, "min_samples_leaf": n} for part in (0.1, 0.3) for n in (5, 20)],
    "rankboost": [{"thresholds": n, "weighting": by} for n in _THRESHOLDS for by in ("pairs", "queries")],
}


_CHOOSE_THEMSELVES = ("ccrf", "greedy", "listwise")
"""Scorers that have no setting to choose, or choose their penalty by the validation data of the fit."""


def search_space(name: str) -> dict[str, list[Any]]:
    """The settings of a system that validation should choose, each with its values; the same effort for all.

    >>> len(search_space("bt-ties")["scorer_params"]) == len(search_space("lambdamart")["scorer_params"])
    True
    """
    system = model(name)
    if not isinstance(system, Ranker):
        raise SettingError(f"{name!r} aggregates rankings; only rankers can be tuned: {', '.join(ranker_names())}.")
    if system.scorer in _CHOOSE_THEMSELVES:
        return {"l2": [system.l2]}
    if system.trainer_params is not None:
        return {"trainer_params": [dict(setting) for setting in _BALL_GRID]}
    if system.scorer == "trees":
        return {"scorer_params": [dict(setting) for setting in _TREE_GRID]}
    if system.loss == "ndcg_mix":
        return {"loss_params": [dict(setting) for setting in _MIX_GRID]}
    if system.scorer == "gradient_trees":
        return {"scorer_params": [dict(setting) for setting in _GRADIENT_TREE_GRID]}
    if system.scorer == "single_feature":
        return {"scorer_params": [dict(setting) for setting in _FEATURE_GRID]}
    if system.scorer == "coordinate_ascent":
        return dict(_CLIMB_GRID)
    if system.scorer in _OWN_GRIDS:
        return {"scorer_params": [dict(setting) for setting in _OWN_GRIDS[system.scorer]]}
    return dict(_LINEAR_GRID)


_AGGREGATORS = Registry(
    "model",
    {
        "borda-agg": "luce.aggregate.supervised:BordaAggregator",
        "cps-agg": "luce.aggregate.supervised:CPSAggregator",
    },
)
"""Systems whose features are the ranks that several rankers gave; they have `fit` and `predict`, and no file."""


def model_names() -> list[str]:
    """All complete systems.

    >>> "pmop-fd" in model_names()
    True
    """
    return sorted([*_SYSTEMS, *_AGGREGATORS.names()])


def ranker_names() -> list[str]:
    """The systems that are rankers of documents by features."""
    return sorted(_SYSTEMS)


def model(name: str, **overrides: Any) -> Any:
    """A complete system, not yet fitted; `overrides` replace its settings, those of loss and scorer one by one.

    >>> model("pmop-fd", l2=0.1)
    Ranker(l2=0.1)
    """
    if name in _AGGREGATORS:
        return _AGGREGATORS.get(name)(**overrides)
    for known, settings in _SYSTEMS.items():
        if canonical(known) == canonical(name):
            inner = {key: {**settings.get(key, {}), **(overrides.pop(key, None) or {})} for key in _INNER}
            chosen = {**settings, **overrides, **{key: own for key, own in inner.items() if own}}
            return make("model", name, Ranker, chosen)
    raise unknown_name("model", name, model_names())
