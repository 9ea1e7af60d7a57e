"""Files at the border: plain or packed bytes, text line by line, and errors that carry file and line.

What a file is, its first bytes say, not its name. What comes out is bounded: a file may grow to `MOST_BYTES` whatever
its size, and beyond that to `max_expansion()` times its size. Text is UTF-8 without NUL, over the whole file, so that
two names which differ stay two names; what is written in another encoding is read where that is said. Whatever bytes a
file holds, it is read or refused by a `luce.errors.DataError`.
"""

from __future__ import annotations

import codecs
import csv
import functools
import gzip
import io
import logging
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Concatenate, ParamSpec, TypeVar

from luce.data.late import pa
from luce.errors import DataError, LuceError, ParseError, SettingError
from luce.storage import atomic_write

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

    What is wrong with the content is said with the name of the file, too. Without a path it is a table in memory.

    >>> with border("x.json", "a list of numbers"):
    ...     int("9" * 5000)
    Traceback (most recent call last):
    ...
    luce.errors.ParseError: x.json: cannot be read as a list of numbers: Exceeds the limit ...
    """
    try:
        yield
    except LuceError as error:
        if type(error) is not DataError or path is None:
            raise
        raise ParseError(path, str(error)) from error
    except FOREIGN as error:
        if path is None:
            raise DataError(f"The table cannot be read: {reason(error)}.") from error
        kind = f" as {wanted}" if wanted else ""
        raise ParseError(path, f"cannot be read{kind}: {reason(error)}.") from error


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


SUFFIXES = (".gz", ".zst", ".bz2")
MOST_BYTES = 1 << 28
"""Every file may unpack to this much."""
_EXPANSION = 100.0
_VARIABLE = "LUCE_MAX_EXPANSION"
_PIECE = 1 << 16
_TOLD = 1 << 27
"""A large file says so often, in bytes, how far it is."""
log = logging.getLogger("luce.unpacking")
_AT_ONCE = 1 << 22


def max_expansion() -> float:
    """How many times its size a packed file may grow: 100, or what the variable LUCE_MAX_EXPANSION says."""
    text = os.environ.get(_VARIABLE, "")
    try:
        limit = float(text) if text else _EXPANSION
    except ValueError:
        limit = 0.0
    if not limit >= 1:
        raise SettingError(f"{_VARIABLE} is {text!r}; it must be a number of at least 1, such as 1000.")
    return limit


def text_encoding() -> str | None:
    """The encoding of texts that are not UTF-8, if the variable LUCE_ENCODING (`luce --encoding`) says one."""
    text = os.environ.get("LUCE_ENCODING", "")
    if not text:
        return None
    try:
        name = codecs.lookup(text).name
        "".encode(name)
    except LookupError:
        raise SettingError(f"There is no encoding {text!r}; give one that Python knows, such as latin-1.") from None
    return None if name == "utf-8" else name


def check_expansion(path: Path, packed: int, unpacked: int) -> None:
    """Refuse what grows out of proportion, before it fills the memory."""
    if unpacked > MOST_BYTES and unpacked > (limit := max_expansion()) * packed:
        raise ParseError(
            path,
            f"{packed:,} bytes unpack to more than {MOST_BYTES >> 20} MB and more than {limit:g} times their size; if "
            f"the file is to be trusted, give a larger number: `luce --max-expansion 1000 ...`, or the environment "
            f"variable {_VARIABLE}.",
        )


def plain_suffix(path: str | Path) -> str:
    """The ending that says the format, in lower case and without that of a compression.

    >>> plain_suffix("battles.CSV.gz"), plain_suffix("battles")
    ('.csv', '')
    """
    path = Path(path)
    return (Path(path.stem).suffix if path.suffix.lower() in SUFFIXES else path.suffix).lower()


_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
"""How a file is packed, by its first bytes."""


class UnopenedError(DataError):
    """A file that cannot be opened; the message names it."""


def absent(path: Path) -> DataError:
    """What to say of a file that is not there, but perhaps compressed beside it."""
    packed = next((path.name + suffix for suffix in SUFFIXES if path.with_name(path.name + suffix).exists()), None)
    advice = "check the name" if packed is None else f"there is {packed}, give that"
    return UnopenedError(f"{path} does not exist; {advice}.")


@contextmanager
def open_input(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, with one sentence for each way in which that fails."""
    path = Path(path)
    try:
        stream = open(path, "rb", buffering=0)  # noqa: SIM115 (closed below)
    except FileNotFoundError as error:
        raise absent(path) from error
    except IsADirectoryError as error:
        raise UnopenedError(f"{path} is a folder; give the name of a file in it.") from error
    except (OSError, ValueError) as error:
        raise UnopenedError(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}.") from error
    with stream:
        yield stream


