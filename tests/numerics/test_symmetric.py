"""Sums over subsets against enumeration, and against arithmetic with many digits where enumeration is out of reach."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from luce.numerics import symmetric
from luce.numerics.compiled import kernel
from tests.numerics import by_kernels


def subsets(n: int, m: int) -> list[list[int]]:
    return [list(s) for s in itertools.combinations(range(n), m)]


def enumerated(scores: np.ndarray, m: int) -> tuple[float, np.ndarray]:
    """log-sum over all subsets of size m, and the chance of each item to be in."""
    members = subsets(len(scores), m)
    logs = np.array([scores[s].mean() for s in members])
    weight = np.exp(logs - logs.max())
    inside = np.zeros(len(scores))
    for s, w in zip(members, weight, strict=True):
        inside[s] += w
    return logs.max() + np.log(weight.sum()), inside / weight.sum()


def by_decimals(scores: np.ndarray) -> list[float]:
    """The textbook program with 60 digits and an exponent that does not end."""
    with localcontext() as context:
        context.prec = 60
        logs = []
        for m in range(1, len(scores) + 1):
            e = [Decimal(1)] + [Decimal(0)] * m
            for f in scores:
                x = (Decimal(float(f)) / m).exp()
                for j in range(m, 0, -1):
                    e[j] += x * e[j - 1]
            logs.append(float(e[m].ln()))
    return logs


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e3, 1e4])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 11])
def test_every_size_against_enumeration(n, scale):
    scores = np.random.default_rng(n).normal(0, 1, n) * scale
    sums = by_kernels.log_sums(scores)
    for m in range(1, n + 1):
        log_sum, inside = enumerated(scores, m)
        assert sums[m - 1] == pytest.approx(log_sum, rel=1e-13, abs=1e-13 * max(scale, 1))
        np.testing.assert_allclose(by_kernels.marginals(scores, m), inside, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test_long_queries_against_many_digits(scale):
    scores = np.random.default_rng(0).normal(0, scale, 60)
    np.testing.assert_allclose(by_kernels.log_sums(scores), by_decimals(scores), rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 5, 9])
def test_just_below_and_just_above_the_switch_to_logarithms(m):
    rng = np.random.default_rng(m)
    scores = np.concatenate([[0.0, symmetric.WIDEST * m], rng.uniform(0, symmetric.WIDEST * m, 20)])
    rng.shuffle(scores)
    for scale in (1 - 1e-9, 1 + 1e-9):
        exact = by_decimals(scores * scale)
        np.testing.assert_allclose(by_kernels.log_sums(scores * scale), exact, rtol=1e-13, atol=1e-12)
        inside = by_kernels.marginals(scores * scale, m)
        assert inside.sum() == pytest.approx(m, rel=1e-12)


def partition(scores: np.ndarray, ends: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    log_z, first, second = np.empty(len(ends)), np.empty(len(scores)), np.empty(len(scores))
    importance = np.arange(1.0, len(ends) + 1)
    kernel(symmetric.partition_functions)(scores, np.array(ends), importance, False, log_z, first, second)
    return log_z, first, second


@pytest.mark.parametrize("scale", [1.0, 50.0, 5e3])
def test_partition_functions_of_nested_prefixes(scale):
    scores, ends = np.random.default_rng(4).normal(0, scale, 9), [2, 3, 7, 9]
    log_z, first, second = partition(scores, ends)
    expected_first, expected_second = np.zeros(9), np.zeros(9)
    for k, n in enumerate(ends):
        sizes = range(1, n + 1)
        each = [enumerated(scores[:n], m) for m in sizes]
        logs = np.array([log_sum for log_sum, _ in each])
        assert log_z[k] == pytest.approx(np.logaddexp.reduce(logs), rel=1e-13)
        for m, p, (_, inside) in zip(sizes, np.exp(logs - np.logaddexp.reduce(logs)), each, strict=True):
            expected_first[:n] += (k + 1) * p * inside / m
            expected_second[:n] += (k + 1) * p * inside / m**2
    np.testing.assert_allclose(first, expected_first, atol=1e-13)
    np.testing.assert_allclose(second, expected_second, atol=1e-13)


@pytest.mark.parametrize("case", ["normal", "bimodal", "wide", "low prefix"])
def test_sizes_left_out_do_not_count(case):
    """Long queries skip sizes by bounds; the sum with every size is the reference."""
    rng = np.random.default_rng(1)
    scores = {
        "normal": rng.normal(0, 1.5, 150),
        # One size at the low end and a far range of others share the sum.
        "bimodal": np.append(np.zeros(399), 277.0),
        "wide": rng.normal(0, 300, 120),
        "low prefix": np.concatenate([rng.normal(-2000, 3, 70), rng.normal(0, 1, 50)]),
    }[case]
    ends = [len(scores) // 3, len(scores) // 2, len(scores)]
    log_z, first, _ = partition(scores, ends)
    for k, n in enumerate(ends):
        assert log_z[k] == pytest.approx(np.logaddexp.reduce(by_kernels.log_sums(scores[:n])), rel=1e-13, abs=1e-12)
    # One item's share of every set sums to one at each stage, which counts 1, 2, 3.
    assert first.sum() == pytest.approx(1 + 2 + 3, rel=1e-12)


def test_bimodal_sizes():
    log_e = by_kernels.log_sums(np.append(np.zeros(399), 277.0))
    share = np.exp(log_e - np.logaddexp.reduce(log_e))
    assert 0.2 < share[0] < 0.3
    assert share[1:100].sum() < 1e-12
    assert share[149:250].sum() == pytest.approx(1 - share[0], abs=1e-6)


def test_samples_follow_the_potential():
    scores, size = np.array([2.0, -1.0, 0.5, 0.0, 4.0]), 2
    rng = np.random.default_rng(7)
    counts = dict.fromkeys(map(tuple, subsets(5, size)), 0)
    for _ in range(4000):
        counts[tuple(np.flatnonzero(by_kernels.sample_subset(scores, size, rng)))] += 1
    weight = np.exp([scores[list(s)].mean() for s in counts])
    expected = 4000 * weight / weight.sum()
    assert stats.chisquare(list(counts.values()), expected).pvalue > 1e-3
