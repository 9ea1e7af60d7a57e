"""Random streams for compiled code: one 64-bit word of state, one independent stream a query.

NumPy generators cannot be made inside a kernel, and one that is shared makes the numbers of a query depend on which
thread came first. A stream is named by (seed, index) instead, so that the draws of query q are the same for 1 and N
threads. The generator is SplitMix64 (Steele, Lea and Flood, 2014).
"""

from __future__ import annotations

import numpy as np

from luce.numerics.compiled import part

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def seed_from(rng: np.random.Generator) -> np.uint64:
    """A seed for streams, drawn from a NumPy generator."""
    return np.uint64(rng.integers(2**64, dtype=np.uint64))


@part
def mixed(word):  # type: ignore[no-untyped-def]
    """Scramble a 64-bit word, one to one."""
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@part
def stream(seed, index):  # type: ignore[no-untyped-def]
    """The stream of that name; `seed` is a uint64, `index` any integer."""
    state = np.empty(1, dtype=np.uint64)
    state[0] = mixed(mixed(np.uint64(seed) + _STEP) + np.uint64(index) * _STEP)
    return state


@part
def uniform(state):  # type: ignore[no-untyped-def]
    """A number in [0, 1)."""
    state[0] += _STEP
    return (mixed(state[0]) >> _11) * (1.0 / 9007199254740992.0)


@part
def below(state, n):  # type: ignore[no-untyped-def]
    """A whole number from 0 to n - 1."""
    return min(int(uniform(state) * n), n - 1)
