"""Ids of battles: what a kept board remembers of them, so that an update can leave out battles that it has seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from luce.aggregate.board.intake import Source
from luce.errors import DataError
from luce.types import IntArray

_USUAL = ("id", "battle_id", "question_id")
NO_IDS: IntArray = np.empty(0, dtype=np.int64)

ReadIds = Callable[[], IntArray]
"""Ids are read where a board is kept or updated, and only there: most boards are not."""


class Unseen(NamedTuple):
    """What is left of an update: None where the board has seen every battle of it."""

    source: Source | None
    ids: IntArray
    """Those that the board knows now."""
    note: str


@dataclass(frozen=True, eq=False)
class KnownIds:
    """Ids that were read."""

    values: IntArray

    def __call__(self) -> IntArray:
        """Themselves."""
        return self.values


@dataclass(frozen=True, eq=False)
class LaterIds:
    """The ids of a table, as sorted 64-bit digests; none where no column holds any. A pickle of them is read."""

    source: Source
    given: str | None

    def __call__(self) -> IntArray:
        """Read them."""
        return np.sort(_digests(self.source, self.given)[0])

    def __reduce__(self) -> tuple[type[KnownIds], tuple[IntArray]]:
        return KnownIds, (self(),)


def leave_out_seen(source: Source, given: str | None, known: IntArray) -> Unseen:
    """The battles of an update whose ids a board does not know, and a sentence on the others."""
    fresh, why = _digests(source, given)
    if not len(fresh) or not len(known):
        whose = why if not len(fresh) else "the board was kept without ids"
        return Unseen(source, np.union1d(known, fresh), f"Battles that were already there count twice: {whose}.")
    seen = np.isin(fresh, known)
    count = f"{int(seen.sum()):,} of {len(seen):,} battles were already among the {len(known):,} ids of the board"
    note = f"{count}{' and are left out' if seen.any() else ''}."
    left = source if not seen.any() else None if seen.all() else _part(source, ~seen)
    return Unseen(left, np.union1d(known, fresh), note)


def _part(source: Source, keep: Any) -> Source:
    """Some rows of a table."""
    label = f"{source.label} without the {int(np.sum(~keep)):,} battles that are known"
    return replace(source, label=label, read=lambda columns, text: source.read(columns, text).filter(keep))


def _digests(source: Source, given: str | None) -> tuple[IntArray, str]:
    """A digest a row, or none and the reason."""
    name = next((c for c in _USUAL if c in source.columns), None) if given is None else source.require(given, "id")
    if name is None:
        return NO_IDS, f"{source.label} has no column of ids (--id, or a column named {', '.join(_USUAL)})"
    values = [_text(value) for value in source.read([name], [name])[name].to_pylist()]
    wrong = ""
    if not all(values):
        wrong = f"the column {name!r} has no id in row {values.index('') + 1}"
    elif len(set(values)) < len(values):
        twice = Counter(values).most_common(1)[0][0]
        wrong = f"the column {name!r} repeats {twice!r}"
    if wrong and given is not None:
        raise DataError(f"{source.label}: {wrong}; every battle needs an id of its own.")
    if wrong:
        return NO_IDS, f"{wrong}, so that it does not tell battles apart"
    digests = b"".join(blake2b(value.encode(), digest_size=8).digest() for value in values)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64), ""


def _text(value: Any) -> str:
    """One form for the ids of all kinds of files: 5, 5.0 and "5" are one."""
    if value is None or value != value:
        return ""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
