"""Projected stochastic gradient, with a first step that fits the problem and a step that is halved."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from luce.errors import LuceWarning
from luce.losses.base import Loss
from luce.numerics.segments import Chunk
from luce.training.objective import Objective
from luce.training.projection import Feasible
from luce.training.run import History, TrainingRun
from luce.types import FloatArray

INSIDE = ("projection", "shrinking")
"""How a step that would leave the set stays in it: at the nearest point, or by halving it until it is allowed."""
_HALVINGS = 60
"""After so many a step is too short to move anything."""

_SHARE = 0.1
"""Length of a typical first step beside that of the parameters."""
_LOOKED_AT = 64
"""Batches whose gradients tell how long a typical one is."""


def projected_descent(
    objective: Objective,
    feasible: Feasible,
    start: FloatArray,
    run: TrainingRun,
    *,
    learning_rate: float | None = None,
    batch_queries: int = 1,
    inside: str = "projection",
    seed: int = 0,
) -> tuple[FloatArray, History]:
    r"""Steps $\theta \leftarrow \Pi(\theta - \eta\, g_q)$, a few queries each; $\eta$ is halved after every epoch.

    An epoch that ends at a higher objective than it began with is undone, and the next one begins at the same place
    with half the step that was its turn: no step, however long, leaves the objective above its start. The first step is
    `learning_rate`, or (None) that of `first_step`. The queries of an epoch come in an order that depends on the seed
    and on the epoch alone; the run says how many epochs there are.

    `inside="shrinking"` is the rule of [StructRank] instead: no projection, but a step is halved until it is allowed,
    each by itself; and no epoch is undone.
    """
    n = objective.data.n_queries
    batches = [(first, min(first + batch_queries, n)) for first in range(0, n, batch_queries)]
    pace = np.zeros(2)  # the next step, and the number of epochs that lowered the objective
    run.extras = lambda: {"pace": pace}
    vector = run.resume(start).copy()
    if run.iteration == 0:
        pace[0] = first_step(objective, vector, batches) if learning_rate is None else learning_rate
        value = objective.value(vector)
        if run.validate is not None:
            run.consider(vector)
    else:
        pace[:] = run.saved["pace"]
        value = run.history.objective[-1]
    while run.iteration < run.max_iter and not run.exhausted:
        order = np.random.default_rng([seed, run.iteration]).permutation(len(batches))
        loss = objective.loss.reseeded(run.iteration)
        stay = _stays[inside](feasible)
        moved = _epoch(objective, stay, vector, pace[0], [batches[i] for i in order.tolist()], loss)
        reached = np.nan if moved is None else objective.value(moved)
        pace[0] *= 0.5
        if moved is not None and (reached <= value or (inside == "shrinking" and np.isfinite(reached))):
            vector, value = moved, reached
            pace[1] += 1
        else:
            pace[0] *= 0.5
        run.step(vector, value)
    run.history.converged = True
    if run.max_iter > 0 and pace[1] == 0:
        warnings.warn(_nothing_gained(learning_rate), LuceWarning, stacklevel=2)
    return run.result, run.history


def first_step(objective: Objective, vector: FloatArray, batches: list[Chunk]) -> float:
    r"""The step at which a typical move is a tenth of the parameters' length, or of 1 where they are shorter.

    $\eta = 0.1 \max(\|\theta\|, 1) / \sqrt{\operatorname{mean} \|g_q\|^2}$, over some of the batches: gradients of one
    query are what a step is made of, and their lengths differ by the scorer and the loss in many powers of ten.
    """
    looked_at = batches[:: -(-len(batches) // _LOOKED_AT)]
    squares = [float(np.sum(objective.on_batch(batch, vector, objective.loss)[1] ** 2)) for batch in looked_at]
    typical = float(np.sqrt(np.mean(squares)))
    return _SHARE * max(float(np.linalg.norm(vector)), 1.0) / typical if typical > 0 else 1.0


Stay = Callable[[FloatArray, FloatArray], FloatArray]
"""Where a step (place, change) ends inside the set."""


def _epoch(
    objective: Objective, stay: Stay, vector: FloatArray, step: float, batches: list[Chunk], loss: Loss
) -> FloatArray | None:
    """One pass over the batches; None where it runs out of the numbers."""
    for batch in batches:
        with np.errstate(over="ignore", invalid="ignore"):
            change = -step * objective.on_batch(batch, vector, loss)[1]
        if not np.isfinite(vector + change).all():
            return None
        vector = stay(vector, change)
    return vector


def _projecting(feasible: Feasible) -> Stay:
    return lambda vector, change: feasible.nearest(vector + change)


def _shrinking(feasible: Feasible) -> Stay:
    def stay(vector: FloatArray, change: FloatArray) -> FloatArray:
        for halvings in range(_HALVINGS):
            moved = vector + change * 0.5**halvings
            if feasible.allows(moved):
                return moved
        return vector

    return stay


_stays: dict[str, Callable[[Feasible], Stay]] = {"projection": _projecting, "shrinking": _shrinking}


def _nothing_gained(learning_rate: float | None) -> str:
    what = "The projected trainer ended where it started, since every epoch raised the objective and was undone; "
    if learning_rate is None:
        return what + "give a small learning_rate, or take trainer='projected_lbfgs'."
    return what + f"learning_rate={learning_rate:g} is too long a step: give less, or leave it out."
