"""Examination by choice: conditional on a document's clicks, joint with its attraction, and both combined."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from luce.clicks.counts import ClickCounts
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

LEAST_PLACES = 4
"""Fewer positions than this have no neighbours to lean on."""


_TAU = np.linspace(0.001, 1.0, 101)
"""Roughness that is considered, all values alike beforehand; not 0, since errors may be."""


_ANY_SLOPE = 100.0
"""Variance of the slope: that of a power of the position."""


def smoothed(positions: FloatArray, log_theta: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What the smooth estimates are of the given ones, (places, places), and their covariance; the first place stays 0.

    How rough examination is stays uncertain: estimates are means over tau by its marginal likelihood, and what they
    differ by over tau is part of their covariance. At the most likely tau alone, intervals covered 85% for 95%.

    >>> k = np.arange(1.0, 6.0)
    >>> noisy = -np.log(k) + np.array([0.0, 0.1, -0.1, 0.1, -0.1])
    >>> lean, left = smoothed(k, noisy, np.diag([0.0, 0.01, 0.01, 0.01, 0.01]))
    >>> bool(np.abs(lean @ noisy + np.log(k)).max() < 0.08), bool(np.all(np.diag(left)[1:] < 0.01))
    (True, True)
    """
    x = np.log(np.asarray(positions, dtype=np.float64) / positions[0])[1:]
    z, noise = log_theta[1:], covariance[1:, 1:]
    path, line = np.minimum.outer(x, x), _ANY_SLOPE * np.outer(x, x)
    weight, leans = np.empty(len(_TAU)), np.empty((len(_TAU), len(z), len(z)))
    for i, tau in enumerate(_TAU):
        prior = line + tau**2 * path
        total = prior + noise
        weight[i] = -0.5 * float(np.linalg.slogdet(total)[1] + z @ np.linalg.solve(total, z))
        leans[i] = np.linalg.solve(total, prior).T
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    mean = np.tensordot(weight, leans, axes=1)
    apart = (leans - mean) @ z
    left = mean @ noise + (apart * weight[:, None]).T @ apart
    lean, kept = np.zeros_like(covariance), np.zeros_like(covariance)
    lean[1:, 1:], kept[1:, 1:] = mean, 0.5 * (left + left.T)
    return lean, kept


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


def errors_wide(level: float) -> float:
    """Standard errors on each side of an interval of this level of confidence.

    >>> round(errors_wide(0.95), 2)
    1.96
    """
    if not 0 < level < 1:
        raise SettingError(f"level is {level}; it must be above 0 and below 1, as in 0.95.")
    return float(ndtri(0.5 + level / 2))


class Estimate(NamedTuple):
    """A value with its standard error and interval."""

    value: float
    standard_error: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, standard_error: float, level: float) -> Estimate:
        """With the normal interval at this level."""
        width = errors_wide(level) * standard_error
        return cls(float(value), float(standard_error), float(value - width), float(value + width))


_RIDGE = 1.0
_STEPS = 50


def cross_fitted(data: Groups, clicks: FloatArray, exposure: FloatArray) -> FloatArray:
    """Attraction of every row by the model of the other half of the queries, at most 1."""
    X = np.nan_to_num(data.X.astype(np.float64))
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    X = np.column_stack([np.ones(len(X)), X])
    half = query_index(data.offsets) % 2
    found = np.empty(len(X))
    for part in (0, 1):
        other = (half != part) & (exposure > 0)
        if not clicks[other].any():
            other = exposure > 0  # one query only: there is no other half
        weights = poisson_regression(X[other], clicks[other], exposure[other])
        own = half == part
        found[own] = np.exp(np.minimum(X[own] @ weights, 0.0))
    return found


def poisson_regression(X: FloatArray, clicks: FloatArray, exposure: FloatArray) -> FloatArray:
    """Weights that maximise sum C f - E e^f - ridge/2 |w|^2; the first column of X is the constant, not penalised."""
    weights = np.zeros(X.shape[1])
    weights[0] = np.log(clicks.sum() / exposure.sum())
    penalty = np.full(len(weights), _RIDGE)
    penalty[0] = 0.0

    def value(at: FloatArray) -> float:
        f = X @ at
        return float(clicks @ f - exposure @ np.exp(np.minimum(f, 50.0)) - 0.5 * penalty @ at**2)

    now = value(weights)
    for _ in range(_STEPS):
        mean = exposure * np.exp(np.minimum(X @ weights, 50.0))
        score = (clicks - mean) @ X - penalty * weights
        step = np.linalg.solve((X.T * mean) @ X + np.diag(penalty + 1e-9), score)
        if score @ step < 1e-8 * max(float(clicks.sum()), 1.0):
            break
        scale = 1.0
        while (then := value(weights + scale * step)) < now and scale > 1e-6:
            scale /= 2
        weights, now = weights + scale * step, then
    return weights


