"""Ids of battles: what a kept board remembers of them, so that an update can leave out battles that it has seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from luce.data.table import Table
from luce.errors import DataError
from luce.types import IntArray

_USUAL = ("id", "battle_id", "question_id")
NO_IDS: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Ids:
    """Ids as sorted 64-bit digests: those that are known, or those of a table; none where no column holds any.

    They are read where a board is kept or updated, and only there: most boards are not. A pickle of them is read.
    """

    values: IntArray = field(default_factory=lambda: NO_IDS)
    source: Table | None = None
    given: str | None = None

    def __call__(self) -> IntArray:
        """Read them."""
        return self.values if self.source is None else np.sort(_digests(self.source, self.given)[0])

    def __reduce__(self) -> tuple[type[Ids], tuple[IntArray]]:
        return Ids, (self(),)


def leave_out_seen(source: Table, given: str | None, known: IntArray) -> tuple[Table | None, IntArray, str]:
    """The battles of an update whose ids a board does not know, all ids, and a sentence on the others.

    There is no table where the board has seen every battle of it.
    """
    fresh, why = _digests(source, given)
    if not len(fresh) or not len(known):
        whose = why if not len(fresh) else "the board was kept without ids"
        return source, np.union1d(known, fresh), f"Battles that were already there count twice: {whose}."
    seen = np.isin(fresh, known)
    count = f"{int(seen.sum()):,} of {len(seen):,} battles were already among the {len(known):,} ids of the board"
    note = f"{count}{' and are left out' if seen.any() else ''}."
    if seen.any() and not seen.all():
        source = source.keeping(~seen, f"{source.label} without the {int(seen.sum()):,} battles that are known")
    return None if seen.all() else source, np.union1d(known, fresh), note


def _digests(source: Table, given: str | None) -> tuple[IntArray, str]:
    """A digest a row, or none and the reason."""
    if given is None and not set(_USUAL) & set(source.names):
        return NO_IDS, f"{source.label} has no column of ids (--id, or a column named {', '.join(_USUAL)})"
    column = source.column(given, role="id", usual=_USUAL)
    name, values = column.name, column.text()
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
