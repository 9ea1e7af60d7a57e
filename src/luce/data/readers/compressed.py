"""Bytes of a file, plain or compressed; what it is, its first bytes say, not its name."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from luce.errors import DataError, ParseError

__all__ = ["SUFFIXES", "ByteStream", "absent", "open_bytes", "open_input"]

SUFFIXES = (".gz", ".zst", ".bz2")
_PIECE = 1 << 16


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


def _errors(encoding: str) -> tuple[type[Exception], ...]:
    if encoding == "zstd":
        import zstandard

        return (zstandard.ZstdError,)
    return (zlib.error, OSError, ValueError, EOFError)


_DECODERS: tuple[tuple[bytes, str, Callable[[], Any]], ...] = (
    (b"\x1f\x8b", "gzip", lambda: zlib.decompressobj(wbits=31)),
    (b"BZh", "bzip2", bz2.BZ2Decompressor),
    (b"\x28\xb5\x2f\xfd", "zstd", _zstd),
)


def absent(path: Path) -> DataError:
    """What to say of a file that is not there, but perhaps compressed beside it."""
    packed = next((path.name + suffix for suffix in SUFFIXES if path.with_name(path.name + suffix).exists()), None)
    advice = "check the name" if packed is None else f"there is {packed}, give that"
    return DataError(f"{path} does not exist; {advice}.")


@contextmanager
def open_input(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, with one sentence for each way in which that fails."""
    path = Path(path)
    try:
        stream = open(path, "rb", buffering=0)  # noqa: SIM115 (closed below)
    except FileNotFoundError as error:
        raise absent(path) from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; give the name of a file in it.") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}.") from error
    with stream:
        yield stream


class ByteStream:
    """`read(n)` gives about n decompressed bytes, and none at the end.

    The three decompressors share one protocol (`decompress`, `eof`, `unused_data`), which, unlike the file objects
    built on them, tells a truncated file from a complete one for all three.
    """

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self.path = path
        self._stream = stream
        head = stream.read(8)
        while len(head) < 8 and (more := stream.read(8 - len(head))):
            head += more
        self._pending = head
        known = [(name, make) for magic, name, make in _DECODERS if head.startswith(magic)]
        self.encoding: str = known[0][0] if known else ""
        self._make: Callable[[], Any] | None = known[0][1] if known else None
        self._decoder: Any = self._make() if self._make else None

    def read(self, size: int) -> bytes:
        """About `size` bytes, at least one before the end of the file."""
        if self._decoder is None:
            pending, self._pending = self._pending, b""
            data = self._stream.read(max(size - len(pending), 0))
            return pending + data if pending else data
        parts, length = [], 0
        while length < size and (part := self._decoded()) is not None:
            parts.append(part)
            length += len(part)
        return b"".join(parts)

    def _decoded(self) -> bytes | None:
        """The next piece, perhaps empty; None at the end."""
        assert self._make is not None
        data = self._pending or self._stream.read(_PIECE)
        self._pending = b""
        if self._decoder is None or self._decoder.eof:
            if not data.strip(b"\0"):  # zeros pad some archives
                return None
            self._decoder = self._make()
        if not data:
            raise ParseError(
                self.path, f"the {self.encoding} data end too early; the file is truncated, copy it again."
            )
        try:
            part: bytes = self._decoder.decompress(data)
        except _errors(self.encoding) as error:
            message = f"the {self.encoding} data are damaged ({error}); copy the file again."
            raise ParseError(self.path, message) from error
        if self._decoder.eof:
            self._pending = self._decoder.unused_data
        return part


@contextmanager
def open_bytes(path: str | Path) -> Iterator[ByteStream]:
    """The decompressed bytes of a file.

    >>> import gzip, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(gzip.compress(b"1 qid:7 1:0.5")) and file.flush()
    ...     with open_bytes(file.name) as stream:
    ...         stream.encoding, stream.read(100)
    ('gzip', b'1 qid:7 1:0.5')
    """
    with open_input(path) as stream:
        yield ByteStream(Path(path), stream)
