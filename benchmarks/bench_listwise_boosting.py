"""Listwise boosting: a round against one pass over X; mixtures against the square; columns that see the list."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from harness import Line, best_of
from sklearn.isotonic import IsotonicRegression

import luce
from luce.data.simulate import simulate
from luce.losses.base import Loss
from luce.numerics.rows import accumulate_rows
from luce.numerics.segments import chunk_queries, map_chunks
from luce.scorers.linear import LinearScorer
from luce.scorers.list_functions import ListFunctions
from luce.training.listwise_boosting import ListwiseBoosting
from luce.training.objective import Objective
from luce.training.task import Task

FEATURES, QUERIES = 136, 10_000
SIZES, DOCUMENTS = (5, 20, 100, 1000), 100_000
MIXTURES = ((1.0, 1.0, 1.0), (1.0, 1.0, 0.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0), (0.0, 0.0, 1.0))


def run() -> list[Line]:
    data = simulate(queries=QUERIES, features=FEATURES, seed=0)
    return [*boosting_round(data), *mixture(), list_columns(), retargeting()]


def boosting_round(data: luce.Groups) -> list[Line]:
    d = np.random.default_rng(0).normal(size=data.n_rows)
    chunks = chunk_queries(data.offsets)

    def one_pass() -> None:
        def block(_: int, chunk: tuple[int, int]) -> None:
            rows = slice(data.offsets[chunk[0]], data.offsets[chunk[1]])
            accumulate_rows(data.X[rows], d[rows], np.zeros(data.n_features))

        map_chunks(block, chunks)

    lines = []
    passed = best_of(one_pass, 9)
    for loss in ("ndcg_square", "ndcg_cross_entropy"):
        task = Task(data, luce.scorers.get("single_feature"), luce.losses.get(loss, offset=0.0))
        step = ListwiseBoosting(max_iter=99).rounds(task)
        ours = best_of(step, 9)
        lines.append(
            Line(
                f"round of single features, {loss}, {data.n_rows:,} x {data.n_features}",
                ours,
                peer="one product of X with d",
                theirs=passed,
                goal="at most 2.5 passes over X",
                met=ours <= 2.5 * passed,
            )
        )
    return lines


def list_columns() -> Line:
    """All kinds of columns against sorting every feature within its queries, which ranks cannot do without."""
    data = simulate(queries=1000, features=46, seed=0)
    columns = ListFunctions().columns(data)
    query = np.repeat(np.arange(data.n_queries), data.sizes)
    ours = best_of(lambda: columns.expanded(data), 3)
    theirs = best_of(lambda: [np.lexsort((column, query)) for column in data.X.T], 3)
    what = f"{len(columns.table)} columns of lists, {data.n_rows:,} x {data.n_features}"
    return Line(what, ours, peer="one sort a feature", theirs=theirs, goal="at most 3 sorts", met=ours <= 3 * theirs)


def retargeting() -> Line:
    """Value and gradient of monotone retargeting against scikit-learn's isotonic regression, query by query."""
    data = simulate(queries=1000, features=2, seed=0)
    loss, scores = luce.losses.get("monotone_retargeting"), np.random.default_rng(0).normal(size=data.n_rows)
    ours = best_of(lambda: loss.value_and_grad(scores, data.y, data.offsets), 5)
    cuts = list(pairwise(data.offsets.tolist()))
    theirs = best_of(lambda: [IsotonicRegression().fit_transform(data.y[a:b], scores[a:b]) for a, b in cuts], 2)
    what = f"monotone retargeting, {data.n_queries:,} queries, {data.n_rows:,} documents"
    return Line(what, ours, peer="scikit-learn, a query at a time", theirs=theirs, goal="faster", met=ours < theirs)


def mixture() -> list[Line]:
    """Value and gradient with a linear scorer at the size of MQ2008, and of the losses alone by size of query."""
    data = simulate(queries=784, features=46, seed=0)
    weights = np.random.default_rng(0).normal(0, 0.05, 46)

    def whole(loss: Loss) -> float:
        objective = Objective(data, LinearScorer().bind(data), loss, 1e-3)
        vector = np.concatenate([weights, loss.parameters])
        return best_of(lambda: objective.value_and_grad(vector), 9)

    theirs, ours = (whole(luce.losses.get(name)) for name in ("ndcg_square", "ndcg_mix"))
    lines = [_against_square(f"ndcg_mix, linear objective, {data.n_rows:,} documents", ours, theirs)]
    return [*lines, *(line for m in SIZES for line in losses_alone(m))]


def losses_alone(m: int) -> list[Line]:
    """Mixtures of all three functions and of two, on queries of m documents, one thread."""
    rng, n = np.random.default_rng(0), DOCUMENTS // m
    offsets = np.arange(0, n * m + 1, m)
    labels, scores, grad = rng.integers(0, 3, n * m).astype(float), rng.normal(0, 0.35, n * m), np.zeros(n * m)

    def alone(name: str, **settings: Any) -> float:
        loss = luce.losses.get(name, **settings)
        prepared = loss.prepare(labels, offsets)
        return best_of(lambda: loss.evaluate(prepared, scores, (0, n), grad), 25)

    square = alone("ndcg_square")
    return [
        _against_square(f"ndcg_mix {alpha}, loss alone, queries of {m}", alone("ndcg_mix", alpha=alpha), square)
        for alpha in MIXTURES
    ]


def _against_square(what: str, ours: float, theirs: float) -> Line:
    goal = "at most 20 times ndcg_square"
    return Line(what, ours, peer="ndcg_square", theirs=theirs, goal=goal, met=ours <= 20 * theirs)
