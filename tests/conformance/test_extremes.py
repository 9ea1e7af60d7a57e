"""Losses far outside of what training meets: finite numbers, or an error; and labels that LightGBM aborts on."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

import luce
from luce.errors import DataError, LuceError
from tests.conformance.cases import all_losses

SCALES = (1e300, -1e300, 1e308, 1e-310, 5e-324, 1e15, 0.0)
LOSSES = all_losses()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_are_finite_or_refuse(loss):
    rng = np.random.default_rng(0)
    shape, labels, offsets = rng.normal(size=12), rng.integers(0, 3, 12).astype(float), np.array([0, 5, 12])
    shape /= np.abs(shape).max()
    for scale in SCALES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                value, gradient = loss.value_and_grad(shape * scale, labels, offsets)
            except LuceError:
                continue
        assert np.isfinite(value), (scale, value)
        assert np.isfinite(gradient).all(), (scale, gradient)


CODE = """
import numpy as np, luce
for labels in ([0, 31], [-1, 1], [0.5, 2], [0, 1e9]):
    X = np.random.default_rng(0).normal(size=(40, 3))
    try:
        luce.model("lambdamart", max_iter=2).fit(X, labels * 20, qid=np.zeros(40))
    except luce.errors.DataError as error:
        print(error)
"""


def test_no_fatal_line_of_lightgbm():
    """In a process of its own: LightGBM writes past Python."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300)
    assert [("whole grades from 0 to 30" in line) for line in done.stdout.splitlines()] == [True] * 4, done
    assert "Fatal" not in done.stdout + done.stderr


@pytest.mark.parametrize("labels", [[0, 31], [-1, 1], [0.5, 2], [0, 1e9]], ids=str)
@pytest.mark.parametrize("name", ["mart", "pmop-trees"])
def test_other_trees_take_any_label(name, labels):
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = luce.model(name, max_iter=2).fit(X, np.array(labels * 20), qid=np.repeat([0, 1], 20))
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(DataError, match="whole grades"):
        luce.model("lambdamart", max_iter=2).fit(X, np.array(labels * 20), qid=np.repeat([0, 1], 20))
