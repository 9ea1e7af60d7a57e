"""The vectorised exponential against the library's."""

from __future__ import annotations

import numpy as np
from numba import njit

from luce.numerics.fast_exp import fast_exp, fast_exp_single, fast_log


@njit
def _all(x, out):
    for i in range(len(x)):
        out[i] = fast_exp(x[i])


def test_agrees_with_exp_wherever_exp_is_a_number():
    x = np.concatenate([np.linspace(-700, 700, 20_001), np.random.default_rng(0).normal(0, 1, 20_000), [0.0, -0.0]])
    out = np.empty_like(x)
    _all(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-15)
    assert out[-1] == out[-2] == 1.0


def test_beyond_its_range_it_stays_finite():
    out = np.empty(2)
    _all(np.array([-1e300, 1e300]), out)
    assert 0 < out[0] < 1e-300
    assert 1e300 < out[1] < np.inf


@njit
def _logs(x, out):
    for i in range(len(x)):
        out[i] = fast_log(x[i])


@njit
def _singles(x, exps):
    for i in range(len(x)):
        exps[i] = fast_exp_single(x[i])


def test_logarithm_agrees_wherever_it_is_defined():
    x = np.concatenate([np.exp(np.linspace(-690, 690, 20_001)), 1 + np.linspace(-0.5, 0.5, 20_001), [0.0, np.inf]])
    out = np.empty_like(x)
    _logs(x, out)
    np.testing.assert_allclose(out[:-2], np.log(x[:-2]), rtol=1e-15, atol=1e-15)
    assert out[-2] < -690
    assert out[-1] > 690


def test_single_precision():
    x = np.linspace(-39.9, 39.9, 20_001).astype(np.float32)
    exps = np.empty_like(x)
    _singles(x, exps)
    np.testing.assert_allclose(exps, np.exp(x.astype(float)), rtol=3e-7)
