"""Distances between rankings with ties: Kendall's with a penalty, Spearman's footrule, and matrices of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.aggregate.ballots import Ballots
from luce.errors import SettingError
from luce.numerics.threads import one_blas_thread
from luce.types import FloatArray

_BLOCK = 1 << 22
"""Entries of a block of sign vectors: 16 MB of float32."""
_ROWS = 128


def kendall(a: Sequence[Any], b: Sequence[Any], *, penalty: float = 0.5, unranked: str = "last") -> float:
    r"""Kendall's distance of two rankings, each a list of items or of tied lists, best first.

    $K^{(p)}(a, b)$ = pairs that a and b order differently + p times the pairs that are tied in exactly one of them.
    Items that only one of them ranks are tied last in the other (`unranked="last"`), or pairs with them are left out
    (`"ignore"`).

    >>> kendall("abc", "cab"), kendall(["a", ["b", "c"]], "abc")
    (2.0, 0.5)
    """
    return float(kendall_matrix(_pair(a, b), penalty=penalty, unranked=unranked)[0, -1])


def footrule(a: Sequence[Any], b: Sequence[Any], *, unranked: str = "last") -> float:
    r"""Spearman's footrule $\sum_x |a(x) - b(x)|$; tied items stand on the mean of their positions.

    >>> footrule("abc", "cab")
    4.0
    """
    return float(footrule_matrix(_pair(a, b), unranked=unranked)[0, -1])


def _pair(a: Sequence[Any], b: Sequence[Any]) -> Ballots:
    # Equal ballots collapse into one row, whose distance to "the last row" is then its distance to itself, 0.
    return Ballots.from_orders([list(a), list(b)])


def kendall_matrix(
    ballots: Ballots, others: Ballots | None = None, *, penalty: float = 0.5, unranked: str = "last"
) -> FloatArray:
    r"""Kendall's distance of every ballot to every other, (ballots, ballots) or (ballots, others).

    With sign vectors $S$ over the item pairs, $|S|$ where a ballot orders the pair, $Z$ where it ties it and
    $R = |S| + Z$ where it ranks both, the distance is
    $\tfrac12(|S||S|^\top - SS^\top) + p\,(RR^\top - |S||S|^\top - ZZ^\top)$: matrix products instead of a loop
    over pairs of ballots. Rows are the different ballots (`ballots.tiers`).
    """
    if not 0 <= penalty <= 1:
        raise SettingError(f"The penalty of a pair tied in one ranking is {penalty}; it must be between 0 and 1.")
    penalty = float(penalty)
    left = ballots.filled(unranked)
    right = left if others is None else _same_items(ballots, others).filled(unranked)
    result = np.zeros((len(left), len(right)))
    strict = _is_strict(left) and _is_strict(right)
    first, second = np.triu_indices(left.shape[1], 1)
    step = max(1, _BLOCK // max(len(left), len(right)))
    for start in range(0, len(first), step):
        pairs = first[start : start + step], second[start : start + step]
        a = _signs(left, *pairs)
        b = a if others is None else _signs(right, *pairs)
        # A few rows at a time, so that the sums stay in cache; such products are too small for several BLAS threads.
        with one_blas_thread():
            for row in range(0, len(left), _ROWS):
                rows = slice(row, row + _ROWS)
                if strict:
                    result[rows] += 0.5 * (len(pairs[0]) - a[0][rows] @ b[0].T)
                    continue
                agreement, ordered, tied, ranked = (one[rows] @ other.T for one, other in zip(a, b, strict=True))
                result[rows] += 0.5 * (ordered - agreement) + penalty * (ranked - ordered - tied)
    return result


def footrule_matrix(ballots: Ballots, others: Ballots | None = None, *, unranked: str = "last") -> FloatArray:
    """Spearman's footrule of every ballot to every other; under `ignore`, over the items that both rank."""
    from scipy.spatial.distance import cdist

    left = ballots.positions(unranked)
    right = left if others is None else _same_items(ballots, others).positions(unranked)
    if not (np.isnan(left).any() or np.isnan(right).any()):
        return np.asarray(cdist(left, right, "cityblock"))
    result = np.zeros((len(left), len(right)))
    for x in range(left.shape[1]):
        result += np.nan_to_num(np.abs(left[:, x, None] - right[None, :, x]), nan=0.0)
    return result


def _same_items(ballots: Ballots, others: Ballots) -> Ballots:
    if others.items == ballots.items:
        return others
    if set(others.items) != set(ballots.items):
        missing = sorted(set(others.items) ^ set(ballots.items))[0]
        raise SettingError(f"Distances need ballots over the same items; {missing!r} is in only one of the two.")
    columns = [others.items.index(name) for name in ballots.items]
    return Ballots(ballots.items, others.tiers[:, columns], others.weights)


def _is_strict(tiers: NDArray[np.int32]) -> bool:
    return bool((tiers.max(axis=1) == tiers.shape[1] - 1).all() and (tiers >= 0).all())


def _signs(tiers: NDArray[np.int32], first: NDArray[np.int64], second: NDArray[np.int64]) -> list[NDArray[np.float32]]:
    """Sign, order, tie and presence of a block of item pairs, float32 so that sums of up to 2^24 are exact."""
    a, b = tiers[:, first], tiers[:, second]
    ranked = (a >= 0) & (b >= 0)
    sign = np.sign(b - a) * ranked
    return [found.astype(np.float32) for found in (sign, np.abs(sign), ranked & (a == b), ranked)]
