"""The logarithm of 1 + exp, for compiled code."""

from __future__ import annotations

import math

from luce.numerics.compiled import part


@part
def softplus(x):  # type: ignore[no-untyped-def]
    """log(1 + exp(x)) for any x.

    >>> softplus(0.0) == math.log(2.0), softplus(1000.0), softplus(-1000.0)
    (True, 1000.0, 0.0)
    """
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
