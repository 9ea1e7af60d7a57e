"""Streams of Python that Arrow reads from threads of its own, and that it has given back when a block ends.

Arrow reads ahead. A thread that is still at it when the interpreter ends asks for a lock that is no more, and the
process is aborted; so nothing of a reader may outlive the block in which it is used.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self

_LONGEST_WAIT = 10.0
"""Seconds; a read that is under way ends in a few thousandths of one."""
_open: weakref.WeakSet[Loan] = weakref.WeakSet()


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the end."""
        ...


class _Tap:
    """What reaches the stream, until it is shut: then the stream seems to have ended."""

    def __init__(self, stream: Readable) -> None:
        self._stream, self._lock, self._shut = stream, threading.Lock(), False

    def read(self, size: int = -1) -> bytes:
        with self._lock:
            return b"" if self._shut else self._stream.read(size)

    def shut(self) -> None:
        with self._lock:
            self._shut = True


class _File:
    """The file that Arrow holds; when it lets go of it, none of its threads will read again."""

    def __init__(self, tap: _Tap) -> None:
        # Not a method: an error of the stream keeps the frames that it passed, and so what they know as self.
        self.read, self.closed = tap.read, False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class Loan:
    """A stream for one table, or for a reader of batches, of Arrow.

    >>> import io
    >>> from pyarrow import csv
    >>> with Loan(io.BytesIO(b"a,b\\n1,2\\n")) as loan:
    ...     loan.read(csv.read_csv).to_pylist()
    [{'a': 1, 'b': 2}]
    """

    def __init__(self, stream: Readable) -> None:
        self._tap, self._reader = _Tap(stream), None
        self._files: list[weakref.ref[_File]] = []
        self._returned: deque[Any] = deque()

    def __enter__(self) -> Self:
        _open.add(self)
        return self

    def read(self, make: Callable[..., Any], **options: Any) -> Any:
        """What `make` reads from the stream, such as the table of `pyarrow.csv.read_csv`."""
        return make(self._lent(), **options)

    def _lent(self) -> Any:
        import pyarrow as pa

        file = _File(self._tap)
        # Arrow lets go of the file in one of its threads. A function that is not Python's own is called there, so
        # that the thread cannot be made to wait for another one before it has left the interpreter.
        self._files.append(weakref.ref(file, self._returned.append))
        return pa.PythonFile(file, mode="r")

    def open(self, make: Callable[..., Any], **options: Any) -> Self:
        """Keep the reader that `make` makes, such as `pyarrow.csv.open_csv`: this object is then its batches."""
        self._reader = self.read(make, **options)
        return self

    @property
    def schema(self) -> Any:
        """The names and types of the reader."""
        return self._reader.schema  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Any]:
        while self._reader is not None:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return
            yield batch

    def __exit__(self, *error: object) -> None:
        _open.discard(self)
        self._reader = None
        self._tap.shut()
        end = time.monotonic() + _LONGEST_WAIT
        while len(self._returned) < len(self._files) and time.monotonic() < end:
            time.sleep(0.0005)


@atexit.register
def _take_back() -> None:
    """What an error keeps open to the end, such as a generator of batches that nobody closed."""
    for loan in list(_open):
        loan.__exit__()
