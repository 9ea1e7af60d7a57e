"""What a blend may be made of: each member errs in a way of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from luce import losses
from luce.data.groups import Groups
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.registry import unknown_name
from luce.scorers.trees import TreesScorer
from luce.types import FloatArray

_HIGHEST_GAIN = 10.0
"""Grades above this are no grades whose gain is 2^grade - 1."""
_LEAVES, _ROWS = 15, 0.7


@dataclass(frozen=True)
class Member:
    """One learner: trees on a loss of luce or an objective of LightGBM, or a linear score."""

    about: str
    loss: str | None = None
    objective: str | None = None
    linear: bool = False
    gains: bool = False
    """Whether it learns from 2^grade - 1 in place of the grade."""
    by_name: bool = False
    """Whether it is taken only where it is named: on the data at hand blends are no better with it."""

    def make_loss(self) -> Loss | None:
        """The loss that it is trained on; None where LightGBM follows its own objective."""
        if self.loss is None:
            return None
        settings: dict[str, Any] = {"tier_gain": 2.0} if self.gains else {}
        return losses.get(self.loss, **settings)

    def labels(self, y: FloatArray) -> FloatArray:
        """What it learns from; a loss weighs the gains itself."""
        with np.errstate(over="ignore"):  # gains that are not finite are refused as labels
            return np.exp2(y) - 1.0 if self.gains and self.loss is None else y


MEMBERS: dict[str, Member] = {
    "luce-linear": Member("tied Plackett-Luce on a linear score", loss="plackett_luce", linear=True),
    "regression": Member("squared error of the grade", objective="regression"),
    "lambdarank": Member("LightGBM's lambdarank", objective="lambdarank"),
    "luce-gains": Member("tied Plackett-Luce, tiers weighed by gains", loss="plackett_luce", gains=True),
    "ties": Member("Bradley-Terry with ties", loss="bradley_terry"),
    "gains": Member("squared error of the gain", objective="regression", gains=True),
    "luce": Member("tied Plackett-Luce", loss="plackett_luce"),
    "luce-sizes": Member("tied Plackett-Luce and the sizes of grades", loss="order_and_size", by_name=True),
}
"""By name, what is worth most in the least time first: a short budget takes them in this order."""


def suited(names: tuple[str, ...] | None, data: Groups) -> tuple[str, ...]:
    """The members that these data tell apart: gains of two grades are grades, and of high ones they are no gains."""
    chosen = tuple(name for name, one in MEMBERS.items() if not one.by_name) if names is None else names
    for name in chosen:
        if name not in MEMBERS:
            raise unknown_name("member", name, list(MEMBERS))
    if len(set(chosen)) != len(chosen) or not chosen:
        raise SettingError(f"members is {list(chosen)}; give at least one, each once: {', '.join(MEMBERS)}.")
    if names is not None:
        return chosen
    grades = np.unique(data.y)
    if len(grades) > 2 and grades[0] >= 0.0 and grades[-1] <= _HIGHEST_GAIN:
        return chosen
    return tuple(name for name in chosen if not MEMBERS[name].gains)


def tree_scorer(member: Member, step: float, data: Groups) -> TreesScorer:
    """The trees of a member: small, each on all features (half of them miss what features say together), and where luce
    draws them, on 70% of the rows."""
    known = {} if data.schema is None else data.schema.categories
    return TreesScorer(
        num_leaves=_LEAVES,
        learning_rate=step,
        bagging_fraction=_ROWS if member.loss is not None else 1.0,
        objective=member.objective,
        categorical=sorted(known) or None,
    )
