"""The fully connected network in linear time, and the Nadaraya-Watson scorer.

The peer is the double sum over edges, compiled, on two threads, with the exponentials of every edge taken beforehand.
At 600 documents it is run on every 64th edge against all of them, and its time multiplied; at 150 in full.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from harness import Line, best_of, exponent
from numba import njit

import luce
from luce.data.groups import Groups
from luce.losses.cdn.loss import CDN
from luce.training.objective import Objective

THREADS, SHARE = 2, 64


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.normal(size=n), np.arange(n) % 3.0


@njit(nogil=True, error_model="numpy")
def _rows(x, y, first, last, step, own, other):
    value = 0.0
    for i in range(first, last, step):
        felt = 0.0
        for j in range(len(y)):
            total = 1.0 + x[i] + y[j]
            value += math.log(total)
            part = 1.0 / total
            felt += part
            other[j] += part
        own[i] = felt
    return value


def double_sum(scores: np.ndarray, labels: np.ndarray, step: int) -> tuple[float, np.ndarray]:
    """Value and gradient over pairs of edges, those of every `step`-th first edge."""
    better, worse = np.nonzero(labels[:, None] > labels[None, :])
    x = np.exp(-(scores[better] - scores[worse]))
    own = np.zeros(len(x))
    others = np.zeros((THREADS, len(x)))
    cuts = np.linspace(0, len(x), THREADS + 1).astype(int)
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [pool.submit(_rows, x, x, cuts[t], cuts[t + 1], step, own, others[t]) for t in range(THREADS)]
        value = sum(job.result() for job in jobs)
    slope = x * (own + others.sum(axis=0))
    grad = np.bincount(worse, slope, len(scores)) - np.bincount(better, slope, len(scores))
    return value, grad


def ours(scores: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    loss = CDN(w1=1.0, w2=1.0)
    offsets = np.array([0, len(scores)])
    prepared, grad = loss.prepare(labels, offsets), np.zeros_like(scores)
    d_own = np.zeros((1, 0))
    return float(loss.evaluate(prepared, scores, (0, 1), grad, d_parameters=d_own)[0]), grad


def network_lines() -> list[Line]:
    lines = []
    for n, step, goal in ((150, 1, 3e-3), (600, SHARE, None)):
        scores, labels = problem(n)
        seconds = best_of(lambda scores=scores, labels=labels: ours(scores, labels), 7)
        double_sum(scores[:20], labels[:20], 1)
        direct = best_of(lambda a=scores, b=labels, s=step: double_sum(a, b, s), 1, warm_up=False) * step
        what = f"full network, {n} documents in 3 grades, value and gradient"
        if goal is not None:
            lines.append(Line(what, seconds, "s", "double sum, 2 threads", direct, "at most 3 ms", seconds <= goal))
            value, grad = ours(scores, labels)
            expected, expected_grad = double_sum(scores, labels, 1)
            error = max(abs(value / expected - 1), float(np.abs(grad - expected_grad).max() / np.abs(grad).max()))
            lines.append(Line(f"relative error at {n} documents", error, "", goal="at most 1e-8", met=error <= 1e-8))
        else:
            met = direct / seconds >= 500
            lines.append(Line(what, seconds, "s", "double sum, 2 threads", direct, "500 times as fast", met))
    sizes = [600, 2_000, 6_000, 20_000]
    times = [best_of(partial(ours, *problem(n)), 5) for n in sizes]
    slope = exponent(sizes, times)
    lines.append(Line("full network, 20,000 documents", times[-1]))
    lines.append(Line("exponent from 600 to 20,000 documents", slope, "", goal="at most 1.15", met=slope <= 1.15))
    return lines


def kernel_lines() -> list[Line]:
    rng = np.random.default_rng(0)
    rows, features, queries = 9_219, 45, 63
    offsets = np.linspace(0, rows, queries + 1).astype(np.int64)
    X = rng.uniform(size=(rows, features)).astype(np.float32)
    data = Groups(X=X, y=rng.integers(0, 3, rows).astype(float), offsets=offsets, query_ids=np.arange(queries))
    scorer = luce.scorers.get("nadaraya_watson").bind(data)
    objective = Objective(data, scorer, CDN(weighting="pairs"), 0.0)
    at = np.concatenate([scorer.initial(rng), [1.0, 1.0]])
    seconds = best_of(lambda: objective.value_and_grad(at), 2)
    what = f"nadaraya_watson and full network, {rows:,} documents x {features}, value and gradient"
    return [Line(what, seconds, goal="under 5 s on two cores", met=seconds < 5)]


def run() -> list[Line]:
    return [*network_lines(), *kernel_lines()]


if __name__ == "__main__":
    for line in run():
        print(line)
