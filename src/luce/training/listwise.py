r"""Fitting the listwise reranker: few weights on kernel sums that are computed once.

The loss sees $s = c + a\,\log f$ (times the unit of its scores) or $s = e^c f^a$ with
$\log f_i = z_i + \log \sum_t \exp(v_t + w_t \cdot S_i)$, where $z$ are the standardised base scores and $S$ the centred
kernel sums. $a > 0$ and $c$ fit the scale of the loss and are dropped after training, for they do not change the
ranking. The penalty is $\frac{l2}{2} \|u\|^2$ on
$u_k = w_k \sigma_k$, the effect of one standard deviation of a kernel sum in those of the base.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from luce.checks import number, whole
from luce.data.groups import Groups
from luce.errors import SettingError
from luce.losses.base import NOT_WANTED, Loss
from luce.numerics.blas import one_blas_thread
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.scorers.kernel_sums import centred, default_kernels, kernel_sums
from luce.scorers.listwise import FittedListwise, ListwiseScorer, refuse_missing
from luce.training.gradients import linear_base
from luce.training.run import History
from luce.training.task import Task, Trained, Trainer
from luce.types import FloatArray

__all__ = ["Reranker", "Reranking"]

_LARGEST = 50.0
_STARTS = [(log_a, c) for log_a in (-4.6, -2.3, 0.0) for c in (-3.0, -1.0, 0.0)]
_LEAST_POWER = -2.3
_NEW_TERM = -3.0
"""Where the constant of a further term starts: a twentieth of the first."""


class _Stage(NamedTuple):
    """A fit with one penalty: power and constant, the terms, the loss, and the objective."""

    nuisance: FloatArray
    terms: NDArray[np.float64]
    """A row a term: its constant, then its weights on standardised kernel sums."""
    loss: Loss
    value: float


class Reranking:
    """Objective of the reranker: mean loss a query plus penalty, as a function of few numbers.

    `fixed` is the log of the sum of terms fitted before; None where the first one is fitted, whose constant is 0. The
    vector is (log a, c, v, u_1, ..., u_K, parameters of the loss).
    """

    def __init__(
        self,
        data: Groups,
        z: FloatArray,
        sums: NDArray[np.float64],
        loss: Loss,
        l2: float,
        product: bool,
        prepared: Any = None,
        fixed: FloatArray | None = None,
    ) -> None:
        self.data, self.z, self.sums, self.loss, self.l2 = data, z, sums, loss, l2
        self.product, self.fixed = product, fixed
        self.prepared = loss.prepare(data.y, data.offsets) if prepared is None else prepared
        weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        self.weight = weight / weight.sum()
        self.row_weight = np.repeat(self.weight, data.sizes)
        self.chunks = chunk_queries(data.offsets)
        self.unit = 1.0 if product else loss.score_unit

    def value_and_grad(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Objective and gradient."""
        K = self.sums.shape[1]
        a, c, v, u = np.exp(vector[0]), vector[1], vector[2], vector[3 : 3 + K]
        term = v + self.sums @ u
        log_f, share = self.z + term, 1.0
        if self.fixed is not None:
            both = np.logaddexp(self.fixed, term)
            log_f, share = self.z + both, np.exp(term - both)
        line = c + a * log_f
        scores, slope = self.unit * line, self.unit
        if self.product:
            scores = slope = np.exp(np.minimum(line, _LARGEST))
        value, d_scores, d_own = self._loss(scores, vector[3 + K :])
        d_line = d_scores * slope
        d_term = d_line * share * a
        grad = np.concatenate(
            [[a * (d_line @ log_f), d_line.sum(), d_term.sum()], self.sums.T @ d_term + self.l2 * u, d_own]
        )
        if self.fixed is None:
            grad[2] = 0.0
        return value + 0.5 * self.l2 * float(u @ u), grad

    def _loss(self, scores: FloatArray, own: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        loss = self.loss.with_parameters(own)
        grad = np.zeros_like(scores)
        d_own = np.zeros((self.data.n_queries, len(own)))

        def block(_: int, chunk: Chunk) -> FloatArray:
            return loss.evaluate(self.prepared, scores, chunk, grad, NOT_WANTED, d_own[chunk[0] : chunk[1]])

        values = np.concatenate(map_chunks(block, self.chunks))
        share = self.weight / self.unit
        return float(values @ share), grad * (self.row_weight / self.unit), share @ d_own

    def minimise(
        self, start: FloatArray, free: NDArray[np.bool_], max_iter: int, tol: float
    ) -> tuple[FloatArray, float]:
        """The vector of the least objective that a search from `start` finds in the `free` entries."""
        own = self.loss.parameter_bounds
        wide = [(-12.0, 6.0), (-50.0, 50.0), (-30.0, 10.0), *[(-1e3, 1e3)] * self.sums.shape[1], *own]
        bounds = [bound if open_ else (x, x) for bound, open_, x in zip(wide, free, start, strict=True)]
        with one_blas_thread():
            found = minimize(
                self.value_and_grad,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": max_iter, "ftol": tol * 1e-2, "gtol": 1e-9},
            )
        return found.x, float(found.fun)


@dataclass(frozen=True)
class Reranker(Trainer):
    """Fits the scorer `listwise`; with validation data the penalty of the best metric is taken, or no reranking at all.

    Parameters
    ----------
    l2
        Strength of the penalty where there are no validation data.
    max_iter, tol
        When L-BFGS ends, as for the trainer `lbfgs`.
    """

    l2: float = 1e-2
    max_iter: int = 100
    tol: float = 1e-5

    name: ClassVar[str] = "reranking"

    def __post_init__(self) -> None:
        number("l2", self.l2)
        whole("max_iter", self.max_iter, 0)
        number("tol", self.tol, above=True)

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse all scorers but one, and losses whose gradient is drawn."""
        if not isinstance(scorer, ListwiseScorer):
            raise SettingError(f"The trainer 'reranking' trains the scorer 'listwise', not {scorer.name!r}.")
        if loss is not None and loss.stochastic:
            raise SettingError(
                f"The gradient of {loss.name!r} is sampled, which the reranker cannot use; take another loss."
            )

    def train(self, task: Task) -> Trained:
        """All penalties, then further terms."""
        if task.target is not None:
            raise SettingError("'listwise' learns from grades only; comparisons need another scorer.")
        if task.checkpoint is not None:
            raise SettingError("'listwise' keeps no checkpoints: leave the folder out, its training is short.")
        scorer, loss, data, valid = task.scorer, task.given_loss, task.data, task.valid
        refuse_missing(data)
        base, valid_base, linear = task.base, task.valid_base, None
        if base is None:
            linear = linear_base(task, self.l2, self.max_iter, self.tol)
            base = linear.score(data.X, data.offsets)
            valid_base = None if valid is None else linear.score(valid.X, valid.offsets)
        kernels = default_kernels(data) if scorer.kernels is None else scorer.kernels
        sums = centred(kernel_sums(data, kernels, scorer.normalise), data.offsets)
        spread, tau = sums.std(axis=0), float(base.std()) or 1.0
        unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-12)
        problem = Reranking(data, (base - base.mean()) / tau, sums * unit, loss, self.l2, _product(scorer, loss))

        def fitted(terms: NDArray[np.float64], l2: float) -> FittedListwise:
            weights, constants = terms[:, 1:] * unit, terms[:, 0]
            return FittedListwise(weights, constants, tau, kernels, scorer.normalise, data.n_features, l2, linear)

        def judge(terms: NDArray[np.float64]) -> float:
            assert valid is not None
            return task.judged(fitted(terms, 0.0).score_groups(valid, valid_base))

        search = _Search(problem, scorer, self, None if valid is None else judge, task.metric.greater_is_better)
        best, l2 = search.run()
        history = History(search.objectives, search.validation, True, search.best_at)
        return Trained(fitted(best.terms, l2), best.loss, history)


def _product(scorer: ListwiseScorer, loss: Loss) -> bool:
    if scorer.scale == "auto":
        return not (loss.shift_invariant or loss.name == "ndcg_cross_entropy")
    return scorer.scale == "product"


class _Search:
    """All penalties of the grid, then further terms as long as validation (or else the objective) gains by them."""

    def __init__(self, problem: Reranking, scorer: ListwiseScorer, trainer: Reranker, judge: Any, rising: bool) -> None:
        self.problem, self.scorer, self.trainer, self.judge = problem, scorer, trainer, judge
        self.objectives: list[float] = []
        self.validation: list[float] = []
        self.best_at: int | None = None
        self.sign = 1.0 if rising else -1.0
        self.best_value = -np.inf
        self.kernels = problem.sums.shape[1]

    def run(self) -> tuple[_Stage, float]:
        base = self._base()
        if self.judge is None:
            best, l2 = self._fitted(base, self.trainer.l2, []), self.trainer.l2
        else:
            self._better(base)  # w = 0: a reranker that validation does not want is the base
            best, l2 = base, max(self.scorer.l2_grid)
            for penalty in sorted(self.scorer.l2_grid, reverse=True):
                found = self._fitted(base, penalty, [])
                if self._better(found):
                    best, l2 = found, penalty
        for _ in range(self.scorer.terms - 1):
            more = self._fitted(best, l2, list(best.terms))
            if not (more.value < best.value if self.judge is None else self._better(more)):
                break
            best = more
        return best, l2

    def _better(self, stage: _Stage) -> bool:
        self.validation.append(self.judge(stage.terms))
        value = self.sign * self.validation[-1]
        if not value > self.best_value:
            return False
        self.best_value, self.best_at = value, len(self.validation) - 1
        return True

    def _base(self) -> _Stage:
        """Power and constant for w = 0, from the best of several starts."""
        own = self.problem.loss.parameters
        starts = [np.concatenate([start, np.zeros(1 + self.kernels), own]) for start in _STARTS]
        start = min(starts, key=lambda vector: self.problem.value_and_grad(vector)[0])
        free = np.ones(len(start), dtype=bool)
        free[2 : 3 + self.kernels] = False
        return self._stage(self.problem, start, free, [])

    def _fitted(self, start: _Stage, l2: float, before: list[FloatArray]) -> _Stage:
        problem = self.problem
        problem = Reranking(
            problem.data, problem.z, problem.sums, start.loss, l2, problem.product, problem.prepared,
            _log_sum(problem.sums, before),
        )  # fmt: skip
        # Where the base says nothing, its power is 0, from which no weight on kernels could start.
        power = max(start.nuisance[0], _LEAST_POWER)
        vector = np.concatenate(
            [[power, start.nuisance[1]], [_NEW_TERM if before else 0.0], np.zeros(self.kernels), start.loss.parameters]
        )
        free = np.ones(len(vector), dtype=bool)
        free[2] = bool(before)
        found = self._stage(problem, vector, free, before)
        self.objectives.append(found.value)
        return found

    def _stage(
        self, problem: Reranking, start: FloatArray, free: NDArray[np.bool_], before: list[FloatArray]
    ) -> _Stage:
        vector, value = problem.minimise(start, free, self.trainer.max_iter, self.trainer.tol)
        end = 3 + self.kernels
        terms = np.array([*before, vector[2:end]])
        return _Stage(vector[:2], terms, problem.loss.with_parameters(vector[end:]), value)


def _log_sum(sums: NDArray[np.float64], terms: list[FloatArray]) -> FloatArray | None:
    if not terms:
        return None
    return np.asarray(np.logaddexp.reduce([term[0] + sums @ term[1:] for term in terms], axis=0))
