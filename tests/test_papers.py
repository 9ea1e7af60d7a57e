"""The scripts behind the paper pages run, in their quick form, and the pages are what they make of their numbers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("script", sorted((ROOT / "papers").glob("*.py")), ids=lambda path: path.stem)
def test_paper_script_runs(script):
    result = subprocess.run(
        [sys.executable, str(script), "--quick"], capture_output=True, text=True, cwd=ROOT, timeout=900
    )
    assert result.returncode == 0, result.stderr[-2000:]
    if "No real data found" in result.stdout:
        pytest.skip(result.stdout.strip())
    wrote = [line for line in result.stdout.splitlines() if line.startswith("Wrote")]
    assert len(wrote) == 1


MADE = [script.stem for script in sorted((ROOT / "papers").glob("*.py")) if '"--page"' in script.read_text()]


@pytest.mark.parametrize("name", MADE)
def test_pages_are_made_of_the_numbers(name, tmp_path):
    """`--page` in a copy of the project gives the pages that are in it, byte for byte."""
    for folder in ("papers", "docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    made = [sys.executable, str(tmp_path / "papers" / f"{name}.py"), "--page"]
    result = subprocess.run(made, capture_output=True, text=True, cwd=tmp_path, timeout=900)
    assert result.returncode == 0, result.stderr[-2000:]
    for folder in ("papers", "docs"):
        changed = [
            path.relative_to(tmp_path)
            for path in (tmp_path / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
            if path.read_bytes() != (ROOT / path.relative_to(tmp_path)).read_bytes()
        ]
        assert not changed
