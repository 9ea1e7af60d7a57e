r"""What a new ranker would get, from the clicks on what another one showed.

The value of a ranking is $V = \frac1S \sum_q S_q \sum_d \lambda_d \gamma_d$, with $S_q$ sessions of query $q$,
attraction $\gamma_d$ (the click rate at the top) and a weight $\lambda_d$ of the rank of $d$: the discount (DCG), or
examination there (expected clicks). With $C_d$ clicks and exposure $E_d = \sum_k N_{dk}\theta_k$,

- inverse propensity (ips): $\hat\gamma_d = C_d / E_d$, 0 for documents that were never shown;
- self-normalised (snips): the same, divided by the share of the weight that was shown;
- doubly robust (dr): $m_d + (C_d - E_d m_d) / \max(E_d, 1)$, with $m$ log-linear in the features, learned on the other
  half of the queries.

All are linear in the clicks given $\theta$, and $\theta$ is a smooth function of the same clicks, so the influence of
one click is known, $\phi = \partial V / \partial C + (\partial V / \partial \log\theta)\, \partial \log\theta /
\partial C$: the stacked estimating equations. The variance is the sum over cells of $\phi^2$ times the binomial
variance of the cell, and two parts that independent clicks do not show: what is unknown of $\log\theta$ beyond them
(how far smoothing leads astray, clicks of a query that go together), $g'(\Sigma_\theta - \Sigma_\phi)g$; and, for dr,
the squared error of the model on the documents where it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import is_whole
from luce.clicks.choice import Estimate, cross_fitted, errors_wide
from luce.clicks.counts import ClickCounts, kind_of
from luce.clicks.examination import HEADINGS, Examination
from luce.data.groups import Groups
from luce.data.trec import ranks
from luce.errors import DataError, SettingError
from luce.numerics.segments import query_index
from luce.result import Result, Sheet, records, sheet_of
from luce.types import FloatArray, IntArray


def click_rate(counts: ClickCounts, level: float = 0.95) -> Estimate:
    """Clicks a row of the log, as it was shown."""
    n, value = float(counts.shown.sum()), float(counts.clicked.sum() / counts.shown.sum())
    return Estimate.around(value, np.sqrt(value * (1 - value) / n), level)


def policy_value(
    counts: ClickCounts, probability: FloatArray | None = None, level: float = 0.95
) -> dict[str, Estimate]:
    """Estimates of clicks a row under the policy that shows the document of each cell with this probability.

    `probability` has one entry a cell of the counts; None is the policy that draws the documents of a query evenly.

    >>> from luce.clicks import read
    >>> log = {"query": ["q"] * 4, "document": list("aaab"), "position": [1] * 4, "clicked": [1, 0, 0, 1],
    ...        "p": [0.75, 0.75, 0.75, 0.25]}
    >>> round(policy_value(read(log, session="-", propensity="p"))["ips"].value, 6)
    0.666667
    """
    sums = counts.propensity_sums
    if sums is None:
        raise DataError("The counts lack propensities; read the log with propensity= (luce clicks --propensity).")
    if probability is None:
        sizes = np.diff(counts.offsets)
        probability = 1.0 / sizes[counts.document_query[counts.document]]
    probability = np.asarray(probability, dtype=np.float64)
    if probability.shape != counts.shown.shape or not np.all((probability >= 0) & (probability <= 1)):
        raise DataError(f"{len(counts.shown)} cells need as many probabilities between 0 and 1.")
    n = float(counts.shown.sum())
    inverse, inverse_square, hit, hit_square = (
        probability**power * column for power, column in zip((1, 2, 1, 2), sums.T, strict=True)
    )
    ips = float(hit.sum() / n)
    ips_error = np.sqrt(max(float(hit_square.sum()) / n - ips**2, 0.0) / n)
    weight = float(inverse.sum() / n)
    if weight == 0:
        raise DataError("The policy never shows what the log shows, so that nothing is known of it; log more of it.")
    snips = ips / weight
    # (c - v)^2 w^2 = (1 - 2 v) c w^2 + v^2 w^2, for c of 0 or 1.
    square = (1 - 2 * snips) * float(hit_square.sum()) + snips**2 * float(inverse_square.sum())
    return {
        "ips": Estimate.around(ips, ips_error, level),
        "snips": Estimate.around(snips, np.sqrt(max(square, 0.0)) / (n * weight), level),
    }


@dataclass(frozen=True, eq=False)
class LogSummary(Result):
    """Totals, a row a position with click rate (and examination), and how much was seen at several positions."""

    counts: ClickCounts
    examined: Examination | None = None

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Of the counts and of the examination."""
        return self.counts.notes + (() if self.examined is None else self.examined.notes)

    def columns(self) -> dict[str, Any]:
        """A row a position."""
        used = self.counts.by_position()
        at = used.positions
        shown, clicked = (np.bincount(used.position, weight)[at] for weight in (used.shown, used.clicked))
        found = {"position": at, "shown": shown.astype(int), "clicked": clicked.astype(int)}
        found["click_rate"] = clicked / shown
        if self.examined is None or self.examined.users == "last_click":
            return found
        return found | {name: values for name, values in self.examined.columns().items() if name != "after"}

    def as_dict(self) -> dict[str, Any]:
        """Everything by name."""
        used = self.counts.by_position()
        sessions, total = float(used.sessions.sum()), float(used.clicked.sum())
        several = np.bincount(used.document, minlength=used.n_documents) > 1
        by_document = np.bincount(used.document, used.clicked, minlength=used.n_documents)
        facts: dict[str, Any] = {
            "sessions": int(sessions),
            "rows": int(used.shown.sum()),
            "queries": used.n_queries,
            "documents": used.n_documents,
            "clicks": int(total),
            "clicks_per_session": total / sessions,
            "documents_at_several_positions": int(several.sum()),
            "share_of_clicks_on_them": float(by_document[several].sum() / total) if total else 0.0,
            "positions": records(self.columns()),
            "notes": list(self.notes),
        }
        if self.examined is not None:
            looked, session = self.examined.exposure, used.sessions[used.document_query]
            facts |= {
                "method": self.examined.method,
                "users": self.examined.users,
                "errors_from": self.examined.errors,
                "places": records(self.examined.columns()),
                "least_rho": float((looked / session)[looked > 0].min()),
                "largest_standard_error": float(self.examined.standard_error.max()),
            }
        if self.counts.propensity_sums is not None:
            even = {name: value._asdict() for name, value in policy_value(self.counts).items()}
            facts |= {"logged_policy": click_rate(self.counts)._asdict(), "even_policy": even}
        return facts

    def sheets(self) -> list[Sheet]:
        """By position, by place where what was clicked above counts, and by policy where propensities are known."""
        facts = self.as_dict()
        title = (
            f"{facts['sessions']:,} sessions of {facts['queries']:,} queries, {facts['documents']:,} documents, "
            f"{facts['clicks']:,} clicks; {facts['share_of_clicks_on_them']:.1%} of them on documents seen at several "
            "positions"
        )
        sheets = [Sheet(title, {HEADINGS.get(name, name): values for name, values in self.columns().items()})]
        if self.examined is not None and self.examined.users == "last_click":
            sheets += [sheet._replace(title="") for sheet in self.examined.sheets()]
        if "even_policy" in facts:
            known = {"as logged": facts["logged_policy"]}
            known |= {f"drawn evenly, {name}": value for name, value in facts["even_policy"].items()}
            columns: dict[str, Any] = {"policy": list(known)}
            for heading, key in (("click rate", "value"), ("95% from", "low"), ("to", "high")):
                columns[heading] = [value[key] for value in known.values()]
            sheets.append(Sheet("Clicks a row", columns, 5))
        return sheets


