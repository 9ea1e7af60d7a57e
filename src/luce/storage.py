"""One file format for everything that luce keeps: models, checkpoints and memory-mapped data.

A container is a safetensors file: a length-prefixed JSON header, then raw little-endian arrays. Nothing in it is
executable. Its `__metadata__` holds one JSON text, `luce`, with the kind of content, the format version, the
settings, and a checksum of the arrays; a text `signature` may stand beside it (see `luce.signing`).
Files are written under a temporary name in the same folder and then moved, so a
reader sees the old file or the new one, never a part.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.errors import LuceError, ModelFormatError, OutputError

FORMAT_VERSION = (1, 0)
"""Major: older readers must refuse. Minor: older readers may go on."""

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "I64": "<i8",
    "I32": "<i4",
    "U32": "<u4",
    "I16": "<i2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_CODES = {np.dtype(value): key for key, value in _DTYPES.items()}
_MAX_HEADER = 100_000_000
_LONGEST_NAME = 255


class Container(NamedTuple):
    """Kind of content, its settings and its arrays."""

    kind: str
    settings: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def make_folder(folder: Path) -> Path:
    """The folder, made where it is not there yet."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"Cannot write into {folder}: it is a file; give a folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"Cannot make the folder {folder}: {error.strerror}; give another one.") from error
    return folder


