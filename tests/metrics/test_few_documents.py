"""Few documents are ranked by NumPy and many by kernels: both give the same."""

from __future__ import annotations

import numpy as np
import pytest

from luce.metrics import discounted, ranked
from luce.metrics.ranked import AVERAGE, BEST, STABLE, WORST


def queries(seed: int):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 90, 40)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n = int(offsets[-1])
    scores = rng.choice([rng.normal(), *rng.normal(size=6), -np.inf], n) if seed % 2 else rng.normal(size=n)
    scores[offsets[3] : offsets[4]] = -np.inf
    labels = rng.integers(0, 4, n).astype(float) if seed % 3 else rng.normal(size=n)
    return scores, labels, offsets


@pytest.mark.parametrize("ties", [STABLE, AVERAGE, BEST, WORST])
@pytest.mark.parametrize("seed", range(6))
def test_few_documents_are_ranked_as_many_are(seed, ties, monkeypatch):
    scores, labels, offsets = queries(seed)
    gain, discounts = np.exp2(labels) - 1.0, 1.0 / np.log2(np.arange(len(scores)) + 2.0)
    few = ranked.rank(scores, labels, offsets, ties)
    sums_of_few = discounted.cumulate(few, gain, discounts)
    for module in (ranked, discounted):
        monkeypatch.setattr(module, "FEW", 0)
    many = ranked.rank(scores, labels, offsets, ties)
    np.testing.assert_array_equal(few.order, many.order)
    np.testing.assert_array_equal(few.ideal, many.ideal)
    np.testing.assert_array_equal(few.counts, many.counts)
    for q, (_, n_blocks, n_runs) in enumerate(many.counts):
        base = offsets[q] + q
        np.testing.assert_array_equal(few.blocks[base : base + n_blocks + 1], many.blocks[base : base + n_blocks + 1])
        np.testing.assert_array_equal(few.ties[base : base + n_runs + 1], many.ties[base : base + n_runs + 1])
    for here, there in zip(sums_of_few, discounted.cumulate(many, gain, discounts), strict=True):
        np.testing.assert_array_equal(here, there)
