r"""Rerankers that are algorithms: greedy choices, latent structured ranking, continuous conditional random fields.

The first two are fitted as Luce choices at every position. A step of the greedy one costs
$-\log \sum_{i \in B} e^{t_i} / \sum_{i \text{ left}} e^{t_i}$ where the documents B that gain most by alpha-NDCG after
those placed before are the right ones. The documents placed before are those of an ideal list in a first round, and
those that the model itself places in a second: it must know its way from its own lists, too.

Latent structured ranking, at position n and after the documents P of an ideal list, gives document i the utility
$t_i = v \cdot x_i + 2 (A x_i) \cdot \sum_{j \in P} \omega_j A x_j + \omega_n \|A x_i\|^2$, what it adds to the worth of
the list (over $\omega_n$). The documents of the highest grade left are the right ones. The order of equal grades in the
ideal list is that of a linear ranker, from which the search also starts.

A field has maximum likelihood. In the eigenvectors of the Laplacian $D - S$ of a query, with eigenvalues $\lambda$, it
falls apart into independent Gaussians with precision $2 d$, $d = \alpha'e + \beta \lambda$, and mean $u / d$,
$u = B \alpha + \beta h$: $B$ are the features in these coordinates and $h = \frac12 (D_r - D_c) e$ in topic
distillation, where $\lambda = 0$. So the eigenvectors are found once, and minus the log-likelihood is
$\sum d y^2 - 2 y u + u^2 / d - \frac12 \log d$ over all documents.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from luce.data.filling import normalise_within_queries
from luce.data.groups import Groups
from luce.data.named_rows import numbered_by_query
from luce.errors import DataError, SettingError
from luce.metrics.catalog import get
from luce.metrics.evaluate import evaluate_rows
from luce.numerics.segments import query_index, shares
from luce.numerics.threads import one_blas_thread
from luce.scorers.kernel_sums import Normalisation, refuse_missing
from luce.scorers.linear import LinearScorer, reciprocal
from luce.scorers.listwise import L2_GRID, checked_grid
from luce.scorers.rerankers import (
    FittedCCRF,
    FittedGreedy,
    FittedLatent,
    Placing,
    checked_kernels,
    checked_powers,
    net_degrees,
    position_weight,
    similarities,
)
from luce.spec import Range, option
from luce.training.gradients import base_of, linear_base
from luce.training.run import History, scipy_minimum
from luce.training.task import Algorithm, Minimised, Rounds, Task, Trained
from luce.types import BoolArray, FloatArray, IntArray

ALPHA = 0.5
_CLOSE = 1e-9
_LAMBDAS = tuple(np.linspace(0.0, 1.0, 21))
_SPREAD = 0.01


def choice_costs(utility: FloatArray, right: BoolArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """What every Luce choice costs, -log of the chance of a right document, and its gradient in the utilities."""
    sizes = np.diff(np.append(starts, len(utility)))
    left, share = shares(utility, starts, sizes)
    good, of_good = shares(np.where(right, utility, -np.inf), starts, sizes)
    return left - good, share - of_good


class Choices(NamedTuple):
    """Choices that were made: the documents left at each, their features, and which were right."""

    features: FloatArray
    right: BoolArray
    starts: IntArray
    weight: FloatArray
    """What a choice is worth: the discount of its position times the most that can be gained there; sums to 1."""

    def value_and_grad(self, weights: FloatArray, l2: float) -> tuple[float, FloatArray]:
        """Weighted mean cost of a choice plus penalty, and its gradient."""
        costs, slopes = choice_costs(self.features @ weights, self.right, self.starts)
        by_row = np.repeat(self.weight, np.diff(np.append(self.starts, len(slopes))))
        grad = self.features.T @ (slopes * by_row) + l2 * weights
        return float(costs @ self.weight) + 0.5 * l2 * float(weights @ weights), grad


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


class Greedy(Minimised, Algorithm):
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
    """

    method: Literal["luce", "mmr"] = "luce"
    kernels: Any = option(default=("cosine",), convert=checked_kernels)
    normalise: Normalisation = "zscore"
    depth: int = option(default=20, least=1)
    metric: str = "alpha_ndcg@10"
    l2_grid: Any = option(default=L2_GRID, convert=checked_grid)
    powers: Any = option(default=(1, 2, 4, 8, 16), convert=checked_powers)

    name: ClassVar[str] = "greedy"
    refuses: ClassVar[tuple[str, ...]] = ("target", "checkpoint", "warm_start")

    def _check(self) -> None:
        if self.method == "mmr":
            object.__setattr__(self, "powers", (1,))

    def train(self, task: Task) -> Trained:
        """Learn the weights, or choose the one of MMR; validation data choose the penalty."""
        data, valid = task.data, task.valid
        self.check_task(task)
        if data.subtopics is None:
            raise DataError(
                "The greedy reranker learns from the subtopics of documents, and the data have none; add them with "
                "luce.with_subtopics, or with --subtopics on the command line."
            )
        refuse_missing(data)
        base, valid_base, linear = base_of(task, self, judged=False)

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
            # Lambda on the base, and lambda - 1 on the largest value of every kernel.
            n = len(self.kernels)
            candidates = [(np.append(share, np.tile([0.0, share - 1.0], n)), 0.0) for share in _LAMBDAS]
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


