"""Stochastic gradient descent, for losses whose gradient is sampled."""

from __future__ import annotations

import numpy as np

from luce.numerics.segments import Chunk
from luce.training.objective import Objective
from luce.training.run import History, TrainingRun
from luce.types import FloatArray

SCHEDULES = ("constant", "sqrt", "inverse")


def descend(
    objective: Objective,
    start: FloatArray,
    run: TrainingRun,
    *,
    learning_rate: float = 0.1,
    schedule: str = "constant",
    batch_queries: int | None = None,
    seed: int = 0,
) -> tuple[FloatArray, History]:
    r"""Steps $w \leftarrow w - \eta_t g_t$, with $\eta_t = \eta$, $\eta/\sqrt{t}$ or $\eta/t$ by `schedule`.

    [PMOP] takes $\eta = 0.1$ and 1,000 iterations. A step sees `batch_queries` queries (None: all). Draws and
    batches of iteration t depend on the seed and on t alone, so a resumed run gives the same bits as a whole one.
    """
    vector = run.resume(start).copy()
    if run.iteration == 0 and run.validate is not None:
        run.consider(vector)
    power = {"constant": 0.0, "sqrt": 0.5, "inverse": 1.0}[schedule]
    bounds = None if objective.bounds is None else np.array(objective.bounds).T
    while run.iteration < run.max_iter and not run.exhausted:
        t = run.iteration
        loss = objective.loss.reseeded(t)
        batch = _batch(objective.data.n_queries, batch_queries, seed, t)
        value, grad = objective.on_batch(batch, vector, loss)
        vector = vector - learning_rate / (t + 1) ** power * grad
        if bounds is not None:
            vector = np.clip(vector, *bounds)
        run.step(vector, value)
    run.history.converged = run.exhausted or run.iteration == run.max_iter
    return run.result, run.history


def _batch(n_queries: int, size: int | None, seed: int, t: int) -> Chunk:
    """A run of neighbouring queries; every epoch passes over all runs in an order of its own."""
    if size is None or size >= n_queries:
        return 0, n_queries
    runs = -(-n_queries // size)
    epoch, position = divmod(t, runs)
    first = int(np.random.default_rng([seed, epoch]).permutation(runs)[position]) * size
    return first, min(first + size, n_queries)
