"""NDCG-consistent listwise boosting: functional gradient descent with any weak learner, on any loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import minimize

from luce.checks import number, patience, whole
from luce.data.groups import Groups
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.scorers.list_functions import FittedListFunctions, ListFunctions
from luce.scorers.weak_learners import GradientTrees, SingleFeature, SingleStump
from luce.training.risk import Risk
from luce.training.task import Task, Trained, Trainer, data_digest, digest_of
from luce.training.weak import Ensemble, FeatureSum, StumpSum
from luce.training.weak_trees import TreeSum
from luce.types import FittedScorer, FloatArray

Weak = SingleFeature | SingleStump | GradientTrees
CHECKPOINT_EVERY = 10
_REESTIMATE = 10
"""Rounds between two estimates of the loss's own parameters."""
_FRUITLESS = 20
"""Rounds in a row without a step after which boosting ends where rounds differ by what they draw."""
_ENOUGH = 1e-4
"""A step must lower the risk by this share of what its slope promises (Armijo's rule)."""
_TRIALS = 40
_WINDOW = 10
"""Rounds over which the fall of the risk is judged."""


@dataclass(frozen=True)
class ListwiseBoosting(Trainer):
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

    max_iter: int = 100
    early_stopping: int | str | None = "auto"
    tol: float = 0.0

    name: ClassVar[str] = "listwise_boosting"

    def __post_init__(self) -> None:
        whole("max_iter", self.max_iter, 0)
        patience(self.early_stopping, 1.0)
        number("tol", self.tol)

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse scorers that are no weak learners."""
        if not isinstance(scorer, Weak | ListFunctions):
            raise SettingError(
                f"The trainer {self.name!r} adds up single_feature, single_stump, gradient_trees or list_functions; "
                f"{scorer.name!r} is none of them."
            )

    def train(self, task: Task) -> Trained:
        """Round after round."""
        if isinstance(task.scorer, ListFunctions):
            return self._on_lists(task, task.scorer)
        state = _Boosting(self, task)
        run = state.run
        going = True
        while going and run.iteration < self.max_iter and not run.exhausted:
            going = state.round() and not self._settled(state.start, run.history.objective)
        limited = run.iteration == self.max_iter and self.tol == 0
        run.history.converged = not going or run.exhausted or limited
        return state.trained()

    def _settled(self, start: float, risk: list[float]) -> bool:
        """Whether the last ten rounds have changed little; `start` is the risk before the first."""
        if self.tol == 0 or len(risk) <= _WINDOW:
            return False
        return risk[-1 - _WINDOW] - risk[-1] < self.tol * (start - risk[-1])

    def _on_lists(self, task: Task, scorer: ListFunctions) -> Trained:
        """The same on columns that see the whole list."""
        last = task.warm_start
        columns = last.columns if isinstance(last, FittedListFunctions) else scorer.columns(task.data)
        valid = None if task.valid is None else columns.expanded(task.valid)
        on_columns = replace(task, data=columns.expanded(task.data), valid=valid, scorer=scorer.learner())
        inner = last.inner if isinstance(last, FittedListFunctions) else None
        trained = self.train(replace(on_columns, warm_start=inner))
        return trained._replace(scorer=FittedListFunctions(columns, trained.scorer))

    def rounds(self, task: Task) -> Callable[[], bool]:
        """A function that makes one round a call and says whether more can follow, to watch or time it."""
        return _Boosting(self, task).round


class _Point(NamedTuple):
    """Scores, and the risk with its derivatives there."""

    scores: FloatArray
    value: float
    d: FloatArray
    curvature: FloatArray


class _Boosting:
    """The state of one training."""

    def __init__(self, trainer: ListwiseBoosting, task: Task) -> None:
        scorer, loss, data, target = task.scorer, task.given_loss, task.data, task.target
        self.metric, self.target, self.task = task.metric, target, task
        self.scorer, self.data, self.valid, self.loss = scorer, data, task.valid, loss
        self.risk = Risk(loss, data.y if target is None else target, data.offsets, data.query_weight)
        self.sum = _ensemble(scorer, data, task.warm_start)
        self.draws = isinstance(scorer, GradientTrees) or loss.stochastic
        self.fruitless, self.rate = 0, 0.0
        self.run = task.start_run(
            trainer.max_iter,
            patience(trainer.early_stopping, scorer.learning_rate),
            lambda _: task.judged(self.valid_scores),
            self._fingerprint,
            every=CHECKPOINT_EVERY,
            extras=self._extras,
        )
        self._resume()

    def _fingerprint(self) -> dict[str, Any]:
        start = self.sum.fitted().score(self.data.X, self.data.offsets)
        return {
            "data": data_digest(self.data),
            "scorer": repr(self.scorer),
            "loss": repr(self.loss),
            "seed": self.task.seed,
            "metric": self.metric.name,
            "start": digest_of(start),
            "target": digest_of(self.target),
            "base": [digest_of(self.task.base), digest_of(self.task.valid_base)],
            "validation": None if self.valid is None else data_digest(self.valid),
        }

    def _resume(self) -> None:
        self.run.resume(self.loss.parameters)
        saved = self.run.saved
        valid = self.valid
        if saved:
            self.sum.restore(saved)
            scores, self.valid_scores = saved["scores"], saved["valid_scores"]
            self.rate = float(saved["rate"][0])
        else:
            fitted = self.sum.fitted()
            scores = _started(fitted.score(self.data.X, self.data.offsets), self.task.base)
            self.valid_scores = np.empty(0)
            if valid is not None:
                self.valid_scores = _started(fitted.score(valid.X, valid.offsets), self.task.valid_base)
                self.run.consider(self.run.last)
        self._with_loss(self.loss.with_parameters(self.run.last))
        self.here = self._at(scores)
        if not saved and len(self.loss.parameters):
            self._reestimate()
            self.run.last = self.loss.parameters
        self.start = float(saved["start"][0]) if saved else self.here.value

    def _extras(self) -> dict[str, Any]:
        more = {"scores": self.here.scores, "valid_scores": self.valid_scores, "rate": np.array([self.rate])}
        more["start"] = np.array([self.start])
        return {**self.sum.arrays(), **more}

    def _with_loss(self, loss: Loss) -> None:
        self.loss = self.risk.loss = loss

    def _at(self, scores: FloatArray) -> _Point:
        return _Point(scores, *self.risk(scores))

    def round(self) -> bool:
        """Add one weak learner; False where no later round can add one."""
        number = self.run.iteration
        if self.loss.stochastic:
            self.risk.loss = self.loss.reseeded(number)
            self.here = self._at(self.here.scores)
        d = self.here.d
        h = self.sum.choose(d, np.random.default_rng([self.task.seed, number]))
        slope = 0.0 if h is None else float(d @ h)
        # A slope below rounding of its own terms points nowhere.
        if h is None or abs(slope) <= 1e-13 * float(np.abs(d) @ np.abs(h)) or not self._step(h, slope):
            self.fruitless += 1
            return self.draws and self.fruitless < _FRUITLESS and self._idle()
        self.fruitless = 0
        if len(self.loss.parameters) and (number + 1) % _REESTIMATE == 0:
            self._reestimate()
        edge = abs(slope) / (float(np.abs(d).sum()) * float(np.abs(h).max()))
        self.run.step(self.loss.parameters, self.here.value, edge)
        return True

    def _idle(self) -> bool:
        """A round whose draw led nowhere: nothing is added, the next one draws anew."""
        if isinstance(self.sum, TreeSum):
            self.sum.add(0.0)
            self.run.step(self.loss.parameters, self.here.value, 0.0)
            return True
        return False

    def _step(self, h: FloatArray, slope: float) -> bool:
        """Go along h as far as the line search says; False where the risk does not fall."""
        there, alpha = self._searched(h, slope)
        if there is None:
            return False
        if self.scorer.learning_rate < 1:
            alpha *= self.scorer.learning_rate
            there = self._at(self.here.scores + alpha * h)
        self.here = there
        self.sum.add(alpha)
        if self.valid is not None:
            self.valid_scores = self.valid_scores + alpha * self.sum.values(self.valid.X)
        return True

    def _searched(self, h: FloatArray, slope: float) -> tuple[_Point | None, float]:
        """The first point along h, from far to near, that lowers the risk enough; a loss that draws is not searched."""
        here, square, queries = self.here, float(h @ h), self.data.n_queries
        if self.scorer.step == "constant":
            alpha = -queries * slope / square if self.sum.unit is None else queries * self.sum.unit
            there = self._at(here.scores + alpha * h)
            return (there if np.isfinite(there.value) else None), alpha
        bend = float(here.curvature @ (h * h))
        newton = square / bend if np.isfinite(bend) and bend > 0 else 1.0
        # The gradient is that of the mean over queries; the chapter's d is a sum.
        rate = max(newton, self.rate) if self.scorer.step == "newton" else float(queries)
        for trial in range(_TRIALS):
            alpha = -rate * slope / square
            there = self._at(here.scores + alpha * h)
            promised = alpha * slope
            if self.loss.stochastic or there.value <= here.value + _ENOUGH * promised:
                self.rate = 2.0 * rate if trial == 0 else rate  # where the first try was good, a longer one may be
                return there, alpha
            # The minimum of the parabola through value, slope and this trial, kept between a tenth and a half.
            excess = there.value - here.value - promised
            rate *= min(0.5, max(0.1, -0.5 * promised / excess)) if np.isfinite(excess) else 0.1
        return None, 0.0

    def _reestimate(self) -> None:
        """A few steps of L-BFGS on the loss's own parameters at the present scores."""
        scores, bounds, unit = self.here.scores, self.loss.parameter_bounds, self.loss.score_unit

        def objective(values: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self.risk.parameter_gradient(self.loss.with_parameters(values), scores)
            return value / unit, slope / unit  # as large as the search expects, whatever the unit of the scores

        options = {"maxiter": 10}
        found = minimize(objective, self.loss.parameters, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        self._with_loss(self.loss.with_parameters(found.x))
        self.here = self._at(scores)

    def trained(self) -> Trained:
        """The rounds to keep, and the loss with the parameters of that round."""
        history = self.run.history
        best = history.best_iteration if self.run.best is not None else None
        return Trained(self.sum.fitted(best), self.loss.with_parameters(self.run.result), history)


def _ensemble(scorer: Weak, data: Groups, start: FittedScorer | None) -> Ensemble:
    if start is not None and start.n_features != data.n_features:
        raise SettingError(f"The fit to go on from has {start.n_features} features, and the data {data.n_features}.")
    if isinstance(scorer, SingleFeature):
        return FeatureSum(scorer, data, start)
    if isinstance(scorer, SingleStump):
        return StumpSum(scorer, data, start)
    return TreeSum(scorer, data, start)


def _started(scores: FloatArray, base: FloatArray | None) -> FloatArray:
    return scores if base is None else scores + base