def _learned(
    model: Greedy, data: Groups, base: FloatArray, penalties: tuple[float, ...], history: History
) -> list[tuple[FloatArray, float]]:
    def state() -> Placing:
        return Placing(data, base, model.kernels, model.normalise, model.powers)

    steps = min(get(model.metric).cutoff or model.depth, model.depth)
    choices = ideal_choices(data, state(), steps)
    unit = reciprocal(choices.features.std(axis=0), 1e-12)
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
    start, how = np.eye(len(unit))[0], {"maxiter": model.max_iter, "ftol": model.tol * 1e-2}
    result = scipy_minimum(lambda weights: scaled.value_and_grad(weights, l2), start, **how)
    history.objective.append(float(result.fun))
    return np.asarray(result.x * unit)


class LatentObjective:
    """Mean cost of a choice plus penalty, as a function of (v, A) in one vector."""

    def __init__(self, Z: FloatArray, data: Groups, order: IntArray, model: Latent) -> None:
        self.Z, self.rank, self.l2, self.offsets = Z, model.rank, model.l2, data.offsets
        self.query = query_index(data.offsets)
        self.steps: list[tuple[IntArray, BoolArray, IntArray, IntArray]] = []
        """For every position: rows left, which of them are right, the rows placed, and where queries start."""
        left = np.ones(data.n_rows, dtype=bool)
        for position in range(model.depth):
            labels = np.where(left, data.y, -np.inf)
            top = np.maximum.reduceat(labels, self.offsets[:-1])
            low = np.minimum.reduceat(np.where(left, data.y, np.inf), self.offsets[:-1])
            rows = np.flatnonzero(left & (top > low)[self.query])
            if not len(rows):
                break
            starts = np.unique(self.query[rows], return_index=True)[1]
            placed = order[self.offsets[self.query[rows[starts]]] + position]
            self.steps.append((rows, data.y[rows] == top[self.query[rows]], placed, starts))
            left[placed] = False
        self.n_choices = sum(len(placed) for _, _, placed, _ in self.steps)

    def value_and_grad(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Forward over the positions, then the gradient of what was placed, backwards."""
        features = self.Z.shape[1]
        v, A = vector[:features], vector[features:].reshape(self.rank, features)
        own, latent = self.Z @ v, self.Z @ A.T
        d_own, d_latent = np.zeros_like(own), np.zeros_like(latent)
        placed = np.zeros((len(self.offsets) - 1, self.rank))
        value, later = 0.0, []
        for position, (rows, right, chosen, starts) in enumerate(self.steps):
            weight, query, z = position_weight(position), self.query[rows], latent[rows]
            utility = own[rows] + 2 * np.einsum("ij,ij->i", z, placed[query]) + weight * np.einsum("ij,ij->i", z, z)
            costs, g = choice_costs(utility, right, starts)
            value += float(costs.sum())
            d_own[rows] += g
            d_latent[rows] += g[:, None] * (2 * placed[query] + 2 * weight * z)
            later.append(np.add.reduceat(2 * g[:, None] * z, starts))
            placed[self.query[chosen]] += weight * latent[chosen]
        d_placed = np.zeros_like(placed)
        for position in range(len(self.steps) - 1, -1, -1):
            chosen = self.steps[position][2]
            d_latent[chosen] += position_weight(position) * d_placed[self.query[chosen]]
            d_placed[self.query[chosen]] += later[position]
        grad = np.concatenate([self.Z.T @ d_own, (d_latent.T @ self.Z).ravel()]) / max(self.n_choices, 1)
        return value / max(self.n_choices, 1) + 0.5 * self.l2 * float(vector @ vector), grad + self.l2 * vector


class Latent(Minimised, Rounds):
    r"""Latent structured ranking (Weston and Blitzer, 2012): documents beside each other count by a low-rank product.

    L-BFGS from a linear ranker and a small random A; the iterate that is best on validation data is kept.

    Parameters
    ----------
    rank
        Rows of A.
    depth
        Positions that are filled greedily and learned from; the other documents follow by their last utility.
    """

    rank: int = option(default=5, least=1, most=10**6)
    depth: int = option(default=10, least=1)

    name: ClassVar[str] = "latent"

    def train(self, task: Task) -> Trained:
        """L-BFGS."""
        self.check_task(task)
        data = task.data
        bound = LinearScorer().bind(data)
        linear = linear_base(replace(task, valid=None), self.l2, self.max_iter, self.tol)
        scores = linear.score(data.X, data.offsets)
        order = np.lexsort((-scores, -data.y, query_index(data.offsets))).astype(np.int64)
        objective = LatentObjective(bound.scale(data.X), data, order, self)
        rng = np.random.default_rng(task.seed)
        start = np.concatenate([bound.parameters_of(linear), rng.normal(0, _SPREAD, self.rank * data.n_features)])

        def fitted(vector: FloatArray) -> FittedLatent:
            factors = vector[data.n_features :].reshape(self.rank, data.n_features)
            moments = bound.scale.mean, bound.scale.inverse_sd
            return FittedLatent(vector[: data.n_features].copy(), factors.copy(), *moments, self.depth)

        return _searched(self, task, fitted, objective.value_and_grad, start, self.tol)


def _searched(
    model: Latent | CCRF, task: Task, fitted: Any, function: Any, start: FloatArray, ftol: float, bounds: Any = None
) -> Trained:
    """L-BFGS-B of SciPy from the start; every iterate is a step of the run, which keeps one of them."""
    run = task.start_run(model.max_iter, model.early_stopping, lambda vector: task.judged_scorer(fitted(vector)))

    def after(intermediate_result: Any) -> None:
        run.step(intermediate_result.x.copy(), float(intermediate_result.fun))
        if run.exhausted:
            raise StopIteration

    run.resume(start)
    found = scipy_minimum(function, start, bounds, after, maxiter=run.max_iter, ftol=ftol)
    run.history.converged = bool(found.status == 0)
    return Trained(fitted(run.result), None, run.history)


class Field(NamedTuple):
    """All documents in the coordinates in which they are independent."""

    labels: FloatArray
    features: FloatArray
    eigenvalues: FloatArray
    pull: FloatArray
    weight: FloatArray

    def value_and_grad(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Weighted mean of minus the log-likelihood, up to a constant, at (log alpha, beta)."""
        alpha, beta = np.exp(vector[:-1]), vector[-1]
        d = alpha.sum() + beta * self.eigenvalues
        u = self.features @ alpha + beta * self.pull
        y, mean = self.labels, u / d
        value = d * y**2 - 2 * y * u + u * mean - 0.5 * np.log(d)
        d_d = (y**2 - mean**2 - 0.5 / d) * self.weight
        d_u = 2 * (mean - y) * self.weight
        d_alpha = d_d.sum() + self.features.T @ d_u
        d_beta = d_d @ self.eigenvalues + d_u @ self.pull
        return float(value @ self.weight), np.append(alpha * d_alpha, d_beta)


def make_field(data: Groups, form: str, relation: str | None) -> Field:
    """Labels on [0, 1] and query-normalised features, in the eigenvectors of every query."""
    X = normalise_within_queries(data.X, data.offsets, "minmax").astype(np.float64)
    low, high = data.y.min(), data.y.max()
    y = (data.y - low) / (high - low or 1.0)
    weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    by_row = np.repeat(weight, data.sizes)
    eigenvalues, pull = np.zeros(data.n_rows), np.zeros(data.n_rows)
    if form == "distillation":
        pull = 0.5 * net_degrees(data, relation)
    else:
        assert relation is not None
        for S, (a, b) in zip(similarities(data, relation), pairwise(data.offsets), strict=True):
            values, vectors = np.linalg.eigh(np.diag(S.sum(axis=1)) - S)
            eigenvalues[a:b] = np.maximum(values, 0.0)
            X[a:b], y[a:b] = vectors.T @ X[a:b], vectors.T @ y[a:b]
    return Field(y, X, eigenvalues, pull, by_row / by_row.sum())


class CCRF(Rounds):
    r"""A continuous conditional random field of documents (Qin et al., 2008).

    The most probable alpha and beta; the iterate that is best on validation data is kept.

    Parameters
    ----------
    form
        "feedback": similar documents have similar relevance. "distillation": parents are better than children.
    relation
        A relation of the data, or "cosine" of the features (for feedback). None: the only relation that the data have;
        where there is none, the cosine for feedback, and for distillation nothing, which is the linear case.
    tol
        When L-BFGS ends, as for the trainer `lbfgs`.
    """

    form: Literal["feedback", "distillation"] = "feedback"
    relation: str | None = None
    _: KW_ONLY
    max_iter: int = option(default=100, least=0, tune=Range(10, 200, whole=True))
    tol: float = option(default=1e-5, above=0)

    name: ClassVar[str] = "ccrf"

    def _chosen(self, data: Groups) -> str | None:
        """The relation to take of the data."""
        if self.relation is not None:
            return self.relation
        if len(data.relations) > 1:
            raise SettingError(f"The data have the relations {', '.join(data.relations)}; name one with relation=.")
        return next(iter(data.relations), "cosine" if self.form == "feedback" else None)

    def train(self, task: Task) -> Trained:
        """L-BFGS."""
        self.check_task(task)
        data = task.data
        refuse_missing(data)
        relation = self._chosen(data)
        feedback = self.form == "feedback"

        def fitted(vector: FloatArray) -> FittedCCRF:
            return FittedCCRF(np.exp(vector[:-1]), float(vector[-1]), self.form, relation)

        with one_blas_thread():
            field = make_field(data, self.form, relation)
        start = np.append(np.full(data.n_features, -np.log(data.n_features)), 0.01 if feedback else 0.0)
        bounds = [(-20.0, 10.0)] * data.n_features + [(0.0 if feedback else -1e6, 1e6)]
        return _searched(self, task, fitted, field.value_and_grad, start, self.tol * 1e-2, bounds)
