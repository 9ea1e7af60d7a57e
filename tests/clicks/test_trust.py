"""Trust in what stands high: derivatives, the truth from simulated users, and what a ranker learns from."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.clicks import evaluate, examination, pairs
from luce.clicks.choice import places_of
from luce.clicks.simulation import Users, attraction, production, simulate_counts
from luce.clicks.trust import _Cells, trust_derivatives
from luce.errors import SettingError

SHOWN = 5


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    """Indicators of the grades, so that attraction is a function of the features."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300 * 8)
    X = np.column_stack([y == 1, y == 2]).astype(float)
    return luce.from_arrays(X, y, qid=np.repeat(np.arange(300), 8), document_ids=np.arange(len(y)))


@pytest.fixture(scope="module")
def counts(data):
    rng = np.random.default_rng(1)
    scores = [data.y + rng.normal(0, 2, data.n_rows) for _ in range(2)]
    shown = production(data, scores, shown=SHOWN, swap=0.3)
    return simulate_counts(data, shown, rng, sessions=300_000, users=Users("trust", trust=0.4)).by_position()


def test_derivatives(data, counts) -> None:
    places, rng = places_of(counts), np.random.default_rng(2)
    X = rng.normal(size=(counts.n_documents, 3))
    cells = _Cells(counts.document, places.of_cell, counts.shown, counts.clicked, X, SHOWN)
    v = rng.normal(0, 0.5, 2 * (SHOWN - 1) + 4)
    steps = 1e-5 * np.eye(len(v))
    slopes = [(trust_derivatives(v + s, cells)[0] - trust_derivatives(v - s, cells)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(trust_derivatives(v, cells)[1], slopes, rtol=1e-5, atol=1e-2)


def test_the_truth_is_found(data, counts) -> None:
    """theta_k = 1/k, tau_k = .4/k; the gauge of the last position turns 1 - tau_k into (1 - tau_k) / (1 - tau_K)."""
    found = examination(counts, data, users="trust")
    k = np.arange(1, SHOWN + 1)
    gauged = 1.0 - (1.0 - 0.4 / k) / (1.0 - 0.4 / SHOWN)
    assert found.users == found.method == "trust"
    np.testing.assert_allclose(found.trust, gauged, atol=0.05)
    z = np.log(found.theta * k)[1:] / found.standard_error[1:]
    assert np.abs(z).max() < 4
    assert np.abs(np.log(found.theta * k)).max() < 0.1
    # What is left of the clicks, over what is left of the looks, is attraction in that gauge.
    target, seen = found.target(data), found.target(data).exposure > 300
    rate = (target.clicks / np.maximum(target.exposure, 1e-9))[seen]
    gamma = attraction(data.y)
    expected = gamma + (1.0 - gamma) * 0.4 / SHOWN
    for grade in range(3):
        at = data.y[seen] == grade
        assert rate[at].mean() == pytest.approx(expected[seen][at].mean(), abs=0.05)
    assert found.table[0]["trust"] == found.trust[0]


def test_trust_is_refused_where_it_cannot_be_used(data, counts) -> None:
    with pytest.raises(SettingError, match="give data"):
        examination(counts, users="trust")
    with pytest.raises(SettingError, match="no method"):
        examination(counts, data, users="trust", method="joint")
    found = examination(counts, data, users="trust")
    with pytest.raises(SettingError, match="users='position'"):
        evaluate(found, data, np.zeros(data.n_rows))
    with pytest.raises((SettingError, luce.errors.DataError)):
        pairs(found, data)
