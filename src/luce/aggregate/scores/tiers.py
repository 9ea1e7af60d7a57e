"""The tiers of a task: models in order of their scores, with those that cannot be told apart together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from luce.aggregate.scores.table import ScoreTable
from luce.types import FloatArray, IntArray


class Race(NamedTuple):
    """One task: `order` lists the models that took part, best first; tier k holds `order[starts[k]:starts[k + 1]]`."""

    order: IntArray
    starts: IntArray

    @property
    def tier(self) -> IntArray:
        """The tier of every entry of `order`."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


def races_of(table: ScoreTable, level: float) -> list[Race]:
    """One race a task.

    A tier is led by its best score; a score belongs to it if it is lower by no more than the tolerance of the task, or,
    where standard errors are known, by no more than their difference allows at this level.
    """
    z = float(ndtri(0.5 + level / 2))
    races = []
    for t in range(len(table.tasks)):
        score = table.scores[:, t]
        there = np.flatnonzero(np.isfinite(score))
        order = there[np.argsort(-score[there], kind="stable")]
        se = np.zeros(len(order)) if table.errors is None else np.nan_to_num(table.errors[order, t])
        races.append(Race(order, _starts(score[order], float(table.tolerance[t]), z * se)))
    return races


def _starts(score: FloatArray, tolerance: float, reach: FloatArray) -> IntArray:
    if tolerance == 0.0 and not reach.any():
        return np.concatenate([[0], 1 + np.flatnonzero(np.diff(score)), [len(score)]])
    starts, lead = [0], 0
    for i in range(1, len(score)):
        if score[lead] - score[i] > max(tolerance, float(np.hypot(reach[lead], reach[i]))):
            starts.append(i)
            lead = i
    return np.array([*starts, len(score)])
