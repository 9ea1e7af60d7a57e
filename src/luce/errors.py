"""What can go wrong, as one small hierarchy.

Every message is one sentence that says what was given, what is allowed and what to do. The command line prints
it and exits with code 2; anything that is not a `LuceError` is a defect of luce itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "DataError",
    "LuceError",
    "LuceWarning",
    "MissingExtraError",
    "ModelFormatError",
    "OutputError",
    "OwnPartError",
    "ParseError",
    "RowsError",
    "SettingError",
    "UnknownNameError",
    "of_user",
]


class LuceError(Exception):
    """Base of all errors that a user can cause and mend.

    What a file holds may stand in the message: it stays one line, and a word without end is cut in the middle.
    """

    def __init__(self, *said: object) -> None:
        super().__init__(*(_one_line(part) if isinstance(part, str) else part for part in said))


def _one_line(text: str) -> str:
    return _ENDLESS.sub(lambda word: f"{word[0][:80]}...{word[0][-20:]}", _LINE_END.sub(" ", text))


_LINE_END, _ENDLESS = re.compile(r"\s*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]\s*"), re.compile(r"\S{400,}")


class DataError(LuceError, ValueError):
    """The data do not have the form that was asked for."""


class KindError(DataError, TypeError):
    """Data of a kind that holds no numbers: an object, a sparse matrix."""


class ParseError(DataError):
    """A file cannot be read; carries where."""

    def __init__(self, path: str | Path, message: str, line: int | None = None) -> None:
        self.path = str(path)
        self.line = line
        self._message = message
        where = self.path if line is None else f"{self.path}, line {line}"
        super().__init__(f"{where}: {message}")

    def __reduce__(self) -> tuple[type[ParseError], tuple[str, str, int | None]]:
        # Errors cross from processes of a cluster; by default they would be made of their text alone.
        return type(self), (self.path, self._message, self.line)


class RowsError(DataError):
    """About a query and some of its rows, by number; who has their names can say them.

    >>> error = RowsError("{query}: {documents} are twice there.", 1, [4, 6])
    >>> str(error)
    'Query 1 (counted from 0): rows 4 and 6 are twice there.'
    >>> str(error.named(["q7", "q9"], list("abcdefg")))
    "Query 'q9': documents 'e' and 'g' are twice there."
    """

    def __init__(self, what: str, query: int, rows: Sequence[int] = ()) -> None:
        self.what, self.query, self.rows = what, query, rows
        documents = _listed("row", [str(row) for row in rows])
        super().__init__(what.format(query=f"Query {query} (counted from 0)", documents=documents))

    def named(self, query_ids: Sequence[str], document_names: Sequence[str]) -> DataError:
        """The same error with the names of query and documents."""
        documents = _listed("document", [repr(str(document_names[row])) for row in self.rows])
        return DataError(self.what.format(query=f"Query {str(query_ids[self.query])!r}", documents=documents))

    def __reduce__(self) -> tuple[type[RowsError], tuple[str, int, Sequence[int]]]:
        return type(self), (self.what, self.query, self.rows)


def _listed(noun: str, names: list[str]) -> str:
    plural = "" if len(names) == 1 else "s"
    return f"{noun}{plural} " + (" and " if len(names) <= 2 else ", ").join(names)


class SettingError(LuceError, ValueError):
    """A parameter has a value that is not allowed."""


class UnknownNameError(SettingError):
    """A name that no registry knows."""


class ModelFormatError(LuceError, ValueError):
    """A model or checkpoint file is damaged, hostile, or of a newer version."""


class OutputError(LuceError, OSError):
    """An output cannot be written: folder missing, not writable, disk full."""


class MissingExtraError(LuceError, ImportError):
    """An optional dependency is needed and not installed; names the install command."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency: install it with `pip install 'luce[{extra}]'`.")


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Around imports of an optional dependency: where it is missing, the error says how to install it."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(what, extra) from error


class OwnPartError(LuceError, RuntimeError):
    """A part that a user wrote, or an estimator of others, raised an error, which is the cause of this one."""


@contextmanager
def of_user(what: str) -> Iterator[None]:
    """Around a call of code that is not luce's: whatever it raises is said to be its own.

    >>> with of_user("The loss 'mine'"):
    ...     {}["key"]
    Traceback (most recent call last):
        ...
    luce.errors.OwnPartError: The loss 'mine' raised KeyError: 'key'
    """
    try:
        yield
    except LuceError:
        raise
    except (Exception, SystemExit) as error:  # nobody knows what the code of others raises
        raise OwnPartError(f"{what} raised {type(error).__name__}: {' '.join(str(error).split())}") from error


class LuceWarning(UserWarning):
    """Something the user should know, where the work goes on."""
