r"""Examination by joint choice: where a click of a query went, among all its documents and places.

$$P((d, k) \mid \text{click in } q) \propto N_{dk} \exp(z_k + f_d), \quad f_d = w'x_d$$

Concave in $(z, w)$. It needs no document in two places, since documents of like features stand in for each other.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from luce.clicks.conditional import ChoiceFit
from luce.clicks.counts import ClickCounts
from luce.clicks.places import Places, cell_matrix, sandwich
from luce.data.groups import Groups
from luce.errors import DataError
from luce.types import FloatArray, IntArray

_RIDGE = 1.0
"""Precision of the weights of standardised features, in units of one click's information."""
_STEPS = 100
_STUCK = "Examination did not converge; the log has too few clicks in some positions: give a longer one."
_LONGEST = 2.0
"""Of a step in log theta: far from the optimum Newton's would overshoot without bound."""
_TOLERANCE = 1e-16


class _Problem:
    """Counts by document and place, and the features of the documents."""

    def __init__(self, counts: ClickCounts, places: Places, X: FloatArray) -> None:
        self.shown = cell_matrix(counts, places, counts.shown)
        self.clicked = cell_matrix(counts, places, counts.clicked)
        self.X, self.offsets = X, counts.offsets
        self.in_query = sparse.csr_array(
            (np.ones(counts.n_documents), np.arange(counts.n_documents), counts.offsets),
            shape=(counts.n_queries, counts.n_documents),
        )
        self.by_document = np.asarray(self.clicked.sum(axis=1)).ravel()
        self.by_place = np.asarray(self.clicked.sum(axis=0)).ravel()
        self.by_query = self.in_query @ self.by_document


def joint_derivatives(
    z: FloatArray, w: FloatArray, problem: _Problem
) -> tuple[float, FloatArray, FloatArray, tuple[sparse.csr_array, FloatArray, FloatArray]]:
    """Log-likelihood, score and Hessian of its negative in (z, w), with the ridge; and the means of each query."""
    f = problem.X @ w
    sizes = np.diff(problem.offsets)
    top = np.repeat(np.maximum.reduceat(f, problem.offsets[:-1]), sizes)
    weight = sparse.csr_array(sparse.diags_array(np.exp(f - top)) @ problem.shown @ sparse.diags_array(np.exp(z)))
    mass = np.asarray(weight.sum(axis=1)).ravel()
    total = problem.in_query @ mass
    safe = np.where(total > 0, total, 1.0)
    chances = sparse.csr_array(sparse.diags_array(np.repeat(1.0 / safe, sizes)) @ weight)
    document = np.asarray(chances.sum(axis=1)).ravel()
    mean_place = (problem.in_query @ chances).toarray()
    mean_x = problem.in_query @ (document[:, None] * problem.X)
    clicks = problem.by_query
    expected = document * np.repeat(clicks, sizes)
    log_total = np.log(safe) + top[problem.offsets[:-1]]
    value = problem.by_place @ z + problem.by_document @ f - clicks @ log_total - 0.5 * _RIDGE * w @ w
    score = np.concatenate(
        [problem.by_place - clicks @ mean_place, (problem.by_document - expected) @ problem.X - _RIDGE * w]
    )
    zw = (sparse.diags_array(np.repeat(clicks, sizes)) @ chances).T @ problem.X - mean_place.T @ (
        clicks[:, None] * mean_x
    )
    zz = np.diag(clicks @ mean_place) - mean_place.T @ (clicks[:, None] * mean_place)
    ww = problem.X.T @ (expected[:, None] * problem.X) - mean_x.T @ (clicks[:, None] * mean_x)
    hessian = np.block([[zz, zw], [zw.T, ww + _RIDGE * np.eye(len(w))]])
    return float(value), score, hessian, (chances, mean_place, mean_x)


def joint_choice(counts: ClickCounts, places: Places, data: Groups, rows: IntArray) -> ChoiceFit:
    """Newton's method on (z, w), features standardised; documents that the data lack count as average ones."""
    X = standardised(data, rows)
    problem = _Problem(counts, places, X)
    if np.any(problem.by_place == 0):
        nowhere = int(places.position[np.flatnonzero(problem.by_place == 0)[0]])
        raise DataError(f"Nothing was clicked at position {nowhere}; examination needs a click at every position.")
    n = len(places)
    vector = np.zeros(n + X.shape[1])
    value, score, hessian, means = joint_derivatives(vector[:n], vector[n:], problem)
    for _ in range(_STEPS):
        step = np.append(0.0, np.linalg.lstsq(hessian[1:, 1:], score[1:])[0])
        step *= min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))
        if float(score @ step) < _TOLERANCE * float(problem.by_document.sum()):
            break
        scale = 1.0
        while True:
            moved = vector + scale * step
            tried = joint_derivatives(moved[:n], moved[n:], problem)
            if tried[0] >= value - 1e-12 * abs(value):
                break
            scale /= 2
            if scale < 1e-9:
                raise DataError(_STUCK)
        vector = moved
        value, score, hessian, means = tried
    else:
        raise DataError(_STUCK)
    bread = np.zeros_like(hessian)
    bread[1:, 1:] = np.linalg.inv(hessian[1:, 1:])
    chances, mean_place, mean_x = means
    scores = _document_scores(problem, chances, X)
    covariance, errors = sandwich(bread, scores, counts, bread)
    return ChoiceFit(
        vector[:n], covariance[:n, :n], errors, _influence(counts, places, mean_place, mean_x, X, bread[:, :n])
    )


def standardised(data: Groups, rows: IntArray) -> FloatArray:
    """The features of the documents of a log, in standard units; 0 for those that the data lack."""
    known = rows >= 0
    X = np.zeros((len(rows), data.n_features))
    X[known] = data.X[rows[known]]
    if not np.isfinite(X).all():
        raise DataError("Joint choice needs features without gaps; fill them in, or take method='conditional'.")
    mean, deviation = X[known].mean(axis=0), X[known].std(axis=0)
    X[known] = (X[known] - mean) / np.where(deviation > 0, deviation, 1.0)
    return X[:, deviation > 0]


def _document_scores(problem: _Problem, chances: sparse.csr_array, X: FloatArray) -> FloatArray:
    """What each document adds to the score."""
    clicks = np.repeat(problem.by_query, np.diff(problem.offsets))
    z = (problem.clicked - sparse.diags_array(clicks) @ chances).toarray()
    excess = problem.by_document - clicks * np.asarray(chances.sum(axis=1)).ravel()
    return np.column_stack([z, excess[:, None] * X])


def _influence(
    counts: ClickCounts,
    places: Places,
    mean_place: FloatArray,
    mean_x: FloatArray,
    X: FloatArray,
    bread: FloatArray,
) -> FloatArray:
    """H^-1 times the score of one click in each cell: (e_k, x_d) less the means of its query."""
    n, used = len(places), places.of_cell >= 0
    query = counts.document_query
    mean = mean_place @ bread[:n] + mean_x @ bread[n:]
    own = X @ bread[n:]
    found = np.zeros((len(counts.document), n))
    document = counts.document[used]
    found[used] = bread[:n][places.of_cell[used]] + own[document] - mean[query[document]]
    return found
