"""Small data, and long steps, so that a whole blend takes about a second."""

from __future__ import annotations

import pytest

from luce.auto import plan
from luce.data.simulate import simulate


@pytest.fixture(autouse=True)
def long_steps(monkeypatch):
    monkeypatch.setattr(plan, "_FINE", 0.3)


@pytest.fixture(scope="module")
def data():
    return simulate(queries=60, features=6, seed=0)


@pytest.fixture(scope="module")
def unseen():
    return simulate(queries=40, features=6, seed=1)
