"""How much of the results is cyclic, beside what least squares on the graph of games explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from luce.aggregate.board.design import Counts, Design
from luce.types import FloatArray, IntArray

_MOST_TRIANGLES = 2_000_000
_SIGNS = np.array([1.0, 1.0, -1.0])
"""Of the edges of a triangle i < j < k on the way round: ij, jk and ik."""


@dataclass(frozen=True)
class HodgeParts:
    """Shares of the weighted sum of squares of the mean margins (Jiang, Lim, Yao and Ye, 2011, theorem 2)."""

    gradient: float
    """Explained by the strengths."""
    curl: float | None
    """Local cycles, of three items; None where there are too many triangles to tell curl from harmonic."""
    harmonic: float | None
    """Cycles of more than three items."""
    cyclic: float
    """curl + harmonic: what no ranking explains."""
    triangles: tuple[tuple[int, int, int, float], ...]
    """Positions of the three items that go most in a circle (each does better than it should against the next), and
    their curl."""


def decompose(counts: Counts, x: FloatArray, place: IntArray) -> HodgeParts:
    """Split the mean margins of pairs into the part of the strengths, three-cycles and longer cycles.

    `place` says where every item stands on the board.
    """
    design, games = counts.design, counts.total.sum(axis=1)
    margin = (counts.total[:, 0] - counts.total[:, 1]) / games
    fitted = design.predict(x)
    whole = float(games @ margin**2)
    if whole == 0.0:
        return HodgeParts(1.0, 0.0, 0.0, 0.0, ())
    residual = margin - fitted
    cyclic = float(games @ residual**2) / whole
    found = _triangles(design)
    if found is None:
        return HodgeParts(1.0 - cyclic, None, None, cyclic, ())
    edges, corners = found
    curl_of = margin[edges] @ _SIGNS
    # What of the residual flows round triangles.
    flow, triangle = np.tile(_SIGNS, len(edges)) / np.sqrt(games[edges.ravel()]), np.repeat(np.arange(len(edges)), 3)
    basis = sparse.csr_array((flow, (edges.ravel(), triangle)), shape=(len(games), len(edges)))
    weight = lsqr(basis, np.sqrt(games) * residual, atol=1e-10, btol=1e-10)[0] if len(edges) else np.empty(0)
    curl = float(np.sum((basis @ weight) ** 2)) / whole
    worst, named = np.argsort(-np.abs(curl_of), kind="stable")[:3], []
    for (i, j, k), round_ in zip(place[corners[worst]].tolist(), curl_of[worst].tolist(), strict=True):
        if round_ != 0.0:
            named.append((i, j, k, round_) if round_ > 0 else (k, j, i, -round_))
    return HodgeParts(1.0 - cyclic, curl, max(cyclic - curl, 0.0), cyclic, tuple(named))


def _triangles(design: Design) -> tuple[IntArray, IntArray] | None:
    """Edges ij, jk, ik and corners of all i < j < k that have met pairwise; None where there are too many."""
    n, first, second = design.n_items, design.first, design.second
    if design.teams is not None or design.extra.shape[1]:
        return None
    number = sparse.csr_array((np.arange(1, len(first) + 1), (first, second)), shape=(n, n))
    met = (number > 0).astype(np.int64)
    # For every edge i < k, the middles j: paths i < j < k of two edges.
    if (met @ met).multiply(met).sum() > _MOST_TRIANGLES:
        return None
    found = [np.empty((6, 0), dtype=np.int64)]
    for i in range(n):
        ahead, edge = (of[slice(*number.indptr[i : i + 2])] for of in (number.indices, number.data))
        inside = number[ahead][:, ahead].tocoo()
        j, k = inside.row, inside.col
        found.append(np.stack([edge[j], inside.data, edge[k], np.full(len(j), i), ahead[j], ahead[k]]))
    array = np.concatenate(found, axis=1).T
    return array[:, :3] - 1, array[:, 3:]
