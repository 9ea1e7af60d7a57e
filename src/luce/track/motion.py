"""How a target moves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import SettingError
from luce.track.geometry import Geometry
from luce.types import FloatArray


class Moments(NamedTuple):
    """z ~ Normal(A v + b, Q) over a time span, z = (displacement, velocity)."""

    A: FloatArray
    b: FloatArray
    Q: FloatArray


@runtime_checkable
class Dynamics(Protocol):
    """A model of motion."""

    def n_velocity(self, dimensions: int) -> int:
        """How many velocity components the state has."""

    def initial_velocity(self, n: int, dimensions: int, rng: np.random.Generator) -> FloatArray:
        """Velocities at the start, (n, n_velocity)."""

    def moments(self, span: float, dimensions: int) -> Moments:
        """What a span of time does."""


@dataclass(frozen=True)
class RandomWalk:
    """X_{t+1} ~ Normal(X_t + drift, Sigma), [Pareek] (5.1), Sigma per unit of time: `sd^2` on every axis.

    `sd` is a number, one an axis, or a covariance matrix; in metres (north, east) per square root of a day for dated
    signals on the earth.

    >>> RandomWalk(2.0).moments(4.0, 2).Q.tolist()
    [[16.0, 0.0], [0.0, 16.0]]
    """

    sd: ArrayLike
    drift: ArrayLike = 0.0

    def __post_init__(self) -> None:
        _covariance(self.sd, None)
        _check_drift(self.drift)

    def n_velocity(self, dimensions: int) -> int:
        """None: the walk has no memory."""
        return 0

    def initial_velocity(self, n: int, dimensions: int, rng: np.random.Generator) -> FloatArray:
        """Empty."""
        return np.zeros((n, 0))

    def moments(self, span: float, dimensions: int) -> Moments:
        """Displacements of mean drift * span and covariance Sigma * span."""
        drift = np.broadcast_to(np.asarray(self.drift, dtype=np.float64), (dimensions,))
        return Moments(np.zeros((dimensions, 0)), drift * span, _covariance(self.sd, dimensions) * span)


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """Velocity that forgets itself in `timescale`, with standard deviation `speed_sd` an axis around `drift`.

    dv = -(v - drift) / timescale dt + speed_sd sqrt(2 / timescale) dW, dx = v dt, integrated exactly.
    """

    speed_sd: float
    timescale: float
    drift: ArrayLike = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.speed_sd < math.inf and 0 < self.timescale < math.inf):
            raise SettingError(
                f"speed_sd and timescale are {self.speed_sd!r} and {self.timescale!r}; both must be above 0."
            )
        _check_drift(self.drift)

    def n_velocity(self, dimensions: int) -> int:
        """One an axis; velocities are kept relative to the drift."""
        return dimensions

    def initial_velocity(self, n: int, dimensions: int, rng: np.random.Generator) -> FloatArray:
        """The stationary distribution."""
        return self.speed_sd * rng.standard_normal((n, dimensions))

    def moments(self, span: float, dimensions: int) -> Moments:
        """The exact solution of the linear stochastic equation over the span."""
        T, s2 = self.timescale, self.speed_sd**2
        e = math.exp(-span / T)
        gone = -math.expm1(-span / T)
        xx = s2 * T * T * (2 * span / T - 3 + 4 * e - e * e)
        if span < 1e-3 * T:  # the closed form cancels; leading term of its series
            xx = 2 / 3 * s2 * span**3 / T
        xv, vv = s2 * T * gone * gone, s2 * gone * (1 + e)
        eye, drift = np.eye(dimensions), np.broadcast_to(np.asarray(self.drift, dtype=np.float64), (dimensions,))
        return Moments(
            np.vstack([T * gone * eye, e * eye]),
            np.concatenate([drift * span, np.zeros(dimensions)]),
            np.block([[xx * eye, xv * eye], [xv * eye, vv * eye]]),
        )


class Transition(NamedTuple):
    """One step: z ~ Normal(v A' + b + (end - x) K', Q), Q = L L'."""

    A: FloatArray
    b: FloatArray
    K: FloatArray
    L: FloatArray
    end: FloatArray | None

    def mean(self, geometry: Geometry, x: FloatArray, v: FloatArray) -> FloatArray:
        """Expected (displacement, velocity) of every particle."""
        mean = v @ self.A.T + self.b
        if self.end is not None:
            mean = mean + geometry.displacement(x, np.broadcast_to(self.end, x.shape)) @ self.K.T
        return mean


def transition(
    dynamics: Dynamics,
    span: float,
    dimensions: int,
    *,
    widen: float = 1.0,
    end: FloatArray | None = None,
    end_sd: float = 0.0,
    remaining: float = 0.0,
) -> Transition:
    """The step over `span`, its noise widened by a factor; conditioned on `end` where it is known.

    With the end at `remaining` after the step, the end is x + H z + noise, H = (I, B) the mean effect of (displacement,
    velocity) on it; conditioning z on it is one Kalman update.
    """
    A, b, Q = dynamics.moments(span, dimensions)
    K: FloatArray = np.zeros((len(b), dimensions))
    if end is not None:
        later = dynamics.moments(remaining, dimensions)
        H = np.hstack([np.eye(dimensions), later.A[:dimensions]])
        V = later.Q[:dimensions, :dimensions] + end_sd**2 * np.eye(dimensions)
        K = np.linalg.solve(H @ Q @ H.T + V, H @ Q).T.astype(np.float64)
        A, b = A - K @ H @ A, b - K @ (H @ b + later.b[:dimensions])
        Q = Q - K @ H @ Q
    return Transition(A, b, K, _root(Q) * widen, end)


def _root(Q: FloatArray) -> FloatArray:
    """L with L L' = Q; a floor far below any scale of interest keeps a singular Q (an exactly known end) usable."""
    if not len(Q):
        return Q
    scale = max(float(np.max(np.diag(Q))), 1e-300)
    return np.asarray(np.linalg.cholesky((Q + Q.T) / 2 + 1e-12 * scale * np.eye(len(Q))))


def _check_drift(drift: ArrayLike) -> None:
    if not np.all(np.isfinite(np.asarray(drift, dtype=np.float64))):
        raise SettingError(f"The drift is {drift!r}; it must be finite numbers.")


def _covariance(sd: ArrayLike, dimensions: int | None) -> FloatArray:
    array = np.asarray(sd, dtype=np.float64)
    if array.ndim < 2:
        if not np.all((array > 0) & (array < np.inf)):
            raise SettingError(f"The step's standard deviation is {sd!r}; it must be above 0.")
        result = np.diag(np.full(dimensions or 1, float(array) ** 2) if array.ndim == 0 else array**2)
    else:
        result = array
        if array.shape[0] != array.shape[1] or np.any(np.linalg.eigvalsh((array + array.T) / 2) <= 0):
            raise SettingError("The step's covariance must be a symmetric positive definite matrix.")
    if dimensions is not None and result.shape != (dimensions, dimensions):
        raise SettingError(f"The step's covariance has shape {result.shape}; the space has {dimensions} dimensions.")
    return np.array(result)
