"""Folds, and rows of a table over them: fit on training queries to the end, choose by validation, judge on test."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import luce
from luce.experiments.folds import Fold, find_folds, grouped_folds
from luce.metrics.significance import randomisation_test

__all__ = [
    "Entry",
    "best_of_grid",
    "counted",
    "folds_of",
    "joined",
    "judge",
    "one_row",
    "repeated",
    "repeated_folds",
    "table",
]


@dataclass(frozen=True)
class Entry:
    """A row of a table: a complete system, what it fixes, and the settings among which validation chooses."""

    system: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Sequence[Mapping[str, Any]] = ({},)
    stopped: bool = False
    """Validation queries also choose the round that is kept."""


def joined(parts: Sequence[luce.Groups]) -> luce.Groups:
    """The queries of several parts as one data set."""
    X, y = np.vstack([part.X for part in parts]), np.concatenate([part.y for part in parts])
    qid, named = np.concatenate([part.qid for part in parts]), [part.document_ids for part in parts]
    documents = None if any(names is None for names in named) else np.concatenate(named)
    return luce.from_arrays(X, y, qid=qid, document_ids=documents, allow_nan=bool(np.isnan(X).any()))


def folds_of(folder: Path) -> list[Fold]:
    """The folds of a set: as its folders are, of five parts S1 to S5, or of one file, cut by query."""
    parts = sorted(folder.glob("S?.txt.gz"))
    if parts:
        read = [luce.read_letor(path) for path in parts]
        return [_rotation(read, number) for number in range(len(read))]
    alone = folder / "all.txt.gz"
    return find_folds(alone if alone.exists() else folder)


def _rotation(parts: list[luce.Groups], number: int) -> Fold:
    turned = parts[number:] + parts[:number]
    return Fold(f"Fold{number + 1}", lambda: (joined(turned[:-2]), turned[-2], turned[-1]))


def one_row(cuts: Sequence[Sequence[Fold]], entry: Entry, metrics: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """One row by itself, so that tests between rows can be made later: means, values of queries, choices, seconds.

    Means are those of the folds' means. A query counts by its mean over the cuts, in the order of the first one.
    """
    found: dict[str, Any] = {"row": {"seconds": 0.0, "chosen": []}}
    share = 1 / len(cuts)
    parts = [part["row"] for folds in cuts for part in judge(folds, {"row": entry}, metrics, "ndcg@10", seed, found)]
    queries: dict[str, dict[str, float]] = {metric: {} for metric in metrics}
    for metric in metrics:
        for part in parts:
            for query, value in part[metric].items():
                queries[metric][query] = queries[metric].get(query, 0.0) + share * value
    means = {metric: float(np.mean([np.mean(list(part[metric].values())) for part in parts])) for metric in metrics}
    listed = {metric: [round(value, 5) for value in values.values()] for metric, values in queries.items()}
    return {"means": means, "queries": listed, **found["row"], "seconds": share * found["row"]["seconds"]}


def repeated_folds(folds: Sequence[Fold], times: int, seed: int = 0) -> list[list[Fold]]:
    """The queries of all test parts, cut anew into five folds so many times."""
    whole = joined([fold.load()[2] for fold in folds])
    return [grouped_folds(whole, 5, seed + repeat) for repeat in range(times)]


def table(
    folds: Sequence[Fold],
    rows: Mapping[str, Entry],
    metrics: Sequence[str],
    against: str,
    *,
    tune_on: str = "ndcg@10",
    seed: int = 0,
) -> dict[str, Any]:
    """Every row: test means over folds, what was chosen, seconds of CPU a fit, p-values against one of the rows."""
    found: dict[str, Any] = {label: {"means": {}, "p": {}, "seconds": 0.0, "chosen": []} for label in rows}
    values = judge(folds, rows, metrics, tune_on, seed, found)
    for label in rows:
        for metric in metrics:
            by_fold = [np.mean(list(part[label][metric].values())) for part in values]
            found[label]["means"][metric] = float(np.mean(by_fold))
            if label != against:
                own, other = (
                    np.concatenate([list(part[name][metric].values()) for part in values]) for name in (against, label)
                )
                found[label]["p"][metric] = randomisation_test(own, other, rng=seed).p_value
    return found


def counted(rows: Mapping[str, Any]) -> str:
    """How many tests stand behind the marks of a table."""
    seen = [p for row in rows.values() for p in row["p"].values()]
    below = sum(p < 0.05 for p in seen)
    return f"{len(seen)} tests, {below} with p below .05; chance alone gives {0.05 * len(seen):.1f}."


def repeated(
    cuts: Sequence[Sequence[Fold]],
    rows: Mapping[str, Entry],
    metrics: Sequence[str],
    against: str,
    seed: int = 0,
    tune_on: str = "ndcg@10",
) -> dict[str, Any]:
    """The same over several cuts of one set into folds: a query counts by its mean over the cuts."""
    found: dict[str, Any] = {label: {"means": {}, "p": {}, "seconds": 0.0, "chosen": []} for label in rows}
    sums: dict[str, dict[str, dict[str, float]]] = {label: {metric: {} for metric in metrics} for label in rows}
    for folds in cuts:
        for part in judge(folds, rows, metrics, tune_on, seed, found):
            for label in rows:
                for metric in metrics:
                    for query, value in part[label][metric].items():
                        sums[label][metric][query] = sums[label][metric].get(query, 0.0) + value / len(cuts)
    for label in rows:
        found[label]["seconds"] /= len(cuts)
        for metric in metrics:
            mean = sums[label][metric]
            found[label]["means"][metric] = float(np.mean(list(mean.values())))
            found[label].setdefault("queries", {})[metric] = [round(value, 5) for value in mean.values()]
            if label != against:
                own = np.array([sums[against][metric][query] for query in mean])
                found[label]["p"][metric] = randomisation_test(own, np.array(list(mean.values())), rng=seed).p_value
    return found


def judge(
    folds: Sequence[Fold], rows: Mapping[str, Entry], metrics: Sequence[str], tune_on: str, seed: int, found: Any
) -> list[dict[str, dict[str, dict[str, float]]]]:
    """By fold, row, metric and query, the value on test; notes in `found` what was chosen, and the seconds."""
    values = []
    for fold in folds:
        train, valid, test = fold.load()
        names, here = [str(query) for query in test.query_ids], {}
        for label, entry in rows.items():
            ranker, choice, seconds = best_of_grid(entry, train, valid, tune_on, seed)
            judged = luce.evaluate(ranker, test, list(metrics), ties="stable")
            found[label]["chosen"].append(choice)
            found[label]["seconds"] += seconds / len(folds)
            here[label] = {m: dict(zip(names, np.asarray(judged.values[m]).tolist(), strict=True)) for m in metrics}
        values.append(here)
        print(fold.name, flush=True)
    return values


def best_of_grid(
    entry: Entry, train: luce.Groups, valid: luce.Groups, tune_on: str, seed: int, **given: Any
) -> tuple[luce.Ranker, dict[str, Any], float]:
    """The ranker that is best on the validation queries, its choice of the grid, and the seconds of CPU a fit."""
    best, seconds = None, 0.0
    for choice in entry.grid:
        settings = {**entry.settings, **choice}
        start = time.process_time()
        ranker = luce.model(entry.system, **settings, random_state=seed)
        ranker.fit(train, valid=valid if entry.stopped else None, **given)
        seconds += (time.process_time() - start) / len(entry.grid)
        value = luce.evaluate(ranker, valid, [tune_on], ties="stable").means[tune_on]
        if best is None or value > best[0]:
            best = (value, ranker, dict(choice))
    assert best is not None
    return best[1], best[2], seconds
