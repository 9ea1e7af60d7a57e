"""NDCG-consistent listwise boosting: functional gradient descent with any weak learner, on any loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from luce.checks import patience
from luce.data.groups import Groups
from luce.errors import SettingError
from luce.losses.base import Loss, Risk
from luce.scorers.list_functions import FittedListFunctions, GradientTrees, ListFunctions, SingleFeature, SingleStump
from luce.spec import option
from luce.training.additive import FRUITLESS, ByRounds
from luce.training.run import Step
from luce.training.task import Stepwise, Task, Trained
from luce.training.weak import FeatureSum, GradientTreeSum, StumpSum, cut
from luce.types import FittedScorer, FloatArray

Weak = SingleFeature | SingleStump | GradientTrees
_REESTIMATE = 10
"""Rounds between two estimates of the loss's own parameters."""
_ENOUGH = 1e-4
"""A step must lower the risk by this share of what its slope promises (Armijo's rule)."""
_TRIALS = 40
_WINDOW = 10
"""Rounds over which the fall of the risk is judged."""


class ListwiseBoosting(Stepwise):
    r"""[Pareek] Algorithm 1: add the weak learner that is nearest to the gradient, as far as a line search says.

    With the gradient $d = \nabla R(s)$ at the present scores, a round takes the $h$ of the largest $|\langle d, h
    \rangle| / \|h\|$, [Pareek] (3.17) and [Pareek] (3.18), and adds $-\eta \langle d, h \rangle / \|h\|^2$ of it
    ([Pareek] (3.19) and [Pareek] (3.20), with the sign that descends); $\eta$ comes from a backtracking line search.
    Every round notes its edge $\gamma = |\langle d, h \rangle| / (\|d\|_1 \|h\|_\infty)$, of the weak-learning
    condition [Pareek] (3.24). With validation data the rounds up to the best value of the metric are kept. What a round
    draws depends on the seed and its number alone, so that a resumed training gives the same bits as a whole one.

    Parameters
    ----------
    max_iter
        Rounds at most.
    early_stopping
        With validation data, rounds without a better metric that end it; "auto" is five times 1/step and at least 20,
        and None never.
    tol
        Ends the training where ten rounds have lowered the risk by less than this share of its whole fall; 0: never.
    """

    max_iter: int = option(default=100, least=0)
    early_stopping: int | Literal["auto"] | None = option(default="auto", least=1)
    tol: float = option(default=0.0, least=0)

    name: ClassVar[str] = "listwise_boosting"
    trains: ClassVar[tuple[str, ...]] = ("single_feature", "single_stump", "gradient_trees", "list_functions")

    def start(self, task: Task) -> _Boosting:
        """A training before its first round, or on columns that see the whole list."""
        if isinstance(task.scorer, ListFunctions):
            return self._on_lists(task, task.scorer)
        return _Boosting(self, task).open(self.max_iter, patience(self.early_stopping, task.scorer.learning_rate))

    def _on_lists(self, task: Task, scorer: ListFunctions) -> _Boosting:
        last = task.warm_start
        columns = last.columns if isinstance(last, FittedListFunctions) else scorer.columns(task.data)
        valid = None if task.valid is None else columns.expanded(task.valid)
        on_columns = replace(task, data=columns.expanded(task.data), valid=valid, scorer=scorer.learner())
        inner = last.inner if isinstance(last, FittedListFunctions) else None
        started = self.start(replace(on_columns, warm_start=inner))
        started.columns = columns
        return started


class _Point(NamedTuple):
    """The risk with its derivatives at some scores."""

    value: float
    d: FloatArray
    curvature: FloatArray


