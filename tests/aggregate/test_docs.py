"""The examples of the pages and the experiment's script run as written."""

from __future__ import annotations

import doctest
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["aggregate.md", "axioms.md"])
def test_examples_of_the_page(page):
    result = doctest.testfile(str(ROOT / "docs" / page), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_the_mallows_experiment_writes_its_figure(tmp_path):
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("mallows_mixture", ROOT / "examples" / "mallows_mixture.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    exact = example.draw(str(tmp_path / "figure.png"), trials=1)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    for values in exact.values():
        assert max(values, key=values.get) != "borda"
