"""Curvature where it is more than a bound: the diagonal of the Hessian, and that of the majoriser that is named."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from tests.conformance.cases import VARIANTS, problem

EXACT = ("bradley_terry", "davidson", "listnet", "paired", "rank_regress", "ranknet", "rao_kupper")
EXACT += ("listmle", "plackett_luce", "thurstone_mosteller")
CASES = [(name, settings) for name in EXACT for settings in VARIANTS.get(name, [{}])]
CASES += [("pmop_exact", {"sizes": "given"})]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=lambda case: str(case))
def test_diagonal_of_the_hessian(name, settings):
    loss = luce.losses.get(name, **settings)
    scores, labels, offsets = problem(8, sizes=(7, 4))
    _, _, curvature = loss.value_grad_curvature(scores, labels, offsets)
    step = 1e-5
    for i, unit in enumerate(step * np.eye(len(scores))):
        up, down = (loss.value_and_grad(scores + d, labels, offsets)[1][i] for d in (unit, -unit))
        assert curvature[i] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("spread", [1.0, 400.0])
@pytest.mark.parametrize("weights", [None, (1.0, 0.6, 0.3)])
def test_pmop_sums_the_variance_of_leading_over_stages(spread, weights):
    """Near and far scores take different ways: sums of phi, and sums of logarithms."""
    scores, labels, _ = problem(9, sizes=(9,))
    scores *= spread
    _, _, curvature = luce.losses.get("pmop", stage_weights=weights).value_grad_curvature(scores, labels)
    expected = np.zeros(9)
    for stage, grade in enumerate(sorted(set(labels), reverse=True)):
        w = 1.0 if weights is None else weights[min(stage, 2)]
        left = labels <= grade
        lead = np.exp(w * (scores[left] - scores[left].max()))
        lead /= lead.sum()
        expected[left] += w**2 * lead * (1 - lead)
    np.testing.assert_allclose(curvature, expected, rtol=1e-9, atol=1e-14)


def test_hom_gg_has_the_curvature_of_its_convex_part():
    """Of the group T against all: the log of the sum over all; inside T: the stages of Luce's model."""
    scores, labels = np.array([0.4, -1.0, 2.0, 0.1, -0.3]), np.array([2.0, 0, 1, 3, 0])
    _, _, curvature = luce.losses.get("hom_gg", k=3).value_grad_curvature(scores, labels)
    share = np.exp(scores) / np.exp(scores).sum()
    expected = share * (1 - share)
    left = [3, 0, 2]
    while left:
        lead = np.exp(scores[left]) / np.exp(scores[left]).sum()
        expected[left] += lead * (1 - lead)
        left = left[1:]
    np.testing.assert_allclose(curvature, expected, rtol=1e-10)
