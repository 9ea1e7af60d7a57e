r"""Fitting the listwise reranker: few weights on kernel sums that are computed once.

The loss sees $s = c + a\,\log f$ (times the unit of its scores) or $s = e^c f^a$ with
$\log f_i = z_i + \log \sum_t \exp(D_i u_t)$ less its mean over the query but for $z$, the standardised base scores. The
columns of $D$ are kernel sums and, for terms after the first, the constant, $z$ and the features: what the base of the
term differs by. $a > 0$ and $c$ fit the scale of the loss and are dropped after training, for they do not change the
ranking. The penalty is $\frac{l2}{2} \|u\|^2$, the constant left out, with the effect of one standard deviation of a
column in those of the base as its unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from luce.data.groups import Groups
from luce.losses.base import Loss, Risk
from luce.numerics.segments import centred
from luce.scorers.kernel_sums import (
    Kernel,
    default_kernels,
    kernel_sums,
    learned_kernels,
    pair_sums,
    refuse_missing,
)
from luce.scorers.linear import reciprocal, standardise
from luce.scorers.listwise import FittedListwise, ListwiseScorer
from luce.training.gradients import base_of
from luce.training.run import History, scipy_minimum
from luce.training.task import Minimised, Task, Trained, Trainer
from luce.types import BoolArray, FloatArray

_LARGEST = 50.0
_STARTS = [(log_a, c) for log_a in (-4.6, -2.3, 0.0) for c in (-3.0, -1.0, 0.0)]
_LEAST_POWER = -2.3
_NEW_TERM = -3.0
"""Where the constant of a further term starts: a twentieth of the first."""
_FARTHEST = 5.0
"""How far parameters of learned kernels, logs of scales as a rule, may go from their start."""

Bends = list[tuple[int, FloatArray]]
"""Of every parameter of learned kernels: the column that it changes, and by how much a document."""


class Term(NamedTuple):
    """One term in the units of the fit: what its base differs by and weights of kernels, a number a column of
    `Units.further`, and parameters of learned kernels."""

    u: FloatArray
    shapes: FloatArray


class Columns:
    """The columns of a term; some of them may follow `shapes`, the parameters of learned kernels."""

    def __init__(
        self,
        plain: FloatArray,
        shapes: FloatArray | None = None,
        moved: Callable[[FloatArray, FloatArray], tuple[FloatArray, Bends]] | None = None,
    ) -> None:
        self.plain, self.width = plain, plain.shape[1]
        self.shapes = np.empty(0) if shapes is None else shapes
        self._moved = moved

    def at(self, shapes: FloatArray) -> tuple[FloatArray, Bends]:
        """The matrix, and its derivatives in the shapes."""
        return (self.plain, []) if self._moved is None else self._moved(self.plain, shapes)


class Units:
    """Units of all columns, by which penalties are fair; and the way back to those of the documents.

    Kernel sums are measured by their standard deviation within queries, about their mean in the training data: a number
    for all documents, which the constants of terms take up, so that the sums of [Pareek] (2.8) stay what they are.
    """

    def __init__(
        self, data: Groups, kernels: Sequence[Kernel], scorer: ListwiseScorer, z: FloatArray, base: float
    ) -> None:
        self.data, self.normalise, self.z, self.base = data, scorer.normalise, z, base
        self._learned = learned_kernels(kernels)
        starts = [value for kernel in self._learned if kernel is not None for value in kernel.start]
        sums = kernel_sums(data, kernels, scorer.normalise)
        self.mean = sums.mean(axis=0)
        self.per_spread = reciprocal(centred(sums, data.offsets).std(axis=0), 1e-12)
        self.scale = standardise(data.X) if scorer.terms > 1 and scorer.term_base == "linear" else None
        # Of terms after the first: constant, power of the base, features.
        lead: list[FloatArray] = [np.ones((len(z), 1))]
        lead += [] if scorer.term_base == "same" else [z[:, None]]
        lead += [] if self.scale is None else [self.scale(data.X)]
        self._before, self.lead = lead, sum(part.shape[1] for part in lead)
        self._sums = (sums - self.mean) * self.per_spread
        self.kernels = Columns(self._sums, np.array(starts), self._moved if starts else None)

    @cached_property
    def further(self) -> Columns:
        """The columns of terms after the first: those of their base before the kernel sums."""
        shapes = self.kernels.shapes
        return Columns(np.hstack([*self._before, self._sums]), shapes, self._moved if len(shapes) else None)

    def _moved(self, plain: FloatArray, shapes: FloatArray) -> tuple[FloatArray, Bends]:
        """Columns with the sums of learned kernels at these shapes."""
        first, at, bends = plain.shape[1] - len(self._learned), 0, []
        columns = plain.copy()
        for k, kernel in enumerate(self._learned):
            if kernel is None:
                continue
            width = len(kernel.start)
            sums, slopes = pair_sums(self.data, kernel, self.normalise, shapes[at : at + width])
            columns[:, first + k] = (sums - self.mean[k]) * self.per_spread[k]
            bends += [(first + k, slopes[:, i] * self.per_spread[k]) for i in range(width)]
            at += width
        return columns, bends

    def term(self, u: FloatArray, shapes: FloatArray) -> Term:
        """The term of a vector, which the first one has no base in."""
        return Term(np.concatenate([np.zeros(self.further.width - len(u)), u]), shapes)

    def log_sum(self, terms: Sequence[Term]) -> FloatArray | None:
        """The log of the sum of terms, over the base; None where there are none."""
        logs = [self.further.at(term.shapes)[0] @ term.u for term in terms]
        return np.asarray(np.logaddexp.reduce(logs, axis=0)) if terms else None

    def of_documents(self, terms: Sequence[Term]) -> dict[str, Any]:
        """The terms in the units of the documents, as `FittedListwise` wants them; the first constant is 0."""
        u, n = np.array([term.u for term in terms]), self.data.n_features
        weights = u[:, self.lead :] * self.per_spread
        constants = u[:, 0] - u[:, self.lead :] @ (self.per_spread * self.mean)
        powers, slopes = np.ones(len(terms)), np.zeros((len(terms), n))
        if self.lead > 1:
            powers, constants = 1.0 + u[:, 1], constants - u[:, 1] * self.base
        if self.scale is not None:
            slopes = u[:, 2 : 2 + n] * self.scale.inverse_sd
            constants = constants - slopes @ self.scale.mean
        several = len(terms) > 1
        return {
            "weights": weights,
            "constants": constants - constants[0],
            "powers": powers if several else None,
            "slopes": slopes if several and slopes.any() else None,
            "shapes": np.array([term.shapes for term in terms]) if len(self.kernels.shapes) else None,
        }


class _Stage(NamedTuple):
    """A fit with one penalty: power and constant, the terms, the loss, and the objective."""

    nuisance: FloatArray
    terms: tuple[Term, ...]
    loss: Loss
    value: float


class Reranking:
    """Objective of the reranker: mean loss a query plus penalty, as a function of few numbers.

    `columns` is a matrix, a row a document, or what gives one and its derivatives for parameters of learned kernels.
    `fixed` is the log of the sum of terms fitted before, over the base; None where the first one is fitted. `penalised`
    says which columns are. The vector is (log a, c, u_1, ..., u_C, parameters of kernels, parameters of the loss).
    """

    def __init__(
        self,
        data: Groups,
        z: FloatArray,
        columns: FloatArray | Columns,
        loss: Loss,
        l2: float,
        product: bool,
        risk: Risk | None = None,
        fixed: FloatArray | None = None,
        penalised: FloatArray | None = None,
    ) -> None:
        self.columns = columns if isinstance(columns, Columns) else Columns(columns)
        self.data, self.z, self.loss, self.l2 = data, z, loss, l2
        self.product, self.fixed = product, fixed
        self.penalised = np.ones(self.columns.width) if penalised is None else penalised
        self.risk = Risk(loss, data.y, data.offsets, data.query_weight) if risk is None else risk
        self.unit = 1.0 if product else loss.score_unit

    def value_and_grad(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Objective and gradient."""
        C, P = self.columns.width, len(self.columns.shapes)
        a, c, u = np.exp(vector[0]), vector[1], vector[2 : 2 + C]
        D, bends = self.columns.at(vector[2 + C : 2 + C + P])
        term, share = D @ u, np.ones(1)
        together = term
        if self.fixed is not None:
            together = np.logaddexp(self.fixed, term)
            share = np.exp(term - together)
        # Centred, which divides all f of a query by one number, and is its own transpose.
        log_f = self.z + centred(together, self.data.offsets)
        line = c + a * log_f
        scores, slope = self.unit * line, self.unit
        if self.product:
            scores = slope = np.exp(np.minimum(line, _LARGEST))
        value, d_scores, d_own = self.risk.gradients(scores, self.loss.with_parameters(vector[2 + C + P :]))
        d_line = d_scores / self.unit * slope
        d_term = a * centred(d_line, self.data.offsets) * share
        pull = self.penalised * u
        d_shapes = [u[column] * float(d_term @ bend) for column, bend in bends]
        head = [a * (d_line @ log_f), d_line.sum()]
        grad = np.concatenate([head, D.T @ d_term + self.l2 * pull, d_shapes, d_own / self.unit])
        return value / self.unit + 0.5 * self.l2 * float(u @ pull), grad

    def minimise(self, start: FloatArray, free: BoolArray, max_iter: int, tol: float) -> tuple[FloatArray, float]:
        """The vector of the least objective that a search from `start` finds in the `free` entries."""
        own = self.loss.parameter_bounds
        shapes = [(x - _FARTHEST, x + _FARTHEST) for x in self.columns.shapes]
        wide = [(-12.0, 6.0), (-50.0, 50.0), *[(-1e3, 1e3)] * self.columns.width, *shapes, *own]
        bounds = [bound if open_ else (x, x) for bound, open_, x in zip(wide, free, start, strict=True)]
        found = scipy_minimum(self.value_and_grad, start, bounds, maxiter=max_iter, ftol=tol * 1e-2, gtol=1e-9)
        return found.x, float(found.fun)


