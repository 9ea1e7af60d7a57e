"""What a comparison gives: outcomes of every model on every fold, failures, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.metrics.catalog import get
from luce.metrics.evaluate import mean_of
from luce.metrics.significance import Column, against, board, differences_sheet
from luce.model_file import Packed, unpacked
from luce.ranker import Ranker
from luce.result import Result, Sheet, plain, sheet_of
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    history: dict[str, Any] = field(default_factory=dict)
    content: Packed | None = None
    """The chosen model as a model file holds it."""

    def ranker(self) -> Ranker:
        """The chosen model."""
        if self.content is None:
            raise SettingError(f"The outcome of {self.model} on {self.fold} was kept without its model.")
        return unpacked(self.content)


@dataclass(frozen=True)
class Failure:
    """A setting of a model that could not be fitted on a fold, or a chosen model that could not be judged."""

    fold: str
    model: str
    settings: dict[str, Any]
    error: str


@dataclass(frozen=True)
class JudgedRows:
    """The test rows of a fold, in the order of the data: what scores are about."""

    offsets: IntArray
    query_ids: list[str]
    documents: NDArray[Any]
    grades: FloatArray


@dataclass(frozen=True, repr=False)
class ModelComparison(Result):
    """All outcomes, and what follows from them."""

    outcomes: list[Outcome]
    metrics: list[str]
    settings: dict[str, Any]
    failures: list[Failure] = field(default_factory=list)
    cards: dict[str, Any] = field(default_factory=dict)
    """Facts of the data, fold by fold and overall."""
    tests: dict[str, JudgedRows] = field(default_factory=dict)
    """The test rows of every fold."""
    _found: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Statistics that were computed already."""

    @property
    def models(self) -> list[str]:
        """Models that gave an outcome on every fold, in the order in which they were given."""
        folds: dict[str, set[str]] = {}
        for outcome in self.outcomes:
            folds.setdefault(outcome.model, set()).add(outcome.fold)
        return [name for name, seen in folds.items() if len(seen) == len(self.settings["folds"])]

    @property
    def failed(self) -> dict[str, str]:
        """Models without an outcome on some fold, each with the error that kept it from it."""
        whole, errors = self.models, dict[str, str]()
        for failure in self.failures:
            errors.setdefault(failure.model, failure.error)
        return {name: error for name, error in errors.items() if name not in whole}

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"ModelComparison({', '.join(self.models)} on {len(self.settings['folds'])} folds{failed})"

    def sheets(self) -> list[Sheet]:
        """The leaderboard, and every model against the best one on every metric."""
        statistics = self.statistics() if len(self.models) > 1 else []
        return [self.board_sheet(), *([differences_sheet(statistics)] if statistics else [])]

    def board_sheet(self) -> Sheet:
        """The leaderboard, with the errors of those that failed below."""
        rows = []
        for row in self.leaderboard():
            p = "best" if row["p_holm"] is None else f"{row['p_holm']:.3f}"
            interval = f"{row['low']:.4f} to {row['high']:.4f}"
            rows.append([row["model"], *(row[m] for m in self.metrics), interval, p, f"{row['seconds']:.2f}"])
        rows += [[name, *[None] * len(self.metrics), f"failed: {why}", "", ""] for name, why in self.failed.items()]
        header = ["model", *self.metrics, f"95% interval of {self.metrics[0]}", "p (Holm)", "fit, s"]
        return sheet_of("Leaderboard", header, rows)

    @property
    def lines(self) -> list[str]:
        """How many models failed, and on what settings."""
        failed, partly = self.failed, {failure.model for failure in self.failures} - set(self.failed)
        many = len(failed) + len(self.models)
        rest = "the others are compared without them" if self.models else "there is nothing to compare"
        said = [f"{len(failed)} of {many} models failed; {rest}."] if failed else []
        said += [f"Note: some settings of {n} failed; the best of the others was taken." for n in sorted(partly)]
        return said

    def plot(self, path: str | Path | None = None) -> Figure:
        """The mean of every metric with its 95% interval, the best model first; written where a path is given."""
        from luce.display import plot_intervals

        rows = self.leaderboard()
        if not rows:
            raise SettingError("No model was fitted on all folds, so that there is nothing to draw.")
        means = {m: [(row["model"], row[m], *row["intervals"][m]) for row in rows] for m in self.metrics}
        return plot_intervals({f"{name} (95%)": found for name, found in means.items()}, path)

    def as_dict(self, baseline: str | None = None) -> dict[str, Any]:
        """The leaderboard, the tests behind it, those against a baseline, and what failed."""
        return plain(
            {
                "leaderboard": self.leaderboard(),
                "statistics": self.statistics(),
                "baseline": None if baseline is None else self.statistics(baseline),
                "failures": [vars(failure) for failure in self.failures],
                "settings": self.settings,
            }
        )

    def fold_means(self, model: str, metric: str) -> FloatArray:
        """The mean over queries, fold by fold; NaN where a fold has no query that the metric counts."""
        return np.array([mean_of(o.values[metric]) for o in self.outcomes if o.model == model])

    def mean(self, model: str, metric: str) -> float:
        """Mean of the folds' means, as the LETOR papers report it."""
        return mean_of(self.fold_means(model, metric))

    def per_query(self, model: str, metric: str) -> FloatArray:
        """Values of all test queries, fold after fold."""
        return np.concatenate([o.values[metric] for o in self.outcomes if o.model == model])

    def seconds(self, model: str) -> float:
        """Median training time of a fit; the first one of a run also compiles, which the median passes over."""
        return float(np.median([o.seconds for o in self.outcomes if o.model == model]))

    def ranked(self, metric: str | None = None) -> list[str]:
        """Models, best first by the mean of a metric (the first one)."""
        key = metric or self.metrics[0]
        sign = -1.0 if get(key).greater_is_better else 1.0
        means = {name: self.mean(name, key) for name in self.models}
        return sorted(means, key=lambda name: (np.isnan(means[name]), sign * means[name]))

    def statistics(self, baseline: str | None = None) -> list[dict[str, Any]]:
        """Every model against the best one (or `baseline`), on every metric: one row each.

        A row holds the mean difference of `model` minus `against` with a 95% bootstrap interval, the p-value of the
        paired randomisation test as it is and after Holm's correction for the number of models, and the queries on
        which `model` is better, equal and worse.
        """
        order = self.ranked()
        if not order and baseline is None:
            return []
        reference = order[0] if baseline is None else baseline
        if reference not in order:
            raise SettingError(f"The baseline {baseline!r} is not among the models compared: {', '.join(order)}.")
        if reference == order[0]:
            return list(self._first[0])
        if f"against {reference}" not in self._found:
            rows = against(self._columns(reference, order), self.settings["seed"])
            self._found[f"against {reference}"] = [{"against": reference, **row} for row in rows]
        return list(self._found[f"against {reference}"])

    def _columns(self, reference: str, order: list[str]) -> list[Column]:
        return [
            Column(metric, name, self.per_query(name, metric), self.per_query(reference, metric))
            for metric in self.metrics
            for name in order
            if name != reference
        ]

    @cached_property
    def _first(self) -> tuple[list[dict[str, Any]], dict[tuple[str, str], tuple[float, float]]]:
        """Every model against the best one, and the intervals of all models (model, metric)."""
        order = self.ranked()
        values = {(name, metric): self.per_query(name, metric) for name in order for metric in self.metrics}
        rows, found = board(self._columns(order[0], order), values, self.settings["seed"])
        return [{"against": order[0], **row} for row in rows], found

    def leaderboard(self, sort_by: str | None = None) -> list[dict[str, Any]]:
        """A row a model, best first: means, 95% intervals, and p-values against the best (Holm over models).

        `low`, `high`, `p` and `p_holm` are those of the metric that sorts; `intervals` has those of all metrics.
        """
        key = sort_by or self.metrics[0]
        order = self.ranked(key)
        if not order:
            return []
        if key == self.metrics[0]:
            compared = [row for row in self.statistics() if row["metric"] == key]
        else:
            best = self.per_query(order[0], key)
            columns = [Column(key, name, self.per_query(name, key), best) for name in order[1:]]
            compared = against(columns, self.settings["seed"])
        tests = {row["model"]: row for row in compared}
        found = self._first[1]
        rows = []
        for name in order:
            row: dict[str, Any] = {"model": name}
            row |= {metric: self.mean(name, metric) for metric in self.metrics}
            row |= dict(zip(("low", "high"), found[name, key], strict=True))
            row |= {column: tests.get(name, {}).get(column) for column in ("p", "p_holm")}
            row |= {"seconds": self.seconds(name)}
            row["intervals"] = {metric: list(found[name, metric]) for metric in self.metrics}
            rows.append(row)
        return rows
