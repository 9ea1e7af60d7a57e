r"""Errors of strengths from the scatter of tasks, and rank sets by shuffling the labels of models within every task.

If all models are equal, the labels of those present on a task are exchangeable, whatever the task, its ties and the
gaps. So the greatest difference that chance makes is found by shuffling the labels within every task and running the
same function on the shuffled board. Elsewhere the level rests on studentising.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from luce.aggregate.board.newton import inverse
from luce.aggregate.board.posterior import RankSets, centre_covariance, step_down
from luce.aggregate.scores.methods import Fit, Method, Terms
from luce.numerics.compiled import kernel
from luce.numerics.segments import map_chunks
from luce.types import FloatArray, IntArray

FEW_TASKS = 5.0
"""A model with so many tasks leans on the curvature by half."""
_MOST_LEVERAGE = 0.75
_MOST_BYTES = 1 << 28
"""Statistics of all shuffles that are kept; beyond, they are worked out again for every round."""


def scatter_of(at: Terms, curvature: FloatArray, n: int) -> tuple[FloatArray, FloatArray, float, FloatArray]:
    r"""$S = \sum_t u_t u_t^\top$ with $u_t = C g_t / \sqrt{1 - h_t}$, h the leverage of a task by model (HC2).

    With it the curvature C of the n models, what S is of C, and how many tasks tell something of each model.
    """
    total = at.bends.sum(axis=0)
    leverage = np.minimum(at.bends / np.where(total > 0.0, total, 1.0), _MOST_LEVERAGE)
    pulls = ((at.gradients / np.sqrt(1.0 - leverage)) @ curvature)[:, :n]
    sandwich, curvature = pulls.T @ pulls, curvature[:n, :n]
    tasks = np.sum(at.bends[:, :n] > 0.0, axis=0)
    usable = np.diagonal(curvature)[tasks > 0]
    ratio = float(np.mean(np.diagonal(sandwich)[tasks > 0] / np.where(usable > 0.0, usable, 1.0)))
    return sandwich, curvature, ratio, tasks.astype(np.float64)


def covariance_of(fit: Fit, mean: FloatArray) -> FloatArray:
    r"""Of the centred strengths: S, and of models with few tasks $\rho C$ in its place by $\lambda = 5 / (5 + T)$.

    The strength of a model with one task makes the gradient of that task 0, and S alone would call it certain.
    """
    method, n = fit.method, fit.method.models
    at = method.terms(fit.x, method.races.item)
    matrix = method.kept(at.hessian)
    matrix[:n, :n] += fit.prior
    sandwich, curvature, ratio, tasks = scatter_of(at, inverse(matrix, method.wide_null), n)
    lean = FEW_TASKS / (FEW_TASKS + tasks)
    own, curved = np.sqrt(1.0 - lean), np.sqrt(ratio * lean)
    covariance = own[:, None] * sandwich * own + curved[:, None] * curvature * curved
    return centre_covariance(covariance, mean, fit.component)


def statistics(method: Method, item: IntArray) -> NDArray[np.float32]:
    r"""(models, models) float32: $t_{ij} = (x_j - x_i) / \sqrt{v_{ij}}$ with these models in the rows.

    $v = (1 - \lambda) \mathrm{Var}_S + \lambda \rho \mathrm{Var}_C$ with $\lambda = 5 / (5 + \min(T_i, T_j))$.
    """
    x, at, curved = method.settle(item)
    sandwich, curvature, ratio, tasks = scatter_of(at, curved, method.models)
    out = np.zeros((len(sandwich), len(sandwich)), dtype=np.float32)
    _studentise(x, sandwich, ratio * curvature, tasks, FEW_TASKS, out)
    return out


@kernel
def _studentise(x, sandwich, curvature, tasks, few, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        for j in range(i):
            lean = few / (few + min(tasks[i], tasks[j]))
            robust = sandwich[i, i] + sandwich[j, j] - 2.0 * sandwich[i, j]
            curved = curvature[i, i] + curvature[j, j] - 2.0 * curvature[i, j]
            variance = (1.0 - lean) * robust + lean * curved
            if variance > 1e-60:  # the quotient is then finite in float32
                out[i, j] = (x[j] - x[i]) / np.sqrt(variance)
                out[j, i] = -out[i, j]


def shuffled_sets(fit: Fit, level: float, shuffles: int, rng: np.random.Generator) -> RankSets:
    """Rank sets from the statistics of shuffled boards; one task alone has no scatter, and decides nothing."""
    method, races, n = fit.method, fit.method.races, fit.method.models
    if len(races.count) < 2:
        nothing = step_down(np.full((n, n), np.nan), lambda active: np.empty((n, 0)), fit.component, level)
        return nothing._replace(critical=math.inf)
    seeds = rng.integers(2**63, size=shuffles)

    def shuffled(k: int) -> NDArray[np.float32]:
        drawn = np.random.default_rng(seeds[k]).random(len(races.item))
        return statistics(method, _shuffle(races.item, races.offsets, drawn))

    def all_of_them() -> Iterable[NDArray[np.float32]]:
        for low in range(0, shuffles, 16):
            chunks = [(k, k + 1) for k in range(low, min(low + 16, shuffles))]
            yield from map_chunks(lambda _, chunk: np.abs(shuffled(chunk[0])), chunks)

    drawn: list[NDArray[np.float32]] | None = list(all_of_them()) if 4 * n * n * shuffles <= _MOST_BYTES else None

    def rows(active: NDArray[np.bool_]) -> FloatArray:
        result, counts = np.empty((n, shuffles)), active.astype(np.float32)
        for k, t in enumerate(drawn or all_of_them()):
            result[:, k] = (counts * t).max(axis=1)
        return result

    t = statistics(method, races.item).astype(np.float64)
    t[(fit.component[:, None] != fit.component) | np.eye(n, dtype=bool)] = np.nan
    return step_down(t, rows, fit.component, level)


@kernel
def _shuffle(item, offsets, drawn):  # type: ignore[no-untyped-def]
    """The models of every task in another order (Fisher and Yates)."""
    out = item.copy()
    for task in range(len(offsets) - 1):
        low = offsets[task]
        for r in range(offsets[task + 1] - 1, low, -1):
            s = low + int(drawn[r] * (r - low + 1))
            out[r], out[s] = out[s], out[r]
    return out
