"""What is in a data set, as plain facts."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.data.groups import Groups
from luce.data.schema import FEATURE, Column
from luce.numerics.segments import chunk_queries, map_chunks, tiers
from luce.types import IntArray

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
    constant, missing, missing_rows = _features(data)
    known = {} if data.schema is None else {"columns": columns(data)}
    return {
        **known,
        **describe_queries(data),
        "constant_features": [data.feature_names[i] for i in constant.tolist()],
        "missing_values": missing,
        "documents_with_missing_values": missing_rows,
        "document_ids": data.document_ids is not None,
        "query_weights": data.query_weight is not None,
        "relations": sorted(data.relations),
        "rows_regrouped": data.row_order is not None,
        "memory_bytes": int(data.X.nbytes + data.y.nbytes + data.offsets.nbytes),
        "memory_mapped": _is_mapped(data.X),
    }


def columns(data: Groups) -> list[dict[str, Any]]:
    """Every column of the table: its part and type, and of features the range and the share that is missing."""
    assert data.schema is not None

    def look(_: int, chunk: tuple[int, int]) -> tuple[Any, Any, Any]:
        X = data.X[data.offsets[chunk[0]] : data.offsets[chunk[1]]]
        return np.fmin.reduce(X), np.fmax.reduce(X), np.isnan(X).sum(axis=0)

    low, high, gaps = zip(*map_chunks(look, chunk_queries(data.offsets, 4096)), strict=True)
    least, most, missing = np.fmin.reduce(low), np.fmax.reduce(high), np.sum(gaps, axis=0) / data.n_rows
    found, feature = [], 0
    for column in data.schema.columns:
        facts = column_facts(column)
        if column.role == FEATURE:
            if column.type != "category" and not np.isnan(least[feature]):
                facts |= {"min": float(least[feature]), "max": float(most[feature])}
            facts["missing"] = float(missing[feature])
            feature += 1
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


def _features(data: Groups) -> tuple[IntArray, int, int]:
    """Constant columns, missing values and rows that have some, in one pass over X."""
    first = data.X[0]

    def look(_: int, chunk: tuple[int, int]) -> tuple[Any, int, int]:
        X = data.X[data.offsets[chunk[0]] : data.offsets[chunk[1]]]
        gaps = np.isnan(X)
        varies = ~((first == X) | (gaps & np.isnan(first))).all(axis=0)
        return varies, int(gaps.sum()), int(gaps.any(axis=1).sum())

    results = map_chunks(look, chunk_queries(data.offsets, 4096))
    varies = np.logical_or.reduce([result[0] for result in results])
    return np.flatnonzero(~varies), sum(r[1] for r in results), sum(r[2] for r in results)


def _is_mapped(array: Any) -> bool:
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False
