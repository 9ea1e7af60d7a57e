"""A compiler's cache that fails is left alone, and said: the work goes on."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from luce.errors import LuceWarning
from luce.numerics import compiled


@pytest.fixture(autouse=True)
def _unsaid():
    compiled._said.clear()


def _doubled(x):
    return 2.0 * x


def test_a_full_disk_is_said_once_and_the_result_is_there(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(compiled._Files, "save", full)
    kernel, other = compiled.kernel(_doubled), compiled.kernel(_doubled)
    with pytest.warns(LuceWarning, match="cannot be written .No space left on device.; NUMBA_CACHE_DIR"):
        assert kernel(3.0) == 6.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(other(np.ones(2)), [2.0, 2.0])


def test_no_place_for_a_cache(monkeypatch):
    def nowhere(*_):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiled.FunctionCache, "__init__", nowhere)
    with pytest.warns(LuceWarning, match="no place for it"):
        kernel = compiled.kernel(_doubled)
    assert kernel(3.0) == 6.0


@pytest.mark.parametrize("damage", ["cut", "bytes", "empty", "text"])
def test_a_damaged_cache_is_compiled_around(tmp_path, damage):
    """Bytes of compiled code that changed would be run; the digest tells, before anything is made of them."""
    script = tmp_path / "one.py"
    script.write_text(
        "from luce.numerics.compiled import kernel\n\n\n@kernel\ndef tripled(x):\n    return 3.0 * x\n\n\n"
        "print(tripled(2.0), tripled.stats.cache_hits)\n"
    )
    folder = tmp_path / "cache"
    own = {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}

    def run() -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, env=os.environ | own, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr

    # The statistics count by signature.
    assert run()[0].startswith("6.0 Counter()")
    found, said = run()
    assert "1" in found.removeprefix("6.0")
    assert said == ""
    files = [path for path in folder.rglob("*.nb*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        content = path.read_bytes()
        changed = {
            "cut": content[: len(content) // 2],
            "bytes": content[:50] + bytes(b ^ 255 for b in content[50:80]) + content[80:],
            "empty": b"",
            "text": b"\x80\x04\x8c\xff\xff" * 20,
        }
        path.write_bytes(changed[damage])
    found, said = run()
    assert found.startswith("6.0 Counter()")
    assert said.count("LuceWarning: Compiled functions are damaged, and compiled again: ") == 1
    assert run()[1] == ""  # it was written anew


def test_a_damaged_file_of_data_alone(tmp_path):
    files = compiled._Files(str(tmp_path), "name", "stamp")
    files.save("key", ("compiled", 1))
    assert files.load("key") == ("compiled", 1)
    [data] = tmp_path.glob("*.nbc")
    data.write_bytes(data.read_bytes()[:-1] + b"!")
    with pytest.warns(LuceWarning, match="damaged"):
        assert files.load("key") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files.save("key", ("compiled", 2))
        assert files.load("key") == ("compiled", 2)
    assert Path(data).exists()


def test_a_cache_of_types_that_stood_elsewhere_is_compiled_anew(tmp_path, monkeypatch):
    """As after an update of luce, where what it had compiled lies beside files whose names have changed."""
    files = compiled._Files(str(tmp_path), "name", "stamp")
    monkeypatch.setattr(compiled, "Moved", type("Moved", (), {"__module__": compiled.__name__}), raising=False)
    files.save(compiled.Moved(), ("compiled", 1))
    monkeypatch.delattr(compiled, "Moved")
    assert files.load("key") is None
    files.save("key", ("compiled", 2))
    assert files.load("key") == ("compiled", 2)
