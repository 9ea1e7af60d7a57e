"""`tests/extras.py` knows every extra that users are told of."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.extras import EXTRAS

ROOT = Path(__file__).parents[1]
OURS = {"test", "dev", "docs", "bench"}
"""Extras of developers, which the other commands of the Makefile install."""


def test_every_extra_is_tried_alone() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"", *declared} - OURS == set(EXTRAS)
    said = re.search(r"The extras are (.*?)\.", (ROOT / "docs/index.md").read_text(), re.DOTALL)
    assert said is not None
    assert set(re.findall(r"`(\w+)`", said[1])) == set(EXTRAS) - {""}


def test_the_extra_of_a_cluster_brings_what_its_trees_ask_for() -> None:
    """`lightgbm.dask` refuses to work without data frames of Dask, and so without pandas."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dask"]
    assert any(re.fullmatch(r"dask\[.*dataframe.*\]>=.*", need) for need in declared)
