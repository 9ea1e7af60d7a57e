"""Monotone retargeting of any regression: fit targets, move them to the nearest in the order of the grades, repeat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from luce.checks import heard, number, one_of, patience, whole
from luce.losses.retargeting import levels_of, nearest_targets
from luce.scorers.trees import TreesScorer
from luce.training.boosting import Boosting
from luce.training.least_squares import LinearRegression
from luce.training.random_forest import RandomForest
from luce.training.task import Algorithm, Task, Trained
from luce.types import FittedScorer, FloatArray

_REGRESSORS: dict[str, Any] = {"linear_regression": LinearRegression, "random_forest": RandomForest, "mart": Boosting}


@dataclass(frozen=True)
class Retargeting(Algorithm):
    r"""A regression on targets that need only be in the order of the grades, [Pareek] chapter 7.

    Each round fits the regressor to the targets, then takes as targets the nearest to its scores that are in the order
    of the grades. For scorers that a loss trains, the loss `monotone_retargeting` does both at once. With validation
    data the best round is kept.

    Parameters
    ----------
    regressor
        linear_regression, random_forest or mart, with its usual settings.
    margin
        How far targets of neighbouring grades of a query are apart.
    max_iter, early_stopping
        Rounds at most, and rounds without a better validation metric that end it (None: never).
    tol
        Ends it where a round moves the targets by less than this share of the margin on average.
    l2
        Penalty of linear_regression.
    """

    regressor: str = "random_forest"
    margin: float = 1.0
    max_iter: int = 10
    early_stopping: int | None = 3
    tol: float = 1e-3
    l2: float = 1e-2

    name: ClassVar[str] = "retargeting"

    def __post_init__(self) -> None:
        one_of("regressor", self.regressor, _REGRESSORS)
        number("margin", self.margin, above=True)
        whole("max_iter", self.max_iter, 1)
        patience(self.early_stopping)
        number("tol", self.tol)
        number("l2", self.l2)
        heard(
            self.name, {"l2": (self.l2, 1e-2)}, self.regressor == "linear_regression", "regressor='linear_regression'"
        )

    def train(self, task: Task) -> Trained:
        """Round after round."""
        self.check_task(task)
        data = task.data
        levels = levels_of(data.y, data.offsets)
        targets: FloatArray = np.float64(self.margin) * levels.level.astype(np.float64)
        found: list[FittedScorer] = []
        run = task.start_run(self.max_iter, self.early_stopping, lambda _: task.judged_scorer(found[-1]))
        while run.iteration < self.max_iter and not run.exhausted:
            fitted = self._regressed(replace(task, data=replace(data, y=targets), valid=None, progress=None))
            found.append(fitted)
            scores = fitted.score(data.X, data.offsets)
            moved = nearest_targets(scores, levels, float(self.margin))
            value = 0.5 * float(np.sum((scores - moved) ** 2)) / data.n_queries
            run.step(np.empty(0), value)
            still = float(np.abs(moved - targets).mean()) < self.tol * self.margin
            targets = moved
            if still:
                run.history.converged = True
                break
        best = run.history.best_iteration
        return Trained(found[-1 if best is None else best - 1], None, run.history)

    def _regressed(self, task: Task) -> FittedScorer:
        if self.regressor == "mart":
            return Boosting().train(replace(task, scorer=TreesScorer(objective="regression"))).scorer
        regressor: Any = LinearRegression(self.l2) if self.regressor == "linear_regression" else RandomForest()
        fitted: FittedScorer = regressor.train(replace(task, scorer=None)).scorer
        return fitted
