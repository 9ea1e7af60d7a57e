"""Reranking: a fit at the size of MQ2008, kernel sums without a matrix of pairs, greedy placing."""

from __future__ import annotations

import numpy as np
from harness import Line, best_of, exponent

import luce
from luce.data.simulate import simulate_duplicates
from luce.scorers.kernel_sums import kernel_sums
from luce.scorers.rerankers import FittedGreedy

QUERIES, LENGTH, FEATURES = 471, 20, 46


def at_mq2008_size() -> list[Line]:
    """The training part of a fold: 471 queries, 9,420 documents, 46 features."""
    rng = np.random.default_rng(0)
    X = rng.random((QUERIES * LENGTH, FEATURES)).astype(np.float32)
    y = rng.choice(3, QUERIES * LENGTH, p=[0.8, 0.13, 0.07])
    data = luce.from_arrays(X, y, group=[LENGTH] * QUERIES)
    base = rng.normal(size=data.n_rows) + y
    lines = []
    for loss in ("listnet", "ndcg_cross_entropy", "ndcg_square", "ndcg_qnorm"):
        model = luce.Ranker(loss, "listwise", l2=1e-2)
        seconds = best_of(lambda model=model: model.fit(data, base_scores=base))
        what = f"reranker, {loss}: a fit with its kernel sums at MQ2008 size"
        lines.append(Line(what, seconds, goal="under 2 s", met=seconds < 2.0))
    tuned = luce.Ranker("ndcg_square", "listwise")
    again = best_of(lambda: tuned.fit(data, valid=data, base_scores=base, valid_base_scores=base))
    lines.append(Line("reranker, ndcg_square: 8 penalties by validation", again))
    return lines


def all_pairs(data: luce.Groups) -> np.ndarray:
    unit = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)
    return (unit @ unit.T).sum(axis=1) - 1.0


def sums() -> list[Line]:
    sizes, times = [4_000, 16_000, 64_000], []
    rng = np.random.default_rng(0)
    for n in sizes:
        data = luce.from_arrays(rng.random((n, 50)))
        times.append(best_of(lambda data=data: kernel_sums(data, ["cosine"], None)))
    small = luce.from_arrays(rng.random((4_000, 50)))
    theirs = best_of(lambda: all_pairs(small))
    slope = exponent(sizes, times)
    return [
        Line("cosine sums of one query of 4,000", times[0], peer="matrix of all pairs", theirs=theirs),
        Line("cosine sums: exponent in the length of a query", slope, "", goal="about 1, not 2", met=slope < 1.5),
    ]


def greedy() -> list[Line]:
    data = simulate_duplicates(400, seed=0)
    fitted = FittedGreedy(np.array([1.0, -0.1, -1.0]), ("cosine",), "minmax", 10, data.n_features)
    seconds = best_of(lambda: fitted.score_groups(data, data.X[:, 0].astype(float)))
    return [Line(f"greedy placing of 10 documents in 400 queries, {data.n_rows:,} documents", seconds)]


def run() -> list[Line]:
    return [*at_mq2008_size(), *sums(), *greedy()]
