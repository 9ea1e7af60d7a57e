"""Examination by choice: conditional on a document's clicks, joint with its attraction, and both combined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from luce.checks import fits_in_memory
from luce.clicks.counts import ClickCounts
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

LEAST_PLACES = 4
"""Fewer positions than this have no neighbours to lean on."""
_TAU = np.linspace(0.001, 1.0, 101)
"""Roughness that is considered, all values alike beforehand; not 0, since errors may be."""
_LEAST = 1e-9
"""Of the noise of a direction, beside that of the noisiest: with few clicks an estimated one may be 0."""
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
    noise = covariance[1:, 1:]
    kept, spread = _averaged(x, log_theta[1:], noise + _ANY_SLOPE * np.outer(x, x), noise, _TAU)
    lean = np.eye(len(x)) - kept
    return _with_first(lean, lean @ noise + spread)


def _averaged(
    x: FloatArray, z: FloatArray, noise: FloatArray, side: FloatArray, scales: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The mean of A (V + s^2 B)^-1 over the scales s, and how far that times z varies over them.

    B is the covariance of a path over x (Brownian motion), V the `noise` and A the `side`; a scale counts by how likely
    z is under Normal(0, V + s^2 B).
    """
    root = np.linalg.inv(np.linalg.cholesky(np.minimum.outer(x, x)))
    # In these coordinates V and B are diagonal, for every scale at once.
    values, turn = np.linalg.eigh(root @ noise @ root.T)
    apart, towards = turn.T @ root @ z, side @ root.T @ turn
    total = np.maximum(values + scales[:, None] ** 2, _LEAST * max(float(values[-1]), _LEAST))
    weight = -0.5 * (np.log(total) + apart**2 / total).sum(axis=1)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    moved = (apart / total - weight @ (apart / total)) @ towards.T
    return (towards * (weight @ (1.0 / total))) @ turn.T @ root, (moved * weight[:, None]).T @ moved


def _with_first(lean: FloatArray, left: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A table and a covariance of all places but the first, with that place, which stays 0."""
    return np.pad(lean, (1, 0)), np.pad(0.5 * (left + left.T), (1, 0))


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


def _members(offsets: IntArray) -> sparse.csr_array:
    """(groups, documents) with 1 where a document belongs to a group: sums over groups."""
    n = int(offsets[-1])
    return sparse.csr_array((np.ones(n), np.arange(n), offsets), shape=(len(offsets) - 1, n))


def sandwich(
    bread: FloatArray, scores: sparse.csr_array | FloatArray, counts: ClickCounts, model: FloatArray
) -> tuple[FloatArray, str]:
    """Covariance H^-1 (sum of s s') H^-1 with s the scores of queries, or of documents where queries are few.

    `scores` has a row a document; with few documents, too, the covariance `model` of independent clicks is taken.
    """
    for name, rows in (("queries", _members(counts.offsets) @ scores), ("documents", scores)):
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


class Derivatives(NamedTuple):
    """A log-likelihood, its score, the Hessian of its negative, and what else was found on the way."""

    value: float
    score: FloatArray
    hessian: FloatArray
    means: Any = None


_ROUNDS = 100
_STUCK = "Examination did not converge; the log has too few clicks in some positions: give a longer one."
_LONGEST = 2.0
"""Of a step: far from the optimum Newton's would overshoot without bound."""


def _greatest(
    derivatives: Callable[[FloatArray], Derivatives], vector: FloatArray, free: slice, tolerance: float
) -> tuple[FloatArray, Derivatives]:
    """Newton's method: where a likelihood is greatest, and its derivatives there; what is not `free` stays."""
    now = derivatives(vector)
    for _ in range(_ROUNDS):
        step = np.zeros(len(vector))
        step[free] = np.linalg.lstsq(now.hessian[free, free], now.score[free])[0]
        step *= min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))
        if float(now.score @ step) < tolerance:
            return vector, now
        scale = 1.0
        while (tried := derivatives(vector + scale * step)).value < now.value - 1e-12 * abs(now.value):
            scale /= 2
            if scale < 1e-9:
                raise DataError(_STUCK)
        vector, now = vector + scale * step, tried
    raise DataError(_STUCK)


