"""Compare models over folds: tune on validation, evaluate on test, keep every query's value."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from luce.data.groups import Groups
from luce.experiments.folds import Fold
from luce.metrics.evaluate import evaluate
from luce.metrics.significance import bootstrap_interval, holm, randomisation_test
from luce.systems import model as complete
from luce.systems import search_space
from luce.types import FloatArray

__all__ = ["Candidate", "Comparison", "Outcome", "compare"]

Report = Callable[[str, str, str], None]
"""Told (fold, model, what happens)."""


@dataclass(frozen=True)
class Candidate:
    """A model and the settings among which validation chooses: every combination of `grid`."""

    name: str
    grid: Mapping[str, Sequence[Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    """The complete system behind it, where `name` is another one."""

    @classmethod
    def named(cls, name: str) -> Candidate:
        """A complete system with its own grid."""
        return cls(name, search_space(name))

    def choices(self) -> list[dict[str, Any]]:
        """All settings of the grid, in a fixed order."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]


@dataclass(frozen=True)
class Outcome:
    """One model on one fold: what was chosen and what it gave on every test query."""

    fold: str
    model: str
    chosen: dict[str, Any]
    validation: float
    seconds: float
    query_ids: list[str]
    values: dict[str, FloatArray]
    scores: FloatArray


@dataclass(frozen=True)
class Comparison:
    """All outcomes, and what follows from them."""

    outcomes: list[Outcome]
    metrics: list[str]
    settings: dict[str, Any]

    @property
    def models(self) -> list[str]:
        """Names in the order in which they were given."""
        return list(dict.fromkeys(outcome.model for outcome in self.outcomes))

    def fold_means(self, model: str, metric: str) -> FloatArray:
        """The mean over queries, fold by fold."""
        return np.array([np.nanmean(o.values[metric]) for o in self.outcomes if o.model == model])

    def mean(self, model: str, metric: str) -> float:
        """Mean of the folds' means, as the LETOR papers report it."""
        return float(self.fold_means(model, metric).mean())

    def per_query(self, model: str, metric: str) -> FloatArray:
        """Values of all test queries, fold after fold."""
        return np.concatenate([o.values[metric] for o in self.outcomes if o.model == model])

    def seconds(self, model: str) -> float:
        """Median training time of a fit; the first one of a run also compiles, which the median passes over."""
        return float(np.median([o.seconds for o in self.outcomes if o.model == model]))

    def leaderboard(self, sort_by: str | None = None) -> list[dict[str, Any]]:
        """A row a model, best first: means, intervals, and p-values against the best (Holm over models)."""
        seed = self.settings["seed"]
        key = sort_by or self.metrics[0]
        order = sorted(self.models, key=lambda m: -self.mean(m, key))
        best = self.per_query(order[0], key)
        p_values = {m: randomisation_test(best, self.per_query(m, key), rng=seed).p_value for m in order[1:]}
        corrected = holm(p_values)
        rows = []
        for name in order:
            interval = bootstrap_interval(self.per_query(name, key), rng=seed)
            row: dict[str, Any] = {"model": name}
            row |= {metric: self.mean(name, metric) for metric in self.metrics}
            row |= {"low": interval.low, "high": interval.high}
            row |= {"p": p_values.get(name), "p_holm": corrected.get(name), "seconds": self.seconds(name)}
            rows.append(row)
        return rows


def compare(
    folds: Sequence[Fold],
    candidates: Sequence[Candidate],
    metrics: Sequence[str] = ("ndcg@10", "ndcg@1", "map"),
    *,
    tune_on: str = "ndcg@10",
    seed: int = 0,
    report: Report | None = None,
    **conventions: Any,
) -> Comparison:
    """Fit every candidate on every fold with each setting of its grid; validation chooses, test judges.

    Validation and test use the same `conventions` (see `luce.evaluate`). The same seed gives the same numbers.
    """
    outcomes = []
    for fold in folds:
        train, valid, test = fold.load()
        for candidate in candidates:
            if report:
                report(fold.name, candidate.name, f"{len(candidate.choices())} settings")
            outcomes.append(_one(fold.name, candidate, (train, valid, test), metrics, tune_on, seed, conventions))
    settings = {
        "folds": [fold.name for fold in folds],
        "notes": sorted({fold.note for fold in folds if fold.note}),
        "tune_on": tune_on,
        "seed": seed,
        "conventions": conventions,
        "grids": {c.name: {k: list(v) for k, v in c.grid.items()} for c in candidates},
        "fixed": {c.name: dict(c.settings) for c in candidates},
    }
    return Comparison(outcomes, list(metrics), settings)


def _one(
    fold: str,
    candidate: Candidate,
    parts: tuple[Groups, Groups, Groups],
    metrics: Sequence[str],
    tune_on: str,
    seed: int,
    conventions: dict[str, Any],
) -> Outcome:
    train, valid, test = parts
    best: tuple[float, dict[str, Any], Any] | None = None
    seconds = []
    for chosen in candidate.choices():
        system = candidate.system or candidate.name
        ranker = complete(system, **{"metric": tune_on, "random_state": seed, **candidate.settings, **chosen})
        start = time.perf_counter()
        ranker.fit(train, valid=valid)
        seconds.append(time.perf_counter() - start)
        value = evaluate(ranker, valid, [tune_on], **conventions).means[tune_on]
        if best is None or value > best[0]:
            best = (value, chosen, ranker)
    assert best is not None
    value, chosen, ranker = best
    scores = ranker.predict(test)
    result = evaluate(scores, test, list(metrics), **conventions)
    ids = [str(query) for query in test.query_ids]
    return Outcome(fold, candidate.name, chosen, value, float(np.median(seconds)), ids, dict(result.values), scores)
