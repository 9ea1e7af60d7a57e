"""Spaces: what there is to tune of a model, as ranges and choices to draw from.

A name is a setting of the ranker, or `scorer_params.NAME` and `loss_params.NAME`. What the scorer needs and what the
loss needs are two tables; a new scorer or loss with something to tune is one line there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from luce import scorers
from luce.errors import SettingError
from luce.registry import canonical
from luce.systems import model, ranker_names

__all__ = ["Choice", "Dimension", "Range", "Space", "draw", "space_of", "without"]


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, log-uniform unless `log` is False; whole ones where `whole`.

    `learned` also draws None half of the time, for parameters that training can learn itself.
    """

    low: float
    high: float
    log: bool = True
    whole: bool = False
    learned: bool = False

    def draw(self, rng: np.random.Generator) -> float | int | None:
        """One value, with four digits, so that it can be typed."""
        place, learn = rng.random(), rng.random()
        if self.learned and learn < 0.5:
            return None
        if self.log:
            value = float(np.exp(np.log(self.low) + place * (np.log(self.high) - np.log(self.low))))
        else:
            value = self.low + place * (self.high - self.low)
        return round(value) if self.whole else float(f"{value:.4g}")


@dataclass(frozen=True)
class Choice:
    """Some values, each as likely as the others."""

    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        """One of the values."""
        return self.values[int(rng.integers(len(self.values)))]


Dimension: TypeAlias = Range | Choice
Space: TypeAlias = Mapping[str, Dimension]

_L2: dict[str, Dimension] = {"l2": Range(1e-6, 10.0)}
_THRESHOLDS: dict[str, Dimension] = {"scorer_params.thresholds": Range(8, 254, whole=True)}
SCORERS: dict[str, dict[str, Dimension]] = {
    "adarank": {
        "scorer_params.both_directions": Choice((True, False)),
        "scorer_params.metric": Choice((None, "map", "ndcg@5", "ndcg")),
    },
    "coordinate_ascent": {"l2": Range(1e-4, 1.0), "scorer_params.restarts": Range(0, 4, log=False, whole=True)},
    "cps": _L2,
    "frank": {**_THRESHOLDS, "scorer_params.shortlist": Range(2, 32, whole=True)},
    "gradient_trees": {
        "scorer_params.max_depth": Range(2, 6, log=False, whole=True),
        "scorer_params.learning_rate": Range(0.02, 0.3),
        "scorer_params.bagging_fraction": Range(0.3, 1.0, log=False),
        "scorer_params.feature_fraction": Range(0.1, 1.0),
    },
    "linear": _L2,
    "linear_regression": _L2,
    "mlp": {
        **_L2,
        "scorer_params.hidden": Choice((8, 16, 32, 64)),
        "scorer_params.activation": Choice(("tanh", "relu")),
    },
    "random_forest": {
        "scorer_params.max_features": Range(0.05, 0.8),
        "scorer_params.min_samples_leaf": Range(1, 50, whole=True),
    },
    "rankboost": {**_THRESHOLDS, "scorer_params.weighting": Choice(("pairs", "queries"))},
    "second_order": {**_L2, "scorer_params.count": Range(10, 1000, whole=True)},
    "single_feature": {
        "scorer_params.standardise": Choice((True, False)),
        "scorer_params.learning_rate": Range(0.1, 1.0),
    },
    "single_stump": {**_THRESHOLDS, "scorer_params.learning_rate": Range(0.05, 1.0)},
    "trees": {
        "scorer_params.num_leaves": Range(4, 64, whole=True),
        "scorer_params.learning_rate": Range(0.01, 0.3),
        "scorer_params.min_data_in_leaf": Range(5, 200, whole=True),
        "scorer_params.lambda_l2": Range(1e-3, 100.0),
        "scorer_params.bagging_fraction": Range(0.5, 1.0, log=False),
        "scorer_params.feature_fraction": Range(0.3, 1.0, log=False),
    },
}
"""What each scorer has to tune; one that is not named here has its L2 penalty."""