ESTIMATORS = ("ips", "snips", "dr")
_ENDS = ("value", "low", "high")


@dataclass(frozen=True)
class ClickEvaluation(Result):
    """What is estimated of a ranker: a table of metric, estimator, value, production and difference."""

    estimates: dict[tuple[str, str], Estimate]
    """Of the ranker, by metric and estimator."""
    production: dict[tuple[str, str], Estimate]
    """Of what was shown, by metric and estimator."""
    differences: dict[tuple[str, str], Estimate]
    """Ranker less production."""
    unseen: dict[str, float]
    """By metric, the share of the weight on documents that were never shown."""
    least_rho: float
    """The least examination in a session among the documents that count."""
    sessions: float
    level: float

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row a metric and estimator."""
        found = []
        for key, value in self.estimates.items():
            row: dict[str, Any] = dict(zip(("metric", "estimator"), key, strict=True))
            row |= {name: getattr(value, name) for name in _ENDS}
            row |= {f"production_{name}": getattr(self.production[key], name) for name in _ENDS}
            parts = {f"difference_{name}": part for name, part in self.differences[key]._asdict().items()}
            found.append(row | {"difference": parts.pop("difference_value")} | parts)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Everything by name."""
        return {name: getattr(self, name) for name in ("sessions", "level", "rows", "unseen", "least_rho")}

    def columns(self) -> dict[str, list[Any]]:
        """A row a metric and estimator."""
        rows = self.rows
        return {name: [row[name] for row in rows] for name in rows[0]}

    def sheets(self) -> list[Sheet]:
        """The model beside what was shown."""
        found = self.columns()
        header = ["metric", "estimator", "model", "95% from", "to", "shown", "difference", "95% from", "to"]
        keys = ["metric", "estimator", *_ENDS, "production_value", "difference", "difference_low", "difference_high"]
        rows = list(zip(*(found[key] for key in keys), strict=True))
        return [sheet_of(f"{self.sessions:,.0f} sessions", header, rows)]


