"""How much of the results is cyclic, beside what least squares on the graph of games explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from luce.aggregate.board.design import Counts, Design
from luce.types import FloatArray, IntArray

_MOST_TRIANGLES = 2_000_000


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
    """The three items that go most in a circle (each does better than it should against the next), and their curl."""


def decompose(counts: Counts, x: FloatArray) -> HodgeParts:
    """Split the mean margins of pairs into the part of the strengths, three-cycles and longer cycles."""
    design, games = counts.design, counts.total.sum(axis=1)
    margin = (counts.total[:, 0] - counts.total[:, 1]) / games
    fitted = design.predict(x)
    whole = float(games @ margin**2)
    if whole == 0.0:
        return HodgeParts(1.0, 0.0, 0.0, 0.0, ())
    residual = margin - fitted
    cyclic = float(games @ residual**2) / whole
    edges, signs, corners = _triangles(design)
    if edges is None or signs is None or corners is None:
        return HodgeParts(1.0 - cyclic, None, None, cyclic, ())
    curl_of = np.sum(signs * margin[edges], axis=1)
    curl = _curl_share(games, residual, edges, signs) / whole
    worst = np.argsort(-np.abs(curl_of), kind="stable")[:3]
    named = tuple(_oriented(corners[k], float(curl_of[k])) for k in worst if curl_of[k] != 0.0)
    return HodgeParts(1.0 - cyclic, curl, max(cyclic - curl, 0.0), cyclic, named)


def _oriented(corners: IntArray, curl: float) -> tuple[int, int, int, float]:
    i, j, k = (int(c) for c in corners)
    return (i, j, k, curl) if curl > 0 else (k, j, i, -curl)


def _triangles(design: Design) -> tuple[IntArray | None, FloatArray | None, IntArray | None]:
    """(edges, signs, corners) of all triples i < j < k that have met pairwise; None where there are too many."""
    n, first, second = design.n_items, design.first, design.second
    if design.teams is not None or design.extra.shape[1]:
        return None, None, None
    met = sparse.csr_array((np.ones(len(first)), (first, second)), shape=(n, n))
    number = sparse.csr_array((np.arange(1, len(first) + 1), (first, second)), shape=(n, n))
    # For every edge i < k, the middles j: paths i < j < k of two edges.
    if (met @ met).multiply(met).sum() > _MOST_TRIANGLES:
        return None, None, None
    found = []
    for i in range(n):
        ahead = met.indices[met.indptr[i] : met.indptr[i + 1]]
        inside = number[ahead][:, ahead].tocoo()
        edge = dict(zip(ahead.tolist(), number.data[number.indptr[i] : number.indptr[i + 1]].tolist(), strict=True))
        for j, k, middle in zip(ahead[inside.row].tolist(), ahead[inside.col].tolist(), inside.data, strict=True):
            found.append((edge[j] - 1, int(middle) - 1, edge[k] - 1, i, j, k))
    array = np.array(found, dtype=np.int64).reshape(-1, 6)
    return array[:, :3], np.tile([1.0, 1.0, -1.0], (len(array), 1)), array[:, 3:]


def _curl_share(games: FloatArray, residual: FloatArray, edges: IntArray, signs: FloatArray) -> float:
    if not len(edges):
        return 0.0
    triangle = np.repeat(np.arange(len(edges)), 3)
    flow = signs.ravel() / np.sqrt(games[edges.ravel()])
    basis = sparse.csr_array((flow, (edges.ravel(), triangle)), shape=(len(games), len(edges)))
    target = np.sqrt(games) * residual
    weight = lsqr(basis, target, atol=1e-10, btol=1e-10)[0]
    return float(np.sum((basis @ weight) ** 2))
