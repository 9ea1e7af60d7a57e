"""What a stored result rests on: digests of the code that its run imported and of the data files that it read.

A digest of code leaves out comments, docstrings and empty lines, so that better words do not make a result stale.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import sys
import time
import tokenize
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Stamp", "bare", "code_digest", "data_digest", "files_read", "imported", "stamp"]

Stamp = dict[str, Any]
_READ: set[str] = set()
_BEGAN = time.time()


def _watch(event: str, given: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(given[0], str | os.PathLike):
        _READ.add(os.fspath(given[0]))


sys.addaudithook(_watch)


def files_read(folder: Path) -> list[str]:
    """The files of a folder that this process has opened so far, by their path inside it."""
    inside = os.path.abspath(folder) + os.sep
    paths = {os.path.abspath(path) for path in _READ}
    return sorted(path.removeprefix(inside) for path in paths if path.startswith(inside))


def imported(package: str = "luce") -> list[str]:
    """The modules of a package that this process has imported so far."""
    return sorted(name for name in sys.modules if name == package or name.startswith(package + "."))


def bare(text: str) -> str:
    """Source without comments, docstrings, empty lines and what trails a line."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        for first in getattr(node, "body", None) if isinstance(getattr(node, "body", None), list) else ():
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines[first.lineno - 1 : first.end_lineno] = [""] * (
                    (first.end_lineno or first.lineno) - first.lineno + 1
                )
    return "\n".join(line.rstrip() for line in lines if line.strip())


@cache
def _bare_file(path: Path, changed: int) -> str:
    """That of a file, as it was when it was changed last."""
    return bare(path.read_text())


def code_digest(modules: Iterable[str], root: Path) -> str:
    """Of the source of modules; one that is there no more counts as empty."""
    total = hashlib.sha256()
    for name in sorted(modules):
        stem = root / Path(*name.split("."))
        found = next((path for path in (stem / "__init__.py", stem.with_suffix(".py")) if path.exists()), None)
        total.update(f"{name}\n{'' if found is None else _bare_file(found, found.stat().st_mtime_ns)}\n".encode())
    return total.hexdigest()[:16]


def data_digest(files: Iterable[str], folder: Path) -> str | None:
    """Of the bytes of data files; None where one is not at hand."""
    total = hashlib.sha256()
    for name in sorted(files):
        if not (folder / name).exists():
            return None
        total.update(f"{name}\n{hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def stamp(sources: Path, data: Path) -> Stamp:
    """What a result that was computed just now rests on."""
    modules, files = imported(), files_read(data)
    # What was edited while it ran is not what ran.
    edited = any((file := sys.modules[name].__file__) and os.path.getmtime(file) > _BEGAN for name in modules)
    found = {"modules": modules, "code": None if edited else code_digest(modules, sources)}
    return found | {"files": files, "data": data_digest(files, data)}
