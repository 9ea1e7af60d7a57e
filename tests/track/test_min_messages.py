"""Messages of the j-th-minimum factors against the sums over subsets and patterns, written out."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm

from luce.track import label_posteriors, log_likelihood, min_messages

PAPER = {"sigma": 0.2, "detection": 0.7, "clutter_rate": 2.0, "window": (0.0, 3.0)}


def case(s, n, seed):
    rng = np.random.default_rng(seed)
    return np.sort(rng.uniform(0.2, 1.8, n)), rng.random(2), rng.random((s, 2)) + 0.5


def heard(time, position, sources, settings):
    """Probabilities of an arrival before `time` and after it (or never), and its density."""
    mean = np.linalg.norm(sources - position, axis=1)
    before = settings["detection"] * norm.cdf(time, mean, settings["sigma"])
    return before, 1 - before, settings["detection"] * norm.pdf(time, mean, settings["sigma"])


def rank_factor(j, tables, of=None, as_=None):
    """[Pareek] (5.9) integrated: who is at T, which j - 1 are before it; source `of` is given its place."""
    before, after, density = tables
    s, total = len(before), 0.0
    for at in range(s):
        for earlier in itertools.combinations([i for i in range(s) if i != at], j - 1):
            place = ["at" if i == at else "before" if i in earlier else "after" for i in range(s)]
            if of is not None and place[of] != as_:
                continue
            by = {"at": density, "before": before, "after": after}
            total += math.prod(by[place[i]][i] for i in range(s) if i != of)
    return total


def with_clutter(k, times, position, sources, settings, known, value):
    """Sum over the patterns of clutter up to k, those of `known` given; `value(rank)` where k is genuine."""
    p = settings["clutter_rate"] / (1 + settings["clutter_rate"])
    a, b = settings["window"]
    total = 0.0
    for pattern in itertools.product((0, 1), repeat=k + 1):
        if any(pattern[i] != fixed for i, fixed in known.items()):
            continue
        weight = math.prod(p if bad else 1 - p for i, bad in enumerate(pattern) if i not in known)
        total += weight * (1 / (b - a) if pattern[k] else value(k + 1 - sum(pattern[:k])))
    return total


@pytest.mark.parametrize(("s", "n", "rate"), [(4, 3, 2.0), (3, 4, 0.5), (5, 2, 0.0), (1, 2, 1.0)])
def test_messages_equal_the_sums_written_out(s, n, rate):
    times, position, sources = case(s, n, 7 * s + n)
    settings = PAPER | {"clutter_rate": rate}
    says = min_messages(times, position, sources, **settings)
    for k, time in enumerate(times):
        tables = heard(time, position, sources, settings)
        given = (k, times, position, sources, settings)
        for i in range(s):
            for name, as_ in (("at", "at"), ("before", "before"), ("after", "after")):
                value = with_clutter(*given, {}, partial(rank_factor, tables=tables, of=i, as_=as_))
                if as_ == "at":  # a signal that is clutter says nothing of t_i = T
                    value = with_clutter(*given, {k: 0}, partial(rank_factor, tables=tables, of=i, as_=as_)) / (
                        1 + rate
                    )
                assert getattr(says, name)[k, i] == pytest.approx(value, rel=1e-10, abs=1e-14), (k, i, name)
        for other in range(k + 1):
            for name, bad in (("genuine", 0), ("clutter", 1)):
                value = with_clutter(*given, {other: bad}, partial(rank_factor, tables=tables))
                assert getattr(says, name)[k, other] == pytest.approx(value, rel=1e-10), (k, other, name)


def test_every_source_and_indicator_gives_the_same_evidence():
    """Sum of message times what came in: the density of the signal, whoever is asked."""
    times, position, sources = case(6, 4, 1)
    says = min_messages(times, position, sources, **PAPER)
    rate = PAPER["clutter_rate"]
    for k, time in enumerate(times):
        before, after, density = heard(time, position, sources, PAPER)
        by_source = says.at[k] * density + says.before[k] * before + says.after[k] * after
        by_signal = (says.genuine[k] + rate * says.clutter[k])[: k + 1] / (1 + rate)
        np.testing.assert_allclose(by_source, by_source[0], rtol=1e-12)
        np.testing.assert_allclose(by_signal, by_source[0], rtol=1e-12)


def test_first_signal_is_the_likelihood():
    """For one signal the factor is the likelihood, up to the constant of a proper density."""
    times, position, sources = case(5, 1, 2)
    before, after, density = heard(times[0], position, sources, PAPER)
    says = min_messages(times, position, sources, **PAPER)
    rate, (a, b) = PAPER["clutter_rate"], PAPER["window"]
    value = np.log(says.at[0] * density + says.before[0] * before + says.after[0] * after)
    constant = np.log1p(rate) - rate * (times[0] - a) / (b - a)
    # A genuine first signal: all others are later. Clutter first: min_factor asks nothing of the sources.
    ours = log_likelihood(times, position, sources, engine="min_factor", **PAPER)
    np.testing.assert_allclose(value + constant, ours[0], rtol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"clutter_rate": 0.0, "detection": 1.0}, {"r": 5}])
def test_labels_of_min_factor_are_the_shares_of_its_own_likelihood(settings):
    """P(R_j = i) is the part of the density in which i makes j: by differences of likelihoods of single patterns."""
    times, position, sources = case(4, 3, 5)
    settings = PAPER | settings
    shares = label_posteriors(times, position, sources, engine="min_factor", **settings)[0]
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    p = settings["clutter_rate"] / (1 + settings["clutter_rate"])
    expected, total, noise = np.zeros_like(shares), 0.0, 1 / 3
    detection = settings["detection"]
    for pattern in itertools.product((0, 1), repeat=3):
        weight, made, rank = 1.0, np.zeros((3, 5)), 0
        for j, bad in enumerate(pattern):
            if bad:
                weight *= p * noise
                made[j, 4] = 1
                continue
            rank += 1
            before, after, density = heard(times[j], position, sources, settings)
            by = np.array([d * rank_factor(rank, (before, after, density), i, "at") for i, d in enumerate(density)])
            weight *= (1 - p) * by.sum()
            made[j, :4] = by / by.sum() if by.sum() > 0 else 0
        if "r" in settings:  # not full: no further source before the end of the window
            before, after, _ = heard(3.0, position, sources, settings)
            chance = np.ones(1)
            for a, b in zip(before, after, strict=True):
                chance = np.convolve(chance, [b, a])
            weight *= chance[: rank + 1].sum()
        expected, total = expected + weight * made, total + weight
    assert 0 < detection <= 1
    np.testing.assert_allclose(shares, expected / total, rtol=1e-9, atol=1e-12)
