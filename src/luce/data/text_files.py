"""Small text files line by line, plain or compressed, with errors that carry file and line."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from luce.data.readers.compressed import open_text
from luce.errors import ParseError
from luce.storage import atomic_write


def read_text(path: str | Path) -> str:
    """The whole text of a file, UTF-8 with or without a byte order mark; every line ends with a newline alone."""
    with open_text(path) as stream:
        text = stream.read_all().decode("utf-8-sig")
    if not text.strip():
        raise ParseError(path, "the file is empty; at least one line was expected.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, text) of every line that is not blank; how it is packed, its first bytes say."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            yield number, line


def number(text: str) -> float:
    """A number as files write it, NaN where it is none: Python would also take 1_000 and digits of other alphabets.

    >>> number(" 1e3 "), number("1_000"), number("²")
    (1000.0, nan, nan)
    """
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


def finite_number(path: str | Path, line: int, what: str, text: str) -> float:
    """A finite number, or an error that says where it was expected."""
    value = number(text)
    if not math.isfinite(value):
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise ParseError(path, f"the {what} is {shown!r}; a finite number was expected.", line)
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


def write_csv(path: str | Path, header: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
    """Write a table as CSV, atomically, gzipped where the name ends in `.gz`."""
    with write_text(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
