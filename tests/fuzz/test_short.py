"""A short attack on every target, and every case that an attack ever found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import one, targets, tried

INPUTS = 60
TARGETS = targets()
FOUND = sorted((Path(__file__).parent / "found").glob("*-*.*"))


@pytest.mark.parametrize(
    "name", [name for name in TARGETS if name != "netcdf trajectories" and not name.startswith("model")]
)
def test_damaged_inputs_are_read_or_refused(name, tmp_path):
    target = TARGETS[name]
    for seed in range(INPUTS):
        error = one(name, target, seed, tmp_path / f"x.{target.ending}")
        assert error is None, (seed, error)


@pytest.mark.parametrize("path", FOUND, ids=[path.name for path in FOUND])
def test_found_cases_stay_closed(path):
    name = path.name.rpartition("-")[0].replace("_", " ")
    matching = [target for known, target in TARGETS.items() if known == name or known.replace("_", " ") == name]
    assert matching, f"{path.name} belongs to no target"
    assert tried(matching[0], path) is None
