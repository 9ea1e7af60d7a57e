"""The forms of `pmop`: backward, with stage weights, and as Plackett-Luce."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import luce
from tests.conformance.cases import problem


def stage_potential(phi: np.ndarray, subset: list[int]) -> float:
    """Eq. 6."""
    return float(phi[subset].mean())


def by_enumeration(scores: np.ndarray, labels: np.ndarray, weights=(1.0,)) -> float:
    """Log-probability by Eq. 4 and 5, with every sum over subsets written out."""
    left, total = list(range(len(scores))), 0.0
    for k, grade in enumerate(sorted(set(labels), reverse=True)):
        phi = np.exp(weights[min(k, len(weights) - 1)] * scores)
        subsets = [list(s) for m in range(1, len(left) + 1) for s in itertools.combinations(left, m)]
        tier = [i for i in left if labels[i] == grade]
        total += np.log(stage_potential(phi, tier) / sum(stage_potential(phi, s) for s in subsets))
        left = [i for i in left if labels[i] != grade]
    return total


SCORES = np.array([0.7, -0.2, 1.5, 0.0, -1.1])
LABELS = np.array([1.0, 0, 2, 1, 0])


def test_forward_backward_and_weighted_against_enumeration():
    assert luce.losses.get("pmop").log_prob(SCORES, LABELS) == pytest.approx(by_enumeration(SCORES, LABELS), rel=1e-12)
    backward = luce.losses.get("pmop", direction="backward").log_prob(SCORES, LABELS)
    assert backward == pytest.approx(by_enumeration(-SCORES, -LABELS), rel=1e-12)
    weighted = luce.losses.get("pmop", stage_weights=(1, 0.5)).log_prob(SCORES, LABELS)
    assert weighted == pytest.approx(by_enumeration(SCORES, LABELS, (1.0, 0.5)), rel=1e-12)


def test_backward_is_another_distribution():
    forward, backward = (luce.losses.get("pmop", direction=d).log_prob(SCORES, LABELS) for d in ("forward", "backward"))
    assert abs(forward - backward) > 0.01


def test_backward_still_rewards_good_documents_high():
    _, grad = luce.losses.get("pmop", direction="backward").value_and_grad(np.zeros(5), LABELS)
    assert grad[2] < grad[0] < grad[1]


def test_weights_of_one_change_nothing():
    scores, labels, offsets = problem(0)
    plain = luce.losses.get("pmop").value_grad_curvature(scores, labels, offsets)
    weighted = luce.losses.get("pmop", stage_weights=[1.0]).value_grad_curvature(scores, labels, offsets)
    for a, b in zip(plain, weighted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_untied_labels_are_plackett_luce():
    scores, labels, offsets = problem(1, untied=True)
    value, grad = luce.losses.get("pmop").value_and_grad(scores, labels, offsets)
    same_value, same_grad = luce.losses.get("listmle").value_and_grad(scores, labels, offsets)
    assert value == pytest.approx(same_value, rel=1e-13)
    np.testing.assert_allclose(grad, same_grad, rtol=1e-12, atol=1e-14)


def test_settings_make_the_loss_again():
    loss = luce.losses.get("pmop", direction="backward", stage_weights=[1, 0.5])
    assert repr(luce.losses.get("pmop", **loss.settings)) == repr(loss)


@pytest.mark.parametrize("weights", [[], [1.0, 0.0], [-1.0], [np.nan], [np.inf], "log", [[1.0]]])
def test_bad_stage_weights(weights):
    with pytest.raises(luce.errors.SettingError, match="stage_weights"):
        luce.losses.get("pmop", stage_weights=weights)


def test_bad_direction():
    with pytest.raises(luce.errors.SettingError, match="one of forward, backward"):
        luce.losses.get("pmop", direction="up")
