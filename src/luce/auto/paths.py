"""One member on one fold: all models along its way, judged on the queries that were held out.

A way is the number of trees, or the strength of the penalty of a linear score. Where to stop on it is one number for
all folds together, so that no fold is stopped on itself: choosing by a dozen queries costs as much as it brings. All
folds therefore go forward together, until the mean of what they are worth rises no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from luce import scorers, training
from luce.auto.members import Member, tree_scorer
from luce.data.filling import Filling
from luce.scorers.forest import Forest
from luce.scorers.linear import FittedLinear
from luce.training.boosting import Boosting
from luce.training.task import Task
from luce.types import FloatArray

PENALTIES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""Of the linear member, strongest first; the likelihood of a race grows with the documents above the last tier."""


@dataclass(frozen=True)
class Pace:
    """How trees are grown: shrinkage, most rounds, and rounds without a better mean that end a way."""

    step: float
    rounds: int
    patience: int

    @property
    def stride(self) -> int:
        """Rounds between two looks at the mean, over which it is also smoothed."""
        return max(1, round(0.5 / self.step)) | 1


@dataclass(frozen=True, eq=False)
class TreePath:
    """The trees of all rounds."""

    forest: Forest

    def at(self, step: int) -> Forest:
        """The trees up to a round."""
        return self.forest.first(min(step, self.forest.n_trees))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a checkpoint."""
        return self.forest.arrays()


@dataclass(frozen=True, eq=False)
class LinearPath:
    """The linear scores of all penalties, a row each."""

    weights: FloatArray
    intercepts: FloatArray
    inverse_sd: FloatArray

    def at(self, step: int) -> FittedLinear:
        """The score under penalty number `step`, counted from 1."""
        i = min(step, len(self.weights)) - 1
        return FittedLinear(self.weights[i], float(self.intercepts[i]), self.inverse_sd)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a checkpoint."""
        return vars(self)


Path = TreePath | LinearPath


def path_of(linear: bool, arrays: Mapping[str, NDArray[Any]], n_features: int) -> Path:
    """The way that a checkpoint holds."""
    return LinearPath(**arrays) if linear else TreePath(Forest.from_arrays(arrays, n_features))


class Walk(Protocol):
    """A way that goes on step by step; `curve` is the metric on the held-out queries after each, 0 before the first."""

    @property
    def curve(self) -> list[float]:
        """What every step is worth, entry 0 that of none."""
        ...

    def advance(self) -> None:
        """One stride."""
        ...

    @property
    def ended(self) -> bool:
        """True where there is no further step."""
        ...

    def path(self) -> Path:
        """All models up to now."""
        ...


def start(member: Member, task: Task, pace: Pace, filling: Filling | None) -> Walk:
    """A way before its first step; the task has training queries and those that were held out of them."""
    task = replace(task, loss=member.make_loss())
    return LinearWalk(task, filling) if member.linear else TreeWalk(member, task, pace)


class TreeWalk:
    """Boosting, a stride of rounds at a time."""

    def __init__(self, member: Member, task: Task, pace: Pace) -> None:
        self.pace = pace
        data = replace(task.data, y=member.labels(task.data.y))
        own = replace(task, data=data, scorer=tree_scorer(member, pace.step, data))
        self.growth = Boosting(max_iter=pace.rounds, early_stopping=None).start(own)

    @property
    def curve(self) -> list[float]:
        """The metric after every round."""
        return self.growth.run.history.validation

    @property
    def ended(self) -> bool:
        """True where no more trees are allowed, or can be grown."""
        return self.growth.run.iteration >= self.pace.rounds or self.growth.spent

    def advance(self) -> None:
        """A stride of rounds."""
        for _ in range(self.pace.stride):
            if self.ended:
                return
            self.growth.round()

    def path(self) -> TreePath:
        """All trees."""
        return TreePath(self.growth.whole())


class LinearWalk:
    """One penalty after the other, each from the weights of the one before."""

    def __init__(self, task: Task, filling: Filling | None) -> None:
        assert task.valid is not None
        if filling is not None:
            task = replace(task, data=filling.applied(task.data), valid=filling.applied(task.valid))
        assert task.valid is not None
        self.task = replace(task, scorer=scorers.get("linear"))
        self.found: list[FittedLinear] = []
        self.curve = [self.task.judged(np.zeros(task.valid.n_rows))]

    @property
    def ended(self) -> bool:
        """True after the weakest penalty."""
        return len(self.found) == len(PENALTIES)

    def advance(self) -> None:
        """All penalties."""
        for l2 in PENALTIES:
            warm = self.found[-1] if self.found else None
            alone = replace(self.task, valid=None, warm_start=warm)
            fitted = training.get("lbfgs", l2=l2, max_iter=50).train(alone).scorer
            assert isinstance(fitted, FittedLinear)
            self.found.append(fitted)
            self.curve.append(self.task.judged_scorer(fitted))

    def path(self) -> LinearPath:
        """The scores of all penalties."""
        weights = np.stack([one.weights for one in self.found])
        return LinearPath(weights, np.array([one.intercept for one in self.found]), self.found[0].inverse_sd)


def smoothed_mean(curves: Sequence[Sequence[float]], weights: FloatArray, width: int) -> FloatArray:
    """Mean of the curves of all folds from step 1 on, smoothed over `width` steps; a curve that ended stays there.

    >>> smoothed_mean([[0.0, 0.2, 0.5, 0.2], [0.0, 0.4]], np.ones(2), 1).round(12).tolist()
    [0.3, 0.45, 0.3]
    >>> smoothed_mean([[0.0, 0.3, 0.6, 0.3]], np.ones(1), 3).round(12).tolist()
    [0.4, 0.4, 0.4]
    """
    longest = max(map(len, curves))
    held = [np.pad(np.asarray(curve, dtype=np.float64), (0, longest - len(curve)), mode="edge") for curve in curves]
    mean = np.average(held, axis=0, weights=weights)[1:]
    around = np.pad(mean, width // 2, mode="edge")
    result: FloatArray = np.convolve(around, np.ones(width) / width, mode="valid")
    return result
