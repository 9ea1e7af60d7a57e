"""Fitted sizes of tiers: proper for every n, recovered from data, and right in probabilities and draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import luce
from luce.losses.tier_sizes import SizeModel, Stages, stages
from luce.numerics.segments import tiers
from tests.conformance.cases import ordered_partitions

TRUTH = SizeModel(np.array([[-0.9, -0.6, -0.5, 1.4], [0.0, -0.6, -0.2, 1.1], [5.0, 0.0, 0.0, 0.0]]))
LOSSES = [
    ("pmop", {}),
    ("pmop", {"direction": "backward"}),
    ("pmop", {"stage_weights": (1, 0.4)}),
    ("pmop_exact", {}),
    ("pmop_exact", {"sizes": "given"}),
]


def simulated(n_queries: int, seed: int, loss=None) -> tuple[np.ndarray, np.ndarray]:
    """Labels and offsets of queries whose tiers have the sizes of TRUTH."""
    rng = np.random.default_rng(seed)
    loss = loss or luce.losses.get("pmop")
    lengths = rng.integers(2, 60, n_queries)
    labels = [loss.sample(np.zeros(n), rng, TRUTH) for n in lengths]
    return np.concatenate(labels), np.concatenate([[0], np.cumsum(lengths)])


@pytest.mark.parametrize("n", [1, 2, 3, 17, 400])
@pytest.mark.parametrize("stage", [0, 1, 2, 9])
def test_proper_for_every_number_left(n, stage):
    table = np.exp(TRUTH.log_table(n, stage))
    assert len(table) == n
    assert table.sum() == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(TRUTH.cumulative(n)[min(stage, 2), n, 1 : n + 1], np.cumsum(table), rtol=1e-12)


def test_stages_of_labels():
    size, remaining, number = stages(tiers(np.array([1.0, 2, 1, 0, 5, 5]), np.array([0, 4, 6])))
    assert size.tolist() == [1, 2, 1, 2]
    assert remaining.tolist() == [4, 3, 1, 2]
    assert number.tolist() == [0, 1, 2, 0]


def test_fit_recovers_the_truth():
    fitted = SizeModel.fit(*simulated(2500, 0))
    for n in (5, 20, 50):
        for stage in (0, 1):
            truth, found = np.exp(TRUTH.log_table(n, stage)), np.exp(fitted.log_table(n, stage))
            assert np.abs(truth - found).sum() / 2 < 0.06  # total variation


def test_fit_beats_the_binomial_sizes_on_held_out_data():
    labels, offsets = simulated(300, 1)
    stage = stages(tiers(labels, offsets))
    n, m = stage.remaining, stage.size
    binomial = stats.binom.logpmf(m, n, 0.5) - np.log1p(-(0.5**n))
    assert SizeModel.fit(*simulated(300, 2)).log_prob(stage).sum() > binomial.sum() + 100


def test_extreme_data_can_be_fitted():
    for labels in (np.zeros(40), np.arange(40.0), np.repeat([0.0, 1.0], 20)):
        model = SizeModel.fit(labels, np.arange(0, 41, 4))
        assert np.isfinite(model.parameters).all()
        assert np.isfinite(model.log_table(30)).all()


def test_state_makes_the_model_again():
    settings, arrays = TRUTH.state()
    again = SizeModel.from_state(settings, arrays)
    assert np.array_equal(again.parameters, TRUTH.parameters)
    assert again.direction == "forward"


@pytest.mark.parametrize(("name", "settings"), LOSSES)
@pytest.mark.parametrize("n", [1, 3, 5])
def test_probabilities_with_fitted_sizes_sum_to_one(name, settings, n):
    loss = luce.losses.get(name, **settings)
    sizes = SizeModel(TRUTH.parameters, getattr(loss, "direction", "forward"))
    scores = np.random.default_rng(n).normal(0, 1.5, n)
    total = sum(np.exp(loss.log_prob(scores, labels, sizes)) for labels in ordered_partitions(n))
    assert total == pytest.approx(1, abs=1e-11)


@pytest.mark.parametrize(("name", "settings"), LOSSES)
def test_draws_with_fitted_sizes_follow_the_probabilities(name, settings):
    loss = luce.losses.get(name, **settings)
    sizes = SizeModel(TRUTH.parameters, loss.direction)
    scores, draws = np.array([0.8, -0.4, 0.1, -1.0]), 20_000
    outcomes = list(ordered_partitions(4))
    number = {tuple(o): i for i, o in enumerate(outcomes)}
    labels = loss.sample_many(scores, np.random.default_rng(0), draws, sizes)
    dense = stats.rankdata(labels, "dense", axis=1) - 1
    counts = np.bincount([number[tuple(row)] for row in dense], minlength=len(outcomes))
    expected = draws * np.exp([loss.log_prob(scores, o, sizes) for o in outcomes])
    frequent = expected >= 5
    observed = np.append(counts[frequent], counts[~frequent].sum())
    wanted = np.append(expected[frequent], expected[~frequent].sum())
    assert stats.chisquare(observed, wanted, sum_check=False).pvalue > 1e-3


def test_fitted_sizes_leave_the_gradient_of_pmop_alone():
    # log p(X) with fitted sizes differs from that of the model by a constant in the scores.
    loss, labels, rng = luce.losses.get("pmop"), np.array([2.0, 0, 1, 1]), np.random.default_rng(0)
    gaps = [loss.log_prob(f, labels, TRUTH) - loss.log_prob(f, labels) for f in (rng.normal(size=4) for _ in range(4))]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-12)


def test_sample_of_one_size():
    rng = np.random.default_rng(0)
    draws = np.bincount([TRUTH.sample(6, rng) for _ in range(3000)], minlength=7)[1:]
    assert stats.chisquare(draws, 3000 * np.exp(TRUTH.log_table(6))).pvalue > 1e-3


def test_direction_must_agree():
    with pytest.raises(luce.errors.SettingError, match="direction='forward'"):
        luce.losses.get("pmop", direction="backward").log_prob([0.0, 1.0], [0, 1], TRUTH)


def test_sizes_fitted_for_a_loss_go_its_way():
    labels, offsets = simulated(50, 3)
    backward = luce.losses.get("pmop", direction="backward")
    sizes = backward.fit_sizes(labels, offsets)
    assert sizes.direction == "backward"
    assert np.array_equal(sizes.parameters, SizeModel.fit(-labels, offsets).parameters)
    assert np.isfinite(backward.log_prob([0.0, 1.0], [0, 1], sizes))


def test_bad_input():
    with pytest.raises(luce.errors.DataError, match="four finite parameters"):
        SizeModel(np.zeros((2, 3)))
    with pytest.raises(luce.errors.DataError, match="finite labels"):
        SizeModel.fit([0.0, np.nan])
    with pytest.raises(luce.errors.SettingError, match="direction"):
        SizeModel.fit([0.0, 1.0], direction="up")


def test_stage_beyond_the_last_shares_its_parameters():
    late = Stages(np.array([2]), np.array([7]), np.array([40]))
    assert TRUTH.log_prob(late)[0] == TRUTH.log_table(7, 2)[1]
