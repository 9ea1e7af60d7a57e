"""Scorers by name. A scorer turns the items of a query into scores; it never sees labels."""

from __future__ import annotations

from inspect import signature
from typing import Any

from luce.registry import Registry, make

__all__ = ["defaults", "fitted_class", "get", "has_own_criterion", "is_known", "names", "takes_missing"]

_registry = Registry(
    "scorer",
    {
        "adarank": "luce.scorers.base_rankers:AdaRank",
        "coordinate_ascent": "luce.scorers.base_rankers:CoordinateAscent",
        "frank": "luce.scorers.base_rankers:FRank",
        "gradient_trees": "luce.scorers.weak_learners:GradientTrees",
        "greedy": "luce.scorers.greedy:GreedyScorer",
        "linear": "luce.scorers.linear:LinearScorer",
        "linear_regression": "luce.scorers.base_rankers:LinearRegression",
        "listwise": "luce.scorers.listwise:ListwiseScorer",
        "mlp": "luce.scorers.mlp:MLPScorer",
        "nadaraya_watson": "luce.scorers.nadaraya_watson:NadarayaWatsonScorer",
        "rankboost": "luce.scorers.base_rankers:RankBoost",
        "random_forest": "luce.scorers.base_rankers:RandomForest",
        "second_order": "luce.scorers.second_order:SecondOrderScorer",
        "single_feature": "luce.scorers.weak_learners:SingleFeature",
        "single_stump": "luce.scorers.weak_learners:SingleStump",
        "trees": "luce.scorers.trees:TreesScorer",
    },
)
_fitted = Registry(
    "scorer",
    {
        "ccrf": "luce.scorers.ccrf:FittedCCRF",
        "cps": "luce.scorers.cps:FittedCPS",
        "greedy": "luce.scorers.greedy:FittedGreedy",
        "latent": "luce.scorers.latent:FittedLatent",
        "linear": "luce.scorers.linear:FittedLinear",
        "listwise": "luce.scorers.listwise:FittedListwise",
        "mlp": "luce.scorers.mlp:FittedMLP",
        "nadaraya_watson": "luce.scorers.nadaraya_watson:FittedNadarayaWatson",
        "second_order": "luce.scorers.second_order:FittedSecondOrder",
        "stumps": "luce.scorers.stumps:FittedStumps",
        "trees": "luce.scorers.trees:FittedTrees",
    },
)
# A scorer whose model is tied to one loss: it is part of a complete system, and not in the list of names.
_tied = Registry(
    "scorer",
    {
        "ccrf": "luce.scorers.ccrf:CCRFScorer",
        "cps": "luce.scorers.cps:CPSScorer",
        "latent": "luce.scorers.latent:LatentScorer",
    },
)


def names() -> list[str]:
    """All scorers that go with any loss."""
    return _registry.names()


def get(name: str, **parameters: Any) -> Any:
    """A scorer of that name, to be trained."""
    factory = _tied.get(name) if name in _tied else _registry.get(name)
    return make("scorer", name, factory, parameters)


def defaults(name: str) -> dict[str, Any]:
    """The parameters of a scorer of that name, with their defaults.

    >>> defaults("rankboost")
    {'thresholds': 254, 'weighting': 'pairs'}
    """
    made = get(name)
    return {key: getattr(made, key) for key in signature(type(made)).parameters}


def is_known(name: str) -> bool:
    """Whether there is a scorer of that name, those of one complete system included."""
    return name in _registry or name in _tied


def fitted_class(name: str) -> Any:
    """The class that reads a fitted scorer of that name from a model file."""
    return _fitted.get(name)


def has_own_criterion(name: str) -> bool:
    """Whether a scorer of that name is trained by a criterion of its own, so that the loss is not used."""
    return is_known(name) and getattr((_tied if name in _tied else _registry).get(name), "own_criterion", False)


def takes_missing(name: str) -> bool:
    """Whether a scorer of that name takes NaN for what is missing."""
    return name in _registry and getattr(_registry.get(name), "takes_missing", False)
