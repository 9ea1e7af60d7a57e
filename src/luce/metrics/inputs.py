"""From labels and conventions to what the kernel reads: gains, stopping probabilities, discounts, rules."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError, SettingError
from luce.metrics.conventions import Conventions
from luce.metrics.ranked import AVERAGE, BEST, STABLE, WORST, Ranking, Rules
from luce.numerics.compiled import kernel
from luce.numerics.segments import tiers
from luce.types import FloatArray, IntArray

_LARGEST_EXPONENT = 500.0
_TIES = {"average": AVERAGE, "stable": STABLE, "docid": STABLE, "best": BEST, "worst": WORST}


def exponential_gain(labels: FloatArray) -> FloatArray:
    """2^r - 1; negative grades gain 0."""
    highest = float(labels.max(initial=0.0))
    if highest > _LARGEST_EXPONENT:
        raise DataError(
            f"The highest label is {highest:g}, too large for the gain 2^r - 1; use gain='linear', or the kappa "
            "metrics for labels that are positions."
        )
    positive = np.maximum(labels, 0.0)
    whole = positive.astype(np.int64)
    if np.array_equal(whole, positive):  # grades are whole numbers nearly always, and a table is three times as fast
        return np.asarray((np.exp2(np.arange(highest + 1.0)) - 1.0)[whole])
    return np.asarray(np.exp2(positive) - 1.0)


def gains(labels: FloatArray, chosen: Conventions) -> FloatArray:
    """Gain of every document under `chosen.gain`."""
    return exponential_gain(labels) if chosen.gain == "exponential" else np.maximum(labels, 0.0)


def stop_probabilities(labels: FloatArray, chosen: Conventions, rmax: float | None) -> FloatArray:
    """V(r) = (2^r - 1) / 2^rmax, or the label itself; `rmax` None is the highest label."""
    highest = max(float(labels.max(initial=0.0)), 0.0)
    if chosen.err_probability == "label":
        if highest > 1.0:
            raise DataError(
                f"The highest label is {highest:g}; with err_probability='label' labels must be in [0, 1]: divide them "
                "by their scale, or use err_probability='exponential'."
            )
        return np.maximum(labels, 0.0)
    if rmax is None:
        rmax = highest
    if highest > rmax:
        raise SettingError(f"rmax is {rmax:g}, and the data have a label of {highest:g}; give the highest grade.")
    result: FloatArray = exponential_gain(labels) / 2.0**rmax
    return result


def discounts(n: int, rule: str) -> FloatArray:
    """Discount of the positions 1..n.

    >>> discounts(4, "letor").tolist()
    [1.0, 1.0, 0.6309297535714575, 0.5]
    """
    position = np.arange(1.0, n + 1.0)
    if rule == "log2":
        return np.asarray(1.0 / np.log2(position + 1.0))
    return np.asarray(1.0 / np.log2(np.maximum(position, 2.0)))


def kernel_rules(chosen: Conventions, longest: int) -> Rules:
    """The conventions as the kernel takes them."""

    def empty(value: int | str) -> float:
        return math.nan if value == "skip" else float(value)

    return Rules(
        discounts=discounts(longest, chosen.discount),
        ties=_TIES[chosen.ties],
        empty=empty(chosen.empty),
        empty_map=empty(chosen.empty if chosen.empty_map is None else chosen.empty_map),
        relevance=float(chosen.relevance),
        persistence=float(chosen.persistence),
        graded_rbp=chosen.rbp_gain == "grade",
        short_ndcg_is_zero=chosen.shortfall != "truncate",
        short_precision_is_zero=chosen.shortfall == "zero",
        map_by_cutoff=chosen.map_denominator == "cutoff",
        map_by_threshold=chosen.map_ties == "threshold",
        precision_by_retrieved=chosen.precision_denominator == "retrieved",
        tie_margin=float(chosen.tie_margin),
        top_k=chosen.top_k,
        equal_labels_share=chosen.label_ties == "extend",
    )


def document_order(document_ids: NDArray[np.generic] | None, offsets: IntArray) -> IntArray:
    """Rows of every query by document id as text, larger ids first, as trec_eval breaks ties."""
    if document_ids is None:
        raise DataError("ties='docid' needs document ids, and the data have none; use another rule for ties.")
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    _, rank = np.unique(document_ids.astype(str), return_inverse=True)
    return np.lexsort((-rank, query)).astype(np.int64)


def weigh_positions(
    ranking: Ranking, labels: FloatArray, k: int, equal_labels_share: bool
) -> tuple[FloatArray, FloatArray]:
    """Gain and stopping probability; equal labels share their best position, or follow the input's order."""
    gain, stop = np.empty(len(labels)), np.empty(len(labels))
    _weigh(ranking, labels, k, equal_labels_share, gain, stop)
    return gain, stop


@kernel
def _weigh(
    ranking: Ranking, labels: FloatArray, k: int, equal_labels_share: bool, gain: FloatArray, stop: FloatArray
) -> None:
    scale = 2.0**k
    for q in range(len(ranking.offsets) - 1):
        begin, end = ranking.offsets[q], ranking.offsets[q + 1]
        power, shared = scale, 0.0
        for i in range(begin, end):
            document = begin + ranking.ideal[i]
            before = begin + ranking.ideal[i - 1] if i > begin else document
            if i == begin or not equal_labels_share or labels[document] != labels[before]:
                shared = max(power - 1.0, 0.0) if i - begin < k and labels[document] > 0.0 else 0.0
            gain[document] = shared
            stop[document] = shared / scale
            power *= 0.5


def refuse_equal_labels(labels: FloatArray, offsets: IntArray, k: int) -> None:
    """An error where two relevant documents of a query have equal labels, and one of them is among its first k."""
    cut = tiers(labels, offsets)
    relevant = labels[cut.order[cut.starts[:-1]]] > 0.0
    start = cut.starts[:-1] - np.repeat(offsets[:-1], np.diff(cut.queries))
    if np.any((np.diff(cut.starts) > 1) & (start < k) & relevant):
        raise DataError(
            f"Equal labels among the first {k} documents of a query, and label_ties is 'error'; give a full order, "
            "or use label_ties='extend' or 'stable'."
        )
