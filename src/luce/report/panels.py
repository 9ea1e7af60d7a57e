"""The panels of a report, a function each: data in, data out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from luce.auto.plan import as_rows
from luce.losses.pairwise import LinkedLoss
from luce.losses.plackett_luce import PlackettLuce
from luce.losses.probabilities import pair_probabilities
from luce.losses.stages import PartitionLikelihood
from luce.metrics.calibration import bins_of, reliability
from luce.metrics.catalog import parse
from luce.metrics.conventions import conventions
from luce.metrics.evaluate import evaluate_arrays
from luce.ranker import Ranker
from luce.report.pool import Blobs, Pool
from luce.scorers.cps import FittedCPS
from luce.types import FloatArray, IntArray

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a fold may have no query that a metric counts
        folds = [np.nanmean(values[:, pool.fold == fold], axis=1) for fold in range(len(pool.folds))]
        n = (~np.isnan(values)).sum(axis=1)
        return np.nanmean(folds, axis=0), 1.96 * np.nanstd(values, axis=1, ddof=1) / np.sqrt(n)


def _rounded(values: FloatArray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 5) for value in values]


MOST_POINTS = 200


def learning_curves(table: pa.Table, models: list[str], folds: list[str]) -> list[dict[str, Any]]:
    """A dict a curve, thinned to about 200 points; the first, the last, the lowest and the highest are among them."""
    keys = ["model", "fold", "part", "measure"]
    if table.num_rows == 0:
        return []
    columns = {name: table[name].cast(pa.string()).to_pylist() for name in keys}
    rounds, values = (table[name].to_numpy().astype(np.float64) for name in ("round", "value"))
    grouped: dict[tuple[str, ...], list[int]] = {}
    for i, key in enumerate(zip(*columns.values(), strict=True)):
        grouped.setdefault(key, []).append(i)
    curves = []
    for (model, fold, part, measure), members in grouped.items():
        if model not in models or fold not in folds:
            continue
        rows = np.array(members)
        rows = rows[np.argsort(rounds[rows], kind="stable")]
        rows = rows[np.isfinite(values[rows])]
        if not len(rows):
            continue
        even = np.linspace(0, len(rows) - 1, MOST_POINTS).round().astype(np.int64)
        kept = rows[np.union1d(even, [np.argmin(values[rows]), np.argmax(values[rows])])]
        curves.append(
            {
                "model": models.index(model),
                "fold": folds.index(fold),
                "part": part,
                "measure": measure,
                "round": [int(r) for r in rounds[kept]],
                "value": [float(f"{v:.6g}") for v in values[kept]],
            }
        )
    return curves


MOST_FEATURES = 30
_EFFECT = "effect of one standard deviation on the score"


def feature_importance(rankers: Mapping[int, Ranker]) -> dict[str, Any] | None:
    """The strongest features of one model, by the mean of their size over folds; None where it has no such thing.

    `rankers` holds the fitted model of every fold.
    """
    found: dict[str, dict[int, float]] = {}
    meaning = _EFFECT
    for fold, ranker in rankers.items():
        scorer = ranker.scorer_
        if not hasattr(scorer, "importance"):
            return None
        meaning = getattr(scorer, "importance_is", _EFFECT)
        names = getattr(scorer, "term_names", None) or ranker.scored_names
        for name, value in zip(names, np.asarray(scorer.importance()).tolist(), strict=True):
            if value:
                found.setdefault(name, {})[fold] = value
    if not rankers:
        return None
    folds = sorted(rankers)
    strength = {name: sum(map(abs, by_fold.values())) for name, by_fold in found.items()}
    order = sorted(found, key=lambda name: -strength[name])[:MOST_FEATURES]
    values = [[float(f"{found[name].get(fold, 0.0):.5g}") for fold in folds] for name in order]
    return {
        "meaning": meaning,
        "folds": folds,
        "names": order,
        "values": values,
        "signed": any(value < 0 for row in values for value in row),
        "total": len(found),
    }


def blend_members(pool: Pool, model: int, by_fold: Mapping[int, Ranker]) -> dict[str, Any] | None:
    """The members of a blend over the folds of a run, heaviest first; None where the model is no blend."""
    records = {fold: ranker.history_.get("blend") for fold, ranker in by_fold.items()}
    found = {fold: record for fold, record in records.items() if record}
    if not found:
        return None
    metric = next(iter(found.values()))["metric"]
    return {
        "metric": metric,
        "members": _rows(list(found.values())),
        "worth": [_worth(pool, model, fold, record) for fold, record in found.items()],
        "remarks": list(dict.fromkeys(remark for record in found.values() for remark in record["remarks"])),
    }


def _rows(records: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a member; a list has one value a fold that fitted it."""
    by_member: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        for row in as_rows(record):
            by_member.setdefault(row["member"], []).append(row)
    rows = []
    for member, turns in by_member.items():
        fitted = [row for row in turns if row["steps"]]
        rows.append(
            {
                "member": member,
                "about": next((row["about"] for row in turns if row["about"]), ""),
                "weight": [row["weight"] for row in turns],
                "alone": [row["alone"] for row in fitted],
                "chosen": [row["chosen"] for row in fitted if "chosen" in row],
                "worse": sum(not row.get("kept", True) for row in fitted),
                "trees": [step for row in fitted for step in row["steps"]],
                "failed": list(dict.fromkeys(row["note"] for row in turns if not row["steps"])),
                "folds": len(turns),
            }
        )
    return sorted(rows, key=lambda row: -float(np.mean(row["weight"])))