class _Weights(NamedTuple):
    """Weight of every row, and its derivative in log theta where it has one: (row, place, value)."""

    weight: FloatArray
    moves: tuple[IntArray, IntArray, FloatArray] | None


def evaluate(
    examined: Examination,
    data: Groups,
    scores: ArrayLike,
    *,
    metrics: Sequence[str] = ("dcg@10", "clicks@10"),
    most_unseen: float = 0.05,
    missing: str = "error",
    level: float = 0.95,
) -> ClickEvaluation:
    """Estimate DCG and clicks of the ranking by `scores`, and how they differ from what was shown.

    The intervals include the error of examination, and take clicks as independent given what was shown (and, with
    `users="last_click"`, what was clicked above).

    Parameters
    ----------
    examined
        Examination, with the counts it was estimated from.
    data, scores
        The documents, those of the log among them, and their scores.
    metrics
        "dcg@k" (attraction as gain, discount 1/log2(1 + rank)) and "clicks@k" (expected clicks of a session).
    most_unseen
        More weight than this share on documents that were never shown is refused: nothing is known of them.
    """
    kind_of(examined, Examination, "luce.clicks.examination(counts, data)")
    if examined.users == "trust":
        raise SettingError("Evaluation takes no clicks off for trust; estimate examination with users='position'.")
    if not metrics or isinstance(metrics, str):
        raise SettingError(f"metrics is {metrics!r}; give a list of dcg@k and clicks@k.")
    if not 0 <= most_unseen <= 1:
        raise SettingError(f"most_unseen is {most_unseen}; it must be between 0 and 1.")
    errors_wide(level)
    problem = _Problem(examined, data, missing)
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (data.n_rows,) or not np.isfinite(values).all():
        raise DataError(f"The data have {data.n_rows} rows; give as many finite scores.")
    unseen: dict[str, float] = {}
    estimates: dict[tuple[str, str], Estimate] = {}
    shown: dict[tuple[str, str], Estimate] = {}
    differences: dict[tuple[str, str], Estimate] = {}
    for metric in metrics:
        name, cutoff = _parsed(metric, examined)
        new, now = problem.ranking(values, name, cutoff), problem.production(name, cutoff)
        unseen[metric] = problem.unseen(new)
        if unseen[metric] > most_unseen:
            raise DataError(
                f"{unseen[metric]:.1%} of the weight of {metric} is on documents that the log never showed; at most "
                f"{most_unseen:.0%} is allowed; show the ranker to some users, or raise most_unseen (--most-unseen)."
            )
        if unseen[metric] == 1.0:
            raise DataError(f"The log never showed a document that counts for {metric}; show the ranker to some users.")
        for estimator in ESTIMATORS:
            key = (metric, estimator)
            a = problem.influence(new, estimator)
            b = problem.influence(now, "ips" if estimator == "snips" else estimator)
            both: Any = zip(a, b, strict=True)
            apart = _Influence(*(one - its for one, its in both))
            for found, one in ((estimates, a), (shown, b), (differences, apart)):
                found[key] = problem.estimate(one, level)
    return ClickEvaluation(estimates, shown, differences, unseen, problem.least_rho, problem.total, level)