_TOLERANCE = 1e-16
_ROUNDS = 100
_STUCK = "Examination did not converge; the log has too few clicks in some positions: give a longer one."
_LONGEST = 2.0
"""Of a step in log theta: far from the optimum Newton's would overshoot without bound."""


_LEAST_INFORMATION = 1e-6
"""In clicks: with less, examination has no finite greatest likelihood, or any value would do."""


def _inverse(hessian: FloatArray) -> FloatArray:
    """The covariance of all but the first place, which is fixed."""
    if np.linalg.eigvalsh(hessian[1:, 1:]).min(initial=np.inf) < _LEAST_INFORMATION:
        raise DataError(
            "The clicks leave the examination of some position open: it has no finite estimate; give a longer log."
        )
    bread = np.zeros_like(hessian)
    bread[1:, 1:] = np.linalg.inv(hessian[1:, 1:])
    return bread


class ChoiceFit(NamedTuple):
    """log theta (the first place 0), its covariance, what that is made of, and the influence of a click in a cell."""

    log_theta: FloatArray
    covariance: FloatArray
    errors: str
    influence: FloatArray


def conditional_derivatives(
    log_theta: FloatArray, shown: sparse.csr_array, clicked: sparse.csr_array
) -> tuple[float, FloatArray, FloatArray, sparse.csr_array]:
    """Log-likelihood, score, Hessian of its negative, and the probabilities; counts are documents x places."""
    total = np.asarray(clicked.sum(axis=1)).ravel()
    weight = shown @ sparse.diags_array(np.exp(log_theta))
    sums = np.asarray(weight.sum(axis=1)).ravel()
    chances = sparse.csr_array(sparse.diags_array(1.0 / np.where(sums > 0, sums, 1.0)) @ weight)
    weighted = sparse.csr_array(sparse.diags_array(total) @ chances)
    by_place = np.asarray(weighted.sum(axis=0)).ravel()
    score = np.asarray(clicked.sum(axis=0)).ravel() - by_place
    hessian = np.diag(by_place) - (chances.T @ weighted).toarray()
    value = float(np.asarray(clicked.sum(axis=0)).ravel() @ log_theta - total @ np.log(np.where(sums > 0, sums, 1.0)))
    return value, score, hessian, chances


def conditional_choice(counts: ClickCounts, places: Places) -> ChoiceFit:
    """Newton's method on log theta, with a covariance that does not trust the model's own variance."""
    shown = cell_matrix(counts, places, counts.shown)
    clicked = cell_matrix(counts, places, counts.clicked)
    # A document in one place only, or without a click, says nothing here.
    informative = (np.diff(shown.indptr) > 1) & (np.asarray(clicked.sum(axis=1)).ravel() > 0)
    at, clicks = shown[informative], clicked[informative]
    log_theta = np.zeros(len(places))
    value, score, hessian, _ = conditional_derivatives(log_theta, at, clicks)
    for _ in range(_ROUNDS):
        step = np.append(0.0, np.linalg.lstsq(hessian[1:, 1:], score[1:])[0])
        step *= min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))
        if float(score @ step) < _TOLERANCE * max(float(clicks.sum()), 1.0):
            break
        scale = 1.0
        while True:
            tried = conditional_derivatives(log_theta + scale * step, at, clicks)
            if tried[0] >= value - 1e-12 * abs(value):
                break
            scale /= 2
            if scale < 1e-9:
                raise DataError(_STUCK)
        log_theta = log_theta + scale * step
        value, score, hessian, _ = tried
    else:
        raise DataError(_STUCK)
    bread = _inverse(hessian)
    total = np.asarray(clicked.sum(axis=1)).ravel()
    everywhere = conditional_derivatives(log_theta, shown, clicked)[3]
    scores = sparse.csr_array(clicked - sparse.diags_array(total) @ everywhere)
    covariance, errors = sandwich(bread, scores, counts, bread)
    return ChoiceFit(log_theta, covariance, errors, _influence(counts, places, everywhere, bread))