class ByteStream:
    """`read(n)` gives n decompressed bytes, fewer before the end of the file and none at it."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self.path = path
        self._size, self._given = os.fstat(stream.fileno()).st_size, 0
        self._stream: Any = io.BufferedReader(stream, _PIECE)
        head = self._stream.peek(8)
        self.encoding = next((name for magic, name in _PACKED.items() if head.startswith(magic)), "")
        if self.encoding == "gzip":
            self._stream = gzip.GzipFile(fileobj=self._stream)
        elif self.encoding:
            packed = pa.PythonFile(self._stream, mode="r")
            self._stream = pa.CompressedInputStream(packed, "bz2" if self.encoding == "bzip2" else "zstd")

    def read(self, size: int) -> bytes:
        """At most `size` bytes, at least one before the end of the file."""
        if not self.encoding:
            return bytes(self._stream.read(size))
        try:
            data: bytes = self._stream.read(size)
        except (EOFError, OSError, ValueError, zlib.error) as error:
            if isinstance(error, EOFError) or "Truncated" in str(error):
                what = "end too early; the file is truncated, copy it again."
            else:
                what = f"are damaged ({error}); copy the file again."
            raise ParseError(self.path, f"the {self.encoding} data {what}") from error
        if (self._given + len(data)) // _TOLD > self._given // _TOLD:
            log.info("%s: %s MB unpacked", self.path.name, f"{(self._given + len(data)) / 1e6:,.0f}")
        self._given += len(data)
        check_expansion(self.path, self._size, self._given)
        return data

    def read_all(self) -> bytes:
        """Everything that is left."""
        return b"".join(iter(lambda: self.read(_AT_ONCE), b""))


class TextStream(ByteStream):
    """As `ByteStream`, and every byte is checked: UTF-8 without NUL, also where the file has another encoding."""

    def __init__(self, path: Path, stream: IO[bytes], encoding: str | None = None) -> None:
        super().__init__(path, stream)
        self._lines = 1
        self._cut = b""
        wanted = encoding or text_encoding()
        self._other = codecs.getincrementaldecoder(wanted)() if wanted is not None else None
        self.is_plain = not self.encoding and self._other is None
        """Whether the file holds these very bytes."""

    def read(self, size: int) -> bytes:
        """About `size` bytes; an error with the line where they are no text."""
        data = super().read(size)
        if self._other is not None:
            data = self._recoded(self._other, data, size)
        whole = self._cut + data
        where = whole.find(b"\0")
        if where >= 0:
            is_wide = self._lines == 1 and whole[:2] in (b"\xff\xfe", b"\xfe\xff")
            what = "UTF-16 text; say so (`luce --encoding utf-16 ...`), or save the file as UTF-8"
            binary = "a binary file (it holds a NUL); text was expected"
            raise ParseError(self.path, f"this is {what if is_wide else binary}.", self._line(whole, where))
        self._cut = b""
        if not whole.isascii():
            try:
                _, used = codecs.utf_8_decode(whole, "strict", not data)
            except UnicodeDecodeError as error:
                byte = whole[error.start : error.start + 1]
                letter = byte.decode("latin-1")
                looks = f", {letter!r} in Latin-1" if letter.isalpha() else ""
                raise ParseError(
                    self.path,
                    f"this is not UTF-8 text (byte 0x{byte.hex()}{looks}); save the file as UTF-8, or say what it is: "
                    "`luce --encoding latin-1 ...`, or the environment variable LUCE_ENCODING.",
                    self._line(whole, error.start),
                ) from error
            self._cut = whole[used:]
        self._lines += data.count(b"\n")
        return data

    def _recoded(self, decoder: codecs.IncrementalDecoder, data: bytes, size: int) -> bytes:
        """The same text in UTF-8."""
        while True:
            try:
                found = decoder.decode(data, not data).encode()
            except UnicodeError as error:
                message = f"this is not {text_encoding() or 'such'} text ({error}); give its encoding by --encoding."
                raise ParseError(self.path, message, self._lines) from error
            if found or not data:
                return found
            data = super().read(size)

    def _line(self, text: bytes, where: int) -> int:
        return self._lines + text.count(b"\n", 0, where)


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


def first_bytes(path: str | Path, size: int) -> bytes:
    """The beginning of a file, unpacked, and as UTF-8 where another encoding of texts was said."""
    with open_bytes(path) as stream:
        head = stream.read(size)[:size]
    encoding = text_encoding()
    if encoding is None or head.startswith((b"PAR1", b"ARROW1")):
        return head.removeprefix(b"\xef\xbb\xbf")
    return head.decode(encoding, "ignore").encode()


_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet", ".feather": "feather"}
_ENDINGS[".arrow"] = "feather"
_CSV = (".csv", ".tsv", ".tab")
TABLE_SUFFIXES = (*_CSV, *_ENDINGS)
"""Endings that say that a file is a table."""


def table_kind(path: str | Path) -> str:
    """One of csv, jsonl, json, parquet and feather: by the first bytes, and by the name where they say nothing."""
    head = first_bytes(path, 4096).lstrip()
    if not head:
        raise ParseError(path, "the file is empty; a table with the names of its columns was expected.")
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "feather"
    by_name = _ENDINGS.get(plain_suffix(path))
    if by_name is None and plain_suffix(path) not in _CSV:
        by_name = "jsonl" if head.startswith(b"{") else "json" if head.startswith(b"[") else None
    return by_name or "csv"


def is_table(path: str | Path) -> bool:
    """Whether the name or the first bytes of a file say that it is a table; other text may be of lines or words."""
    return plain_suffix(path) in TABLE_SUFFIXES or table_kind(path) != "csv"


@contextmanager
def open_text(path: str | Path, encoding: str | None = None) -> Iterator[TextStream]:
    """The decompressed bytes of a file of text as UTF-8, checked as they are read."""
    with open_input(path) as stream:
        yield TextStream(Path(path), stream, encoding)


def read_text(path: str | Path) -> str:
    """The whole text of a file, UTF-8 with or without a byte order mark; every line ends with a newline alone."""
    with open_text(path) as stream:
        text = stream.read_all().decode("utf-8-sig")
    if not text.strip():
        raise ParseError(path, "the file is empty; at least one line was expected.")
    return with_newlines(text)


def with_newlines(text: str) -> str:
    """The same text, of which every line ends with a newline alone."""
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
        gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, filename="", mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as stream,
    ):
        yield stream


def write_csv(path: str | Path, header: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
    """Write a table as CSV, atomically, gzipped where the name ends in `.gz`."""
    with write_text(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
