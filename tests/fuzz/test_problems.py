"""Some valid problems of every family, and the oracle itself; `python -m tests.fuzz --problems 100000` has more."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from luce.errors import DataError, LuceWarning
from tests.fuzz.problems import FAMILIES, draw, judged, run

SLOW = {"ranker": 6, "trainer": 6, "system": 3, "reranker": 3, "blend": 3, "cross-fitting": 3, "comparison": 2}


@pytest.mark.parametrize("family", FAMILIES)
def test_valid_problems_are_finite_or_said_or_refused(family):
    make, _ = FAMILIES[family]
    faults = []
    for seed in range(SLOW.get(family, 20)):
        verdict = judged(lambda seed=seed: make(np.random.default_rng(seed))())
        faults += [] if verdict.ended else [(seed, verdict)]
    assert not faults


def warned_of(category):
    def call():
        warnings.warn("as it is", category, stacklevel=1)
        return np.array([np.nan])

    return call


def refuse(text):
    raise DataError(text)


@pytest.mark.parametrize(
    ("call", "ended"),
    [
        (lambda: [1.0, np.ones(2)], "finite"),
        (warned_of(LuceWarning), "said"),
        (lambda: refuse("That is no table."), "refused"),
        (lambda: refuse("no table"), None),
        (lambda: {"value": [float("nan")]}, None),
        (lambda: (np.array([np.inf]),), None),
        (lambda: [][0], None),
        (warned_of(RuntimeWarning), None),
    ],
)
def test_the_oracle_sees_what_is_wrong(call, ended):
    assert judged(call).ended == ended


def test_a_seed_is_a_problem():
    names = [draw(np.random.default_rng(seed))[0] for seed in range(3)]
    ended, faults = run(3)
    assert sorted(ended) == sorted(set(names))
    assert not faults