def _worth(pool: Pool, model: int, fold: int, record: Mapping[str, Any]) -> dict[str, Any]:
    """What was expected of a fold, and what came of it, where the run has the metric."""
    expected = record.get("estimate") or {}
    came = None
    if record["metric"] in pool.metrics:
        values = pool.values[model, pool.metrics.index(record["metric"]), pool.fold == fold]
        came = float(np.nanmean(values)) if np.isfinite(values).any() else None
    return {"fold": fold, **{key: expected.get(key) for key in ("value", "low", "high")}, "test": came}


MOST_QUERIES = 150
MOST_PAIRS = 300_000
DRAWS = 400
BINS = 10
_HISTOGRAM = 20


class _Pairs(NamedTuple):
    """Pairs of documents: chance of a tie, chance that the first is better where they are not tied, and the truth."""

    tie: FloatArray
    better: FloatArray
    outcome: FloatArray
    """Sign of the difference of grades."""
    weight: FloatArray
    """All pairs of a query weigh 1 together."""


def why_no_probabilities(ranker: Ranker) -> str | None:
    """Why the scores of a model say nothing about the chances of pairs, or None where they do."""
    if isinstance(ranker.scorer_, FittedCPS):
        return "its scores are places in a ranking"
    if ranker.loss_ is None:
        return f"it is trained by a criterion of its own ({ranker.parts_.title}), not on a likelihood"
    if not isinstance(ranker.loss_.likelihood, LinkedLoss | PartitionLikelihood | PlackettLuce):
        return f"the loss {ranker.loss_.name} gives no chances of pairs in closed form or by exact draws"
    return None


