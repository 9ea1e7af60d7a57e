r"""Monotone retargeting: scores are regressed on the nearest targets that are in the order of the grades.

Grades are opinions on a real scale that were rounded to a few numbers, so that only their order is to be matched
([Pareek] chapter 7, after Acharyya, Koyejo and Ghosh, 2012). With
$C(r) = \{t : t_i \ge t_j + \text{margin}$ where $r_i > r_j\}$,

$$\phi(s, r) = \tfrac12 \min_{t \in C(r)} \|s - t\|^2, \qquad \nabla\phi = s - t^*(s).$$

To minimise over targets and scores in turn, as the algorithm is told, is to minimise this one function of the scores.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.losses.base import Target, as_labels
from luce.losses.segments import Costs, Run, SegmentLoss
from luce.numerics.compiled import kernel
from luce.numerics.segments import query_index
from luce.spec import option
from luce.types import FloatArray, IntArray


class Levels(NamedTuple):
    """How many different lower grades the query of each row has, and the bounds of queries."""

    level: IntArray
    offsets: IntArray


def levels_of(labels: FloatArray, offsets: IntArray) -> Levels:
    """The levels of grades within queries.

    >>> levels_of(np.array([5.0, 0.0, 2.0, 2.0]), np.array([0, 4])).level.tolist()
    [2, 0, 1, 1]
    """
    query = query_index(offsets)
    order = np.lexsort((labels, query))
    rises = np.zeros(len(labels), dtype=np.int64)
    rises[1:] = (np.diff(labels[order]) > 0) & (np.diff(query[order]) == 0)
    count = np.cumsum(rises)
    level = np.empty_like(count)
    level[order] = count - np.repeat(count[offsets[:-1]], np.diff(offsets))
    return Levels(level, offsets)


def nearest_targets(scores: FloatArray, levels: Levels, margin: float) -> FloatArray:
    """The targets nearest to the scores that are in the order of the grades, `margin` apart from grade to grade.

    Less `margin` times the level, targets must not fall in the order of grades, and of scores within a grade, where
    they are free and keep the order of the scores: one regression by pooling adjacent violators.

    >>> nearest_targets(np.array([2.0, 0.0, 5.0]), levels_of(np.array([0.0, 1, 1]), np.array([0, 3])), 1.0).tolist()
    [0.5, 1.5, 5.0]
    """
    order = np.lexsort((scores, levels.level, query_index(levels.offsets)))
    below = margin * levels.level[order]
    moved = scores[order] - below
    pool_adjacent(moved, levels.offsets)
    result = np.empty_like(scores)
    result[order] = moved + below
    return result


@kernel
def pool_adjacent(values, offsets):  # type: ignore[no-untyped-def]
    """In place, and for each query: the nearest numbers that do not fall."""
    mean, size = np.empty(len(values)), np.empty(len(values), np.int64)
    for q in range(len(offsets) - 1):
        blocks = 0
        for i in range(offsets[q], offsets[q + 1]):
            mean[blocks], size[blocks] = values[i], 1
            blocks += 1
            while blocks > 1 and mean[blocks - 2] >= mean[blocks - 1]:
                both = size[blocks - 2] + size[blocks - 1]
                mean[blocks - 2] += (mean[blocks - 1] - mean[blocks - 2]) * (size[blocks - 1] / both)
                size[blocks - 2] = both
                blocks -= 1
        at = offsets[q]
        for b in range(blocks):
            for _ in range(size[b]):
                values[at] = mean[b]
                at += 1


class MonotoneRetargeting(SegmentLoss):
    r"""Half the squared distance of the scores from the nearest that are in the order of the grades.

    Convex, with a gradient that is nowhere steeper than 1; 0 where the scores are in order by the margin.

    Parameters
    ----------
    margin
        How far scores of neighbouring grades of a query must be apart; above 0, since else all scores may be equal.

    >>> MonotoneRetargeting().value_and_grad([0.0, 0.0, 0.0], [1, 0, 0])[1].round(3).tolist()
    [-0.667, 0.333, 0.333]
    """

    name = "monotone_retargeting"

    margin: float = option(default=1.0, above=0)

    @property
    def score_unit(self) -> float:
        """The margin."""
        return self.margin

    def prepare(self, target: Target, offsets: IntArray) -> Levels:
        """The levels of the grades."""
        return levels_of(as_labels(self, target, offsets), offsets)

    def costs(self, s: FloatArray, run: Run, known: Levels) -> Costs:
        """Distances from the targets; a bound of the curvature is 1, of queries without two grades 0."""
        here = Levels(known.level[run.rows], run.offsets)
        apart = s - nearest_targets(s, here, self.margin)
        speaks = np.maximum.reduceat(here.level, run.firsts) > 0
        return 0.5 * run.sums(apart * apart), apart, run.each(speaks.astype(np.float64))
