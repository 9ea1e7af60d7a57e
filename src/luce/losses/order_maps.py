r"""Order-preserving maps of scores: $h = (\nabla\psi)^{-1} \circ g$ in the losses that are consistent with NDCG.

[Pareek] (3.4) allows any order-preserving h. With $g$ in front of the conjugate, [Pareek] (3.7),
$$\phi(s, r) = \psi^*(g(s)) - \langle \tilde r, g(s) \rangle, \qquad
\nabla\phi = J_g(s)^\top (\nabla\psi^*(g(s)) - \tilde r),$$
the latter [Pareek] (3.10). The loss need not be convex in s any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from luce.errors import SettingError
from luce.numerics.segments import query_index
from luce.registry import canonical, unknown_name
from luce.types import FloatArray, IntArray


class OrderMap(Protocol):
    """A map g of the scores of each query that keeps their order, with what a gradient needs of its Jacobian."""

    def values(self, scores: FloatArray, offsets: IntArray) -> FloatArray:
        """g(s) of every query."""
        ...

    def pulled(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray) -> FloatArray:
        r"""$J_g(s)^\top v$ of every query, v the `slopes`."""
        ...

    def bent(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray, curvature: FloatArray) -> FloatArray:
        r"""A bound of the diagonal of the Hessian in s, given slopes v and curvature c in g(s).

        The diagonal of $J_g^\top \operatorname{diag}(c) J_g$, and of $\sum_i v_i \nabla^2 g_i$ where that is above 0.
        """
        ...


class Elementwise:
    """One rising function of every score, from an array to g and its slope; that g rises is checked on a grid."""

    def __init__(self, function: Callable[[FloatArray], Sequence[Any]]) -> None:
        self.function = function
        s, step = np.linspace(-4.0, 4.0, 81), 1e-5
        values, slope = self._at(s)
        if np.any(np.diff(values) <= 0):
            raise SettingError(f"{self._said} does not rise everywhere, so that it does not keep the order.")
        numeric = (self._at(s + step)[0] - self._at(s - step)[0]) / (2 * step)
        if not np.allclose(numeric, slope, rtol=1e-4, atol=1e-6):
            raise SettingError(f"{self._said}: slope is not the derivative of function.")

    @property
    def _said(self) -> str:
        return f"The map {getattr(self.function, '__name__', type(self.function).__name__)!r}"

    def _at(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = [np.asarray(part, dtype=np.float64) for part in self.function(s)]
        if len(found) != 2 or any(part.shape != s.shape or not np.isfinite(part).all() for part in found):
            shapes = [part.shape for part in found]
            raise SettingError(f"{self._said} gives shapes {shapes} for {s.shape}, or what is not finite.")
        return found[0], found[1]

    def values(self, scores: FloatArray, offsets: IntArray) -> FloatArray:
        """The function of every score."""
        return self._at(scores)[0]

    def pulled(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray) -> FloatArray:
        """A diagonal Jacobian."""
        return self._at(scores)[1] * slopes

    def bent(self, scores: FloatArray, offsets: IntArray, slopes: FloatArray, curvature: FloatArray) -> FloatArray:
        """The square of the Jacobian, and the bend of the function, by differences of its slope."""
        step = 1e-5 * (1.0 + np.abs(scores))
        bend = (self._at(scores + step)[1] - self._at(scores - step)[1]) / (2 * step)
        return self._at(scores)[1] ** 2 * curvature + np.maximum(bend * slopes, 0.0)


class Stretch:
    r"""$g(s) = c\,s$ with $c = \sqrt{1 + \|s\|^2 / m}$: scores of a query are stretched by how large they are together.

    The factor is the same for all documents of a query, which keeps their order, and
    $J = c I + s s^\top / (m c)$ has all of its entries.
    """

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


def arcsinh(s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Large scores count less."""
    return np.arcsinh(s), 1.0 / np.sqrt(1.0 + s * s)


def softplus(s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Above 0."""
    return np.logaddexp(0.0, s), 0.5 * (1.0 + np.tanh(0.5 * s))


def map_of(given: Any) -> OrderMap | None:
    """The map of what a user gives: a name, a function, or an object with the methods of a map; None is the identity.

    >>> map_of("arcsinh").values(np.zeros(2), np.array([0, 2])).tolist()
    [0.0, 0.0]
    """
    known: dict[str, Callable[[], OrderMap]] = {
        "arcsinh": lambda: Elementwise(arcsinh),
        "softplus": lambda: Elementwise(softplus),
        "stretch": Stretch,
    }
    if given is None or all(hasattr(given, method) for method in ("values", "pulled", "bent")):
        return given
    if isinstance(given, str):
        if canonical(given) not in known:
            raise unknown_name("order-preserving map", given, known)
        return known[canonical(given)]()
    if not callable(given):
        raise SettingError(f"link is {given!r}; it must be None, a name of {', '.join(known)}, a function or a map.")
    return Elementwise(given)
