"""Names as a reader sees them: one for all the ways to write it, and a word on those that look the same or empty."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category, normalize

import numpy as np

from luce.errors import DataError, LuceWarning, ParseError
from luce.types import IntArray

if TYPE_CHECKING:
    from luce.data.column import Column
    from luce.data.groups import Groups


def spelling(name: str) -> str:
    """What a reader sees of a name: without case, blanks, invisible signs and the two ways to write an accent.

    >>> spelling("Caf\u00e9 ") == spelling("cafe\u0301")
    True
    """
    return "".join(sign for sign in normalize("NFKC", name).casefold() if not sign.isspace() and category(sign) != "Cf")


def as_read(data: Groups) -> Groups:
    """The same data, which come from outside; it is said where names are hard to tell apart."""
    _warn_of_alike(data)
    _warn_of_repeated(data)
    return data


def _warn_of_alike(data: Groups) -> None:
    """Say it where features, or a feature and the column of another part, have names that look the same."""
    seen: dict[str, str] = {}
    for name in (*(() if data.schema is None else data.schema.roles.values()), *data.feature_names):
        if (first := seen.setdefault(spelling(name), name)) != name:
            warnings.warn(
                f"The names of the columns {first!a} and {name!a} differ in case, blanks or unseen signs alone; they "
                "count as two: leave one out (drop=, --drop) if they are one.",
                LuceWarning,
                stacklevel=4,
            )
            return


def _warn_of_repeated(data: Groups) -> None:
    """Say it where a query has two documents of one id."""
    if data.document_ids is None:
        return
    names, found = data.document_ids.tolist(), list[tuple[int, Any]]()
    for q, (first, last) in enumerate(pairwise(data.offsets.tolist())):
        own = names[first:last]
        if len(set(own)) < len(own):
            found += [(q, name) for name, count in Counter(own).items() if count > 1 and name != ""]
    if found:
        others = f" (and {len(found) - 1:,} more are repeated)" if len(found) > 1 else ""
        warnings.warn(
            f"Document {str(found[0][1])!r} stands more than once in query {str(data.query_ids[found[0][0]])!r}"
            f"{others}: every row counts as a document of its own; leave the repetitions out if they are one.",
            LuceWarning,
            stacklevel=4,
        )


_EMPTY = {"nan", "null", "n/a", "<na>"}


def check_names(names: Sequence[str], path: str | Path | None = None, what: str = "column") -> None:
    """Refuse a name that stands over two columns: which of them is meant, nobody can say."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        said = f"wo {what}s are named {twice[0]!r}; every {what} needs a name of its own."
        raise DataError(f"T{said}") if path is None else ParseError(path, f"t{said}")


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
        forms.setdefault(spelling(name), []).append(name)
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
