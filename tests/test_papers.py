"""The scripts behind the paper pages run, in their quick form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("script", sorted((ROOT / "papers").glob("*.py")), ids=lambda path: path.stem)
def test_paper_script_runs(script):
    result = subprocess.run([sys.executable, str(script), "--quick"], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr[-2000:]
    if "No real data found" in result.stdout:
        pytest.skip(result.stdout.strip())
    wrote = [line for line in result.stdout.splitlines() if line.startswith("Wrote")]
    assert len(wrote) == 1