class _Boosting(ByRounds):
    """Listwise boosting under way."""

    sum: FeatureSum | StumpSum | GradientTreeSum
    loss: Loss
    columns: Any = None
    """What the features were made of, where they see the whole list."""

    def __init__(self, trainer: ListwiseBoosting, task: Task) -> None:
        super().__init__(trainer, task, _ensemble(task.scorer, task.data, task.warm_start))
        data, target = task.data, task.target
        self.scorer, self.tol = task.scorer, trainer.tol
        self.risk = Risk(task.given_loss, data.y if target is None else target, data.offsets, data.query_weight)
        self.draws = isinstance(self.scorer, GradientTrees) or self.loss.stochastic
        self.fruitless, self.rate = 0, 0.0

    def begin(self) -> None:
        """Take up a checkpoint, or estimate the loss's own parameters for the first time."""
        super().begin()
        saved = self.run.saved
        if saved:
            self.rate = float(saved["rate"][0])
        self.here = _Point(*self.risk(self.scores))
        if not saved and len(self.parameters):
            self._reestimate()
            self.run.last = self.parameters
        self.first = float(saved["start"][0]) if saved else self.here.value

    def state(self) -> dict[str, Any]:
        """The last rate of the line search, and the risk before the first round, too."""
        return {**super().state(), "rate": np.array([self.rate]), "start": np.array([self.first])}

    def with_loss(self, loss: Loss) -> None:
        """Go on with this loss."""
        self.loss = self.risk.loss = loss

    def steps(self) -> Iterator[Step]:
        """One weak learner a round; none where its draw led nowhere."""
        while not self.settled() and (step := self._next()) is not None:
            yield step

    def settled(self) -> bool:
        """Whether the last ten rounds have changed little."""
        risk = self.run.history.objective
        if self.tol == 0 or len(risk) <= _WINDOW:
            return False
        return risk[-1 - _WINDOW] - risk[-1] < self.tol * (self.first - risk[-1])

    def converged(self, ended: bool) -> bool:
        """At the end of its rounds only where nobody asked for more than them."""
        return ended or self.run.exhausted or self.tol == 0 or self.settled()

    def _next(self) -> Step | None:
        number = self.run.iteration
        if self.loss.stochastic:
            self.risk.loss = self.loss.reseeded(number)
            self.here = _Point(*self.risk(self.scores))
        d = self.here.d
        h = self.sum.choose(d, np.random.default_rng([self.task.seed, number]))
        slope = 0.0 if h is None else float(d @ h)
        # A slope below rounding of its own terms points nowhere.
        if h is None or abs(slope) <= 1e-13 * float(np.abs(d) @ np.abs(h)) or not self._step(h, slope):
            self.fruitless += 1
            if not isinstance(self.sum, GradientTreeSum) or not self.draws or self.fruitless >= FRUITLESS:
                return None
            self.sum.add(0.0)  # a round whose draw led nowhere: the next one draws anew
            return Step(self.parameters, self.here.value, 0.0)
        self.fruitless = 0
        if len(self.parameters) and (number + 1) % _REESTIMATE == 0:
            self._reestimate()
        edge = abs(slope) / (float(np.abs(d).sum()) * float(np.abs(h).max()))
        return Step(self.parameters, self.here.value, edge)

    def _step(self, h: FloatArray, slope: float) -> bool:
        """Go along h as far as the line search says; False where the risk does not fall."""
        there, alpha = self._searched(h, slope)
        if there is None:
            return False
        if self.scorer.learning_rate < 1:
            alpha *= self.scorer.learning_rate
            there = _Point(*self.risk(self.scores + alpha * h))
        self.here = there
        self.add(h, alpha)
        return True

    def _searched(self, h: FloatArray, slope: float) -> tuple[_Point | None, float]:
        """The first point along h, from far to near, that lowers the risk enough; a loss that draws is not searched."""
        here, square, queries = self.here, float(h @ h), self.data.n_queries
        if self.scorer.step == "constant":
            alpha = -queries * slope / square if self.sum.unit is None else queries * self.sum.unit
            there = _Point(*self.risk(self.scores + alpha * h))
            return (there if np.isfinite(there.value) else None), alpha
        bend = float(here.curvature @ (h * h))
        newton = square / bend if np.isfinite(bend) and bend > 0 else 1.0
        # The gradient is that of the mean over queries; the chapter's d is a sum.
        rate = max(newton, self.rate) if self.scorer.step == "newton" else float(queries)
        for trial in range(_TRIALS):
            alpha = -rate * slope / square
            there = _Point(*self.risk(self.scores + alpha * h))
            promised = alpha * slope
            if self.loss.stochastic or there.value <= here.value + _ENOUGH * promised:
                self.rate = 2.0 * rate if trial == 0 else rate  # where the first try was good, a longer one may be
                return there, alpha
            # The minimum of the parabola through value, slope and this trial, kept between a tenth and a half.
            excess = there.value - here.value - promised
            rate *= min(0.5, max(0.1, -0.5 * promised / excess)) if np.isfinite(excess) else 0.1
        return None, 0.0

    def _reestimate(self) -> None:
        # As large as the search expects, whatever the unit of the scores.
        self.reestimate(partial(self.risk.gradients, self.scores), self.loss.score_unit)
        self.here = _Point(*self.risk(self.scores))

    def trained(self) -> Trained:
        """The rounds to keep, on columns that see the whole list where it was trained on them."""
        trained = super().trained()
        if self.columns is None:
            return trained
        return trained._replace(scorer=FittedListFunctions(self.columns, trained.scorer))


def _ensemble(scorer: Weak, data: Groups, start: FittedScorer | None) -> FeatureSum | StumpSum | GradientTreeSum:
    if start is not None and start.n_features != data.n_features:
        raise SettingError(f"The fit to go on from has {start.n_features} features, and the data {data.n_features}.")
    if isinstance(scorer, SingleFeature):
        return FeatureSum(scorer, data, start)
    if isinstance(scorer, SingleStump):
        return StumpSum(cut(data.X, scorer.thresholds), start)
    return GradientTreeSum(scorer, data, start)
