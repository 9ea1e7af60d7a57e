"""How a good input is damaged: bytes anywhere, values of a JSON tree, entries and shapes of arrays."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np

__all__ = ["FRAGMENTS", "damaged_arrays", "damaged_bytes", "damaged_tree"]

FRAGMENTS = (
    b"", b"\0", b"\xff", b"\xed\xa0\x80", b"\r", b'"', b"'", b",", b";", b"\t", b"-", b"--1", b"+", b".", b"e",
    b"1e999", b"1e-320", b"9" * 400, b"\xc2\xb2", b"\n", b"\r\n", b"{", b"[", b"[" * 2000, b"]", b"}", b":", b"#",
    b"qid:", b"nan", b"inf", b"null", b"true", b"0x1", b"1_000", b" ", b">", b"=", b"9223372036854775808", b"-1",
    b"\xef\xbb\xbf",
)  # fmt: skip
"""What is put in: what readers look for, and numbers at their borders."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**53, 2**63, 2**70, -(2**63), 0.5, -0.5, 1e300, -1e300, 1e-310,
    float("nan"), float("inf"), "", "x", "a\0", "\ud800", "0", "linear", "pmop", "auto", [], [0], [1e300], [None],
    ["x"], {}, {"name": "pmop"}, {"x": 1}, [[[[]]]],
)  # fmt: skip
"""What takes the place of a value."""

NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e300, -1e300, 1e308, 1e-310, 5e-324, np.nan, np.inf, -np.inf, 2.0**31, 2.0**63)


def damaged_bytes(clean: bytes, rng: random.Random, most: int = 3) -> bytes:
    """One to `most` places of a text cut, doubled, flipped or replaced."""
    damaged = bytearray(clean)
    for _ in range(rng.randint(1, most)):
        at = rng.randrange(len(damaged) + 1)
        length = rng.choice((0, 1, 1, 2, 4, 16, 64))
        how = rng.randrange(6)
        if how == 0 and damaged:
            damaged[at % len(damaged)] ^= 1 << rng.randrange(8)
        elif how == 1:
            del damaged[at:]
        elif how == 2:
            other = rng.randrange(len(damaged) + 1)
            damaged[at:at] = damaged[other : other + 8 * length]
        elif how == 3:
            damaged[at : at + length] = rng.randbytes(length)
        else:
            damaged[at : at + length] = rng.choice(FRAGMENTS)
    return bytes(damaged)


def damaged_tree(tree: Any, rng: random.Random, most: int = 2) -> Any:
    """A JSON tree with one to `most` of its values replaced, removed, doubled, moved or renamed."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.randint(1, most)):
        places = _places(tree)
        if not places:
            break
        parent, key = rng.choice(places)
        how = rng.randrange(8)
        if how == 0:
            del parent[key]
        elif how == 1 and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        elif how == 1:
            parent[rng.choice(("", "x", "name", "column", f"{key}x"))] = parent.pop(key)
        elif how == 2:
            other, there = rng.choice(places)
            parent[key] = copy.deepcopy(other[there]) if _inside(other, there) else None
        elif how == 3 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
            parent[key] = rng.choice(
                (-parent[key], parent[key] + 1, parent[key] - 1, parent[key] * 1e6, parent[key] / 3)
            )
        else:
            parent[key] = copy.deepcopy(rng.choice(VALUES))
    return tree


def _inside(parent: Any, key: Any) -> bool:
    return key in parent if isinstance(parent, dict) else key < len(parent)


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found, open_ = [], [tree]
    while open_:
        parent = open_.pop()
        items = parent.items() if isinstance(parent, dict) else enumerate(parent)
        for key, value in items:
            found.append((parent, key))
            if isinstance(value, dict | list):
                open_.append(value)
    return found


def damaged_arrays(arrays: dict[str, np.ndarray], rng: random.Random, most: int = 2) -> dict[str, np.ndarray]:
    """Arrays with entries, shapes, types or names changed."""
    arrays = {name: array.copy() for name, array in arrays.items()}
    for _ in range(rng.randint(1, most)):
        if not arrays:
            break
        name = rng.choice(sorted(arrays))
        array = arrays[name]
        how = rng.randrange(10)
        if how == 0:
            del arrays[name]
        elif how == 1:
            arrays[f"{name}x"] = arrays.pop(name)
        elif how == 2:
            arrays[name] = array.reshape(rng.choice(((-1,), (1, -1), (-1, 1), (*array.shape, 1))))
        elif how == 3:
            arrays[name] = np.repeat(array, rng.choice((0, 2)), axis=0) if array.ndim else array
        elif how == 4 and array.ndim:
            arrays[name] = array[: rng.randrange(len(array) + 1)]
        elif how == 5:
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(rng.choice(("<f8", "<f4", "<i8", "<i4", "|u1", "|b1")))
        elif how == 6:
            other = arrays[rng.choice(sorted(arrays))]
            arrays[name] = other.copy()
        elif how == 7 and array.dtype.kind == "f":
            with np.errstate(all="ignore"):
                arrays[name] = (array * rng.choice((1e300, -1.0, 0.0, 1e-300))).astype(array.dtype)
        elif array.size:
            flat = arrays[name] = np.ascontiguousarray(array)
            at = rng.randrange(flat.size)
            if array.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    flat.reshape(-1)[at] = rng.choice(NUMBERS)
            elif array.dtype.kind in "iu":
                limits = np.iinfo(array.dtype)
                flat.reshape(-1)[at] = rng.choice((0, 1, limits.max, limits.min, limits.max // 2, rng.randrange(50)))
            else:
                flat.reshape(-1)[at] ^= True
    return arrays
