"""Many short texts out of one buffer of bytes, without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.types import IntArray


def cut_texts(text: NDArray[np.uint8], spans: IntArray) -> NDArray[Any]:
    """The texts `text[start:stop]` of each (start, stop): bytes of fixed width, or objects where that would waste."""
    lengths = spans[:, 1] - spans[:, 0]
    width = max(int(lengths.max(initial=0)), 1)
    if width * len(spans) > 8 * int(lengths.sum()) + (1 << 20):
        return np.array([bytes(text[a:b]) for a, b in spans], dtype=object)
    place = np.arange(width)
    found = text.take(spans[:, :1] + place, mode="clip")
    found[place >= lengths[:, None]] = 0
    result: NDArray[Any] = found.view(f"S{width}")[:, 0]
    return result


def join_texts(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """All parts as one vector of str; the stream has checked that they are UTF-8."""
    widest = max((part.dtype.itemsize for part in parts if part.dtype != object), default=1)
    rows = sum(map(len, parts))
    waste = sum(part.nbytes for part in parts)
    if any(part.dtype == object for part in parts) or widest * rows > 8 * waste + (1 << 20):
        return np.array([t.decode() for part in parts for t in part.tolist()], dtype=object)
    joined = np.concatenate(parts).astype(f"S{widest}", copy=False)
    if joined.view(np.uint8).max(initial=0) < 128:
        return joined.astype(f"U{widest}")
    return np.char.decode(joined, "utf-8")
