"""An estimate with its standard error and interval."""

from __future__ import annotations

from typing import NamedTuple

from scipy.special import ndtri

from luce.errors import SettingError


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
