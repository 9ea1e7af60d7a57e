"""What is in judged documents: plain facts, and the profile of a training, which later data are held against.

In a profile each column has bins between quantiles of the training data, and one for gaps. A window of later documents
drifts by the population stability index and the distance of Kolmogorov and Smirnov between the two histograms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.data.schema import FEATURE, Column, Schema
from luce.errors import DataError
from luce.numerics.segments import chunk_queries, tiers
from luce.types import FloatArray, IntArray

_MANY_LABELS = 20


def describe(data: Groups) -> dict[str, Any]:
    """Counts of queries, documents, labels and oddities; everything is a number, a list or a dict of them.

    `tied_pairs` is the share of pairs of documents of one query that have the same label. A constant feature has one
    value in all documents (a missing value counts as a value).

    >>> import luce
    >>> facts = describe(luce.from_arrays([[1.0, 5], [2, 5], [3, 5]], [0, 0, 1]))
    >>> facts["documents"], facts["tied_pairs"], facts["constant_features"]
    (3, 0.3333333333333333, ['2'])
    """
    found = _features(data)
    known = {} if data.schema is None else {"columns": _columns(data.schema, found, data.n_rows)}
    return {
        **known,
        **describe_queries(data),
        "constant_features": [data.feature_names[i] for i in np.flatnonzero(~found.varies).tolist()],
        "missing_values": int(found.gaps.sum()),
        "documents_with_missing_values": found.rows_with_gaps,
        "document_ids": data.document_ids is not None,
        "query_weights": data.query_weight is not None,
        "relations": sorted(data.relations),
        "rows_regrouped": data.row_order is not None,
        "memory_bytes": int(data.X.nbytes + data.y.nbytes + data.offsets.nbytes),
        "memory_mapped": _is_mapped(data.X),
    }


def _columns(schema: Schema, features: _Features, rows: int) -> list[dict[str, Any]]:
    """Every column of the table: its part and type, and of features the range and the share that is missing."""
    found, j = [], 0
    for column in schema.columns:
        facts = column_facts(column)
        if column.role == FEATURE:
            if column.type != "category" and not np.isnan(features.least[j]):
                facts |= {"min": float(features.least[j]), "max": float(features.most[j])}
            facts["missing"] = float(features.gaps[j] / rows)
            j += 1
        found.append(facts)
    return found


def column_facts(column: Column) -> dict[str, Any]:
    """What a schema knows of a column."""
    facts: dict[str, Any] = {"name": column.name, "role": column.role, "type": column.type}
    if column.role == FEATURE and column.type == "category":
        facts["categories"] = list(column.categories)
    if column.grades:
        facts["grades"] = dict(column.grades)
    return facts | {name: text for name, text in (("unit", column.unit), ("why", column.why)) if text}


def describe_queries(data: Groups) -> dict[str, Any]:
    """The part of `describe` that labels and query boundaries tell, without a pass over the features."""
    sizes = data.sizes
    parts = tiers(data.y, data.offsets)
    levels = np.diff(parts.queries)
    quantiles = np.quantile(sizes, [0.0, 0.25, 0.5, 0.75, 0.95, 1.0], method="inverted_cdf")
    pairs, tied = _pairs(sizes), _pairs(np.diff(parts.starts))
    return {
        "queries": data.n_queries,
        "documents": data.n_rows,
        "features": data.n_features,
        "documents_per_query": {
            "mean": float(sizes.mean()),
            **dict(zip(("min", "25%", "50%", "75%", "95%", "max"), quantiles.tolist(), strict=True)),
        },
        "labels": _label_counts(data),
        "tied_pairs": tied / pairs if pairs else None,
        "one_document_queries": int(np.count_nonzero(sizes == 1)),
        "all_equal_queries": int(np.count_nonzero((levels == 1) & (sizes > 1))),
    }


def _pairs(sizes: IntArray) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def _label_counts(data: Groups) -> dict[str, Any]:
    values, counts = np.unique(data.y, return_counts=True)
    if len(values) <= _MANY_LABELS:
        return {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}
    return {"distinct": len(values), "min": float(values[0]), "max": float(values[-1])}


class _Features(NamedTuple):
    """The range of every column, whether it has several values, its gaps, and the rows that have some."""

    least: FloatArray
    most: FloatArray
    varies: NDArray[np.bool_]
    gaps: IntArray
    rows_with_gaps: int


def _features(data: Groups) -> _Features:
    """All of it in one pass over X."""
    first = data.X[0]

    def look(X: NDArray[np.float32], y: FloatArray) -> tuple[Any, ...]:
        gaps = np.isnan(X)
        varies = ~((first == X) | (gaps & np.isnan(first))).all(axis=0)
        return np.fmin.reduce(X), np.fmax.reduce(X), varies, gaps.sum(axis=0), int(gaps.any(axis=1).sum())

    least, most, varies, gaps, rows = zip(*data.map(look, chunk_queries(data.offsets, 4096)), strict=True)
    ends = np.fmin.reduce(least), np.fmax.reduce(most)
    return _Features(*ends, np.logical_or.reduce(varies), np.sum(gaps, axis=0), sum(rows))


def _is_mapped(array: Any) -> bool:
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


SCORE = "(score)"
"""The last column of a profile."""
_BINS = 20
_DOCUMENTS = 5_000
"""Whole queries at equal distances, about so many documents, are looked at."""


@dataclass(frozen=True)
class Drift:
    """How far a column is from the training: both are 0 for the same histogram."""

    psi: float
    ks: float


@dataclass(frozen=True)
class Profile:
    """Edges of bins and shares of documents, by column; the last column is the score.

    Column j has the edges `edges[starts[j]:starts[j + 1]]`: bin k holds values up to edge k and above the one before,
    the last bin but one what is above all edges, and the last one gaps.
    """

    edges: FloatArray
    starts: IntArray
    shares: FloatArray
    documents: int

    @property
    def n_columns(self) -> int:
        """Features and the score."""
        return len(self.starts) - 1

    @classmethod
    def learn(cls, X: NDArray[np.float32], scores: FloatArray, categories: Mapping[int, Sequence[str]]) -> Profile:
        """The profile of documents; categories have a bin each, and what they did not have one bin together.

        >>> made = Profile.learn(np.arange(100, dtype=np.float32)[:, None], np.zeros(100), {})
        >>> made.n_columns, [round(float(share), 2) for share in made.column_shares(0)[:3]]
        (2, [0.05, 0.05, 0.05])
        """
        edges: list[FloatArray] = []
        shares: list[FloatArray] = []
        for j, column in enumerate([*np.sort(np.ascontiguousarray(X.T), axis=1), np.sort(scores)]):
            there = column[: np.searchsorted(column, np.nan)]  # gaps are last
            found: FloatArray
            if j in categories:
                found = np.arange(len(categories[j]), dtype=np.float64) + 0.5
            elif len(there):
                at = np.ceil(np.arange(1, _BINS) / _BINS * len(there) - 1.0).astype(np.int64)
                found = np.unique(there[np.maximum(at, 0)]).astype(np.float64)
            else:
                found = np.zeros(1)
            ends = np.searchsorted(there, found, side="right")
            edges.append(found)
            shares.append(np.diff([0, *ends, len(there), len(column)]) / max(len(column), 1))
        starts = np.cumsum([0, *map(len, edges)])
        return cls(np.concatenate(edges), starts, np.concatenate(shares), len(X))

    def column_edges(self, j: int) -> FloatArray:
        """The edges of a column."""
        return self.edges[self.starts[j] : self.starts[j + 1]]

    def column_shares(self, j: int) -> FloatArray:
        """The shares of its bins, gaps last."""
        return self.shares[self._bins(j)]

    def _bins(self, j: int) -> slice:
        return slice(self.starts[j] + 2 * j, self.starts[j + 1] + 2 * (j + 1))

    def middle(self, j: int) -> float:
        """The median of a column: the edge up to which half of its values lie, gaps aside."""
        edges, shares = self.column_edges(j), self.column_shares(j)
        below = np.searchsorted(np.cumsum(shares[:-1]), 0.5 * (1.0 - shares[-1]) - 1e-9)
        return float(edges[min(below, len(edges) - 1)])

    def counts(self, X: NDArray[np.float32], scores: FloatArray) -> FloatArray:
        """How many documents are in each bin, all columns one after another."""
        found = []
        for j, column in enumerate([*X.T, scores]):
            edges = self.column_edges(j)
            bins = np.where(np.isnan(column), len(edges) + 1, np.searchsorted(edges, column, side="left"))
            found.append(np.bincount(bins, minlength=len(edges) + 2).astype(np.float64))
        return np.concatenate(found)

    def drift(self, counts: FloatArray) -> list[Drift]:
        """How far each column is from the training, by counts of this profile's bins."""
        return [drift(self.column_shares(j), counts[self._bins(j)]) for j in range(self.n_columns)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a model file keeps."""
        return {"edges": self.edges, "starts": self.starts, "shares": self.shares}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], documents: Any, columns: int) -> Profile:
        """What `arrays` gave; anything else is a `DataError`."""
        edges, starts, shares = (arrays.get(name, np.empty(0)) for name in ("edges", "starts", "shares"))
        whole = starts.dtype == np.int64 and starts.shape == (columns + 1,) and type(documents) is int and documents > 0
        good = whole and all(found.dtype == np.float64 and found.ndim == 1 for found in (edges, shares))
        good = good and starts[0] == 0 and starts[-1] == len(edges) and bool((np.diff(starts) > 0).all())
        good = good and len(shares) == len(edges) + 2 * columns and bool(np.isfinite(edges).all())
        if good:
            rising = np.diff(edges) > 0
            rising[starts[1:-1] - 1] = True
            good = bool(rising.all() and (shares >= 0).all() and (shares <= 1).all())
        if not good:
            raise DataError("the profile of the training data is damaged")
        return cls(edges, starts, shares, documents)


def sampled(data: Groups) -> IntArray:
    """Some queries at equal distances, about `_DOCUMENTS` documents."""
    step = max(1, -(-data.n_rows // _DOCUMENTS))
    return np.arange(0, data.n_queries, step)


def drift(expected: FloatArray, counts: FloatArray) -> Drift:
    r"""Population stability index and Kolmogorov-Smirnov distance of a histogram from the expected shares.

    $$\mathrm{PSI} = \sum_b (q_b - p_b) \log(q_b / p_b), \qquad
    \mathrm{KS} = \max_b \big|\textstyle\sum_{c \le b} (q_c - p_c)\big|.$$

    Half a document is added to the bins of both, so that an empty one counts little and not infinitely. The distance is
    taken at the edges of bins, which are quantiles of the training: it is at most 0.05 less than that of the values.

    >>> drift(np.array([0.5, 0.5, 0.0]), np.array([50.0, 50.0, 0.0]))
    Drift(psi=0.0, ks=0.0)
    """
    total = counts.sum()
    if total == 0:
        return Drift(0.0, 0.0)
    added = 0.5 / total
    p, q = (shares + added for shares in (expected, counts / total))
    p, q = p / p.sum(), q / q.sum()
    there = expected[:-1].sum(), counts[:-1].sum()
    apart = 0.0
    if there[0] > 0 and there[1] > 0:  # gaps have no place on the line
        apart = float(np.abs(np.cumsum(expected[:-1]) / there[0] - np.cumsum(counts[:-1]) / there[1]).max())
    return Drift(float(((q - p) * np.log(q / p)).sum()), apart)
