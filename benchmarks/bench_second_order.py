"""Second order at 100,000 x 300: correlations of all 45,150 products, and one training iteration.

The peers are NumPy: the products built in blocks of columns for the correlations, and one product `X @ W` with a
300 x 300 matrix for the iteration. Memory is the peak of a process of its own, beyond what it held with X loaded.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import threading
import time
from typing import Any

import numpy as np
from harness import Line, best_of

import luce
from luce.data.groups import Groups
from luce.scorers.correlation import product_correlations
from luce.scorers.linear import standardise
from luce.scorers.second_order import SecondOrderScorer
from luce.training.objective import Objective

ROWS, FEATURES, QUERY = 100_000, 300, 25


def problem() -> Groups:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES), dtype=np.float32)
    y = np.digitize(X[:, 0] * X[:, 1] + X[:, 2] + rng.standard_normal(ROWS), [0.5, 1.5, 2.5]).astype(float)
    offsets = np.arange(0, ROWS + 1, QUERY)
    return Groups(X=X, y=y, offsets=offsets, query_ids=np.arange(len(offsets) - 1))


def correlate(data: Groups) -> np.ndarray:
    scale = standardise(data.X)
    return product_correlations(data, scale.mean, scale.inverse_sd).correlation


def built_in_blocks(data: Groups, share: int = 10) -> float:
    """Seconds for all correlations, from the products of every `share`-th feature with those after it."""
    Z = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    c = (data.y - data.y.mean()).astype(np.float32)
    start, built = time.perf_counter(), 0
    for i in range(0, FEATURES, share):
        P = Z[:, i : i + 1] * Z[:, i:]
        P -= P.mean(axis=0)
        c @ P / np.sqrt(np.einsum("ij,ij->j", P, P) * (c @ c))
        built += P.shape[1]
    return (time.perf_counter() - start) * FEATURES * (FEATURES + 1) / 2 / built


def error(data: Groups) -> float:
    """Largest error among the products of the first feature, against float64."""
    Z = data.X.astype(np.float64)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    P = Z[:, :1] * Z
    P -= P.mean(axis=0)
    c = data.y - data.y.mean()
    return float(np.abs(c @ P / np.sqrt((P * P).sum(axis=0) * (c @ c)) - correlate(data)[0]).max())


def _peak(queue: Any) -> None:
    import psutil

    process, ended, seen = psutil.Process(), threading.Event(), [0]
    correlate(luce.from_arrays(np.random.default_rng(0).random((2000, 8)), np.arange(2000)))
    data = problem()

    def watch() -> None:
        while not ended.wait(0.002):
            seen.append(process.memory_info().rss)

    before = process.memory_info().rss
    watcher = threading.Thread(target=watch)
    watcher.start()
    scorer = SecondOrderScorer(threshold=0.0).bind(data)
    objective = Objective(data, scorer, luce.losses.get("pmop"), 0.01)
    objective.value_and_grad(np.zeros(objective.n_parameters))
    ended.set()
    watcher.join()
    queue.put((max(seen) - before) / data.X.nbytes + 1)


def peak_memory() -> float | None:
    """Peak of X, selection and an iteration with all products, in units of X; None without psutil."""
    if importlib.util.find_spec("psutil") is None:
        return None
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_peak, args=(queue,))
    process.start()
    result: float = queue.get()
    process.join()
    return result


def run() -> list[Line]:
    data = problem()
    ours = best_of(lambda: correlate(data))
    theirs = built_in_blocks(data)
    lines = [
        Line(
            "second order: correlations of 45,150 products",
            ours,
            peer="products built in blocks, NumPy (a tenth, scaled)",
            theirs=theirs,
            goal="10 times faster",
            met=theirs >= 10 * ours,
        ),
        Line("second order: error of a correlation, against float64", error(data), unit=""),
    ]
    W = np.triu(np.random.default_rng(1).standard_normal((FEATURES, FEATURES), dtype=np.float32))
    for label, settings in (
        ("all products", {"threshold": 0.0}),
        ("2,000 products", {"count": 2000}),
    ):
        scorer = SecondOrderScorer(**settings).bind(data)
        objective = Objective(data, scorer, luce.losses.get("pmop"), 0.01)
        at = np.random.default_rng(2).normal(0, 0.01, objective.n_parameters)
        iteration = best_of(lambda o=objective, v=at: o.value_and_grad(v), 5)
        product = best_of(lambda: data.X @ W, 5)
        lines.append(
            Line(
                f"second order: one iteration of pmop, {label}",
                iteration,
                peer="X @ W",
                theirs=product,
                goal="at most 3 times",
                met=iteration <= 3 * product,
            )
        )
        fitted = scorer.fitted(at)
        lines.append(
            Line(f"second order: prediction, {label}", best_of(lambda f=fitted: f.score(data.X, data.offsets)))
        )
    peak = peak_memory()
    if peak is None:
        print("  psutil is not installed: no figure for memory")
    else:
        lines.append(
            Line("second order: peak memory, all products", peak, unit="of X", goal="at most 2 X", met=peak <= 2)
        )
    return lines
