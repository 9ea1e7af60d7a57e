"""Spaces: what there is to tune of a model, as ranges and choices to draw from.

A name is a setting of the ranker, such as `l2` or `scorer__num_leaves`. What trainer, scorer and loss have to tune are
three tables; a new part with something to tune is one line there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from luce.errors import SettingError
from luce.ranker import Ranker
from luce.scorers.trees import OVER_PAIRS
from luce.spec import Choice, Dimension, Range, tuned
from luce.systems import fixed_settings, model, ranker_names

Space: TypeAlias = Mapping[str, Dimension]

_L2: dict[str, Dimension] = {"l2": Range(1e-5, 1e4)}  # losses differ that much in curvature
_THRESHOLDS: dict[str, Dimension] = {"trainer__thresholds": Range(8, 254, whole=True)}
_BALL: dict[str, Dimension] = {"trainer__radius": Range(5.0, 200.0)}  # inside which there is no L2 penalty
TRAINERS: dict[str, dict[str, Dimension]] = {
    "adarank": {
        "trainer__both_directions": Choice((True, False)),
        "trainer__metric": Choice((None, "map", "ndcg@5", "ndcg")),
    },
    "blend": {"trainer__folds": Range(4, 10, whole=True)},
    "ccrf": {"max_iter": Range(10, 200, whole=True)},
    "coordinate_ascent": {"l2": Range(1e-4, 1.0), "trainer__restarts": Range(0, 4, log=False, whole=True)},
    "frank": {**_THRESHOLDS, "trainer__shortlist": Range(2, 32, whole=True)},
    "projected": {**_BALL, "learning_rate": Range(1.0, 50.0)},
    "projected_lbfgs": _BALL,
    "random_forest": {
        "trainer__max_features": Range(0.05, 0.8),
        "trainer__min_samples_leaf": Range(1, 50, whole=True),
    },
    "rankboost": {**_THRESHOLDS, "trainer__weighting": Choice(("pairs", "queries"))},
    "sgd": {"l2": Range(1e-6, 1.0), "learning_rate": Range(0.01, 1.0)},
}
"""What each trainer has to tune; one that is not named here has its L2 penalty, if it has one."""
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
    """The space of a complete system: what its trainer, its scorer and its loss have to tune and it leaves open.

    >>> sorted(space_of("pairties-rk"))
    ['l2', 'loss__theta']
    """
    system = model(name)
    if not isinstance(system, Ranker):
        raise SettingError(f"{name!r} aggregates rankings; only rankers can be tuned: {', '.join(ranker_names())}.")
    parts, fixed = system.parts(), fixed_settings(name)
    penalised = _L2 if "l2" in parts.settings("trainer") else {}
    space = dict(TRAINERS.get(parts.trainer.name, penalised))
    if parts.scorer is not None:
        space |= {f"scorer__{key}": value for key, value in tuned(type(parts.scorer)).items()}
    if parts.loss is not None and fixed.get("loss__ties", True) is not False:
        space |= {f"loss__{key}": value for key, value in LOSSES.get(parts.loss.name, {}).items()}
    if fixed.get("scorer__objective") is not None:
        space.pop("scorer__bagging_fraction", None)
    if fixed.get("scorer__curvature") in OVER_PAIRS:
        space.pop("scorer__lambda_l2", None)
    return without(space, {key: value for key, value in fixed.items() if "__" in key and "radius" not in key})


def without(space: Space, fixed: Mapping[str, Any]) -> dict[str, Dimension]:
    """What is left to tune where some settings are fixed.

    >>> sorted(without(space_of("pairties-rk"), {"loss__theta": 2.0}))
    ['l2']
    """
    return {place: dimension for place, dimension in space.items() if place not in fixed}


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
    return {place: dimension.draw(rng) for place, dimension in space.items()}
