"""Order and size together: the likelihood of a list, and a regression of the grades on the same scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from luce.errors import SettingError
from luce.losses.base import NOT_WANTED, Likelihood, Loss, Outputs, Target, as_labels
from luce.numerics.segments import centred
from luce.spec import option
from luce.types import FloatArray, IntArray

_BOUND = 8.0
"""Logarithms of slope and noise lie between -8 and 8."""


class Both(NamedTuple):
    """The target as the list likelihood wants it, sizes around the mean of their query, and the query boundaries."""

    order: Any
    sizes: FloatArray
    offsets: IntArray


class OrderAndSize(Loss):
    r"""A list likelihood plus `weight` times the normal likelihood of how far apart the grades are.

    An order likelihood sees which document is better, and not by how much. Here grades (or gains) are also a line in
    the scores, with noise and with a level of its own in every query:

    $$-\log p_\text{order}(y_q \mid f) + \lambda \Big[\frac{1}{2 \sigma^2} \sum_{i \in q}
      \big(y_i - \bar y_q - b (f_i - \bar f_q)\big)^2 + (n_q - 1) \log \sigma\Big].$$

    Slope $b > 0$ and noise $\sigma$ are learned together with the scores where no slope is given: then the order alone
    says what the scale of the scores is, and both terms are log-likelihoods of the same documents. The level of a
    query is flat a priori: the term is that of the residuals, of which there are $n_q - 1$. Chances of orders and ties
    are those of the order.

    With a learned slope, small first steps fit the sizes as well as large ones would, so that trees soon chase noise:
    they need a fixed one, with $\sigma = 1$.

    Parameters
    ----------
    order
        The name of a likelihood of lists.
    weight
        $\lambda$; 0 is the order alone.
    tier_gain
        A base: sizes are then $\text{base}^\text{grade} - 1$, and the order, which must take this setting, weighs tiers
        by it. None takes grades as they are.
    slope
        $b$ as a number, which makes $\sigma$ 1; None learns both.

    >>> loss = OrderAndSize(weight=1.0)
    >>> value, grad = loss.value_and_grad([0.5, -0.5], [1, 0])  # b = sigma = 1: the sizes fit, the order could be surer
    >>> round(value, 6), grad.round(6).tolist()
    (0.313262, [-0.268941, 0.268941])
    """

    name = "order_and_size"
    ordinal = False
    learns_from_ties = True

    order: str = "plackett_luce"
    weight: float = option(default=1.0, least=0)
    tier_gain: float | None = option(default=None, above=1)
    slope: float | None = option(default=1.0, above=0)

    def _check(self) -> None:
        self._order = _likelihood_of_lists(self.order, self.tier_gain)
        self.permutation_invariant, self.smooth = self._order.permutation_invariant, self._order.smooth
        self._line = np.log([1.0 if self.slope is None else self.slope, 1.0])

    @property
    def likelihood(self) -> Loss:
        """The order, which has chances of outcomes."""
        return self._order

    @property
    def parameters(self) -> FloatArray:
        """Those of the order, and where they are learned the logarithms of slope and noise."""
        own = self._order.parameters
        return own if self.slope is not None else np.append(own, self._line)

    @property
    def parameter_bounds(self) -> list[tuple[float, float]]:
        """Those of the order; slope and noise stay where their squares are numbers."""
        learned = [] if self.slope is not None else [(-_BOUND, _BOUND), (-_BOUND, _BOUND)]
        return [*self._order.parameter_bounds, *learned]

    def take(self, values: FloatArray) -> None:
        """Those of the order, then the logarithms of slope and noise."""
        inner = len(self._order.parameters)
        self._order = self._order.with_parameters(values[:inner])
        if self.slope is None:
            self._line = values[inner:]
            if np.abs(self._line).max() > _BOUND + 1e-9:
                raise SettingError(f"{self!r}: logarithms of slope and noise lie between -{_BOUND:g} and {_BOUND:g}.")

    def prepare(self, target: Target, offsets: IntArray) -> Both:
        """The order's form of the grades, and their sizes around the mean of the query."""
        labels = as_labels(self, target, offsets)
        sizes = labels if self.tier_gain is None else self.tier_gain**labels - 1.0
        return Both(self._order.prepare(target, offsets), centred(sizes, offsets), offsets)

    def fill(self, prepared: Both, scores: FloatArray, out: Outputs) -> None:
        """The order, and the residuals of the sizes; only rows of the chunk are touched."""
        chunk, values, grad, curvature, d_parameters = out
        of_order = d_parameters[:, : len(self._order.parameters)] if len(d_parameters) else NOT_WANTED
        self._order.fill(prepared.order, scores, out._replace(d_parameters=of_order))
        bounds = prepared.offsets[chunk[0] : chunk[1] + 1]
        rows, inside, counts = slice(bounds[0], bounds[-1]), bounds - bounds[0], np.diff(bounds)
        slope, precision = np.exp(self._line[0]), self.weight * np.exp(-2.0 * self._line[1])
        line = slope * centred(scores[rows], inside)
        residual, free = line - prepared.sizes[rows], counts - 1.0
        square = precision * np.add.reduceat(residual**2, inside[:-1])
        grad[rows] += precision * slope * residual
        if len(curvature):
            curvature[rows] += precision * slope**2 * np.repeat(free / counts, counts)
        if len(d_parameters) and self.slope is None:
            d_parameters[:, -2] = precision * np.add.reduceat(residual * line, inside[:-1])
            d_parameters[:, -1] = self.weight * free - square
        values += 0.5 * square + self.weight * free * self._line[1]


def _likelihood_of_lists(name: str, tier_gain: float | None) -> Likelihood:
    from luce import losses

    settings = {} if tier_gain is None else {"tier_gain": tier_gain}
    known = losses.get(name, **settings) if isinstance(name, str) and name != OrderAndSize.name else None
    if not isinstance(known, Likelihood) or known.stochastic:
        raise SettingError(
            f"order_and_size(order={name!r}): the order is the name of a likelihood of lists whose gradient is exact, "
            "such as 'plackett_luce' or 'pmop'."
        )
    return known
