"""Spaces: what there is to tune of a model, as ranges and choices to draw from.

A name is a setting of the ranker, such as `l2` or `scorer__num_leaves`. What trainer, scorer and loss have to tune are
three tables; a new part with something to tune is one line there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from luce.ranker.parts import SHORT
from luce.scorers.trees import OVER_PAIRS
from luce.spec import Choice, Dimension, Range, tuned
from luce.systems import fixed_settings, ranker_to_tune

Space: TypeAlias = Mapping[str, Dimension]

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
    parts, fixed = ranker_to_tune(name).parts(), fixed_settings(name)
    own = tuned(parts.trainer).items()
    space = {key if key in SHORT else f"trainer__{key}": dimension for key, dimension in own}
    if parts.scorer is not None:
        space |= {f"scorer__{key}": value for key, value in tuned(parts.scorer).items()}
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
