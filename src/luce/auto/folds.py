"""Folds by query: each holds as many queries that say something as the others, and a query is never split."""

from __future__ import annotations

import numpy as np

from luce.data.groups import Groups
from luce.numerics.segments import differing
from luce.types import FloatArray, IntArray


def informative(data: Groups) -> IntArray:
    """The queries of at least two grades: all others are silent about order."""
    return np.flatnonzero(differing(data.y, data.offsets))


def deal(data: Groups, folds: int, rng: np.random.Generator) -> IntArray:
    """The fold of every query, drawn; those with two grades and those without are dealt apart.

    >>> data = Groups(np.zeros((4, 1), np.float32), np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 2, 4]), np.arange(2))
    >>> sorted(deal(data, 2, np.random.default_rng(0)).tolist())
    [0, 1]
    """
    speaking = informative(data)
    silent = np.setdiff1d(np.arange(data.n_queries), speaking)
    order = np.concatenate([rng.permutation(speaking), rng.permutation(silent)])
    fold = np.empty(data.n_queries, dtype=np.int64)
    fold[order] = np.arange(data.n_queries) % folds
    return fold


def joined(first: Groups, second: Groups) -> Groups:
    """The queries of both."""
    weight = None
    if first.query_weight is not None or second.query_weight is not None:
        weight = np.concatenate([_weights(first), _weights(second)])
    ids = [np.asarray(part.query_ids).astype(str) for part in (first, second)]
    return Groups(
        X=np.concatenate([first.X, second.X]),
        y=np.concatenate([first.y, second.y]),
        offsets=np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        query_ids=np.concatenate(ids),
        query_weight=weight,
        feature_names=first.feature_names,
        schema=first.schema,
    )


def _weights(data: Groups) -> FloatArray:
    return np.ones(data.n_queries) if data.query_weight is None else data.query_weight
