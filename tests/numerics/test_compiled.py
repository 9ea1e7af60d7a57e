"""Kernels: parts are plain functions in Python, and the cache on disk notices what a kernel is made of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import luce
from luce.numerics.compiled import fingerprint, kernel, part
from luce.numerics.fast_exp import softplus

MODULE = {
    "luce_constants.py": "SCALE = {scale}",
    "luce_parts.py": """
        from luce.numerics.compiled import part
        from luce_constants import SCALE

        @part
        def inner(x):
            return {inner}
    """,
    "luce_kernels.py": """
        from luce.numerics.compiled import kernel
        from luce_parts import inner

        @kernel
        def outer(x):
            return inner(x) + 1.0
    """,
}


def write(folder, scale: float, inner: str) -> None:
    for name, text in MODULE.items():
        path = folder / name
        text = textwrap.dedent(text.format(scale=scale, inner=inner))
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def run(folder) -> list[str]:
    """What a new process computes, and how often it loaded the kernel from disk and compiled it."""
    code = "from luce_kernels import outer; print(outer(3.0), *map(sum, map(dict.values, outer.stats[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.split()


def test_a_change_elsewhere_is_noticed(tmp_path):
    write(tmp_path, 2.0, "SCALE * x")
    assert run(tmp_path) == ["7.0", "0", "1"]
    assert run(tmp_path) == ["7.0", "1", "0"]
    write(tmp_path, 5.0, "SCALE * x")
    assert run(tmp_path) == ["16.0", "0", "1"]
    write(tmp_path, 5.0, "SCALE - x")
    assert run(tmp_path) == ["3.0", "0", "1"]
    assert run(tmp_path) == ["3.0", "1", "0"]


def test_a_part_is_a_plain_function_in_python():
    @part(reorder=True)
    def twice(x):
        return 2.0 * x

    @kernel
    def outer(x):
        return twice(x) + softplus(x)

    assert twice(1.5) == 3.0
    assert outer(0.5) == twice(0.5) + softplus(0.5)


def test_fingerprint_sees_code_and_not_comments():
    texts = ["def f(x):\n    return x + 1", "def f(x):\n    # more\n    return x + 1", "def f(x):\n    return x + 2"]
    made = []
    for text in texts:
        names: dict[str, object] = {"__name__": "luce.made"}
        exec(text, names)
        made.append(fingerprint(names["f"]))
    assert made[0] == made[1] != made[2]


def test_kernels_are_compiled_in_one_way_only():
    """Whatever is compiled goes through `kernel` and `part`, whose cache notices changes in other files."""
    package = Path(luce.__file__).parent
    decorators = re.compile(r"^\s*(from numba import|import numba\b)|\b(n?jit|g?u?vectorize|cfunc|stencil)\(", re.M)
    assert [path.name for path in package.rglob("*.py") if decorators.search(path.read_text())] == ["compiled.py"]


@pytest.mark.parametrize("version", ["0.67.0", "0.70.1"])
def test_other_versions_of_numba_compile_parts_its_own_way(version, tmp_path):
    """The same numbers, without what hangs on the inside of one version."""
    script = f"""
import numba; numba.__version__ = {version!r}
import luce, numpy as np
from luce.numerics import compiled
assert not compiled.COMPILES_PARTS
value, grad = luce.losses.get("pmop").value_and_grad(np.arange(5.0) * 0.3, [2, 1, 1, 0, 0])
print(repr(value), grad.tolist())
"""
    value, grad = luce.losses.get("pmop").value_and_grad(np.arange(5.0) * 0.3, [2, 1, 1, 0, 0])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True, timeout=300
    )
    assert found.stdout.strip() == f"{value!r} {grad.tolist()}"
