"""Position-aware labels of the kappa metrics: what matters is the order of the first k documents.

y_j = k + 1 - position of document j in the true order, for the first k documents, and 0 for the others [HOM]; then the
gain is 2^y - 1 and the stopping probability V(y) = (2^y - 1) / 2^k. A document that is not relevant (grade 0 or less)
has y = 0 wherever it stands: else all of them would share the position after the last relevant one, and a query without
a relevant document would have only documents at position 1.
"""

from __future__ import annotations

import numpy as np

from luce.errors import DataError
from luce.metrics.ranked import Ranking
from luce.numerics.compiled import kernel
from luce.numerics.segments import tiers
from luce.types import FloatArray, IntArray


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