def _parsed(metric: str, examined: Examination) -> tuple[str, int]:
    name, at, cutoff = metric.partition("@")
    if name not in ("dcg", "clicks") or (at and not (cutoff.isdigit() and is_whole(int(cutoff), 1))):
        raise SettingError(f"The metric {metric!r} cannot be told from clicks; dcg@k and clicks@k can.")
    places = int(examined.position.max())
    if name == "clicks" and examined.users != "position":
        raise SettingError("Expected clicks need examination by position; with users='last_click' take dcg@k.")
    return name, min(int(cutoff), places) if at and name == "clicks" else int(cutoff) if at else places


class _Influence(NamedTuple):
    """An estimate, and what it moves by: one more click in a cell, log theta of a place, the model's error of a row."""

    value: float
    click: FloatArray
    log_theta: FloatArray
    model: FloatArray


class _Problem:
    """Counts on the rows of the data, and what estimates share."""

    def __init__(self, examined: Examination, data: Groups, missing: str) -> None:
        counts = examined.counts
        rows = counts.rows_in(data, missing)
        used = (examined.place >= 0) & (rows[counts.document] >= 0)
        self.cell = np.flatnonzero(used)
        self.row, self.place = rows[counts.document[self.cell]], examined.place[self.cell]
        self.shown, self.clicked = counts.shown[self.cell], counts.clicked[self.cell]
        self.examined, self.data = examined, data
        self.position = examined.position[self.place]
        n = data.n_rows
        looked = self.shown * examined.theta[self.place]
        self.clicks = np.bincount(self.row, self.clicked, minlength=n).astype(np.float64)
        self.exposure = np.bincount(self.row, looked, minlength=n).astype(np.float64)
        self.query = query_index(data.offsets)
        sessions = np.zeros(data.n_queries)
        known = rows >= 0
        sessions[self.query[rows[known]]] = counts.sessions[counts.document_query[known]]
        self.sessions, self.total = sessions, float(sessions.sum())
        self.seen = self.exposure > 0
        self.model = cross_fitted(data, self.clicks, self.exposure)
        # The variance of the clicks of each cell, without bias where it was shown at least twice.
        rate = np.bincount(self.position, self.clicked) / np.maximum(np.bincount(self.position, self.shown), 1.0)
        several = self.clicked * (self.shown - self.clicked) / np.maximum(self.shown - 1, 1.0)
        self.variance = np.where(self.shown > 1, several, self.clicked * (1.0 - rate[self.position]))
        # What the covariance of log theta has beyond the independent clicks of the cells.
        phi = examined.influence[self.cell]
        values, vectors = np.linalg.eigh(examined.covariance - (phi.T * self.variance) @ phi)
        self.theta_beyond: FloatArray = (vectors * np.maximum(values, 0.0)) @ vectors.T
        # The mean squared relative error of the model: what its residuals have beyond the variance of clicks.
        expected = self.exposure * self.model
        beyond = (self.clicks - expected) ** 2 - np.bincount(self.row, self.variance, minlength=n)
        self.model_error = max(float(beyond[self.seen].sum() / (expected[self.seen] ** 2).sum()), 0.0)
        self.least_rho = np.inf

    def ranking(self, scores: FloatArray, name: str, cutoff: int) -> _Weights:
        """Weights of the rows in the order of their scores."""
        rank = ranks(scores, self.data.offsets)
        sessions = self.sessions[self.query]
        top = np.flatnonzero((rank <= cutoff) & (sessions > 0))
        weight = np.zeros(len(scores))
        if name == "dcg":
            weight[top] = sessions[top] / np.log2(1 + rank[top])
            return _Weights(weight, None)
        place = np.full(int(self.examined.position.max()) + 1, -1, dtype=np.int64)
        place[self.examined.position] = np.arange(len(self.examined.position))
        top = top[place[rank[top]] >= 0]
        at = place[rank[top]]
        weight[top] = sessions[top] * self.examined.theta[at]
        return _Weights(weight, (top, at, weight[top]))

    def production(self, name: str, cutoff: int) -> _Weights:
        """Weights of the rows by where they were shown."""
        counted = self.position <= cutoff
        row, place, shown = self.row[counted], self.place[counted], self.shown[counted]
        each = shown / np.log2(1 + self.position[counted]) if name == "dcg" else shown * self.examined.theta[place]
        weight = np.bincount(row, each, minlength=self.data.n_rows).astype(np.float64)
        return _Weights(weight, None if name == "dcg" else (row, place, each))

    def unseen(self, weights: _Weights) -> float:
        """The share of the weight on rows that were never looked at; notes the least examination of the others."""
        used = (weights.weight > 0) & self.seen
        if used.any():
            rho = self.exposure[used] / self.sessions[self.query[used]]
            self.least_rho = min(self.least_rho, float(rho.min()))
        if not weights.weight[self.seen].sum() > 0:
            return 1.0
        return float(weights.weight[~self.seen].sum() / weights.weight.sum())

    def influence(self, weights: _Weights, estimator: str) -> _Influence:
        """The estimate, and what moves it."""
        weight = weights.weight
        by_model = np.zeros(len(weight))
        if estimator == "dr":
            floor = np.maximum(self.exposure, 1.0)
            attraction = self.model + (self.clicks - self.exposure * self.model) / floor
            per_click = weight / floor
            full = self.exposure >= 1.0
            # C / E where a document was looked at often enough, else a part of the model is left.
            per_look = np.where(full, -self.clicks / floor**2, -self.model / floor)
            by_model = weight * (1.0 - self.exposure / floor) * self.model
        else:
            safe = np.where(self.seen, self.exposure, 1.0)
            attraction = np.where(self.seen, self.clicks / safe, 0.0)
            scale = weight.sum() / weight[self.seen].sum() if estimator == "snips" else 1.0
            weight = weight * scale
            per_click = np.where(self.seen, weight / safe, 0.0)
            per_look = np.where(self.seen, -self.clicks / safe**2, 0.0)
        value = float(weight @ attraction) / self.total
        looks = self.shown * self.examined.theta[self.place] * (weight * per_look)[self.row]
        slope = np.bincount(self.place, looks, minlength=len(self.examined.theta))
        if weights.moves is not None:
            row, place, change = weights.moves
            moved = change * attraction[row] * (weight[row] / weights.weight[row])
            slope = slope + np.bincount(place, moved, minlength=len(slope))
        phi = per_click[self.row] + self.examined.influence[self.cell] @ slope
        return _Influence(value, phi / self.total, slope / self.total, by_model / self.total)

    def estimate(self, found: _Influence, level: float) -> Estimate:
        """With the interval at this level."""
        # The level of the model is learned, too: clicks over what was looked at, each look counted by its attraction.
        modelled = float(found.model.sum())
        looks = self.shown * self.examined.theta[self.place] * self.model[self.row]
        level_slope = -modelled * np.bincount(self.place, looks, minlength=len(found.log_theta)) / looks.sum()
        click = found.click + modelled / self.clicks.sum() + self.examined.influence[self.cell] @ level_slope
        slope = found.log_theta + level_slope
        variance = self.variance @ click**2 + slope @ self.theta_beyond @ slope
        error = float(np.sqrt(variance + self.model_error * (found.model @ found.model)))
        return Estimate.around(found.value, error, level)
