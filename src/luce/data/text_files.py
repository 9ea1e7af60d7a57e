"""Small text files line by line, plain or gzipped, with errors that carry file and line."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from luce.errors import ParseError
from luce.storage import atomic_write

__all__ = ["finite_number", "numbered_lines", "write_text"]


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, text) of every line that is not blank; gzip is told by its first bytes, not by the name."""
    path = Path(path)
    found = False
    number = 0
    try:
        with _open(path) as stream:
            for number, line in enumerate(stream, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if "\0" in text:
                    raise ParseError(path, "this is a binary file; a text file was expected.", number)
                if text.strip():
                    found = True
                    yield number, text
    except UnicodeDecodeError as error:
        raise ParseError(path, "this is not UTF-8 text; a text file was expected.", number) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ParseError(path, "the gzip file is cut off or damaged.") from error
    except FileNotFoundError as error:
        raise ParseError(path, "no such file; check the name.") from error
    except OSError as error:
        raise ParseError(path, f"cannot be read ({error.strerror}).") from error
    if not found:
        raise ParseError(path, "the file is empty; at least one line was expected.")


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    with open(path, "rb") as raw:
        if not raw.peek(2).startswith(b"\x1f\x8b"):  # peek, since a pipe cannot be rewound
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as stream:
            yield stream  # type: ignore[misc]


def finite_number(path: str | Path, line: int, what: str, text: str) -> float:
    """A finite number, or an error that says where it was expected."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ParseError(path, f"the {what} is {text!r}; a finite number was expected.", line)
    return value


@contextmanager
def write_text(path: str | Path) -> Iterator[IO[str]]:
    """Write a text file atomically, gzipped where the name ends in `.gz`."""
    if not str(path).endswith(".gz"):
        with atomic_write(path, "w") as stream:
            yield stream
        return
    # No time stamp in the header: the same content gives the same bytes.
    with (
        atomic_write(path) as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as stream,
    ):
        yield stream