_K: dict[str, Dimension] = {"k": Range(2, 20, whole=True)}
_BETA = Range(1e-3, 1.0)
LOSSES: dict[str, dict[str, Dimension]] = {
    "bradley_terry": {"epsilon": Range(0.05, 2.0, learned=True)},
    "davidson": {"nu": Range(0.1, 10.0, learned=True)},
    "hom_gg": _K,
    "hom_og": _K,
    "hom_oo": _K,
    "ndcg_cross_entropy": {"beta": _BETA},
    "ndcg_mix": {"beta": _BETA},
    "ndcg_qnorm": {"q": Range(2.0, 10.0, learned=True)},
    "pmop": {"direction": Choice(("forward", "backward"))},
    "rao_kupper": {"theta": Range(1.1, 10.0, learned=True)},
    "thurstone_mosteller": {"epsilon": Range(0.05, 2.0, learned=True)},
    "topk_listmle": _K,
}
"""What each loss has to tune."""


def space_of(name: str) -> dict[str, Dimension]:
    """The space of a complete system: its scorer's, and its loss's where the loss is what trains it.

    >>> sorted(space_of("pairties-rk"))
    ['l2', 'loss_params.theta']
    """
    system = model(name)
    if not hasattr(system, "scorer_params"):
        raise SettingError(f"{name!r} aggregates rankings; only rankers can be tuned: {', '.join(ranker_names())}.")
    fixed_scorer, fixed_loss = system.scorer_params or {}, system.loss_params or {}
    space = {
        place: dimension
        for place, dimension in SCORERS.get(canonical(system.scorer), _L2).items()
        if place.removeprefix("scorer_params.") not in fixed_scorer
    }
    watched = scorers.has_own_criterion(system.scorer) or fixed_scorer.get("objective") is not None
    if not watched and fixed_loss.get("ties", True) is not False:
        own = LOSSES.get(canonical(str(system.loss)), {})
        space |= {f"loss_params.{key}": value for key, value in own.items() if key not in fixed_loss}
    if fixed_scorer.get("objective") is not None:
        space.pop("scorer_params.bagging_fraction", None)
    if fixed_scorer.get("curvature") == "pairs":
        space.pop("scorer_params.lambda_l2", None)
    if fixed_loss.get("value") == "surrogate":
        space["learning_rate"] = Range(0.01, 1.0)
    if system.trainer_params:
        # Inside an L1 ball there is no L2 penalty.
        space.pop("l2", None)
        space |= {"trainer_params.radius": Range(5.0, 200.0), "learning_rate": Range(1.0, 50.0)}
    return space


def without(space: Space, fixed: Mapping[str, Any]) -> dict[str, Dimension]:
    """What is left to tune where some settings are fixed.

    >>> sorted(without(space_of("pairties-rk"), {"loss_params": {"theta": 2.0}}))
    ['l2']
    """
    held = {f"{name}.{key}" for name, value in fixed.items() if isinstance(value, Mapping) for key in value}
    return {place: dimension for place, dimension in space.items() if place not in held | set(fixed)}


def draw(space: Space, seed: int, number: int) -> dict[str, Any]:
    """Setting number `number` of a search: 0 is the system as it is, the others are drawn, each from its own stream.

    >>> draw({"l2": Range(0.01, 1.0)}, seed=0, number=0)
    {}
    >>> draw({"l2": Range(0.01, 1.0)}, seed=0, number=1) == draw({"l2": Range(0.01, 1.0)}, seed=0, number=1)
    True
    """
    if number == 0:
        return {}
    rng = np.random.default_rng([seed, number])
    settings: dict[str, Any] = {}
    for place, dimension in space.items():
        value = dimension.draw(rng)
        group, dot, inner = place.partition(".")
        if dot:
            settings.setdefault(group, {})[inner] = value
        else:
            settings[group] = value
    return settings
