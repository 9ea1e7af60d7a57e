"""Trainers by name: each joins data, scorer and loss into a fitted scorer; algorithms bring their own of both."""

from __future__ import annotations

from typing import Any

from luce.registry import Registry, make

__all__ = ["get", "names", "register", "registry"]

registry = Registry(
    "trainer",
    {
        "adarank": "luce.training.climbing:AdaRank",
        "blend": "luce.auto.trainer:Blend",
        "boosting": "luce.training.boosting:Boosting",
        "ccrf": "luce.training.rerankers:CCRF",
        "closed_form": "luce.training.regression:ClosedForm",
        "coordinate_ascent": "luce.training.climbing:CoordinateAscent",
        "cps": "luce.training.coset_objective:CPS",
        "frank": "luce.training.pair_boosting:FRank",
        "greedy": "luce.training.rerankers:Greedy",
        "latent": "luce.training.rerankers:Latent",
        "lbfgs": "luce.training.gradients:LBFGS",
        "linear_regression": "luce.training.regression:LinearRegression",
        "listwise_boosting": "luce.training.listwise_boosting:ListwiseBoosting",
        "projected": "luce.training.gradients:Projected",
        "projected_lbfgs": "luce.training.gradients:ProjectedLBFGS",
        "random_forest": "luce.training.regression:RandomForest",
        "rankboost": "luce.training.pair_boosting:RankBoost",
        "reranking": "luce.training.listwise:Reranker",
        "retargeting": "luce.training.regression:Retargeting",
        "sgd": "luce.training.gradients:SGD",
    },
    "luce.trainers",
)
register = registry.register


def names() -> list[str]:
    """All trainers, algorithms included.

    >>> "lbfgs" in names()
    True
    """
    return registry.names()


def get(name: str, **parameters: Any) -> Any:
    """The trainer of that name.

    >>> get("rankboost", thresholds=16).max_iter
    100
    """
    return make("trainer", name, registry.get(name), parameters)