_RIDGE = 1.0
"""Precision of the weights of standardised features, in units of one click's information."""


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
    first = np.zeros(X.shape[1])
    first[0] = np.log(clicks.sum() / exposure.sum())
    penalty = np.full(len(first), _RIDGE)
    penalty[0] = 0.0

    def derivatives(weights: FloatArray) -> Derivatives:
        f = X @ weights
        mean = exposure * np.exp(np.minimum(f, 50.0))
        value = float(clicks @ f - mean.sum() - 0.5 * penalty @ weights**2)
        hessian = (X.T * mean) @ X + np.diag(penalty + 1e-9)
        return Derivatives(value, (clicks - mean) @ X - penalty * weights, hessian)

    return _greatest(derivatives, first, slice(None), 1e-8 * max(float(clicks.sum()), 1.0))[0]


class ChoiceFit(NamedTuple):
    """log theta (the first place 0), its covariance, what that is made of, and the influence of a click in a cell."""

    log_theta: FloatArray
    covariance: FloatArray
    errors: str
    influence: FloatArray
    trust: FloatArray | None = None


class Choices:
    """Clicks as choices among the cells of a group: cell (d, k) is chosen with weight N_dk exp(z_k + w'x_d).

    A group is a document, whose attraction drops out and which needs no features (conditional choice), or the documents
    of a query (joint choice): documents `offsets[g]:offsets[g + 1]`.
    """

    def __init__(self, counts: ClickCounts, places: Places, X: FloatArray | None = None) -> None:
        n, cells = counts.n_documents, len(counts.document)
        width = len(places) + (0 if X is None else X.shape[1])
        fits_in_memory(
            8.0 * (3 * cells * len(places) + 2 * n * width),
            f"Examination of {len(places):,} positions by {cells:,} counts of clicks",
            "take fewer positions",
        )
        self.counts, self.places = counts, places
        self.X = np.zeros((n, 0)) if X is None else X
        self.offsets = np.arange(n + 1) if X is None else counts.offsets
        self.shown = cell_matrix(counts, places, counts.shown)
        self.clicked = cell_matrix(counts, places, counts.clicked)
        self.by_document = np.asarray(self.clicked.sum(axis=1)).ravel()
        self.by_place = np.asarray(self.clicked.sum(axis=0)).ravel()
        self.members = _members(self.offsets)
        self.clicks = self.members @ self.by_document
        """Of every group."""

    def spread(self, of_group: FloatArray) -> FloatArray:
        """A value a group as one a document."""
        return np.repeat(of_group, np.diff(self.offsets))

    def derivatives(self, vector: FloatArray) -> Derivatives:
        """In (z, w), with the ridge; and the chances of the cells and the means of places and features by group."""
        X, clicks, n = self.X, self.clicks, len(self.places)
        z, w = vector[:n], vector[n:]
        f = X @ w
        top = np.maximum.reduceat(f, self.offsets[:-1])
        weight = sparse.csr_array(
            sparse.diags_array(np.exp(f - self.spread(top))) @ self.shown @ sparse.diags_array(np.exp(z))
        )
        total = self.members @ np.asarray(weight.sum(axis=1)).ravel()
        total = np.where(total > 0, total, 1.0)
        chances = weight.copy()
        # Divided one by one, so that the only cell of a group has a chance of 1 to the bit.
        chances.data = weight.data / np.repeat(self.spread(total), np.diff(weight.indptr))
        document = np.asarray(chances.sum(axis=1)).ravel()
        mean_place, mean_x = self.members @ chances, self.members @ (document[:, None] * X)
        expected = document * self.spread(clicks)
        by_place = np.asarray(clicks @ mean_place).ravel()
        value = self.by_place @ z + self.by_document @ f - clicks @ (np.log(total) + top) - 0.5 * _RIDGE * w @ w
        score = np.concatenate([self.by_place - by_place, (self.by_document - expected) @ X - _RIDGE * w])
        weighted = sparse.diags_array(clicks) @ mean_place
        zz = np.diag(by_place) - (mean_place.T @ weighted).toarray()
        zw = (sparse.diags_array(self.spread(clicks)) @ chances).T @ X - weighted.T @ mean_x
        ww = X.T @ (expected[:, None] * X) - mean_x.T @ (clicks[:, None] * mean_x)
        hessian = np.block([[zz, zw], [zw.T, ww + _RIDGE * np.eye(len(w))]])
        return Derivatives(float(value), score, hessian, (chances, mean_place, mean_x))

    def fit(self) -> ChoiceFit:
        """Newton's method on (z, w), with a covariance that does not trust the model's own variance."""
        n, start = len(self.places), np.zeros(len(self.places) + self.X.shape[1])
        enough = _TOLERANCE * max(float(self.by_document.sum()), 1.0)
        vector, found = _greatest(self.derivatives, start, slice(1, None), enough)
        # The covariance of all but the first place, which is fixed.
        if np.linalg.eigvalsh(found.hessian[1:, 1:]).min(initial=np.inf) < _LEAST_INFORMATION:
            raise DataError(
                "The clicks leave the examination of some position open: it has no finite estimate; give a longer log."
            )
        bread = np.zeros_like(found.hessian)
        bread[1:, 1:] = np.linalg.inv(found.hessian[1:, 1:])
        # What each document adds to the score.
        chances, clicks = found.means[0], self.spread(self.clicks)
        excess = self.by_document - clicks * np.asarray(chances.sum(axis=1)).ravel()
        of_place = self.clicked - sparse.diags_array(clicks) @ chances
        scores = sparse.csr_array(sparse.hstack([of_place, sparse.csr_array(excess[:, None] * self.X)]))
        covariance, errors = sandwich(bread, scores, self.counts, bread)
        return ChoiceFit(vector[:n], covariance[:n, :n], errors, self._influence(found.means, bread[:, :n]))

    def _influence(self, means: tuple[sparse.csr_array, sparse.csr_array, FloatArray], bread: FloatArray) -> FloatArray:
        """H^-1 times the score of one click in each cell, (e_k, x_d) less the means of its group; 0 if not used."""
        n, used = len(self.places), self.places.of_cell >= 0
        mean = means[1] @ bread[:n] + means[2] @ bread[n:]
        own = self.X @ bread[n:]
        document = self.counts.document[used]
        found = np.zeros((len(self.counts.document), n))
        found[used] = bread[self.places.of_cell[used]] + own[document] - mean[query_index(self.offsets)[document]]
        return found


_TOLERANCE = 1e-16
_LEAST_INFORMATION = 1e-6
"""In clicks: with less, examination has no finite greatest likelihood, or any value would do."""


def joint_choice(counts: ClickCounts, places: Places, X: FloatArray) -> ChoiceFit:
    """Choice among the documents of a query by place and standardised features; refused where a place has no click."""
    choices = Choices(counts, places, X)
    if np.any(choices.by_place == 0):
        nowhere = int(places.position[np.flatnonzero(choices.by_place == 0)[0]])
        raise DataError(f"Nothing was clicked at position {nowhere}; examination needs a click at every position.")
    return choices.fit()


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


_SIGMA = np.linspace(0.0, 1.0, 101)
"""How far joint choice may be astray, all values alike beforehand."""


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
    gain, spread = _averaged(x, (joint - conditional)[1:], cc + jj - cj - cj.T, cc - cj, _SIGMA)
    return _with_first(gain, cc - gain @ (cc - cj).T + spread)
