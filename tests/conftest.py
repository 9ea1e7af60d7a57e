"""Shared fixtures: where the real data are, and how many threads a worker has."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    # Workers share the cores: threads of each that wait for cores of the others would make all of them slower.
    _SHARE = max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    os.environ.setdefault("OMP_NUM_THREADS", str(_SHARE))


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
