"""The scripts behind the paper pages run, in their quick form, and the pages are what they make of their numbers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

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


@pytest.fixture
def kit(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "papers"))
    from kit import check, stamps, verdicts

    return SimpleNamespace(check=check, stamps=stamps, verdicts=verdicts)


def test_words_do_not_make_a_result_stale_and_code_does(kit, tmp_path):
    source = tmp_path / "luce.py"
    source.write_text('"""Says so."""\nx = 1  # one\n\n\ndef f():\n    """Two."""\n    return "# no comment"\n')
    before = kit.stamps.code_digest(["luce"], tmp_path)
    source.write_text('"""Says more.\n\nMuch more."""\nx = 1\ndef f():\n    return "# no comment"  # two\n')
    assert kit.stamps.code_digest(["luce"], tmp_path) == before
    source.write_text('x = 2\ndef f():\n    return "# no comment"\n')
    assert kit.stamps.code_digest(["luce"], tmp_path) != before


def test_files_that_a_run_opens_are_known(kit, tmp_path):
    (tmp_path / "a.txt").write_text("1")
    (tmp_path / "b.txt").write_text("2")
    (tmp_path / "a.txt").read_text()
    assert "a.txt" in kit.stamps.files_read(tmp_path)
    assert kit.stamps.data_digest(["a.txt"], tmp_path) != kit.stamps.data_digest(["b.txt"], tmp_path)
    assert kit.stamps.data_digest(["c.txt"], tmp_path) is None


def test_verdicts_follow_sign_and_corrected_p(kit):
    Claim = kit.verdicts.Claim
    claims = [
        Claim("a", "s", "m", 0.01, 0.001, 0.001),
        Claim("b", "s", "m", -0.01, 0.001, 0.001),
        Claim("c", "s", "m", 0.01, 0.03, 0.001),  # 0.03 times 2 is above .05: three p-values count against it
        Claim("d", "s", "m", 0.01, 0.0001, 0.001, rests_on="one cut"),
        Claim("e", "s", "m", 0.01, 0.0001, 0.001, remark="untrained"),
        Claim("f", "s", "m", 0.0, 1.0, 0.0),
        Claim("g", "s", "m"),
    ]
    found = kit.verdicts.judged(claims)
    words = [verdict.word for verdict in found]
    assert words == ["holds", "does not hold", *["not decided"] * 5]
    assert [verdict.why for verdict in found][3:] == ["one cut", "untrained", "tie", "not run"]
    assert found[2].p == pytest.approx(2 * 0.03)
    text = kit.verdicts.headline(found)
    assert text.startswith("*Holds*: a")
    assert "*Does not hold*: b" in text
    assert "Of 7 claims 1 hold, 1 do not, and 5 are not decided" in kit.verdicts.verdicts_table(found)


def test_bold_needs_a_difference(kit):
    means = {"x": {"m": 0.5}, "y": {"m": 0.6}, "z": {"m": 0.4}}
    assert kit.verdicts.emphasised({("y", "m"): 0.2, ("z", "m"): 0.001}, means, "x") == set()
    assert kit.verdicts.emphasised({("y", "m"): 0.01, ("z", "m"): 0.5}, means, "x") == {("y", "m")}
    assert kit.verdicts.emphasised({("x", "m"): 0.001, ("z", "m"): 0.001}, means, "y") == {("y", "m")}


def test_the_check_finds_what_differs_and_passes_over_times(kit):
    stored = {"means": {"map": 0.5}, "seconds": 1.0, "list": [1.0, 2.0]}
    near = {"means": {"map": 0.50004}, "seconds": 9.0, "list": [1.0, 2.0]}
    assert list(kit.check.differences(stored, near)) == []
    far = {"means": {"map": 0.5001}, "seconds": 1.0, "list": [1.0]}
    assert [where for where, _ in kit.check.differences(stored, far)] == ["/list", "/means/map"]


def test_a_page_tells_which_parts_are_old(kit):
    from kit import DIGESTS, STALE, stale_note

    numbers = {"a": 1, "b": 2, DIGESTS: {"parts": {"a": {}, "b": {}}}}
    assert "All 2 parts" in stale_note(numbers)
    assert "1 of the 2 parts" in stale_note({**numbers, STALE: ["b"]})
    assert "`b`" in stale_note({**numbers, STALE: ["b"]})
