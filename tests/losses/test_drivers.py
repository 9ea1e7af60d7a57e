"""A loss that gives a driver its one function, and no kernel, is the loss that has one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import SettingError
from luce.losses.base import as_labels
from luce.losses.pairs import PairLoss
from luce.losses.segments import SegmentLoss
from luce.losses.stages import StageLoss
from luce.types import FloatArray, IntArray

OFFSETS = np.array([0, 7, 8, 30])


class Logistic(PairLoss):
    name = "logistic_by_terms"

    def terms(self, d, tied):
        loses = 1.0 / (1.0 + np.exp(d))
        return np.stack([np.logaddexp(0.0, -d), -loses, loses * (1.0 - loses), np.zeros_like(d)])


class Breslow(StageLoss):
    name = "breslow_by_stages"

    def stage(self, f, size):
        if size == len(f):  # nobody is left to come later
            return 0.0, np.zeros_like(f), np.zeros_like(f)
        log_share = f - np.logaddexp.reduce(f)
        chosen = 1.0 * (np.arange(len(f)) < size)
        share = np.exp(log_share)
        return -log_share[:size].sum(), size * share - chosen, size * share * (1.0 - share)

    def sample(self, scores, rng):
        return np.argsort(np.argsort(scores + rng.gumbel(size=len(scores)))) + 1.0


class Shares(NamedTuple):
    target: FloatArray
    offsets: IntArray


class CrossEntropy(SegmentLoss):
    name = "listnet_by_costs"
    ordinal = False
    learns_from_ties = True

    def prepare(self, target, offsets):
        labels, sizes = as_labels(self, target, offsets), np.diff(offsets)
        weight = np.exp(labels)
        return Shares(weight / np.repeat(np.add.reduceat(weight, offsets[:-1]), sizes), offsets)

    def costs(self, s, run, known):
        logs, q = run.softmax(s)
        target = known.target[run.rows]
        return logs - run.sums(target * s), q - target, q * (1.0 - q)


SAME = {Logistic: ("ranknet", {}), Breslow: ("plackett_luce", {"ties": "breslow"}), CrossEntropy: ("listnet", {})}


def some() -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    return rng.normal(0, 2, OFFSETS[-1]), rng.integers(0, 3, OFFSETS[-1]).astype(float)


@pytest.mark.parametrize("kind", SAME)
def test_one_function_is_the_whole_loss(kind):
    name, settings = SAME[kind]
    ours = kind().value_grad_curvature(*some(), OFFSETS, [1.0, 2.0, 0.5])
    theirs = luce.losses.get(name, **settings).value_grad_curvature(*some(), OFFSETS, [1.0, 2.0, 0.5])
    assert ours[0] == pytest.approx(theirs[0], rel=1e-10)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9, atol=1e-10)
    if kind is not Breslow:  # the curvature of the approximation sums over its stages one by one
        np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", SAME)
def test_it_trains_and_passes_the_checks_of_any_loss(kind):
    luce.testing.check_loss(kind())
    model = luce.Ranker(kind(), max_iter=20).fit(simulate(queries=30, features=5, seed=1))
    assert model.history_["objective"][-1] < model.history_["objective"][0]


def test_settings_of_the_driver_are_those_of_the_loss():
    scores, labels = some()
    pairs = luce.Comparisons.from_pairs([(0, 1), (3, 2), (9, 20)])
    for settings in ({"weighting": "pairs"}, {"position_weight": "log2"}):
        ours, theirs = Logistic(**settings), luce.losses.get("ranknet", **settings)
        assert ours.value_and_grad(scores, labels, OFFSETS)[0] == pytest.approx(
            theirs.value_and_grad(scores, labels, OFFSETS)[0]
        )
    assert Logistic().value_and_grad(scores, pairs, OFFSETS)[0] == pytest.approx(
        luce.losses.get("ranknet").value_and_grad(scores, pairs, OFFSETS)[0]
    )
    for settings in ({"cut": 5, "seed": 3}, {"tier_gain": 2.0}):
        ours, theirs = Breslow(**settings), luce.losses.get("plackett_luce", ties="breslow", **settings)
        assert ours.value_and_grad(scores, labels, OFFSETS)[0] == pytest.approx(
            theirs.value_and_grad(scores, labels, OFFSETS)[0]
        )
    with pytest.raises(SettingError, match="tier_gain=2"):
        Breslow(tier_gain=2.0).log_prob(scores, labels)


def test_stages_that_nothing_is_said_of():
    class Nothing(StageLoss):
        name = "nothing"

        def sample(self, scores, rng):
            return scores

    with pytest.raises(SettingError, match="neither a method stage nor fill"):
        Nothing().value_and_grad([0.0, 1.0], [1, 0])


@pytest.mark.parametrize("name", ["pmop", "ranknet", "listnet", "cdn"])
def test_labels_that_are_no_numbers_are_refused(name):
    with pytest.raises(luce.errors.DataError, match="Labels that are no numbers"):
        luce.losses.get(name).value_and_grad([0.0, 1.0], ["good", "bad"])
