"""Places in a list: positions, or positions and the last click above; and which of them documents link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from luce.clicks.counts import ClickCounts
from luce.types import FloatArray, IntArray


class Places(NamedTuple):
    """The places of a log, the first one that to which others are compared, and the place of every cell."""

    position: IntArray
    after: IntArray
    of_cell: IntArray

    def __len__(self) -> int:
        return len(self.position)

    def only(self, kept: IntArray, counts: ClickCounts) -> tuple[Places, float]:
        """Some of the places (cells elsewhere have place -1), and the share of the clicks elsewhere."""
        new = np.full(len(self), -1, dtype=np.int64)
        new[kept] = np.arange(len(kept))
        of_cell = new[self.of_cell]
        lost = float(counts.clicked[of_cell < 0].sum() / counts.clicked.sum())
        return Places(self.position[kept], self.after[kept], of_cell), lost


def places_of(counts: ClickCounts) -> Places:
    """All places of a log, by position and then by what was clicked above."""
    base = int(counts.position.max()) + 1
    keys, of_cell = np.unique(counts.position * base + counts.after, return_inverse=True)
    return Places(keys // base, keys % base, of_cell.astype(np.int64))


def cell_matrix(counts: ClickCounts, places: Places, values: FloatArray) -> sparse.csr_array:
    """(documents, places) with one value a cell."""
    used = places.of_cell >= 0
    where = (counts.document[used], places.of_cell[used])
    return sparse.csr_array((values[used], where), shape=(counts.n_documents, len(places)))


def linked(counts: ClickCounts, places: Places) -> tuple[list[IntArray], str]:
    """Groups of places that clicks link, that of the most clicks first, and what is wrong if there are several.

    Place l leads to place k where a document that was shown at both was clicked at k; theta is finite if and only if
    every place leads to every other one.
    """
    shown = cell_matrix(counts, places, np.ones(len(counts.document)))
    clicked = cell_matrix(counts, places, (counts.clicked > 0).astype(np.float64))
    clicked.eliminate_zeros()
    leads = (shown.T @ clicked).toarray() > 0
    n, group = sparse.csgraph.connected_components(sparse.csr_array(leads), directed=True, connection="strong")
    weight = np.bincount(places.of_cell[places.of_cell >= 0], counts.clicked[places.of_cell >= 0], len(places))
    islands = sorted((np.flatnonzero(group == g) for g in range(n)), key=lambda found: -weight[found].sum())
    if n == 1:
        return islands, ""
    np.fill_diagonal(leads, False)
    if not (leads | leads.T).any():
        return islands, "No document that was clicked was shown at two positions, so nothing tells positions apart."
    apart, rest = islands[-1], islands[0]
    names = ", ".join(str(k) for k in places.position[apart][:6]) + (", ..." if len(apart) > 6 else "")
    which, are = ("position", "is") if len(apart) == 1 else ("positions", "are")
    if not leads[np.ix_(rest, apart)].any() and not leads[np.ix_(apart, rest)].any():
        reason = "no document that was clicked was shown both there and elsewhere"
    elif not leads[np.ix_(rest, apart)].any():
        reason = "no document that was also shown elsewhere was clicked there"
    else:
        reason = "documents that were shown there and elsewhere were never clicked elsewhere"
    return islands, f"The {which} {names} {are} not linked to the others: {reason}."


_LEAST_CLUSTERS = 50


def sandwich(
    bread: FloatArray, scores: sparse.csr_array | FloatArray, counts: ClickCounts, model: FloatArray
) -> tuple[FloatArray, str]:
    """Covariance H^-1 (sum of s s') H^-1 with s the scores of queries, or of documents where queries are few.

    `scores` has a row a document; with few documents, too, the covariance `model` of independent clicks is taken.
    """
    of_query = sparse.csr_array(
        (np.ones(counts.n_documents), np.arange(counts.n_documents), counts.offsets),
        shape=(counts.n_queries, counts.n_documents),
    )
    for name, rows in (("queries", of_query @ scores), ("documents", scores)):
        dense: FloatArray = rows.toarray() if isinstance(rows, sparse.csr_array) else np.asarray(rows)
        clusters = int((np.abs(dense).sum(axis=1) > 0).sum())
        if clusters >= max(_LEAST_CLUSTERS, 3 * bread.shape[0]):
            return bread @ (dense.T @ dense) @ bread * clusters / (clusters - 1), name
    return model, "clicks"


def clustered(influence: FloatArray, counts: ClickCounts) -> FloatArray:
    """Covariance of estimates that one click in a cell moves by `influence`, clicks of a query taken together."""
    moved = influence * counts.clicked[:, None]
    scores = np.zeros((counts.n_documents, influence.shape[1]))
    np.add.at(scores, counts.document, moved)
    return sandwich(np.eye(influence.shape[1]), scores, counts, moved.T @ influence)[0]