def calibration(pool: Pool, model: int, rankers: Mapping[int, Ranker], seed: int) -> dict[str, Any] | None:
    """Reliability of the chance of a tie, and of the better document among two that differ.

    Queries are drawn with `seed`, at most 150 and those of at most 300,000 pairs together; the chances of partition
    models come from 400 exact draws a query. Every query weighs the same.
    """
    rng = np.random.default_rng(seed)
    sizes = np.diff(pool.offsets)
    drawn = rng.permutation(np.flatnonzero(np.isin(pool.fold, list(rankers)) & (sizes > 1)))[:MOST_QUERIES]
    fitting = np.cumsum(sizes[drawn] * (sizes[drawn] - 1) // 2) <= MOST_PAIRS
    chosen = np.sort(drawn[fitting] if fitting.any() else drawn[:0])
    parts = [_pairs_of(pool, model, int(q), rankers[int(pool.fold[q])], rng) for q in chosen]
    if not parts:
        return None
    pairs = _Pairs(*map(np.concatenate, zip(*parts, strict=True)))
    has_ties = bool((pairs.tie > 0).any())
    differ = pairs.outcome != 0
    result: dict[str, Any] = {"queries": len(chosen), "pairs": len(pairs.tie), "draws": 0}
    if isinstance(next(iter(rankers.values())).trained_loss.likelihood, PartitionLikelihood):
        result["draws"] = DRAWS
    if differ.any():
        result["better"] = _curve(pairs.better[differ], pairs.outcome[differ] > 0, pairs.weight[differ])
    if has_ties:
        result["tie"] = _curve(pairs.tie, ~differ, pairs.weight)
        result["histogram"] = [_histogram(pairs.tie, pairs.weight, of) for of in (~differ, differ)]
    return result


def _pairs_of(pool: Pool, model: int, query: int, ranker: Ranker, rng: np.random.Generator) -> _Pairs:
    rows = np.arange(pool.offsets[query], pool.offsets[query + 1])
    scores, grades = pool.scores[model, rows], pool.grades[rows]
    # Each pair once, its first document drawn: who stands first in the data must not say who is better.
    first, second = np.triu_indices(len(rows), 1)
    swap = rng.random(len(first)) < 0.5
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    chances = pair_probabilities(ranker.trained_loss, scores, rng, DRAWS, ranker.sizes_)
    tie, before, after = chances.tie[first, second], chances.before[first, second], chances.before[second, first]
    either = before + after
    better = np.divide(before, either, out=np.full(len(first), 0.5), where=either > 0)
    weight = np.full(len(first), 1.0 / len(first))
    return _Pairs(np.clip(tie, 0, 1), np.clip(better, 0, 1), np.sign(grades[first] - grades[second]), weight)


def _curve(probability: FloatArray, outcome: Any, weight: FloatArray) -> dict[str, Any]:
    curve = reliability(probability, outcome, BINS, weight=weight)
    filled = curve.counts > 0
    mass = np.bincount(bins_of(probability, curve.edges), weight, len(filled))
    return {
        "predicted": curve.predicted[filled].round(4).tolist(),
        "observed": curve.observed[filled].round(4).tolist(),
        "share": (mass[filled] / weight.sum()).round(4).tolist(),
        "error": round(curve.error, 5),
    }


def _histogram(probability: FloatArray, weight: FloatArray, of: Any) -> list[float]:
    total = weight[of].sum()
    edges = np.linspace(0, 1, _HISTOGRAM + 1)
    mass = np.bincount(bins_of(probability[of], edges), weight[of], _HISTOGRAM)
    return list((mass / total if total else mass).round(5).tolist())


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


def packed_places(pool: Pool, shown: Shown) -> dict[str, NDArray[Any]]:
    """Where the documents of every query begin among those that are shown, and the places of these in their query."""
    query = pool.query[shown.rows]
    starts = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=pool.n_queries))])
    place = np.minimum(shown.rows - pool.offsets[query], 65535)
    return {"starts": starts.astype(np.uint32), "place": place.astype(np.uint16)}


def pack_rankings(pool: Pool, blobs: Blobs) -> dict[str, Any]:
    """Ranks, scores (16 bits over the range of a model and fold), grades and names of the documents that are shown."""
    name = sum(map(len, pool.documents)) / len(pool.documents)
    a_document = 4 * len(pool.models) + 4 + name
    shown = shown_documents(pool, DEPTHS, min(MOST_BYTES, blobs.room / 2) / a_document)
    rows = shown.rows
    levels, grade = np.unique(pool.grades[rows], return_inverse=True)
    codes, low, step = _quantised(pool, rows)
    arrays: dict[str, NDArray[Any]] = {
        **packed_places(pool, shown),
        "sizes": np.diff(pool.offsets).astype(np.uint32),
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
