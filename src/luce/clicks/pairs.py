r"""Preferences and ties between documents of one session, freed of where they were shown.

[Ties] takes preferences and ties from clicks. With $\theta$ known, and positions examined independently,

$$T_{ij} = \sum_s \frac{c_i c_j}{\theta_k \theta_l}, \qquad W_{ij} = \sum_s \frac{c_i}{\theta_k} - T_{ij}$$

over the sessions that showed both have the means of "both attract" and "only $i$ attracts": unbiased before they are
clipped at 0. Where examination is nested (users who go down the list and stop) they are not.
"""

from __future__ import annotations

import numpy as np

from luce.clicks.counts import kind_of
from luce.clicks.examination import Examination
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.types import FloatArray, IntArray


def pairs(examined: Examination, data: Groups, *, least_theta: float = 0.05, missing: str = "error") -> Comparisons:
    """Weighted wins and ties between rows of `data`, for davidson, rao_kupper, bradley_terry and thurstone_mosteller.

    The counts must have been read with `pairs=True`. Examination below `least_theta` counts as that much, so that one
    click far down does not outweigh all others. Weights are divided by their mean, so that they mean the same in a log
    of any size.

    >>> from luce.clicks import examination, read
    >>> import luce
    >>> log = {"session": [1, 1, 2, 2, 3, 3], "query": ["q"] * 6, "document": ["a", "b", "b", "a", "a", "b"],
    ...        "position": [1, 2] * 3, "clicked": [1, 0, 1, 1, 1, 0]}
    >>> counts = read(log, pairs=True)
    >>> data = luce.from_arrays(np.eye(2), qid=["q", "q"], document_ids=["a", "b"])
    >>> found = pairs(examination(counts), data)
    >>> found.wins.tolist(), found.ties.tolist()
    ([[0, 1]], [[0, 1]])
    """
    kind_of(examined, Examination, "luce.clicks.examination(counts, data)")
    counted = examined.counts.pairs
    if counted is None:
        raise DataError("The counts lack pairs of documents; read the log with pairs=True (luce clicks --pairs).")
    if examined.users != "position":
        raise SettingError("Unbiased pairs need positions that are examined independently; take users='position'.")
    if not 0 < least_theta <= 1:
        raise SettingError(f"least_theta is {least_theta}; it must be above 0 and at most 1.")
    # Positions that examination leaves out count for nothing.
    looks = np.zeros(int(examined.counts.position.max()) + 1)
    looks[examined.position] = 1.0 / np.maximum(examined.theta, least_theta)
    n = examined.counts.n_documents
    won = counted.with_shown * looks[counted.clicked_at]
    tied = counted.both * (looks[counted.first_at] * looks[counted.second_at])
    win_key, wins = _summed(counted.clicked * n + counted.other, won)
    tie_key, ties = _summed(counted.first * n + counted.second, tied)
    one, other = np.divmod(win_key, n)
    low = np.minimum(one, other) * n + np.maximum(one, other)
    at = np.minimum(np.searchsorted(tie_key, low), max(len(tie_key) - 1, 0))
    both = np.where(tie_key[at] == low, ties[at], 0.0) if len(tie_key) else np.zeros(len(low))
    rows = examined.counts.rows_in(data, missing)
    return _comparisons(np.column_stack([one, other]), wins - both, tie_key, ties, rows)


def _summed(keys: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    found, index = np.unique(keys, return_inverse=True)
    return found, np.bincount(index, values, minlength=len(found)).astype(np.float64)


def _comparisons(won: IntArray, wins: FloatArray, tie_key: IntArray, ties: FloatArray, rows: IntArray) -> Comparisons:
    tied = np.column_stack(np.divmod(tie_key, len(rows)))
    known = (rows[won] >= 0).all(axis=1) & (wins > 0)
    known_ties = (rows[tied] >= 0).all(axis=1) & (ties > 0)
    total = np.concatenate([wins[known], ties[known_ties]])
    if not len(total):
        raise DataError("No click of the log tells two documents of the data apart; there is nothing to learn.")
    unit = total.mean()
    return Comparisons(
        wins=rows[won[known]],
        ties=rows[tied[known_ties]],
        win_weight=wins[known] / unit,
        tie_weight=ties[known_ties] / unit,
        counted=True,
    )
