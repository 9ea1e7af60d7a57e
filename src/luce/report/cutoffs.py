"""Metrics at every cut-off, from the scores of the test documents."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.metrics.catalog import parse
from luce.metrics.conventions import conventions
from luce.metrics.evaluate import evaluate_arrays
from luce.report.pool import Pool
from luce.types import FloatArray

FAMILIES = {"ndcg": "NDCG", "p": "Precision", "recall": "Recall", "map": "Average precision", "err": "ERR"}
DEEPEST = 20


def cutoff_curves(pool: Pool, rules: dict[str, Any]) -> dict[str, Any]:
    """For every family and model the mean of the folds' means at k = 1, 2, ..., and half a 95% interval.

    The half width is 1.96 standard errors of the mean over queries; `rules` are the conventions of the run.
    """
    chosen = conventions(rules.get("preset"), **{key: value for key, value in rules.items() if key != "preset"})
    deepest = int(min(DEEPEST, np.diff(pool.offsets).max()))
    cutoffs = range(1, deepest + 1)
    metrics = [parse(f"{family}@{k}", chosen) for family in FAMILIES for k in cutoffs]
    rmax = float(pool.grades.max())
    folds = [(np.flatnonzero(pool.fold == f), pool.fold_rows(f)) for f in range(len(pool.folds))]
    names = [np.array(pool.documents[rows]) if chosen.ties == "docid" else None for _, rows in folds]
    curves: dict[str, Any] = {family: {"name": name, "mean": [], "half": []} for family, name in FAMILIES.items()}
    for scores in pool.scores:
        values = np.empty((len(metrics), pool.n_queries))
        for (queries, rows), documents in zip(folds, names, strict=True):
            offsets = pool.offsets[queries[0] : queries[-1] + 2] - pool.offsets[queries[0]]
            found = evaluate_arrays(scores[rows], pool.grades[rows], offsets, metrics, documents, rmax)
            values[:, queries] = [found[metric.name] for metric in metrics]
        mean, half = _summary(values, pool)
        for i, family in enumerate(FAMILIES):
            part = slice(i * deepest, (i + 1) * deepest)
            curves[family]["mean"].append(_rounded(mean[part]))
            curves[family]["half"].append(_rounded(half[part]))
    return {"k": list(cutoffs), "families": curves}


def _summary(values: FloatArray, pool: Pool) -> tuple[FloatArray, FloatArray]:
    """Mean of the folds' means, and 1.96 standard errors of the mean over all queries."""
    counted = ~np.isnan(values)
    filled = np.where(counted, values, 0.0)
    means = []
    for fold in range(len(pool.folds)):
        here = pool.fold == fold
        n = counted[:, here].sum(axis=1)
        means.append(np.divide(filled[:, here].sum(axis=1), n, out=np.full(len(n), np.nan), where=n > 0))
    folds = np.array(means)
    known = ~np.isnan(folds)
    n_folds, n = known.sum(axis=0), counted.sum(axis=1)
    mean = np.divide(np.where(known, folds, 0).sum(axis=0), n_folds, out=np.full(len(n), np.nan), where=n_folds > 0)
    centre = np.divide(filled.sum(axis=1), n, out=np.zeros(len(n)), where=n > 0)
    squares = np.where(counted, (values - centre[:, None]) ** 2, 0.0).sum(axis=1)
    half = 1.96 * np.sqrt(np.divide(squares, n * (n - 1.0), out=np.full(len(n), np.nan), where=n > 1))
    return mean, half


def _rounded(values: FloatArray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 5) for value in values]
