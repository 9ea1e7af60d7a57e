"""Listwise boosting: a round against one pass over X; mixtures against the square."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Line, best_of

import luce
from luce.data.simulate import simulate
from luce.losses.base import Loss
from luce.numerics.rows import accumulate_rows
from luce.numerics.segments import chunk_queries, map_chunks
from luce.scorers.linear import LinearScorer
from luce.training.listwise_boosting import rounds
from luce.training.objective import Objective
from luce.training.train import Options

FEATURES, QUERIES = 136, 10_000


def run() -> list[Line]:
    data = simulate(queries=QUERIES, features=FEATURES, seed=0)
    return [*boosting_round(data), *mixture()]


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
        step = rounds(luce.scorers.get("single_feature"), luce.losses.get(loss, offset=0.0), data, Options(max_iter=99))
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


def mixture() -> list[Line]:
    """Value and gradient with a linear scorer at the size of MQ2008, and of the losses alone."""
    data = simulate(queries=784, features=46, seed=0)
    weights = np.random.default_rng(0).normal(0, 0.05, 46)
    scores = data.X @ weights
    square, mix = luce.losses.get("ndcg_square"), luce.losses.get("ndcg_mix")

    def whole(loss: Loss) -> float:
        objective = Objective(data, LinearScorer().bind(data), loss, 1e-3)
        vector = np.concatenate([weights, loss.parameters])
        return best_of(lambda: objective.value_and_grad(vector), 9)

    def alone(loss: Loss) -> float:
        prepared, grad = loss.prepare(data.y, data.offsets), np.zeros(data.n_rows)
        return best_of(lambda: loss.evaluate(prepared, scores, (0, data.n_queries), grad), 9)

    lines = []
    for what, timed in (("linear objective", whole), ("loss alone, one thread", alone)):
        theirs, ours = timed(square), timed(mix)
        what = f"ndcg_mix, {what}, {data.n_rows:,} documents"
        # The square alone is two flops a document: what a fit costs is the objective, with its pass over X.
        goal: dict[str, Any] = {}
        if timed is whole:
            goal = {"goal": "at most 20 times ndcg_square", "met": ours <= 20 * theirs}
        lines.append(Line(what, ours, peer="ndcg_square", theirs=theirs, **goal))
    return lines
