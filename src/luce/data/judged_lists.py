"""Ordered lists as judgements: every list is a query of its own, whose grades are the positions of the list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.errors import DataError
from luce.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class JudgedLists:
    """What `luce.evaluate` needs of lists; `rows` says which row of the data each judged document is.

    A top list judges all documents of its query: those it does not name have grade 0. An open one judges those that
    it names. The last tier has grade 1, the one before it 2, and so on.
    """

    rows: IntArray
    y: FloatArray
    offsets: IntArray
    query_ids: NDArray[Any]
    document_ids: NDArray[Any] | None

    def groups(self, data: Groups) -> Groups:
        """The same with the features of `data`, for validation while training."""
        if np.array_equal(self.rows, np.arange(data.n_rows)):
            X = data.X
        else:
            X = np.ascontiguousarray(data.X[self.rows])
        return Groups(X, self.y, self.offsets, self.query_ids, self.document_ids, feature_names=data.feature_names)


def judged_lists(data: Groups, lists: Comparisons) -> JudgedLists:
    """The lists of `lists` as judged queries, in the order of the queries of `data`.

    >>> import luce
    >>> data = luce.from_arrays([[0.0]] * 4, qid=["a", "a", "a", "b"])
    >>> judged = judged_lists(data, Comparisons.from_orders([[2, 0], [[0, 1]]], top=True))
    >>> judged.rows.tolist(), judged.y.tolist(), judged.query_ids.tolist()
    ([0, 1, 2, 0, 1, 2], [1.0, 0.0, 2.0, 1.0, 1.0, 0.0], ['a', 'a'])
    """
    if not lists.n_orders:
        raise DataError("The comparisons hold no ordered list; judgements by lists need at least one.")
    found = graded_rows(lists, data.offsets)
    ids = None if data.document_ids is None else data.document_ids[found.rows]
    return JudgedLists(found.rows, found.grades, found.offsets, data.query_ids[found.queries], ids)


class GradedRows(NamedTuple):
    """Rows and grades of one list after the other, and the query of each list."""

    rows: IntArray
    grades: FloatArray
    offsets: IntArray
    queries: IntArray


def graded_rows(lists: Comparisons, offsets: IntArray) -> GradedRows:
    """The rows that each list judges, and their grades."""
    rows: list[IntArray] = []
    grades: list[FloatArray] = []
    queries: list[int] = []
    for q, one in lists.one_by_one(offsets):
        judged, grade = one.order_rows, _grades(one)
        if one.order_is_top[0]:
            judged = np.arange(offsets[q + 1] - offsets[q])
            grade = np.zeros(len(judged))
            grade[one.order_rows] = _grades(one)
        rows.append(judged + offsets[q])
        grades.append(grade)
        queries.append(q)
    ends = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return GradedRows(np.concatenate(rows), np.concatenate(grades), ends, np.array(queries))


def position_grades(lists: Comparisons, offsets: IntArray) -> FloatArray:
    """A grade for every row, for scorers that look at grades: its weighted mean over the lists of its query.

    A list grades its tiers from the last, 1, upwards, and rows that a top list leaves out 0; a row that no list grades
    has 0.

    >>> position_grades(Comparisons.from_orders([[2, 0], [0]], top=True), np.array([0, 3])).tolist()
    [1.0, 0.0, 1.0]
    """
    total, weight = np.zeros(offsets[-1]), np.zeros(offsets[-1])
    for q, one in lists.one_by_one(offsets):
        listed = one.order_rows + offsets[q]
        total[listed] += one.list_weight[0] * _grades(one)
        weight[slice(offsets[q], offsets[q + 1]) if one.order_is_top[0] else listed] += one.list_weight[0]
    return np.divide(total, weight, out=total, where=weight > 0)


def _grades(one: Comparisons) -> FloatArray:
    """1 for the last tier of one list, and 1 more for every tier above it."""
    result: FloatArray = (one.order_tier[-1] + 1 - one.order_tier).astype(np.float64)
    return result
