"""Commands that fail while they read end with code 2; `python -m tests.fuzz.ends` tries all of them, often."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import ends


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ends")
    ends.write_inputs(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("CSV, no such column", 5),
        ("CSV, gzip, cut off", 1),
        ("JSON lines, damaged", 1),
        ("Parquet, no such column", 1),
        ("LETOR, gzip, damaged", 1),
        ("clicks, no such column", 1),
    ],
)
def test_no_command_ends_by_a_signal(command: str, runs: int, inputs: Path) -> None:
    for _ in range(runs):
        code, said = ends.one(command, inputs)
        assert code == 2, said