class Reranker(Minimised, Trainer):
    """Fits the scorer `listwise`; with validation data the penalty of the best metric is taken, or no reranking at all.

    Parameters
    ----------
    l2
        Strength of the penalty where there are no validation data.
    """

    name: ClassVar[str] = "reranking"
    trains: ClassVar[tuple[str, ...]] = ("listwise",)
    exact: ClassVar[bool] = True
    refuses: ClassVar[tuple[str, ...]] = ("target", "checkpoint", "warm_start")

    def train(self, task: Task) -> Trained:
        """All penalties, then further terms."""
        self.check_task(task)
        scorer, loss, data, valid = task.scorer, task.given_loss, task.data, task.valid
        refuse_missing(data)
        base, valid_base, linear = base_of(task, self)
        own = replace(task, valid_base=valid_base)
        kernels = default_kernels(data) if scorer.kernels is None else scorer.kernels
        tau = float(base.std()) or 1.0
        z = (base - base.mean()) / tau
        units = Units(data, kernels, scorer, z, float(base.mean()) / tau)
        product = scorer.scale == "product"
        if scorer.scale == "auto":
            product = not (loss.shift_invariant or loss.name == "ndcg_cross_entropy")
        problem = Reranking(data, z, units.kernels, loss, self.l2, product)

        def fitted(terms: tuple[Term, ...], l2: float) -> FittedListwise:
            return FittedListwise(
                tau=tau, kernels=kernels, normalise=scorer.normalise, n_features=data.n_features, l2=l2, base=linear,
                **units.of_documents(terms),
            )  # fmt: skip

        def judge(terms: tuple[Term, ...]) -> float:
            return own.judged_scorer(fitted(terms, 0.0))

        search = _Search(problem, scorer, self, units, None if valid is None else judge, task.metric.greater_is_better)
        best, l2 = search.run()
        history = History(search.objectives, search.validation, True, search.best_at)
        return Trained(fitted(best.terms, l2), best.loss, history)


