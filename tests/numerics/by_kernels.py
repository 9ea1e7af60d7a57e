"""Sums over all subsets of each size, marginals and exact draws, from the kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce.numerics.symmetric import forward, prefix_log_sums, pull_back, walk_back
from luce.types import FloatArray


def log_sums(scores: ArrayLike) -> FloatArray:
    r"""Log-sums of $\exp(\text{mean score})$ over the subsets of every size 1 to n: $\log e_m(e^{f/m})$.

    >>> np.exp(log_sums([0.0, 0.0, 0.0])).round(12).tolist()
    [3.0, 3.0, 1.0]
    """
    f = np.ascontiguousarray(scores, dtype=np.float64)
    n = len(f)
    out = np.empty((1, n + 1))
    prefix_log_sums(f, np.array([n]), np.full(n + 1, n), out, np.empty((1, 1, n + 1)))
    return out[0, 1:]


def marginals(scores: ArrayLike, size: int) -> FloatArray:
    r"""Probability of every item to be in a subset of that size drawn in proportion to $\exp(\text{mean score})$.

    Divided by the size it is the gradient of `log_sums(scores)[size - 1]`.

    >>> marginals([0.0, 0.0, 0.0, 0.0], 3).tolist()
    [0.75, 0.75, 0.75, 0.75]
    """
    f = np.ascontiguousarray(scores, dtype=np.float64)
    n = len(f)
    stay, out = np.empty((n, size + 1)), np.zeros(n)
    forward(f, size, n, np.empty(n), np.empty(size + 1), stay, True)
    pull_back(stay, size, n, np.array([n]), np.ones(1), np.empty(size + 2), out)
    return out


def sample_subset(scores: ArrayLike, size: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    r"""Draw a subset of that size in proportion to $\exp(\text{mean score})$, exactly.

    >>> int(sample_subset([0.1, 5.0, -3.0], 2, np.random.default_rng(0)).sum())
    2
    """
    f = np.ascontiguousarray(scores, dtype=np.float64)
    n = len(f)
    stay, member = np.empty((n, size + 1)), np.empty(n, dtype=np.bool_)
    forward(f, size, n, np.empty(n), np.empty(size + 1), stay, True)
    walk_back(stay, size, n, rng.random(n), member)
    return member
