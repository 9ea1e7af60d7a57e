"""Are the models' probabilities what they say? Ties and preferences between documents of test queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from luce.losses.pairwise import Davidson, LinkedLoss
from luce.losses.partition import PartitionLikelihood
from luce.losses.plackett_luce import PlackettLuce
from luce.losses.probabilities import pair_probabilities
from luce.metrics.calibration import bins_of, reliability
from luce.ranker import Ranker
from luce.report.pool import Pool
from luce.scorers.cps import FittedCPS
from luce.types import FloatArray, IntArray

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
    tie, before, after = _chances(ranker, scores, first, second, rng)
    either = before + after
    better = np.divide(before, either, out=np.full(len(first), 0.5), where=either > 0)
    weight = np.full(len(first), 1.0 / len(first))
    return _Pairs(np.clip(tie, 0, 1), np.clip(better, 0, 1), np.sign(grades[first] - grades[second]), weight)


def _chances(
    ranker: Ranker, scores: FloatArray, first: IntArray, second: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For each pair the chances of a tie, of the first document, and of the second."""
    loss, difference = ranker.trained_loss, scores[first] - scores[second]
    if isinstance(loss, PlackettLuce):
        before = expit(difference)
        return np.zeros(len(first)), before, 1.0 - before
    if isinstance(loss, Davidson):
        return loss.chances(scores[first], scores[second])
    if isinstance(loss, LinkedLoss):
        return loss.tie_probability(difference), loss.pair_probability(difference), loss.pair_probability(-difference)
    chances = pair_probabilities(loss, scores, rng, DRAWS, ranker.sizes_)
    return chances.tie[first, second], chances.before[first, second], chances.before[second, first]


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
