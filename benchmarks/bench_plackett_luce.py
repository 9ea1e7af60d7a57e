"""The tied Plackett-Luce likelihood: one pass with a linear scorer beside one product, and what a tier costs.

Ratios are of CPU time, of both threads together: the loss is bound by arithmetic, the product by memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_linear import FEATURES, paper_size
from harness import Line

import luce
from luce.scorers.linear import LinearScorer
from luce.training.objective import Objective

SHARE = 8
"""One query of so many is kept: the ratio does not depend on the number of queries."""


def cpu_seconds(function: Callable[[], Any], repeats: int = 7) -> float:
    """The least CPU time of several calls, after one that compiles."""
    function()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def one_pass(data: luce.Groups) -> list[Line]:
    lines = []
    for scale, what in ((0.05, "scores of a few units"), (1.0, "scores far apart")):
        weights = np.random.default_rng(1).normal(0, scale, FEATURES)
        narrow = weights.astype(np.float32)
        theirs = cpu_seconds(lambda narrow=narrow: data.X @ narrow)
        for name, settings in (("plackett_luce", {}), ("plackett_luce", {"tier_gain": 2}), ("pmop", {})):
            loss = luce.losses.get(name, **settings)
            objective = Objective(data, LinearScorer().bind(data), loss, 1e-3)
            ours = cpu_seconds(lambda objective=objective, weights=weights: objective.value_and_grad(weights))
            goal = {"goal": "at most 3.0 X @ w", "met": ours <= 3.0 * theirs} if name == "plackett_luce" else {}
            shape = f"{data.n_rows:,} x {FEATURES}"
            said = name + "".join(f" {key}={value}" for key, value in settings.items())
            lines.append(
                Line(f"{said} value and gradient, {shape}, {what}", ours, peer="one X @ w", theirs=theirs, **goal)
            )
    return lines


def tiers() -> list[Line]:
    """Two tiers of equal size."""
    lines, loss = [], luce.losses.get("plackett_luce")
    for length in (20, 200, 2_000, 20_000):
        rng, queries = np.random.default_rng(0), max(1, 20_000 // length)
        n = queries * length
        labels = np.tile(np.arange(length) % 2, queries).astype(float)
        scores, offsets = rng.normal(0, 1.5, n), np.arange(0, n + 1, length)
        prepared, grad = loss.prepare(labels, offsets), np.empty(n)
        seconds = cpu_seconds(lambda p=prepared, s=scores, g=grad, q=queries: loss.evaluate(p, s, (0, q), g))
        lines.append(Line(f"plackett_luce, a document of queries of {length:,}", 1e9 * seconds / n, unit="ns"))
    return lines


def run() -> list[Line]:
    data = paper_size()
    return [*one_pass(data.take(np.arange(0, data.n_queries, SHARE))), *tiers()]
