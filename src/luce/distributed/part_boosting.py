"""Boosting on one partition: what a worker computes of the loss, beside LightGBM."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.data.groups import Groups
from luce.distributed.parts import DataPart
from luce.losses.base import Loss
from luce.numerics.segments import serial
from luce.scorers.forest import Forest
from luce.training.derivatives import Derivatives, Shared
from luce.types import FloatArray


class Silent:
    """A logger for workers: what goes wrong there is raised, and the rest is of no use to anybody."""

    def info(self, message: str) -> None:
        """Nothing."""

    def warning(self, message: str) -> None:
        """Nothing."""


class PartBoosting:
    """Derivatives of the loss on one partition."""

    def __init__(self, part: DataPart, loss: Loss, curvature: str, floor: float, row_weight: float) -> None:
        self.data: Groups = part.data
        data, shared = self.data, Shared(1.0, row_weight)
        how: dict[str, Any] = {"curvature": curvature, "floor": floor, "shared": shared}
        with serial():
            self.derivatives = Derivatives(loss, data.y, data.offsets, data.query_weight, **how)

    def __sizeof__(self) -> int:
        return int(self.data.X.nbytes)


def features(part: DataPart) -> Any:
    """The features, on a worker where LightGBM is to be quiet."""
    import lightgbm

    lightgbm.register_logger(Silent())
    return part.data.X


def labels(part: DataPart) -> FloatArray:
    """The labels."""
    return part.data.y


def sizes(part: DataPart) -> Any:
    """Documents of each query."""
    return part.data.sizes


def row_weights(part: DataPart) -> FloatArray:
    """The weight of the query of every document."""
    assert part.data.query_weight is not None
    return np.repeat(part.data.query_weight, part.data.sizes)


def values_of(pair: tuple[Any, Any]) -> Any:
    """The first of what `advance` gives."""
    return pair[0]


def scores_of(pair: tuple[Any, Any]) -> Any:
    """The second of what `advance` gives."""
    return pair[1]


def first_scores(part: PartBoosting, forest: Forest) -> FloatArray:
    """The scores of the trees that there are already."""
    with serial():
        return forest.score(part.data.X)


def positive_curvature(part: PartBoosting, scores: FloatArray, loss: Loss) -> float:
    """The sum of all curvatures above 0."""
    with serial():
        part.derivatives.loss = loss
        return part.derivatives.positive_curvature(scores)


def advance(part: PartBoosting, scores: FloatArray, trees: list[Forest], loss: Loss) -> tuple[list[float], FloatArray]:
    """The loss before every tree, and the scores after all of them."""
    found, values, now = part.derivatives, [], scores.copy()
    with serial():
        found.loss = loss
        for tree in trees:
            values.append(found.value(now) * found.total_weight)
            tree.add_scores(part.data.X, now)
    return values, now


def slopes(part: PartBoosting, scores: FloatArray, loss: Loss) -> tuple[float, FloatArray]:
    """The loss, and its gradient in its own parameters."""
    with serial():
        value, slope = part.derivatives.parameter_gradient(loss, scores)
    return value * part.derivatives.total_weight, slope * part.derivatives.total_weight
