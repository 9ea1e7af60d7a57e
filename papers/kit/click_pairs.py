"""A row of a table that is learned from simulated clicks alone: preferences and ties of sessions over real queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import luce
from kit.crossfit import Entry, best_of_grid
from luce.clicks import examination, pairs, read
from luce.clicks.simulation import as_columns, production, simulate_sessions, weak_rankers
from luce.experiments.folds import Fold

__all__ = ["LEARNED", "SESSIONS", "from_clicks"]

SESSIONS = {"OHSUMED-2.0": 20_000, "MQ2008": 20_000}
"""Of the training queries; validation queries have a third as many, as there are a third as many of them."""
LEARNED = ("bt-ties", "bt-noties")


def from_clicks(
    cuts: Callable[[], Sequence[Sequence[Fold]]], entry: Entry, metrics: Sequence[str], seed: int, sessions: int
) -> dict[str, Any]:
    """Test means on grades of a model that saw clicks only; validation goes by click rates, freed of position."""
    found: dict[str, Any] = {"seconds": 0.0, "chosen": [], "pairs": []}
    folds = cuts()[0]
    values: dict[str, list[list[float]]] = {metric: [] for metric in metrics}
    for number, fold in enumerate(folds):
        train, valid, test = fold.load()
        rng = np.random.default_rng([seed, number])
        blank, seen = _watched(train, rng, sessions)
        judging, rates = _watched(valid, rng, sessions // 3)
        target = rates.target(judging)
        shown = target.exposure > 0
        rate = np.divide(target.clicks, target.exposure, out=np.zeros(len(shown)), where=shown)
        comparisons = pairs(seen, blank)
        judging = replace(judging, y=np.minimum(rate, 1.0))
        ranker, choice, seconds = best_of_grid(entry, blank, judging, "ndcg@10", seed, comparisons=comparisons)
        judged = luce.evaluate(ranker, test, list(metrics), ties="stable")
        for metric in metrics:
            values[metric].append(np.asarray(judged.values[metric]).tolist())
        found["chosen"].append(choice)
        found["seconds"] += seconds / len(folds)
        found["pairs"].append([len(comparisons.wins), len(comparisons.ties)])
        print(fold.name, flush=True)
    means = {metric: float(np.mean([np.mean(part) for part in values[metric]])) for metric in metrics}
    queries = {metric: [round(v, 5) for part in values[metric] for v in part] for metric in ("map", "ndcg@1", "ndcg@5")}
    settings = {"system": entry.system, "settings": dict(entry.settings), "grid": list(entry.grid)}
    return {"means": means, "queries": queries, **found, **settings, "seed": seed, "sessions": sessions}


def _watched(part: luce.Groups, rng: np.random.Generator, sessions: int) -> tuple[luce.Groups, Any]:
    """The queries without their grades, and what users who look down the lists of two weak rankers click in them."""
    ids = np.array([f"{row}" for row in range(part.n_rows)])
    graded = luce.from_arrays(part.X, part.y, qid=part.qid, document_ids=ids)
    made = production(graded, weak_rankers(graded, rng, share=0.01), shown=10, swap=0.1)
    log = simulate_sessions(graded, made, rng, sessions=sessions)
    blank = replace(graded, y=np.zeros(graded.n_rows))
    counts = read(as_columns(log, graded), pairs=True)
    # Pairs want positions alone; what users saw above a document is summed away.
    return blank, replace(examination(counts, blank), counts=counts.by_position())
