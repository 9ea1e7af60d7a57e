"""Complete systems by name: the rows of the papers' tables, each configured as there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from luce import aggregate, training
from luce.errors import SettingError
from luce.ranker import Ranker
from luce.registry import canonical, make, settings_of, unknown_name

_PAPER_DESCENT = {"max_iter": 1000, "learning_rate": 0.1}
_UNSAID = {"early_stopping": "early_stopping", "keep": "trainer__keep"}
# As many rounds as validation wants; without validation data, give max_iter.
_STEPS: dict[str, Any] = {"max_iter": 500, "early_stopping": 50}
_GROWN: dict[str, Any] = {"max_iter": 500, "early_stopping": "auto"}
_BOOSTED: dict[str, Any] = {"scorer": "trees", **_GROWN}
_SAMPLED = {"scorer__bagging_fraction": 0.7, "scorer__feature_fraction": 0.5, "scorer__members": 3}
_ADARANK: dict[str, Any] = {"trainer": "adarank", "max_iter": 500, "early_stopping": 100}
# The set of [StructRank] (10) by L-BFGS, which ends at a minimum where ten epochs of small steps do not; a query is
# divided by its number of terms, so that queries count alike.
_STRUCTRANK: dict[str, Any] = {
    "loss": "cdn",
    "loss__weighting": "pairs",
    "scorer": "nadaraya_watson",
    "trainer": "projected_lbfgs",
    "trainer__radius": 40.0,
    "trainer__starts": 3,
    "trainer__keep": "last",
    "l2": 0.0,
    "metric": "map",
    "early_stopping": None,
    "query_norm": "minmax",
}
_SYSTEMS: dict[str, dict[str, Any]] = {
    "adarank": _ADARANK,
    "adarank-map": {**_ADARANK, "trainer__metric": "map"},
    "adarank-ndcg": {**_ADARANK, "trainer__metric": "ndcg"},
    # Several learners, cross-fitted and blended by what they are worth on queries they did not see.
    "auto": {"trainer": "blend"},
    # One feature a round until the risk falls no more; validation chooses the weights of the three functions.
    "best-surrogate": {
        "loss": "ndcg_mix",
        "loss__alpha": None,
        "scorer": "single_feature",
        "max_iter": 2000,
        "early_stopping": 50,
    },
    "bt-noties": {"loss": "bradley_terry", "loss__ties": False, **_BOOSTED},
    "bt-ties": {"loss": "bradley_terry", **_BOOSTED},
    "ccrf-prf": {"trainer": "ccrf", "trainer__form": "feedback"},
    "ccrf-td": {"trainer": "ccrf", "trainer__form": "distillation"},
    "coordinate_ascent": {"trainer": "coordinate_ascent", "max_iter": 50, "early_stopping": 10},
    "frank": {"trainer": "frank", **_STEPS},
    "hom-gg": {"loss": "hom_gg"},
    "hom-og": {"loss": "hom_og"},
    "hom-oo": {"loss": "hom_oo"},
    "lambdamart": {"scorer__objective": "lambdarank", **_BOOSTED},
    "linear_regression": {"trainer": "linear_regression"},
    "listmle": {"loss": "listmle"},
    "listnet": {"loss": "listnet"},
    "lrf": {"loss": "ndcg_cross_entropy", "scorer": "listwise"},
    "lsr": {"trainer": "latent"},
    "mart": {"scorer__objective": "regression", **_BOOSTED},
    # Grades as an order alone: regression on the nearest targets that have it.
    "monotone-retargeting": {"loss": "monotone_retargeting"},
    "monotone-retargeting-forest": {"trainer": "retargeting"},
    "ndcg-boost-linear": {"loss": "ndcg_cross_entropy", "scorer": "single_feature", **_STEPS},
    # Sums of kernels, products of pairs and places in the list as weak learners.
    "ndcg-boost-lists": {"loss": "ndcg_cross_entropy", "scorer": "list_functions", **_STEPS},
    "ndcg-boost-trees": {"loss": "ndcg_cross_entropy", "scorer": "gradient_trees", **_GROWN},
    "pairties-d": {"loss": "davidson"},
    "pairties-rk": {"loss": "rao_kupper"},
    "plackett-luce": {"loss": "plackett_luce"},
    "plackett-luce-trees": {"loss": "plackett_luce", **_BOOSTED, **_SAMPLED},
    "pmop-exact": {"loss": "pmop_exact"},
    "pmop-exact-given": {"loss": "pmop_exact", "loss__sizes": "given"},
    "pmop-exact-printed": {"loss": "pmop_exact", "loss__sizes": "printed"},
    "pmop-fd": {"loss": "pmop"},
    "pmop-gibbs": {"loss": "pmop_gibbs", "loss__value": "surrogate", **_PAPER_DESCENT},
    # One step of the right chain is too short to learn from; ten are enough (see the page on pmop).
    "pmop-mh": {"loss": "pmop_mh", "loss__value": "surrogate", "loss__steps": 10, **_PAPER_DESCENT},
    "pmop-trees": {"loss": "pmop", **_BOOSTED, **_SAMPLED},
    "random_forest": {"trainer": "random_forest"},
    "rank-regress": {"loss": "rank_regress"},
    "rankboost": {"trainer": "rankboost", **_STEPS},
    "ranknet": {"loss": "ranknet"},
    "ranksvm": {"loss": "ranksvm"},
    "structrank": _STRUCTRANK,
    "structrank-disconnected": {**_STRUCTRANK, "loss__topology": "disconnected"},
    "structrank-random": {**_STRUCTRANK, "loss__topology": "random"},
    "tm-noties": {"loss": "thurstone_mosteller", "loss__ties": False, **_BOOSTED},
    "tm-ties": {"loss": "thurstone_mosteller", **_BOOSTED},
    "topk-cps": {"trainer": "cps"},
    "topk-listmle": {"loss": "topk_listmle"},
}

# The penalty that suits a loss goes with its curvature a query, which is 0.03 for `pmop_exact` and 20,000 for
# `rank_regress` on queries of 150 documents. One grid for all is as much effort for each; a grid a loss was rejected,
# since its ends would be one more choice that could favour a loss.
_LINEAR_GRID: list[dict[str, Any]] = [{"l2": 10.0**power} for power in range(-4, 5)]
_BALLS: list[dict[str, Any]] = [{"trainer__radius": t, "trainer__starts": 3} for t in (20.0, 40.0, 80.0)]
_THRESHOLDS = (16, 64, 254)
_GRIDS: dict[str, list[dict[str, Any]]] = {
    "adarank": [{"trainer__both_directions": both} for both in (True, False)],
    # It judges what it is made of on the queries that it was not fitted on.
    "blend": [{}],
    # Of losses with drawn gradients, by descent: a step of 0.1 overshoots beyond 10. As many settings as the others.
    "sgd": [{"l2": 10.0**power} for power in range(-7, 2)],
    "retargeting": [{}],
    # They have no setting to choose, or choose their penalty by the validation data of the fit.
    "ccrf": [{}],
    "coordinate_ascent": [{"l2": l2} for l2 in (0.0, 0.1)],
    "frank": [{"trainer__thresholds": count} for count in _THRESHOLDS],
    "gradient_trees": [
        {"scorer__learning_rate": rate, "scorer__max_depth": depth} for rate in (0.05, 0.1) for depth in (3, 5)
    ],
    "list_functions": [
        {"scorer__weak": weak, "scorer__learning_rate": rate}
        for weak, rate in (("single_feature", 1.0), ("single_feature", 0.3), ("single_stump", 0.3))
    ],
    "listwise": [{}],
    # The line search of boosting undoes the scale of a loss, so that beta of the entropy alone has no effect there; it
    # has one in a mixture.
    "ndcg_mix": [{"loss__beta": beta} for beta in (1e-2, 1e-1)],
    "projected": _BALLS,
    "projected_lbfgs": _BALLS,
    "random_forest": [
        {"trainer__max_features": part, "trainer__min_samples_leaf": n} for part in (0.1, 0.3) for n in (5, 20, 50)
    ],
    "rankboost": [
        {"trainer__thresholds": n, "trainer__weighting": by} for n in _THRESHOLDS for by in ("pairs", "queries")
    ],
    "single_feature": [
        {"scorer__standardise": z, "scorer__learning_rate": rate} for z in (True, False) for rate in (1.0, 0.3)
    ],
    "trees": [
        {"scorer__num_leaves": leaves, "scorer__learning_rate": rate, "scorer__min_data_in_leaf": least}
        for leaves, rate, least in ((10, 0.1, 20), (10, 0.05, 50), (5, 0.1, 50), (20, 0.05, 20))
    ],
}
"""Settings that validation should choose from, by the name of the part that has them."""


def settings_grid(name: str) -> list[dict[str, Any]]:
    """The settings of a system that validation should choose from; the same effort for all.

    >>> len(settings_grid("bt-ties")) == len(settings_grid("lambdamart"))
    True
    """
    parts = ranker_to_tune(name).parts()
    found = [part.name for part in (parts.trainer, parts.loss, parts.scorer) if part is not None]
    return [dict(setting) for setting in next((_GRIDS[part] for part in found if part in _GRIDS), _LINEAR_GRID)]


def ranker_to_tune(name: str) -> Ranker:
    """A complete system that has settings to choose, which one that aggregates rankings has not."""
    system = model(name)
    if not isinstance(system, Ranker):
        raise SettingError(f"{name!r} aggregates rankings; only rankers can be tuned: {', '.join(ranker_names())}.")
    return system


_AGGREGATORS = {"borda-agg": "BordaAggregator", "cps-agg": "CPSAggregator"}
"""Systems whose features are the ranks that several rankers gave; they have `fit` and `predict`, and no file."""
_SPELLING = {canonical(name): name for name in (*_SYSTEMS, *_AGGREGATORS)}


def model_names() -> list[str]:
    """All complete systems.

    >>> "pmop-fd" in model_names()
    True
    """
    return sorted([*_SYSTEMS, *_AGGREGATORS])


def fixed_settings(name: str) -> dict[str, Any]:
    """What makes a system: the settings that differ from those of its parts."""
    return dict(_SYSTEMS.get(_SPELLING.get(canonical(name), ""), {}))


def ranker_names() -> list[str]:
    """The systems that are rankers of documents by features."""
    return sorted(_SYSTEMS)


def model(name: str, **overrides: Any) -> Any:
    """A complete system, not yet fitted; `overrides` replace its settings, those of its parts one by one.

    >>> model("pmop-fd", l2=0.1)
    Ranker(l2=0.1, loss='pmop')
    >>> model("auto", budget=120).trainer.budget
    120
    """
    known = _SPELLING.get(canonical(name))
    if known is None:
        raise unknown_name("model", name, model_names())
    if known in _AGGREGATORS:
        return make("model", known, getattr(aggregate, _AGGREGATORS[known]), overrides)
    settings = _SYSTEMS[known]
    placed = _placed(settings, overrides)
    longer = {name.partition("__")[2] for name in placed if "__" in name}  # of which the short form gives way
    system = Ranker(**{**{name: value for name, value in settings.items() if name not in longer}, **placed})
    unsaid = {name: settings[key] for name, key in _UNSAID.items() if key in settings}
    system._unsaid = {name: value for name, value in unsaid.items() if name not in {*placed, *longer}}
    return system


def _placed(system: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with those that only the algorithm of a system has as its own: `budget` is `trainer__budget`."""
    if "trainer" not in system:
        return dict(overrides)
    own, known = settings_of(training.get(system["trainer"])), Ranker().get_params(deep=False)
    return {f"trainer__{key}" if key in own and key not in known else key: v for key, v in overrides.items()}