def _influence(counts: ClickCounts, places: Places, chances: sparse.csr_array, bread: FloatArray) -> FloatArray:
    """H^-1 (e_k - pi_d) for every cell (d, k); 0 for cells that are not used."""
    used = places.of_cell >= 0
    found = np.zeros((len(counts.document), len(places)))
    mean = np.asarray(chances @ bread)
    found[used] = bread[places.of_cell[used]] - mean[counts.document[used]]
    return found


_RIDGE_JOINT = 1.0
"""Precision of the weights of standardised features, in units of one click's information."""


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
    value = problem.by_place @ z + problem.by_document @ f - clicks @ log_total - 0.5 * _RIDGE_JOINT * w @ w
    score = np.concatenate(
        [problem.by_place - clicks @ mean_place, (problem.by_document - expected) @ problem.X - _RIDGE_JOINT * w]
    )
    zw = (sparse.diags_array(np.repeat(clicks, sizes)) @ chances).T @ problem.X - mean_place.T @ (
        clicks[:, None] * mean_x
    )
    zz = np.diag(clicks @ mean_place) - mean_place.T @ (clicks[:, None] * mean_place)
    ww = problem.X.T @ (expected[:, None] * problem.X) - mean_x.T @ (clicks[:, None] * mean_x)
    hessian = np.block([[zz, zw], [zw.T, ww + _RIDGE_JOINT * np.eye(len(w))]])
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
    for _ in range(_ROUNDS):
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
    bread = _inverse(hessian)
    chances, mean_place, mean_x = means
    scores = _document_scores(problem, chances, X)
    covariance, errors = sandwich(bread, scores, counts, bread)
    return ChoiceFit(
        vector[:n], covariance[:n, :n], errors, _influence_joint(counts, places, mean_place, mean_x, X, bread[:, :n])
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


def _influence_joint(
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


_SIGMA = np.linspace(0.0, 1.0, 101)
"""How far joint choice may be astray, all values alike beforehand."""
_LEAST = 1e-9
"""Of the noise of a direction, beside that of the noisiest: with few clicks an estimated one may be 0."""


def combined(
    positions: FloatArray, conditional: FloatArray, joint: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What the estimate moves from conditional towards joint choice, (places, places), and its covariance.

    `conditional` and `joint` are logarithms of examination, 0 at the first place, and `covariance` is that of both, one
    after the other.

    >>> k, c = np.arange(1.0, 5.0), -np.log(np.arange(1.0, 5.0))
    >>> noise = np.diag([0.0, 0.04, 0.04, 0.04, 0.0, 0.0001, 0.0001, 0.0001])
    >>> gain, left = combined(k, c + [0, 0.2, -0.2, 0.2], c, noise)
    >>> bool(np.all(np.diag(gain)[1:] > 0.5)), bool(np.all(np.diag(left)[1:] < 0.04))
    (True, True)
    """
    n = len(conditional)
    x = np.log(np.asarray(positions, dtype=np.float64) / positions[0])[1:]
    cc, jj, cj = covariance[1:n, 1:n], covariance[n + 1 :, n + 1 :], covariance[1:n, n + 1 :]
    root = np.linalg.inv(np.linalg.cholesky(np.minimum.outer(x, x)))
    # In these coordinates D and B are diagonal, for every sigma at once.
    noise, turn = np.linalg.eigh(root @ (cc + jj - cj - cj.T) @ root.T)
    apart = turn.T @ root @ (joint - conditional)[1:]
    towards = (cc - cj) @ root.T @ turn
    total = np.maximum(noise, _LEAST * max(float(noise[-1]), _LEAST)) + _SIGMA[:, None] ** 2
    weight = -0.5 * (np.log(total) + apart**2 / total).sum(axis=1)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    mean = towards * (weight @ (1.0 / total))
    moved = (apart / total - weight @ (apart / total)) @ towards.T
    left = cc - mean @ towards.T + (moved * weight[:, None]).T @ moved
    gain, kept = np.zeros((n, n)), np.zeros((n, n))
    gain[1:, 1:], kept[1:, 1:] = mean @ turn.T @ root, 0.5 * (left + left.T)
    return gain, kept
