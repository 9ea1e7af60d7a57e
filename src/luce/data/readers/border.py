"""The border around every reader: what other libraries raise becomes a sentence with the file.

A reader says by itself what it can name better, with the line. This is for the rest: whatever bytes a file holds, it is
read or refused by a `luce.errors.DataError`.
"""

from __future__ import annotations

import csv
import functools
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from luce.errors import DataError, LuceError, ParseError

P = ParamSpec("P")
R = TypeVar("R")

# Arrow's errors are all derived from these: ArrowInvalid is a ValueError, ArrowKeyError a KeyError, and so on.
FOREIGN = (
    ValueError,  # UnicodeError, json.JSONDecodeError, int() of 5,000 digits
    ArithmeticError,
    RecursionError,
    LookupError,
    TypeError,
    NotImplementedError,
    OSError,
    EOFError,
    MemoryError,
    zlib.error,
    csv.Error,
)
"""What other libraries raise at a file or a column."""


@contextmanager
def border(path: str | Path | None, wanted: str = "") -> Iterator[None]:
    """Turn errors of other libraries into a `ParseError` of this file; `wanted` says what was expected.

    Without a path it is a table in memory that cannot be read.

    >>> with border("x.json", "a list of numbers"):
    ...     int("9" * 5000)
    Traceback (most recent call last):
    ...
    luce.errors.ParseError: x.json: cannot be read as a list of numbers: Exceeds the limit ...
    """
    try:
        yield
    except LuceError:
        raise
    except FOREIGN as error:
        if path is None:
            raise DataError(f"The table cannot be read: {reason(error)}.") from error
        kind = f" as {wanted}" if wanted else ""
        raise ParseError(path, f"cannot be read{kind}: {reason(error)}.") from error


@contextmanager
def as_parse_error(path: str | Path) -> Iterator[None]:
    """What is wrong with the content of a file is said with its name."""
    try:
        yield
    except ParseError:
        raise
    except DataError as error:
        raise ParseError(path, str(error)) from error


def reason(error: BaseException) -> str:
    """What another library says, in one line.

    >>> reason(RecursionError("maximum recursion depth exceeded")), reason(KeyError("a"))
    ('it is nested too deeply', "'a'")
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split()).rstrip(".:") or type(error).__name__
    return text if len(text) <= 300 else text[:300] + "..."


def reader(read: Callable[Concatenate[str | Path, P], R]) -> Callable[Concatenate[str | Path, P], R]:
    """A function that reads the file of its first argument, with the border around it."""

    @functools.wraps(read)
    def bordered(path: str | Path, *args: P.args, **kwargs: P.kwargs) -> R:
        with border(path):
            return read(path, *args, **kwargs)

    return bordered  # type: ignore[return-value]  # `path` may be given by name, too
