r"""Emission times that are not known exactly: a shift common to all sources of a step, summed out.

With a shift $e \sim N(0, s^2)$ of all emissions of a step,

$$p(T \mid X) = \int p(T \mid X, e)\, \varphi(e / s) / s \; de ,$$

where $p(T \mid X, e)$ is the model of the step with all emissions later by e. Clutter and window belong to the receiver
and stay. An error of the receiver's clock is the same with the other sign. As a function of e the integrand is a sum of
normal densities, none narrower than $\sigma / \sqrt n$ for n signals, times smooth factors of the silent sources, so
that the trapezoidal rule with that spacing is good to six digits or more. Drawing a shift for every particle was the
alternative: it needs as many more particles as there are points here, and leaves noise.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from luce.errors import SettingError
from luce.track.reception import StepModel
from luce.types import FloatArray

_REACH = 6.0
_MOST = 2000
"""Points at most; so many runs of an engine are a mistake in the units rather than a wish."""


def shifted_steps(step: StepModel, distances: FloatArray) -> list[tuple[float, StepModel]]:
    """The step with its emissions shifted to each point of the rule, and the logarithm of the point's weight."""
    sd = step.reception.emission_sd
    if sd == 0:
        return [(0.0, step)]
    narrowest = 1 / float(np.max(step.tables(distances).inverse_sigma)) if distances.size else sd
    each_side = math.ceil(_REACH * sd * math.sqrt(max(len(step.times), 1)) / narrowest)
    if 2 * each_side + 1 > _MOST:
        raise SettingError(
            f"emission_sd is {sd:g}, {sd / narrowest:.3g} times sigma, so that {2 * each_side + 1} shifts would be "
            f"tried a step, of {_MOST} at most; give a smaller one, or subtract what is known of the emission times."
        )
    z = _REACH * np.arange(-each_side, each_side + 1) / each_side
    weight = np.exp(-0.5 * z**2)
    log_weight = np.log(weight / weight.sum())
    moved = [replace(step, offsets=step.offsets + sd * float(at)) for at in z]
    return list(zip(log_weight.tolist(), moved, strict=True))
