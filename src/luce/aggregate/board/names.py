"""One name for all the ways to write it in Unicode, and a word on names that look like an empty cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unicodedata import normalize

import numpy as np

from luce.data.column import Column
from luce.types import IntArray

_EMPTY = {"nan", "null", "n/a", "<na>"}


def plain(value: Any) -> Any:
    """83.0 as 83: a column of ids with gaps, or one that was joined, is read as numbers with a point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def plain_form(name: str) -> str:
    """What two ways to write one name have in common: spaces around it and Unicode's forms of a letter are gone."""
    return normalize("NFKC", name).strip()


def one_form(names: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Every name -> the one to show, and what there is to say.

    Names are one where they are equal but for spaces around them and for Unicode's forms of a letter (NFKC). The first
    of them in order is shown, in composed letters.

    >>> one_form(["Ana", " Ana", "Bo"])[0]
    {' Ana': 'Ana', 'Ana': 'Ana', 'Bo': 'Bo'}
    """
    forms: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        forms.setdefault(plain_form(name), []).append(name)
    shown = {name: normalize("NFC", same[0]).strip() for same in forms.values() for name in same}
    notes = _several("Names that differ only in spaces around them or in Unicode form are one", forms.values())
    notes += alike(shown.values())
    notes += [
        f"{shown[same[0]]!r} is taken as a name; if it stands for an empty cell, leave its rows out."
        for key, same in forms.items()
        if key.lower() in _EMPTY
    ]
    return shown, tuple(notes)


def alike(names: Iterable[str]) -> list[str]:
    """A word on names that are hardly meant to be different ones, but are: the same but for capitals and spaces.

    >>> alike(["Ana", "ana", "Bo"])
    ["Names that differ only in capitals or spaces are different ones: 'Ana' and 'ana'."]
    """
    forms: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        forms.setdefault(plain_form(name).casefold(), []).append(name)
    return _several("Names that differ only in capitals or spaces are different ones", forms.values())


def _several(what: str, alike: Iterable[list[str]]) -> list[str]:
    found = [same for same in alike if len(same) > 1]
    listed = "; ".join(" and ".join(map(ascii, same)) for same in found[:3])
    more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
    return [f"{what}: {listed}{more}."] if found else []


def one_code(column: Column) -> tuple[IntArray, tuple[str, ...], tuple[str, ...]]:
    """A column with one code for all the ways to write a name: codes, names, what there is to say.

    >>> from luce.data.table import Table
    >>> one_code(Table.open({"by": ["maths", "maths ", "code"]}).column(role="category", usual=["by"]))[:2]
    (array([0, 0, 1]), ('maths', 'code'))
    """
    codes, texts = column.codes()
    shown, notes = one_form(texts)
    number: dict[str, int] = {}
    new = np.array([number.setdefault(shown[text], len(number)) for text in texts], dtype=np.int64)
    return new[codes], tuple(number), notes
