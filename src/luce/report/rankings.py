"""The rankings of test queries by every model, as far as they are shown."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.report.blobs import Blobs
from luce.report.pool import Pool
from luce.types import FloatArray, IntArray

DEPTHS = (50, 30, 20, 15, 10, 5)
MOST_BYTES = 4_000_000
"""Of ranks, scores and names before compression, and at most half of what is left of a page."""


class Shown(NamedTuple):
    """The documents that a page shows: those among the first `depth` of some model, in `queries` of the queries."""

    rows: IntArray
    depth: int
    queries: IntArray


def spread(pool: Pool) -> FloatArray:
    """How far the models are apart on every query in the leading metric; 0 where fewer than two have a value."""
    lead = pool.values[:, 0, :]
    known = ~np.isnan(lead)
    high = np.where(known, lead, -np.inf).max(axis=0)
    low = np.where(known, lead, np.inf).min(axis=0)
    return np.where(known.sum(axis=0) > 1, high - low, 0.0)


def shown_documents(pool: Pool, depths: tuple[int, ...], most: float) -> Shown:
    """As deep as `most` documents allow; with the least depth, for the queries where models differ most."""
    best = pool.ranks.min(axis=0)
    every = np.arange(pool.n_queries)
    for depth in depths:
        rows = np.flatnonzero(best <= depth)
        if len(rows) <= most:
            return Shown(rows, depth, every)
    counts = np.bincount(pool.query[rows], minlength=pool.n_queries)
    order = np.argsort(-spread(pool), kind="stable")
    kept = np.sort(order[np.cumsum(counts[order]) <= most])
    return Shown(rows[np.isin(pool.query[rows], kept)], depths[-1], kept)


def pack_rankings(pool: Pool, blobs: Blobs) -> dict[str, Any]:
    """Ranks, scores (16 bits over the range of a model and fold), grades and names of the documents that are shown."""
    name = sum(map(len, pool.documents)) / len(pool.documents)
    a_document = 4 * len(pool.models) + 4 + name
    shown = shown_documents(pool, DEPTHS, min(MOST_BYTES, blobs.room / 2) / a_document)
    rows = shown.rows
    levels, grade = np.unique(pool.grades[rows], return_inverse=True)
    sizes = np.bincount(pool.query[rows], minlength=pool.n_queries)
    codes, low, step = _quantised(pool, rows)
    arrays: dict[str, NDArray[Any]] = {
        "starts": np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32),
        "sizes": np.diff(pool.offsets).astype(np.uint32),
        "place": np.minimum(rows - pool.offsets[pool.query[rows]], 65535).astype(np.uint16),
        "grade": grade.astype(np.uint16 if len(levels) > 256 else np.uint8),
        "rank": pool.ranks[:, rows],
        "score": codes,
        "low": low,
        "step": step,
    }
    return {
        "depth": shown.depth,
        "queries": len(shown.queries),
        "grades": [float(f"{level:.6g}") for level in levels],
        "data": blobs.add("rankings", arrays),
        "documents": blobs.add_texts("documents", [pool.documents[row] for row in rows.tolist()]),
    }


def _quantised(pool: Pool, rows: IntArray) -> tuple[NDArray[np.uint16], FloatArray, FloatArray]:
    shape = (len(pool.models), len(pool.folds))
    low, step = np.zeros(shape), np.zeros(shape)
    codes = np.zeros((len(pool.models), len(rows)), dtype=np.uint16)
    fold = pool.fold[pool.query[rows]]
    for f in range(len(pool.folds)):
        here = fold == f
        for m in range(len(pool.models)):
            scores = pool.scores[m, rows[here]]
            finite = scores[np.isfinite(scores)]
            if not len(finite) or finite.min() == finite.max():
                low[m, f] = finite[0] if len(finite) else 0.0
                continue
            low[m, f], high = finite.min(), finite.max()
            step[m, f] = (high - low[m, f]) / 65535
            codes[m, here] = np.rint((np.clip(scores, low[m, f], high) - low[m, f]) / step[m, f]).astype(np.uint16)
    return codes, low, step