def check_output(path: str | Path) -> Path:
    """Fail before long work, not after it: the folder of an output must exist and be writable."""
    path = Path(path)
    folder = path.parent
    if len(os.fsencode(path.name)) > _LONGEST_NAME:
        raise OutputError(
            f"Cannot write {path.name[:40]}...: the name has {len(os.fsencode(path.name))} bytes; give one of at most "
            f"{_LONGEST_NAME}."
        )
    if not folder.is_dir():
        raise OutputError(f"Cannot write {path}: the folder {folder} does not exist; create it first.")
    if path.is_dir():
        raise OutputError(f"Cannot write {path}: it is a folder; give the name of a file.")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"Cannot write {path}: the folder {folder} is not writable; choose another one.")
    return path


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb", *, durable: bool = True) -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` that takes its name when the block ends without an error.

    `durable=False` does not wait for the disk: after a power cut the file may be torn, which is for files whose reader
    checks them and can do without.
    """
    path = check_output(path)
    if path.exists() and not path.is_file():
        # A device or pipe (/dev/stdout, /dev/full) cannot be replaced; write to it as it is.
        with _output_errors(path), open(path, mode, encoding=None if "b" in mode else "utf-8") as stream:
            yield stream
        return
    temporary = ""
    try:
        with _output_errors(path):
            handle, temporary = _new_file_beside(path)
            with os.fdopen(handle, mode, encoding=None if "b" in mode else "utf-8") as stream:
                yield stream
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
            os.replace(temporary, path)
            temporary = ""
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def _output_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OutputError(f"Cannot write {path}: the disk is full; free some space and try again.") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise OutputError(f"Cannot write {path}: permission denied; choose another place.") from error
        raise OutputError(f"Cannot write {path}: {error.strerror or error}; choose another place.") from error


def _new_file_beside(path: Path) -> tuple[int, str]:
    """A file under a name that nothing else has, and its descriptor.

    `tempfile` would make it readable for its owner alone; the user's mask, which would then have to be applied by hand,
    can only be asked for by changing it for all threads.
    """
    while True:
        name = os.path.join(path.parent, f".{path.name[:50]}.{os.urandom(4).hex()}.part")
        try:
            return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), name
        except FileExistsError:
            continue


def write_container(
    path: str | Path,
    kind: str,
    settings: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    durable: bool = True,
    sign: Callable[[bytes], str] | None = None,
) -> None:
    """Write a container atomically; arrays keep their dtype. `sign` makes a signature of a message."""
    whole = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    checksum = 0
    for array in whole.values():
        checksum = zlib.crc32(array.data, checksum)
    digest = _digest(whole) if sign else b""
    with atomic_write(path, durable=durable) as stream:
        layout = {name: (a.dtype, a.shape) for name, a in whole.items()}
        stream.write(_header(kind, settings, layout, checksum, sign=sign, digest=digest)[0])
        for array in whole.values():
            stream.write(array.data)


def _digest(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    found = hashlib.sha512()
    for array in arrays.values():
        found.update(array.data if array.size else b"")
    return found.digest()


def _message(luce: str, entries: Mapping[str, Any], digest: bytes) -> bytes:
    """What a signature is of: all that a reader takes from a file, whatever the spelling of its header."""
    places = json.dumps(entries, sort_keys=True).encode()
    return b"luce container 1\n" + b"".join(hashlib.sha512(part).digest() for part in (luce.encode(), places)) + digest


class ContainerWriter:
    """Fills the arrays of a container piece by piece, in any order."""

    def __init__(self, stream: IO[bytes], places: Mapping[str, int], layout: Mapping[str, Layout]) -> None:
        self._stream = stream
        self._places = places
        self._layout = layout

    def write(self, name: str, first: int, block: NDArray[Any]) -> None:
        """Write rows of an array, from row `first` on."""
        dtype, shape = self._layout[name]
        if block.dtype != dtype or block.shape[1:] != shape[1:] or first + len(block) > shape[0]:
            raise ValueError(f"rows {block.dtype}{block.shape} from {first} do not fit array {name!r} {dtype}{shape}")
        row_bytes = block.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        self._stream.seek(self._places[name] + first * row_bytes)
        self._stream.write(np.ascontiguousarray(block).data)


Layout = tuple[np.dtype[Any], tuple[int, ...]]
"""Type and shape of an array that is still to be written."""


@contextmanager
def stream_container(
    path: str | Path, kind: str, settings: Mapping[str, Any], layout: Mapping[str, Layout]
) -> Iterator[ContainerWriter]:
    """Write a container whose arrays are larger than memory; every row must be written before the block ends."""
    with atomic_write(path, "w+b") as stream:
        header, places = _header(kind, settings, layout, _LARGEST_CHECKSUM)
        stream.write(header)
        yield ContainerWriter(stream, places, layout)
        stream.seek(len(header))
        checksum = 0
        while piece := stream.read(1 << 20):
            checksum = zlib.crc32(piece, checksum)
        stream.seek(0)
        stream.write(_header(kind, settings, layout, checksum, len(header))[0])


_LARGEST_CHECKSUM = 2**32 - 1


def _header(
    kind: str,
    settings: Mapping[str, Any],
    layout: Mapping[str, Layout],
    checksum: int,
    length: int = 0,
    *,
    sign: Callable[[bytes], str] | None = None,
    digest: bytes = b"",
) -> tuple[bytes, dict[str, int]]:
    """The header, padded to `length`, and where in the file each array starts."""
    entries: dict[str, Any] = {}
    position = 0
    for name, (dtype, shape) in layout.items():
        code = _CODES.get(dtype)
        if code is None:
            raise TypeError(f"array {name!r} has dtype {dtype}; a container holds {sorted(_DTYPES)}")
        end = position + dtype.itemsize * math.prod(shape)
        entries[name] = {"dtype": code, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(settings)  # once: the history of a long training takes more time than all the rest
    luce = json.dumps({"kind": kind, "format": list(FORMAT_VERSION), "crc32": checksum})[:-1]
    luce += f', "settings": {text}, "settings_crc32": {zlib.crc32(text.encode())}}}'
    metadata = {"luce": luce} if sign is None else {"luce": luce, "signature": sign(_message(luce, entries, digest))}
    header = json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + 8) % 64)  # arrays start on a cache line, so that a memory map is aligned
    header += b" " * (length - len(header) - 8)
    places = {name: len(header) + 8 + entry["data_offsets"][0] for name, entry in entries.items()}
    return struct.pack("<Q", len(header)) + header, places


def container_kind(path: str | Path) -> str | None:
    """What a container holds ("data", "ranker", ...), or None for a file that is no container of luce."""
    path = Path(path)
    with open(path, "rb") as stream:
        try:
            luce = _luce_of(_read_header(path, stream, path.stat().st_size)[0].get("__metadata__"))
        except (ValueError, RecursionError):
            return None
    kind = luce.get("kind") if isinstance(luce, dict) else None
    return kind if isinstance(kind, str) else None


def _luce_of(metadata: Any) -> Any:
    """What luce says of a file in its header; None where it says nothing."""
    text = metadata.get("luce") if isinstance(metadata, dict) else None
    return json.loads(text) if isinstance(text, str) else None


def read_container(
    path: str | Path,
    kind: str,
    *,
    memory_map: bool = False,
    verify: bool = True,
    check: Callable[[bytes, str | None], None] | None = None,
) -> Container:
    """Read a container, or raise `ModelFormatError` for anything that is not one, whatever its bytes.

    `memory_map=True` maps the arrays read-only instead of reading them (data larger than memory); `verify` checks the
    checksum, which reads every byte. `check` is given the message that a signature is of, and the signature.
    """
    path = Path(path)
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        header, start = _read_header(path, stream, size)
        metadata = header.pop("__metadata__", None)
        luce = _read_settings(path, metadata, kind)
        arrays, end = {}, start
        for name, entry in header.items():
            dtype, shape, first, last = _read_entry(path, name, entry, end - start)
            end = start + last
            if end > size:
                raise _damaged(path, f"the array {name!r} is cut off")
            arrays[name] = (dtype, shape, start + first)
        if end != size:
            raise _damaged(path, f"{size - end} bytes follow the last array")
        if memory_map:
            loaded = {
                n: np.memmap(path, d, "r", o, s) if np.prod(s) else np.empty(s, d) for n, (d, s, o) in arrays.items()
            }
        else:
            loaded = {name: _read_array(stream, *where) for name, where in arrays.items()}
    if verify:
        checksum = 0
        for array in loaded.values():
            checksum = zlib.crc32(array.data if array.size else b"", checksum)
        if checksum != luce.get("crc32"):
            raise _damaged(path, "the checksum does not match")
    if check is not None:
        signature = metadata.get("signature")
        check(_message(metadata["luce"], header, _digest(loaded)), signature if isinstance(signature, str) else None)
    return Container(kind, luce["settings"], loaded)


@contextmanager
def restoring(path: str | Path) -> Iterator[None]:
    """Around what is made of settings and arrays of a file: whatever that raises, the file does not fit this luce."""
    try:
        yield
    except ModelFormatError as error:
        text = str(error)
        raise error if text.startswith(str(path)) else ModelFormatError(f"{path}: {text}") from error
    except (LuceError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = (str(error) or type(error).__name__).rstrip(".")
        raise ModelFormatError(f"{path} holds something that this luce cannot rebuild: {reason}.") from error


def _damaged(path: Path, why: str) -> ModelFormatError:
    return ModelFormatError(f"{path} is not a file that luce can read, or it is damaged: {why}.")


_BEGINNINGS = {
    b"tree\nversion=": "a text model of LightGBM, which lightgbm.Booster reads",
    b"PAR1": "a Parquet table; luce.read reads its data",
    b"ARROW1": "an Arrow table; luce.read reads its data",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "packed by gzip",
    b"\x80\x04": "a Python pickle, which luce does not open",
    b"\x80\x05": "a Python pickle, which luce does not open",
}
_TABLE_LINE = re.compile(rb"[^\x00-\x08\x0e-\x1f]*[,;\t|][^\x00-\x08\x0e-\x1f]*")
_LETOR_LINE = re.compile(rb"[-+.\deE]+ +(qid:\S+|\d+:\S+)[^\x00-\x08\x0e-\x1f]*")


def _foreign(head: bytes) -> str:
    """What a file that begins like this is, where it is no file of luce but a usual one; "" where nobody knows.

    >>> _foreign(b"qid,label,price\\n"), _foreign(b"tree\\nversion=v4\\n")[:24], _foreign(bytes(9))
    ('a table of text (CSV); luce.read reads its data', 'a text model of LightGBM', '')
    """
    if head[8:9] == b"{" and b"\0" in head[:8]:  # the length of a header, and the header
        return ""
    known = next((what for begin, what in _BEGINNINGS.items() if head.startswith(begin)), "")
    line = head.replace(b"\r", b"\n").partition(b"\n")[0]
    if not known and _LETOR_LINE.fullmatch(line):
        return "judged documents (LETOR); luce.read reads them"
    if not known and head[:1] not in (b"{", b"[") and _TABLE_LINE.fullmatch(line):
        return "a table of text (CSV); luce.read reads its data"
    return known


def _read_header(path: Path, stream: IO[bytes], size: int) -> tuple[dict[str, Any], int]:
    what = _foreign(stream.read(4096))
    if what:
        raise ModelFormatError(f"{path} is no file that luce saved but {what}.")
    stream.seek(0)
    prefix = stream.read(8)
    if len(prefix) < 8:
        raise _damaged(path, f"it has only {size} bytes")
    (length,) = struct.unpack("<Q", prefix)
    if length > min(size - 8, _MAX_HEADER):
        raise _damaged(path, "its header is longer than the file")
    try:
        header = json.loads(stream.read(length))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not an object")
    return header, 8 + length


def _read_settings(path: Path, metadata: Any, kind: str) -> dict[str, Any]:
    try:
        luce = _luce_of(metadata)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its settings are not JSON") from error
    if not isinstance(luce, dict) or not isinstance(luce.get("settings"), dict):
        raise _damaged(path, "it carries no settings of luce")
    version = luce.get("format")
    if not (isinstance(version, list) and len(version) == 2 and all(type(v) is int for v in version)):
        raise _damaged(path, "it has no format version")
    if version[0] > FORMAT_VERSION[0]:
        raise ModelFormatError(
            f"{path} has format version {version[0]}.{version[1]}, and this luce reads versions up to "
            f"{FORMAT_VERSION[0]}.x; update luce to read it."
        )
    if luce.get("settings_crc32") != zlib.crc32(json.dumps(luce["settings"]).encode()):
        raise _damaged(path, "the checksum of its settings does not match")
    if luce.get("kind") != kind:
        raise ModelFormatError(f"{path} holds {luce.get('kind')!r}, and {kind!r} was expected.")
    return luce


def _read_entry(path: Path, name: str, entry: Any, expected: int) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str) or entry["dtype"] not in _DTYPES:
        raise _damaged(path, f"the array {name!r} has an unknown type")
    shape, span = entry.get("shape"), entry.get("data_offsets")
    if not (isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and 0 <= n < 2**48 for n in shape)):
        raise _damaged(path, f"the array {name!r} has an impossible shape")
    if not (isinstance(span, list) and len(span) == 2 and all(type(n) is int for n in span)):
        raise _damaged(path, f"the array {name!r} has no place")
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    if math.prod(n or 1 for n in shape) >= 2**48:  # also where it holds nothing: no array can have such a shape
        raise _damaged(path, f"the array {name!r} has an impossible shape")
    count = math.prod(shape)
    if span[0] != expected or span[1] != expected + count * dtype.itemsize:
        raise _damaged(path, f"the array {name!r} does not fit its place")
    return dtype, tuple(shape), span[0], span[1]


def _read_array(stream: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> NDArray[Any]:
    array = np.empty(shape, dtype)
    if array.size:
        stream.seek(offset)
        stream.readinto(array.reshape(-1).view(np.uint8).data)  # type: ignore[attr-defined]
    return array
