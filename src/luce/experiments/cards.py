"""Data cards: what is in the parts of the folds, as plain facts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from luce.data.describe import describe_queries
from luce.data.groups import Groups

_SUMMED = ("queries", "documents", "pairs", "empty_queries", "one_document_queries", "all_equal_queries")


def card(data: Groups) -> dict[str, Any]:
    """Facts of one part. An empty query has no document of grade 1 or more; `tied_pairs` is a share of `pairs`.

    >>> import luce
    >>> facts = card(luce.from_arrays([[1.0], [2.0], [3.0]], [0, 0, 1]))
    >>> facts["grades"], facts["pairs"], facts["empty_queries"]
    ({'0': 2, '1': 1}, 3, 0)
    """
    facts = describe_queries(data)
    sizes = data.sizes
    best = np.maximum.reduceat(data.y, data.offsets[:-1])
    return {
        "queries": facts["queries"],
        "documents": facts["documents"],
        "features": facts["features"],
        "grades": facts["labels"],
        "pairs": int((sizes * (sizes - 1) // 2).sum()),
        "tied_pairs": facts["tied_pairs"],
        "empty_queries": int(np.count_nonzero(best < 1)),
        "one_document_queries": facts["one_document_queries"],
        "all_equal_queries": facts["all_equal_queries"],
        "documents_per_query": facts["documents_per_query"],
    }


def together(cards: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The card of parts that share no query, from their cards.

    Grades that are too many to be counted one by one are known by their number in each part only: left out.
    """
    whole: dict[str, Any] = {name: sum(part[name] for part in cards) for name in _SUMMED}
    whole["features"] = max(part["features"] for part in cards)
    grades: Counter[str] = Counter()
    for part in cards:
        grades.update(part["grades"])
    counted = not any("distinct" in part["grades"] for part in cards)
    whole["grades"] = {grade: grades[grade] for grade in sorted(grades, key=float)} if counted else {}
    tied = sum((part["tied_pairs"] or 0.0) * part["pairs"] for part in cards)
    whole["tied_pairs"] = tied / whole["pairs"] if whole["pairs"] else None
    return whole


def data_fingerprint(data: Groups) -> str:
    """Digest of everything that training and evaluation see of a part."""
    found = hashlib.sha256(repr((data.X.shape, data.feature_names)).encode())
    for array in (data.X, data.y, data.offsets, data.query_weight):
        if array is not None:
            found.update(np.ascontiguousarray(array).data)
    for name, relation in sorted(data.relations.items()):
        found.update(name.encode() + relation.data.tobytes() + relation.indices.tobytes() + relation.indptr.tobytes())
    for names in (data.query_ids, data.document_ids):
        if names is not None:
            texts = names.tolist()
            found.update("\n".join(texts if names.dtype.kind == "U" else map(str, texts)).encode())
    return found.hexdigest()
