"""Chains over subsets against the distribution they must have, by enumeration."""

from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest

from luce.numerics.compiled import kernel
from luce.sampling import below, gibbs_step, metropolis_step, stream, uniform

# What only kernels call, compiled for a call from here.
gibbs_step, metropolis_step, below, stream, uniform = (
    kernel(gibbs_step),
    kernel(metropolis_step),
    kernel(below),
    kernel(stream),
    kernel(uniform),
)

SCORES = np.array([1.2, -0.7, 0.4, 2.0, -1.5])
SUBSETS = [np.array(s, dtype=bool) for s in itertools.product([False, True], repeat=5) if any(s)]
DRAWS = 60_000


def stationary(by_count: bool = False) -> np.ndarray:
    """Phi(S), or Phi(S) / C(n, |S|)."""
    weight = np.array([np.exp(SCORES[s].mean()) / (comb(5, int(s.sum())) if by_count else 1) for s in SUBSETS])
    return weight / weight.sum()


def visited(step, seed: int = 0) -> np.ndarray:
    """Shares of the subsets in 30 blocks of one long chain, (blocks, subsets)."""
    random = stream(np.uint64(seed), 0)
    member = np.array([True, False, False, False, False])
    number = {s.tobytes(): i for i, s in enumerate(SUBSETS)}
    path = np.empty(DRAWS, dtype=int)
    for t in range(DRAWS):
        member = step(random, SCORES, member)
        path[t] = number[member.tobytes()]
    return np.array([np.bincount(block, minlength=len(SUBSETS)) for block in path.reshape(30, -1)]) * 30 / DRAWS


def z_scores(blocks: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distance from expectation in Monte Carlo errors, which block means measure for a correlated chain."""
    error = blocks.std(axis=0, ddof=1) / np.sqrt(len(blocks))
    return (blocks.mean(axis=0) - expected) / error


CHAINS = {
    "gibbs": gibbs_step,
    "metropolis": lambda random, f, s: metropolis_step(random, f, s, False),
    "as printed": lambda random, f, s: metropolis_step(random, f, s, True),
}


@pytest.mark.parametrize("name", ["gibbs", "metropolis"])
def test_long_chains_have_the_potential_as_stationary_weight(name):
    z = z_scores(visited(CHAINS[name]), stationary())
    assert np.abs(z).max() < 4.5
    assert np.mean(z**2) < 2


def test_the_printed_acceptance_rule_samples_another_distribution():
    blocks = visited(CHAINS["as printed"])
    assert np.abs(z_scores(blocks, stationary())).max() > 15
    z = z_scores(blocks, stationary(by_count=True))
    assert np.abs(z).max() < 4.5
    assert np.mean(z**2) < 2


@pytest.mark.parametrize("name", list(CHAINS))
def test_a_step_leaves_its_state_alone_and_is_never_empty(name):
    random = stream(np.uint64(3), 0)
    scores = np.array([-1e4, 1e4, 0.0])
    member = np.array([True, False, False])
    for _ in range(200):
        before = member.copy()
        after = CHAINS[name](random, scores, member)
        assert np.array_equal(member, before)
        assert after.any()
        member = after


@pytest.mark.parametrize("name", list(CHAINS))
def test_one_item_stays(name):
    assert CHAINS[name](stream(np.uint64(0), 0), np.array([3.0]), np.array([True])).all()


def test_streams_are_uniform_and_apart():
    draws = np.array(
        [[uniform(random) for _ in range(500)] for random in (stream(np.uint64(5), i) for i in range(200))]
    )
    assert ((draws >= 0) & (draws < 1)).all()
    counts = np.histogram(draws, bins=50, range=(0, 1))[0]
    expected = draws.size / 50
    assert np.sum((counts - expected) ** 2 / expected) < 90  # chi-square with 49 degrees of freedom
    correlation = np.corrcoef(draws)[np.triu_indices(200, 1)]
    assert abs(correlation.mean()) < 5 / np.sqrt(500 * len(correlation))
    assert correlation.std() == pytest.approx(1 / np.sqrt(500), rel=0.05)


def test_streams_repeat_and_differ():
    same = [[below(random, 1000) for _ in range(20)] for random in (stream(np.uint64(1), 2), stream(np.uint64(1), 2))]
    assert same[0] == same[1]
    other = stream(np.uint64(2), 1)
    assert [below(other, 1000) for _ in range(20)] != same[0]
