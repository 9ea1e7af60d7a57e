"""Numbers inside a page: typed arrays, compressed, in base64, decoded by the browser only when a panel needs them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 10_500_000
"""Of all bundles together: 14 MB in base64, which leaves 1 MB for the page and its tables."""

_CODES = {"u1": "u1", "u2": "u2", "u4": "u4", "i2": "i2", "i4": "i4", "f4": "f4", "f8": "f8"}


class Blobs:
    """Bundles of named arrays; `add` gives back what the page needs to find and decode one."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Keep a bundle; returns its name and the layout of its arrays."""
        layout, raw = pack(arrays)
        return self._keep(name, layout, raw)

    def add_texts(self, name: str, texts: list[str]) -> dict[str, Any]:
        """Keep a list of texts."""
        return self._keep(name, "texts", json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode())

    def _keep(self, name: str, layout: Any, raw: bytes) -> dict[str, Any]:
        if name in self.texts:
            raise ValueError(f"a bundle named {name!r} is there already")
        self.texts[name] = base64.b64encode(zlib.compress(raw, 6)).decode("ascii")
        return {"bundle": name, "layout": layout}

    @property
    def room(self) -> int:
        """Bytes, after compression, that may still be added to keep a page below 15 MB."""
        return MOST_BYTES - sum(map(len, self.texts.values())) * 3 // 4


def pack(arrays: Mapping[str, NDArray[Any]]) -> tuple[list[list[Any]], bytes]:
    """Layout, a list of (name, type, shape), and the bytes of the arrays one after the other.

    >>> pack({"a": np.array([1, 258], dtype=np.uint16)})
    ([['a', 'u2', [2]]], b'\\x01\\x02\\x00\\x01')
    """
    layout: list[list[Any]] = []
    parts = []
    for key, array in arrays.items():
        code = _CODES[array.dtype.newbyteorder("<").str[1:]]
        layout.append([key, code, list(array.shape)])
        parts.append(shuffled(array))
    return layout, b"".join(parts)


def shuffled(array: NDArray[Any]) -> bytes:
    """Little-endian bytes, first all first bytes, then all second ones, ...: alike bytes together compress well."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).reshape(-1, array.dtype.itemsize).T.tobytes()
