"""Linear pmop at the size of the PMOP paper's data: one pass, memory, training beside LightGBM, growth."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from harness import Line, best_of, exponent

import luce
from luce.data.simulate import simulate
from luce.scorers.linear import LinearScorer
from luce.training.objective import Objective

ROWS, FEATURES, QUERIES = 473_134, 519, 19_944


def run() -> list[Line]:
    data = paper_size()
    return [*one_pass(data), *training(data), *growth()]


def paper_size() -> luce.Groups:
    """Simulated queries cut or repeated to exactly the size of the paper's data."""
    rng = np.random.default_rng(0)
    data = simulate(queries=QUERIES, features=FEATURES, seed=0)
    rows = np.sort(rng.choice(data.n_rows, ROWS, replace=data.n_rows < ROWS))
    cuts = np.sort(rng.choice(np.arange(1, ROWS), QUERIES - 1, replace=False))
    offsets = np.concatenate([[0], cuts, [ROWS]])
    return luce.Groups(X=data.X[rows], y=data.y[rows], offsets=offsets, query_ids=np.arange(QUERIES))


def one_pass(data: luce.Groups) -> list[Line]:
    before = _resident()
    objective = Objective(data, LinearScorer().bind(data), luce.losses.get("pmop"), 1e-3)
    weights = np.random.default_rng(1).normal(0, 0.05, FEATURES)
    narrow = weights.astype(np.float32)
    objective.value_and_grad(weights)
    ours, theirs = [], []
    for _ in range(15):
        time.sleep(0.1)  # threads of BLAS spin for a while after a product, and would slow the next call down
        ours.append(best_of(lambda: objective.value_and_grad(weights), 1, warm_up=False))
        theirs.append(best_of(lambda: data.X @ narrow, 1, warm_up=False))
    share = (_resident() - before) / data.X.nbytes
    return [
        Line(
            f"pmop value and gradient, {ROWS:,} x {FEATURES}",
            min(ours),
            peer="one X @ w",
            theirs=min(theirs),
            goal="at most 1.25 X @ w",
            met=min(ours) <= 1.25 * min(theirs),
        ),
        Line("  memory beside X", 100 * share, unit="% of X", goal="at most 5%", met=share <= 0.05),
    ]


def training(data: luce.Groups) -> list[Line]:
    import lightgbm as lgb

    ours = best_of(lambda: luce.Ranker(loss="pmop", l2=1e-3, tol=1e-5, max_iter=100).fit(data), 1, warm_up=False)
    start = time.perf_counter()
    dataset = lgb.Dataset(data.X, label=data.y, group=data.sizes)
    lgb.train({"objective": "lambdarank", "num_leaves": 31, "verbose": -1, "num_threads": 2}, dataset, 100)
    theirs = time.perf_counter() - start
    return [
        Line(
            "training linear pmop to 1e-5 or 100 iterations",
            ours,
            peer="LightGBM lambdarank, 100 rounds",
            theirs=theirs,
            goal="at least 20 times faster",
            met=theirs / ours >= 20,
        )
    ]


def growth() -> list[Line]:
    lines = []
    for what, shapes in {
        "queries": [(1_000, 24), (10_000, 24), (100_000, 24)],
        "query length": [(200, 100), (200, 1_000), (200, 10_000)],
    }.items():
        times, sizes = [], []
        for queries, length in shapes:
            rng = np.random.default_rng(0)
            n = queries * length
            data = luce.Groups(
                X=rng.standard_normal((n, 20), dtype=np.float32),
                y=rng.integers(0, 5, n).astype(float),
                offsets=np.arange(0, n + 1, length),
                query_ids=np.arange(queries),
            )
            objective = Objective(data, LinearScorer().bind(data), luce.losses.get("pmop"), 0.0)
            times.append(best_of(lambda objective=objective: objective.value_and_grad(np.full(20, 0.1)), 5))
            sizes.append(n)
        slope = exponent(sizes, times)
        lines.append(
            Line(f"pmop, growth with {what}", slope, unit="power", goal="exponent at most 1.1", met=slope <= 1.1)
        )
    return lines


def _resident() -> int:
    """Memory held now. The peak would not do: making the data has raised it beyond anything that follows."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
