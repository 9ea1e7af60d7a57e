r"""Order-preserving maps of scores: $h = (\nabla\psi)^{-1} \circ g$ in the losses that are consistent with NDCG.

[Pareek] (3.4) allows any order-preserving h. With $g$ in front of the conjugate, [Pareek] (3.7),
$$\phi(s, r) = \psi^*(g(s)) - \langle \tilde r, g(s) \rangle, \qquad
\nabla\phi = J_g(s)^\top (\nabla\psi^*(g(s)) - \tilde r),$$
the latter [Pareek] (3.10). The loss need not be convex in s any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from luce.errors import SettingError
from luce.numerics.segments import query_index
from luce.registry import Registry
from luce.types import FloatArray, IntArray


class OrderMap(ABC):
    """A map g of the scores of each query that keeps their order, with what a gradient needs of its Jacobian.

    Give a subclass a `name`, and register an object of it by `register()` where models with it are to be saved.
    """

    name: str

    @abstractmethod
    def values(self, scores: FloatArray, offsets: IntArray) -> FloatArray:
        """g(s) of every query."""

    @abstractmethod
    def pulled(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray) -> FloatArray:
        r"""$J_g(s)^\top v$ of every query, v the `slopes`."""

    @abstractmethod
    def bent(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray, curvature: FloatArray) -> FloatArray:
        r"""A bound of the diagonal of the Hessian in s, given slopes v and curvature c in g(s).

        The diagonal of $J_g^\top \operatorname{diag}(c) J_g$, and of $\sum_i v_i \nabla^2 g_i$ where that is above 0.
        """

    def register(self) -> OrderMap:
        """Make the map known by its name, in this process: a model file keeps the name only."""
        _KNOWN.keep(self)
        return self


class ElementwiseMap(OrderMap):
    """One rising function of every score.

    Parameters
    ----------
    name
        How it is called in `link` and in model files.
    function, slope
        g and its derivative, from arrays to arrays of the same shape; that g rises is checked on a grid.

    >>> import luce
    >>> cube = ElementwiseMap("cube", lambda s: s + s**3, lambda s: 1 + 3 * s**2)
    >>> loss = luce.losses.get("ndcg_square", link=cube)
    >>> loss.value_and_grad([0.0, 0.0], [1, 0])[1].tolist()
    [-1.0, 0.0]
    """

    def __init__(self, name: str, function: Callable[[FloatArray], Any], slope: Callable[[FloatArray], Any]) -> None:
        self.name, self.function, self.slope = name, function, slope
        s, step = np.linspace(-4.0, 4.0, 81), 1e-5
        values = self._at(function, s)
        if np.any(np.diff(values) <= 0):
            raise SettingError(f"The map {name!r} does not rise everywhere, so that it does not keep the order.")
        numeric = (self._at(function, s + step) - self._at(function, s - step)) / (2 * step)
        if not np.allclose(numeric, self._at(slope, s), rtol=1e-4, atol=1e-6):
            raise SettingError(f"The map {name!r}: slope is not the derivative of function.")

    def _at(self, function: Callable[[FloatArray], Any], s: FloatArray) -> FloatArray:
        found = np.asarray(function(s), dtype=np.float64)
        if found.shape != s.shape or not np.isfinite(found).all():
            raise SettingError(f"The map {self.name!r} gives shape {found.shape} for {s.shape}, or what is not finite.")
        return found

    def values(self, scores: FloatArray, offsets: IntArray) -> FloatArray:
        """The function of every score."""
        return self._at(self.function, scores)

    def pulled(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray) -> FloatArray:
        """A diagonal Jacobian."""
        return self._at(self.slope, scores) * slopes

    def bent(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray, curvature: FloatArray) -> FloatArray:
        """The square of the Jacobian, and the bend of the function, by differences of its slope."""
        step = 1e-5 * (1.0 + np.abs(scores))
        bend = (self._at(self.slope, scores + step) - self._at(self.slope, scores - step)) / (2 * step)
        return self._at(self.slope, scores) ** 2 * curvature + np.maximum(bend * slopes, 0.0)


class Stretch(OrderMap):
    r"""$g(s) = c\,s$ with $c = \sqrt{1 + \|s\|^2 / m}$: scores of a query are stretched by how large they are together.

    The factor is the same for all documents of a query, which keeps their order, and
    $J = c I + s s^\top / (m c)$ has all of its entries.
    """

    name = "stretch"

    def _factor(self, scores: FloatArray, offsets: IntArray) -> tuple[FloatArray, FloatArray]:
        """The factor, and the number of documents, of the query of every row."""
        query = query_index(offsets)
        sizes = np.diff(offsets).astype(np.float64)
        factor = np.sqrt(1.0 + np.add.reduceat(scores**2, offsets[:-1]) / sizes)
        return factor[query], sizes[query]

    def values(self, scores: FloatArray, offsets: IntArray) -> FloatArray:
        """The stretched scores."""
        return self._factor(scores, offsets)[0] * scores

    def pulled(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray) -> FloatArray:
        """The Jacobian is symmetric."""
        factor, sizes = self._factor(scores, offsets)
        inside = np.add.reduceat(scores * slopes, offsets[:-1])[query_index(offsets)]
        return factor * slopes + scores * inside / (sizes * factor)

    def bent(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray, curvature: FloatArray) -> FloatArray:
        r"""From $J_{ij} = c\,\delta_{ij} + s_i s_j / (m c)$ and its derivative in $s_j$."""
        query = query_index(offsets)
        factor, sizes = self._factor(scores, offsets)
        share = scores / (sizes * factor)
        total = np.add.reduceat(scores**2 * curvature, offsets[:-1])[query]
        newton = curvature * (factor**2 + 2.0 * factor * scores * share) + share**2 * total
        inside = np.add.reduceat(scores * slopes, offsets[:-1])[query]
        bend = 2.0 * slopes * share + inside * (1.0 / (sizes * factor) - share**2 / factor)
        return newton + np.maximum(bend, 0.0)


def _softplus(s: FloatArray) -> FloatArray:
    return np.logaddexp(0.0, s)


def _sigmoid(s: FloatArray) -> FloatArray:
    return 0.5 * (1.0 + np.tanh(0.5 * s))


def _slope_of_arcsinh(s: FloatArray) -> FloatArray:
    result: FloatArray = 1.0 / np.sqrt(1.0 + s * s)
    return result


# Functions of this module and not of a function, so that a loss can go to other processes.
ARCSINH = ElementwiseMap("arcsinh", np.arcsinh, _slope_of_arcsinh)
SOFTPLUS = ElementwiseMap("softplus", _softplus, _sigmoid)
STRETCH = Stretch()

_KNOWN = Registry(
    "order-preserving map",
    {
        "arcsinh": "luce.losses.order_maps:ARCSINH",
        "softplus": "luce.losses.order_maps:SOFTPLUS",
        "stretch": "luce.losses.order_maps:STRETCH",
    },
    "luce.order_maps",
)


def by_name(given: str | OrderMap | None) -> OrderMap | None:
    """The map that a user gives; None is the identity."""
    if given is None or isinstance(given, OrderMap):
        return given
    if not isinstance(given, str):
        raise SettingError(f"link is {given!r}; it must be None, a name of {', '.join(_KNOWN.names())} or an OrderMap.")
    found: OrderMap = _KNOWN.get(given)
    return found