class _Search:
    """All penalties of the grid, then further terms as long as validation (or else the objective) gains by them."""

    def __init__(
        self, problem: Reranking, scorer: ListwiseScorer, trainer: Reranker, units: Units, judge: Any, rising: bool
    ) -> None:
        self.problem, self.scorer, self.trainer, self.judge = problem, scorer, trainer, judge
        self.units = units
        self.objectives: list[float] = []
        self.validation: list[float] = []
        self.best_at: int | None = None
        self.sign = 1.0 if rising else -1.0
        self.best_value = -np.inf

    def run(self) -> tuple[_Stage, float]:
        base = self._base()
        if self.judge is None:
            best, l2 = self._fitted(base, self.trainer.l2), self.trainer.l2
        else:
            self._better(base)  # w = 0: a reranker that validation does not want is the base
            best, l2 = self._chosen(base) or (base, max(self.scorer.l2_grid))
        for _ in range(self.scorer.terms - 1):
            # With its own base a term has more to overfit by, so that validation chooses its penalty too.
            if self.judge is None:
                found = self._fitted(best, l2, further=True)
                more = (found, l2) if found.value < best.value else None
            else:
                more = self._chosen(best, further=True)
            if more is None:
                break
            best, l2 = more
        return best, l2

    def _chosen(self, start: _Stage, further: bool = False) -> tuple[_Stage, float] | None:
        """The fit that validation likes best, and its penalty; None where it likes none better than what was."""
        chosen = None
        for penalty in sorted(self.scorer.l2_grid, reverse=True):
            found = self._fitted(start, penalty, further)
            if self._better(found):
                chosen = found, penalty
        return chosen

    def _better(self, stage: _Stage) -> bool:
        self.validation.append(self.judge(stage.terms))
        value = self.sign * self.validation[-1]
        if not value > self.best_value:
            return False
        self.best_value, self.best_at = value, len(self.validation) - 1
        return True

    def _base(self) -> _Stage:
        """Power and constant for w = 0, from the best of several starts."""
        problem, own = self.problem, self.problem.loss.parameters
        still = np.concatenate([np.zeros(problem.columns.width), problem.columns.shapes])
        starts = [np.concatenate([start, still, own]) for start in _STARTS]
        start = min(starts, key=lambda vector: problem.value_and_grad(vector)[0])
        free = np.ones(len(start), dtype=bool)
        free[2 : 2 + len(still)] = False
        return self._stage(problem, start, free, ())

    def _fitted(self, start: _Stage, l2: float, further: bool = False) -> _Stage:
        """The first term anew from the base, or one `further` on top of those of `start`."""
        problem, before = self.problem, start.terms if further else ()
        columns = self.units.further if further else self.units.kernels
        penalised = np.ones(columns.width)
        penalised[: int(further)] = 0.0
        problem = Reranking(
            problem.data, problem.z, columns, start.loss, l2, problem.product, problem.risk,
            self.units.log_sum(before), penalised,
        )  # fmt: skip
        # Where the base says nothing, its power is 0, from which no weight on kernels could start.
        power = max(start.nuisance[0], _LEAST_POWER)
        u = np.zeros(columns.width)
        u[: int(further)] = _NEW_TERM
        vector = np.concatenate([[power, start.nuisance[1]], u, columns.shapes, start.loss.parameters])
        found = self._stage(problem, vector, np.ones(len(vector), dtype=bool), before)
        self.objectives.append(found.value)
        return found

    def _stage(self, problem: Reranking, start: FloatArray, free: BoolArray, before: tuple[Term, ...]) -> _Stage:
        vector, value = problem.minimise(start, free, self.trainer.max_iter, self.trainer.tol)
        end = 2 + problem.columns.width
        last = end + len(problem.columns.shapes)
        term = self.units.term(vector[2:end], vector[end:last])
        return _Stage(vector[:2], (*before, term), problem.loss.with_parameters(vector[last:]), value)
