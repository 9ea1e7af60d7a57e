r"""Examination by conditional choice: where a document was clicked, given that it was clicked.

$$P(k \mid d) = \pi_{dk} = \frac{N_{dk} \theta_k}{\sum_j N_{dj} \theta_j}$$

Attraction cancels. The score in $\log \theta$ is $\sum_d (C_{dk} - C_d \pi_{dk})$ and the Hessian
$\sum_d C_d (\operatorname{diag} \pi_d - \pi_d \pi_d')$: Luce's choice axiom, with the places as alternatives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from luce.clicks.counts import ClickCounts
from luce.clicks.places import Places, cell_matrix, sandwich
from luce.errors import DataError
from luce.types import FloatArray

_TOLERANCE = 1e-16
_STEPS = 100
_STUCK = "Examination did not converge; the log has too few clicks in some positions: give a longer one."
_LONGEST = 2.0
"""Of a step in log theta: far from the optimum Newton's would overshoot without bound."""


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
    for _ in range(_STEPS):
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
    bread = np.zeros_like(hessian)
    bread[1:, 1:] = np.linalg.inv(hessian[1:, 1:])
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
