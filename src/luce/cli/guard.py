"""No command writes over a file that it reads, and no two of its outputs into one file."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from luce.errors import OutputError

OUTPUTS = (
    "out",
    "save",
    "per_query",
    "probabilities",
    "plot",
    "page",
    "win_matrix",
    "map_out",
    "arrivals_out",
    "request_log",
)
"""Parameters that name files to write, in all commands that read files."""
_GOES_ON = ("update", "checkpoint")
"""Parameters that name what a command goes on from: it may stand under the same name afterwards."""
_TEXTS = ("data", "base", "relation", "models", "shadow")
"""Parameters that are texts and may name files: patterns and addresses too, and NAME=FILE."""


def spares_inputs(command: Callable[..., None], outputs: tuple[str, ...] = OUTPUTS) -> Callable[..., None]:
    """The command, refused before any work where one of its `outputs` is a file that another parameter names."""

    @functools.wraps(command)
    def guarded(**given: Any) -> None:
        _check(given, outputs)
        command(**given)

    return guarded


def _check(given: Mapping[str, Any], outputs: tuple[str, ...]) -> None:
    written: set[Path] = set()
    for path in (path for name in outputs for path in _files(name, given.get(name))):
        if path in written:
            raise OutputError(f"Cannot write two results to {path}; give each of them a name of its own.")
        if path.is_file() or not path.exists():  # a device or pipe, such as /dev/null, takes anything
            written.add(path)
    for name, value in given.items():
        for path in () if name in (*outputs, *_GOES_ON) else _files(name, value):
            if path in written and path.is_file():
                raise OutputError(f"Cannot write {path}: this command reads it; give the output another name.")


def _files(parameter: str, value: Any) -> Iterator[Path]:
    """What a parameter names, as absolute paths without links."""
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, Path):
            yield Path(os.path.realpath(one))
        elif isinstance(one, str) and parameter in _TEXTS:
            yield Path(os.path.realpath(one.rpartition("=")[2]))
