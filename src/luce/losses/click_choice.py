"""Choice among documents that were looked at unequally often: learning from clicks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from luce.checks import number
from luce.data.clicks import Clicks
from luce.errors import DataError, SettingError
from luce.losses.base import Loss, Outputs, Target, as_labels
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray


class _Choices(NamedTuple):
    chosen: FloatArray
    log_exposure: FloatArray
    offsets: IntArray


class ClickChoice(Loss):
    r"""Given a click in a query, which of its documents got it? A choice model with exposure as offset.

    $$-\sum_d h_d C_d f_d + \Big(\sum_d h_d C_d\Big) \log \sum_d h_d E_d e^{f_d}, \quad h_d = E_d^{-t}$$

    $C_d$ are clicks, $E_d = \sum_k N_{dk} \theta_k$ plus `prior` is how often the document was looked at. With free
    scores the minimum is at $f_d = \log(C_d / E_d)$, log attraction, for every $t$; a scorer that cannot reach it is
    fitted best where $h$ puts the weight: $t = 0$ is maximum likelihood, $t = 1$ weighs by inverse propensity, the
    default lies between. Grades instead of clicks count as that many choices of documents seen equally often.

    Parameters
    ----------
    temper
        $t$, from 0 to 1.
    prior
        Added to every exposure, so that a document that was hardly seen does not weigh without bound; it lowers the
        attraction learned for such documents. Rows that were never shown are left out.

    >>> value, grad = ClickChoice(prior=0.0).value_and_grad([0.0, 0.0], Clicks([1.0, 1.0], [4.0, 1.0]))
    >>> round(value, 6), grad.round(6).tolist()
    (1.647918, [0.5, -0.5])
    """

    learns_from_ties = True
    name = "click_choice"
    ordinal = False

    def __init__(self, temper: float = 0.5, prior: float = 0.1) -> None:
        if not 0 <= temper <= 1:
            raise SettingError(f"temper is {temper!r}; it must be between 0 (likelihood) and 1 (inverse propensity).")
        self.temper, self.prior = temper, number("prior", prior)

    @property
    def settings(self) -> dict[str, Any]:
        """Tempering and prior exposure."""
        return {"temper": self.temper, "prior": self.prior}

    def prepare(self, target: Target | Clicks, offsets: IntArray) -> _Choices:
        """Weighted choices and the logarithms of weighted exposures."""
        if isinstance(target, Clicks):
            clicks, exposure = target.clicks, target.exposure
            if len(clicks) != offsets[-1]:
                raise DataError(f"{offsets[-1]} scores need as many clicks; got {len(clicks)}.")
        else:
            clicks = as_labels(self, target, offsets)
            if np.any(clicks < 0):
                raise DataError("click_choice takes grades as numbers of choices; they must be at least 0.")
            return _Choices(clicks, np.zeros(len(clicks)), offsets)
        seen = exposure > 0
        total = np.where(seen, exposure + self.prior, 1.0)
        log_exposure = np.where(seen, (1.0 - self.temper) * np.log(total), -np.inf)
        return _Choices(clicks * total**-self.temper, log_exposure, offsets)

    def fill(self, prepared: _Choices, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is (sum h C) pi (1 - pi)."""
        _queries(scores, *prepared, *out.arrays)


@kernel
def _queries(scores, chosen, log_exposure, offsets, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        start, stop = offsets[first + i], offsets[first + i + 1]
        top, weight, linear = -np.inf, 0.0, 0.0
        for row in range(start, stop):
            top = max(top, scores[row] + log_exposure[row])
            weight += chosen[row]
            linear += chosen[row] * scores[row]
        values[i] = 0.0
        if weight == 0.0:
            grad[start:stop] = 0.0
            if len(curvature):
                curvature[start:stop] = 0.0
            continue
        total = 0.0
        for row in range(start, stop):
            total += np.exp(scores[row] + log_exposure[row] - top)
        values[i] = weight * (top + np.log(total)) - linear
        for row in range(start, stop):
            share = np.exp(scores[row] + log_exposure[row] - top) / total
            grad[row] = weight * share - chosen[row]
            if len(curvature):
                curvature[row] = weight * share * (1.0 - share)
