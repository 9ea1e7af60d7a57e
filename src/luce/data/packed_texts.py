"""Ids and names as arrays that a container holds: whole numbers, fixed-width characters that map, or ragged UTF-8."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError

_LAST_CHARACTER = 0x10FFFF


def pack_texts(name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """One or two arrays for a vector of ids.

    >>> list(pack_texts("ids", np.array([4, 5]))), list(pack_texts("ids", np.array(["a", "bc"])))
    (['ids'], ['ids'])
    """
    if values.dtype.kind in "iu" and values.dtype != np.uint64:
        return {name: values.astype(np.int64)}
    if values.dtype.kind == "U":
        fixed = np.ascontiguousarray(values)
        width = max(fixed.dtype.itemsize // 4, 1)
        return {name: fixed.astype(f"<U{width}").view("<u4").reshape(len(fixed), width)}
    encoded = [str(value).encode("utf-8", "surrogatepass") for value in values.tolist()]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {f"{name}.ends": ends, f"{name}.utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8)}


def unpack_texts(name: str, arrays: dict[str, NDArray[Any]]) -> NDArray[Any] | None:
    """The vector of ids, or None where there is none; damage raises `DataError`."""
    if f"{name}.ends" in arrays:
        return _ragged(name, arrays[f"{name}.ends"], arrays.get(f"{name}.utf8"))
    packed = arrays.get(name)
    if packed is None or packed.dtype == np.int64:
        return packed
    if packed.dtype != np.uint32 or packed.ndim != 2 or packed.shape[1] == 0:
        raise DataError(f"the texts {name!r} have a type that they cannot have")
    largest = int(packed.max(initial=0))
    if largest > _LAST_CHARACTER or (largest >= 0xD800 and bool(np.any((packed >= 0xD800) & (packed <= 0xDFFF)))):
        raise DataError(f"the texts {name!r} hold numbers that are no characters")
    return np.asarray(packed).view(f"<U{packed.shape[1]}")[:, 0]


def _ragged(name: str, ends: NDArray[Any], blob: NDArray[Any] | None) -> NDArray[Any]:
    if blob is None or blob.dtype != np.uint8 or ends.dtype != np.int64 or blob.ndim != 1 or ends.ndim != 1:
        raise DataError(f"the texts {name!r} are incomplete")
    bounds = np.concatenate([[0], ends])
    if np.any(np.diff(bounds) < 0) or bounds[-1] != len(blob):
        raise DataError(f"the texts {name!r} do not fit their lengths")
    raw = blob.tobytes()
    try:
        return np.array([raw[a:b].decode() for a, b in pairwise(bounds)], dtype=object)
    except UnicodeDecodeError as error:
        raise DataError(f"the texts {name!r} are no UTF-8") from error
