r"""The click rate of another policy, from a log that says with which probability it showed what it showed.

With the propensity $p$ of what was shown and the probability $\pi$ of the other policy, ips is the mean of
$c\,\pi / p$ and snips divides by the mean of $\pi / p$; the errors are those of independent rows.
"""

from __future__ import annotations

import numpy as np

from luce.clicks.counts import ClickCounts
from luce.clicks.estimate import Estimate
from luce.errors import DataError
from luce.types import FloatArray


def click_rate(counts: ClickCounts, level: float = 0.95) -> Estimate:
    """Clicks a row of the log, as it was shown."""
    n, value = float(counts.shown.sum()), float(counts.clicked.sum() / counts.shown.sum())
    return Estimate.around(value, np.sqrt(value * (1 - value) / n), level)


def policy_value(
    counts: ClickCounts, probability: FloatArray | None = None, level: float = 0.95
) -> dict[str, Estimate]:
    """Estimates of clicks a row under the policy that shows the document of each cell with this probability.

    `probability` has one entry a cell of the counts; None is the policy that draws the documents of a query evenly.

    >>> from luce.clicks import read
    >>> log = {"query": ["q"] * 4, "document": list("aaab"), "position": [1] * 4, "clicked": [1, 0, 0, 1],
    ...        "p": [0.75, 0.75, 0.75, 0.25]}
    >>> round(policy_value(read(log, session="-", propensity="p"))["ips"].value, 6)
    0.666667
    """
    sums = counts.propensity_sums
    if sums is None:
        raise DataError("The counts lack propensities; read the log with propensity= (luce clicks --propensity).")
    if probability is None:
        sizes = np.diff(counts.offsets)
        probability = 1.0 / sizes[counts.document_query[counts.document]]
    probability = np.asarray(probability, dtype=np.float64)
    if probability.shape != counts.shown.shape or not np.all((probability >= 0) & (probability <= 1)):
        raise DataError(f"{len(counts.shown)} cells need as many probabilities between 0 and 1.")
    n = float(counts.shown.sum())
    inverse, inverse_square, hit, hit_square = (
        probability**power * column for power, column in zip((1, 2, 1, 2), sums.T, strict=True)
    )
    ips = float(hit.sum() / n)
    ips_error = np.sqrt(max(float(hit_square.sum()) / n - ips**2, 0.0) / n)
    weight = float(inverse.sum() / n)
    snips = ips / weight
    # (c - v)^2 w^2 = (1 - 2 v) c w^2 + v^2 w^2, for c of 0 or 1.
    square = (1 - 2 * snips) * float(hit_square.sum()) + snips**2 * float(inverse_square.sum())
    return {
        "ips": Estimate.around(ips, ips_error, level),
        "snips": Estimate.around(snips, np.sqrt(max(square, 0.0)) / (n * weight), level),
    }
