"""Shared fixtures: where the real data are, and a clean number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def data_folder() -> Path:
    """LUCE_DATA, else ../shared/data beside the project."""
    return Path(os.environ.get("LUCE_DATA", ROOT.parent / "shared" / "data"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests have three times the time limit of the others, which pyproject.toml says."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """`real_data("MQ2008")` is the folder of a real data set; skips with a reason where it is absent."""

    def find(name: str) -> Path:
        path = data_folder() / name
        if not path.exists():
            pytest.skip(f"real data {name!r} not found under {data_folder()} (set LUCE_DATA)")
        return path

    return find
