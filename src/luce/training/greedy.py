r"""Fitting the greedy reranker: a Luce choice at every position.

At a step the documents that gain most by alpha-NDCG after those placed before are the right ones, B; the step costs
$-\log \sum_{i \in B} e^{t_i} / \sum_{i \text{ left}} e^{t_i}$. The documents placed before are those of an ideal list
in a first round, and those that the model itself places in a second: it must know its way from its own lists, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from luce.checks import number, one_of, whole
from luce.data.groups import Groups
from luce.data.named_rows import numbered_by_query
from luce.errors import DataError
from luce.metrics.catalog import get
from luce.metrics.evaluate import evaluate_rows
from luce.numerics.blas import one_blas_thread
from luce.scorers.greedy import FittedGreedy, Placing, checked_shape
from luce.scorers.listwise import L2_GRID, checked_grid, refuse_missing
from luce.training.gradients import linear_base
from luce.training.held_out import warn_of_chosen_penalty
from luce.training.run import History
from luce.training.task import Algorithm, Task, Trained
from luce.types import FloatArray, IntArray

ALPHA = 0.5
_METHODS = ("luce", "mmr")
_CLOSE = 1e-9
_LAMBDAS = tuple(np.linspace(0.0, 1.0, 21))


class Choices(NamedTuple):
    """Choices that were made: the documents left at each, their features, and which were right."""

    features: NDArray[np.float64]
    right: NDArray[np.bool_]
    starts: IntArray
    weight: FloatArray
    """What a choice is worth: the discount of its position times the most that can be gained there; sums to 1."""

    def value_and_grad(self, weights: FloatArray, l2: float) -> tuple[float, FloatArray]:
        """Weighted mean cost of a choice plus penalty, and its gradient."""
        utility = self.features @ weights
        every, d_every = _log_sums(utility, self.starts)
        best, d_best = _log_sums(np.where(self.right, utility, -np.inf), self.starts)
        by_row = np.repeat(self.weight, np.diff(np.append(self.starts, len(utility))))
        grad = self.features.T @ ((d_every - d_best) * by_row) + l2 * weights
        return float((every - best) @ self.weight) + 0.5 * l2 * float(weights @ weights), grad


def _log_sums(utility: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """The log of the sum of exponentials of every segment, and its gradient."""
    sizes = np.diff(np.append(starts, len(utility)))
    top = np.maximum.reduceat(utility, starts)
    parts = np.exp(utility - np.repeat(top, sizes))
    sums = np.add.reduceat(parts, starts)
    return top + np.log(sums), parts / np.repeat(sums, sizes)


def ideal_choices(data: Groups, state: Placing, depth: int, weights: FloatArray | None = None) -> Choices:
    """The choices at the first `depth` positions, after ideal documents or (`weights`) after those of the model."""
    assert data.subtopics is not None
    about = numbered_by_query(data.subtopics, data.offsets)
    row_of = np.repeat(np.arange(data.n_rows), np.diff(about.indptr))
    worth = np.ones((data.n_queries, about.shape[1]))
    features, right, starts, weight, seen = [], [], [], [], 0
    for position in range(depth):
        gains = np.bincount(row_of, worth[state.query[row_of], about.indices], minlength=data.n_rows)
        top = np.maximum.reduceat(np.where(state.left, gains, 0.0), data.offsets[:-1])
        rows = state.left & (top > _CLOSE)[state.query]
        if not rows.any():
            break
        good = rows & (gains >= top[state.query] - _CLOSE)
        kept = np.flatnonzero(rows)
        _, first = np.unique(state.query[kept], return_index=True)
        features.append(state.features[kept])
        right.append(good[kept])
        starts.append(first + seen)
        weight.append(top[state.query[kept[first]]] / np.log2(position + 2.0))
        seen += len(kept)
        placed = state.best(state.features[:, 0], good) if weights is None else state.best(state.features @ weights)
        state.place(placed)
        for row in placed[np.diff(about.indptr)[placed] > 0].tolist():
            worth[state.query[row], about.indices[about.indptr[row] : about.indptr[row + 1]]] *= 1.0 - ALPHA
    if not features:
        raise DataError("No document of the training data has a subtopic; the greedy reranker learns from them.")
    share = np.concatenate(weight)
    begins = np.concatenate(starts).astype(np.int64)
    return Choices(np.concatenate(features), np.concatenate(right), begins, share / share.sum())


@dataclass(frozen=True)
class Greedy(Algorithm):
    """The greedy reranker; it learns from the subtopics of the data.

    Parameters
    ----------
    method
        "luce": all weights are learned. "mmr": maximal marginal relevance, the one weight chosen from a grid.
    kernels
        `cosine` and `relation:NAME`, a list or a text with commas.
    normalise
        Features within queries before the cosine: "minmax", "zscore" or None.
    depth
        Positions that are filled greedily; the other documents follow by their last utility.
    metric
        What validation data (or else the training data) choose the penalty, or the weight of MMR, by.
    l2_grid, l2
        Penalties among which validation data choose; without such data, `l2` is taken.
    powers
        Powers of the cosine, each with weights of its own: 1 first, then rising whole numbers. MMR takes the first.
    max_iter, tol
        When L-BFGS ends, as for the trainer `lbfgs`.
    """

    method: str = "luce"
    kernels: Any = ("cosine",)
    normalise: str | None = "zscore"
    depth: int = 20
    metric: str = "alpha_ndcg@10"
    l2_grid: Any = L2_GRID
    powers: Any = (1, 2, 4, 8, 16)
    l2: float = 1e-2
    max_iter: int = 100
    tol: float = 1e-5

    name: ClassVar[str] = "greedy"

    def __post_init__(self) -> None:
        one_of("method", self.method, _METHODS)
        powers = (1,) if self.method == "mmr" else self.powers
        kernels, powers = checked_shape(self.kernels, self.normalise, self.depth, powers)
        number("l2", self.l2)
        whole("max_iter", self.max_iter, 0)
        number("tol", self.tol, above=True)
        for name, value in {"kernels": kernels, "powers": powers, "l2_grid": checked_grid(self.l2_grid)}.items():
            object.__setattr__(self, name, value)

    def train(self, task: Task) -> Trained:
        """Learn the weights, or choose the one of MMR; validation data choose the penalty."""
        data, valid = task.data, task.valid
        self.check_task(replace(task, base=None))
        if data.subtopics is None:
            raise DataError(
                "The greedy reranker learns from the subtopics of documents, and the data have none; add them with "
                "luce.with_subtopics, or with --subtopics on the command line."
            )
        refuse_missing(data)
        base, valid_base, linear = task.base, task.valid_base, None
        if valid is not None and base is not None:
            warn_of_chosen_penalty(self)
        if base is None:
            linear = linear_base(replace(task, valid=None), self.l2, self.max_iter, self.tol)
            base = linear.score(data.X, data.offsets)
            valid_base = None if valid is None else linear.score(valid.X, valid.offsets)

        def fitted(weights: FloatArray, l2: float = 0.0) -> FittedGreedy:
            shape = (self.kernels, self.normalise, self.depth, data.n_features, l2, linear, self.powers)
            return FittedGreedy(weights, *shape)

        metric = get(self.metric)

        def judge(weights: FloatArray) -> float:
            on, scores = (data, base) if valid is None else (valid, valid_base)
            found = fitted(weights).score_groups(on, scores)
            return evaluate_rows(found, on, [metric]).means[metric.name]

        history = History(converged=True)
        if self.method == "mmr":
            candidates = [(_mmr(share, len(self.kernels)), 0.0) for share in _LAMBDAS]
        else:
            penalties = (self.l2,) if valid is None else tuple(sorted(self.l2_grid, reverse=True))
            candidates = _learned(self, data, base, penalties, history)
        if len(candidates) == 1:
            weights, l2 = candidates[0]
        else:
            history.validation = [judge(weights) for weights, _ in candidates]
            history.best_iteration = int((np.argmax if metric.greater_is_better else np.argmin)(history.validation))
            weights, l2 = candidates[history.best_iteration]
        return Trained(fitted(weights, l2), None, history)


def _mmr(share: float, kernels: int) -> FloatArray:
    """Lambda on the base and lambda - 1 on the largest value of every kernel."""
    return np.concatenate([[share], np.tile([0.0, share - 1.0], kernels)])


def _learned(
    model: Greedy,
    data: Groups,
    base: FloatArray,
    penalties: tuple[float, ...],
    history: History,
) -> list[tuple[FloatArray, float]]:
    def state() -> Placing:
        return Placing(data, base, model.kernels, model.normalise, model.powers)

    steps = min(get(model.metric).cutoff or model.depth, model.depth)
    choices = ideal_choices(data, state(), steps)
    spread = choices.features.std(axis=0)
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    found = []
    for l2 in penalties:
        weights = _minimise(choices, unit, l2, model, history)
        own = ideal_choices(data, state(), steps, weights)
        both = Choices(
            np.concatenate([choices.features, own.features]),
            np.concatenate([choices.right, own.right]),
            np.concatenate([choices.starts, own.starts + len(choices.features)]),
            np.concatenate([choices.weight, own.weight]) / 2,
        )
        found.append((_minimise(both, unit, l2, model, history), l2))
    return found


def _minimise(choices: Choices, unit: FloatArray, l2: float, model: Greedy, history: History) -> FloatArray:
    scaled = choices._replace(features=choices.features * unit)
    with one_blas_thread():
        result = minimize(
            scaled.value_and_grad,
            np.eye(len(unit))[0],
            args=(l2,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": model.max_iter, "ftol": model.tol * 1e-2},
        )
    history.objective.append(float(result.fun))
    weights: FloatArray = result.x * unit
    return weights
