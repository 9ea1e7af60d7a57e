r"""Users who trust what stands high: clicks that position alone explains, apart from examination and attraction.

$$P(\text{click}) = \theta_k \big(\sigma(f_d) + (1 - \sigma(f_d))\, \tau_k\big) = \alpha_k \sigma(f_d) + \beta_k,
  \qquad f_d = b + w'x_d$$

A document that is looked at is clicked because it attracts, or, with probability $\tau_k$, because it stands there. The
first position has $\theta = 1$ and the last one $\tau = 0$: what is clicked for nothing everywhere cannot be told from
attraction. The counts are fitted by Poisson's likelihood, whose score has mean 0 wherever the means are right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from luce.clicks.choice import ChoiceFit, Places, sandwich
from luce.clicks.counts import ClickCounts
from luce.errors import DataError
from luce.types import FloatArray, IntArray

_RIDGE = 1.0
"""Precision of the weights of standardised features."""
_LEAST = 1e-12


class _Cells(NamedTuple):
    document: IntArray
    place: IntArray
    shown: FloatArray
    clicked: FloatArray
    X: FloatArray
    places: int

    def split(self, v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log theta and logit of tau of every place (tau of the last is 0), and the scores of the documents."""
        k = self.places
        logit = np.append(v[k - 1 : 2 * k - 2], -np.inf)
        return np.append(0.0, v[: k - 1]), logit, v[2 * k - 2] + self.X @ v[2 * k - 1 :]


def trust_derivatives(v: FloatArray, cells: _Cells) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Minus the log-likelihood with the ridge, its gradient; and by cell the mean, and the parts of its derivative.

    The parts are those of the logarithm of the mean in log theta (which is 1), in the logit of tau, and in f.
    """
    log_theta, logit, f = cells.split(v)
    tau, gamma = expit(logit)[cells.place], expit(f)[cells.document]
    seen = np.maximum(gamma + (1.0 - gamma) * tau, _LEAST)
    mean = cells.shown * np.exp(log_theta[cells.place]) * seen
    weights = v[2 * cells.places - 1 :]
    value = float(np.sum(mean) - cells.clicked @ np.log(np.maximum(mean, 1e-300)) + 0.5 * _RIDGE * weights @ weights)
    parts = np.column_stack([(1.0 - gamma) * tau * (1.0 - tau) / seen, (1.0 - tau) * gamma * (1.0 - gamma) / seen])
    excess = mean - cells.clicked
    by_place, by_tau = (np.bincount(cells.place, w, minlength=cells.places) for w in (excess, excess * parts[:, 0]))
    by_f = np.bincount(cells.document, excess * parts[:, 1], minlength=len(cells.X))
    gradient = np.concatenate([by_place[1:], by_tau[:-1], [by_f.sum()], by_f @ cells.X + _RIDGE * weights])
    return value, gradient, mean, parts


def fit_trust(counts: ClickCounts, places: Places, X: FloatArray, start: FloatArray) -> ChoiceFit:
    """The greatest likelihood, from examination without trust (`start`: its log theta); X is standardised."""
    k = len(places)
    used = (places.of_cell >= 0) & (counts.shown > 0)
    at = (counts.document[used], places.of_cell[used])
    cells = _Cells(*at, counts.shown[used], counts.clicked[used], X, k)
    if k < 3:
        raise DataError(f"The log has {k} positions; users='trust' needs three at least: take users='position'.")
    rate = cells.clicked[cells.place == 0].sum() / cells.shown[cells.place == 0].sum()
    usual = np.log(rate / (1.0 - rate)) if 0.0 < rate < 1.0 else 0.0
    first = np.concatenate([start[1:], np.full(k - 1, -2.0), [usual], np.zeros(X.shape[1])])
    scale = 1.0 / max(float(cells.clicked.sum()), 1.0)
    bounds = [(-12.0, 3.0)] * (k - 1) + [(-12.0, 6.0)] * (k - 1) + [(-20.0, 20.0)] * (1 + X.shape[1])

    def loss(v: FloatArray) -> tuple[float, FloatArray]:
        value, gradient, _, _ = trust_derivatives(v, cells)
        return scale * value, scale * gradient

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-13, "gtol": 1e-7}
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    log_theta, logit, _ = cells.split(found.x)
    covariance, errors = _covariance(found.x, cells, counts)
    return ChoiceFit(log_theta, covariance, errors, np.zeros((len(counts.document), k)), expit(logit))


def _covariance(v: FloatArray, cells: _Cells, counts: ClickCounts) -> tuple[FloatArray, str]:
    """Of log theta, by the sandwich over queries; the curvature is Fisher's information, J' diag(mean) J."""
    _, _, mean, parts = trust_derivatives(v, cells)
    k, rows = cells.places, np.arange(len(mean))
    jacobian = np.zeros((len(mean), 2 * k))
    jacobian[rows, cells.place] = 1.0
    jacobian[rows, k + cells.place] = parts[:, 0]
    whole = np.column_stack(
        [jacobian[:, 1:k], jacobian[:, k : 2 * k - 1], parts[:, 1], parts[:, 1:] * cells.X[cells.document]]
    )
    information = whole.T @ (mean[:, None] * whole)
    information[2 * k - 1 :, 2 * k - 1 :] += _RIDGE * np.eye(cells.X.shape[1])
    bread: FloatArray = np.linalg.pinv(information, hermitian=True).astype(np.float64)
    scores = np.zeros((counts.n_documents, whole.shape[1]))
    np.add.at(scores, cells.document, (cells.clicked - mean)[:, None] * whole)
    covariance, errors = sandwich(bread, scores, counts, bread)
    result = np.zeros((k, k))
    result[1:, 1:] = covariance[: k - 1, : k - 1]
    return result, errors
