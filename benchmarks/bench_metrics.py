"""All metrics on 20,000 queries of 24 documents, from arrays to means, beside ranx and scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from harness import Line, best_of, duel, exponent

import luce

QUERIES, DOCUMENTS = 20_000, 24
SHARED = {
    "ndcg@10": "ndcg@10", "dcg@10": "dcg@10", "map": "map", "p@10": "precision@10", "recall@10": "recall@10",
    "mrr": "mrr", "rbp": "rbp.80",
}  # fmt: skip
ALL = [
    "ndcg@10", "dcg@10", "err@10", "map", "p@10", "recall@10", "mrr", "rbp", "mean_ndcg", "kappa_ndcg@10", "kappa_err",
    "kendall_tau", "spearman_footrule", "pairwise_accuracy", "tie_precision",
]  # fmt: skip


def simulated(queries: int, documents: int, seed: int = 0) -> tuple[luce.Groups, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = queries * documents
    labels = rng.choice(5, size=n, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    data = luce.from_arrays(np.zeros((n, 1)), labels, group=np.full(queries, documents))
    return data, labels + rng.normal(0, 2, n)


def ranx_tables(data: luce.Groups, scores: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    names = [f"d{i}" for i in range(DOCUMENTS)]
    qrels, run = {}, {}
    labels = data.y.astype(int).reshape(-1, DOCUMENTS).tolist()
    for q, (y, s) in enumerate(zip(labels, scores.reshape(-1, DOCUMENTS).tolist(), strict=True)):
        qrels[f"q{q}"] = dict(zip(names, y, strict=True))
        run[f"q{q}"] = dict(zip(names, s, strict=True))
    return qrels, run


def against_ranx(data: luce.Groups, scores: np.ndarray, every: float, shared: float) -> list[Line]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import ranx
        except ImportError:
            print("  ranx is not installed; its lines are left out.")
            return []

        def build() -> tuple[Any, Any]:
            qrels, run = ranx_tables(data, scores)
            return ranx.Qrels(qrels), ranx.Run(run)

        def from_arrays() -> Any:
            return ranx.evaluate(*build(), list(SHARED.values()))

        whole = best_of(from_arrays, repeats=2)
        qrels, run = build()
        ready = best_of(lambda: ranx.evaluate(qrels, run, list(SHARED.values())), repeats=5)
    what = f"{QUERIES:,} x {DOCUMENTS}"
    goal = "at least 5 times faster"
    return [
        Line(
            f"{len(ALL)} metrics, arrays to means, {what}",
            every,
            peer="ranx, 7 metrics",
            theirs=whole,
            goal=goal,
            met=whole > 5 * every,
        ),
        Line(
            "the 7 metrics of both, arrays to means",
            shared,
            peer="ranx",
            theirs=whole,
            goal=goal,
            met=whole > 5 * shared,
        ),
        Line(
            "the 7 metrics, its structures already built",
            shared,
            peer="ranx",
            theirs=ready,
            goal=goal,
            met=ready > 5 * shared,
        ),
    ]


def against_sklearn(data: luce.Groups, scores: np.ndarray) -> list[Line]:
    from sklearn.metrics import ndcg_score

    labels, table = data.y.reshape(-1, DOCUMENTS), scores.reshape(-1, DOCUMENTS)
    lines = []
    for what, ignore_ties in (("with ties averaged", False), ("with ties ignored", True)):
        ours, theirs = duel(
            lambda: luce.evaluate(scores, data, "ndcg@10", preset="sklearn").means,
            lambda flag=ignore_ties: ndcg_score(labels, table, k=10, ignore_ties=flag),  # type: ignore[misc]
            repeats=5,
        )
        lines.append(
            Line(f"NDCG@10 alone, {what}", ours, peer="scikit-learn", theirs=theirs, goal="faster", met=theirs > ours)
        )
    return lines


def growth() -> list[Line]:
    """The exponent of the time in the number of queries and in their length; at most 1.1."""
    lines = []
    for what, shapes in (
        ("queries", [(2_000, 24), (6_000, 24), (20_000, 24)]),
        ("documents a query", [(1_000, 100), (1_000, 300), (1_000, 1_000)]),
    ):
        times = []
        for shape in shapes:
            data, scores = simulated(*shape)
            times.append(best_of(lambda d=data, s=scores: luce.evaluate(s, d, ALL).means, repeats=5))  # type: ignore[misc]
        slope = exponent([q * n for q, n in shapes], times)
        lines.append(
            Line(f"growth in {what}: exponent of the time", slope, unit="", goal="at most 1.1", met=slope <= 1.1)
        )
    return lines


def run() -> list[Line]:
    data, scores = simulated(QUERIES, DOCUMENTS)
    every = best_of(lambda: luce.evaluate(scores, data, ALL).means, repeats=5)
    shared = best_of(lambda: luce.evaluate(scores, data, list(SHARED)).means, repeats=5)
    return [*against_ranx(data, scores, every, shared), *against_sklearn(data, scores), *growth()]
