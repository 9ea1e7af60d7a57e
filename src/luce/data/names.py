"""Names of columns and documents as a reader sees them, and what is said where two look the same."""

from __future__ import annotations

import unicodedata
import warnings
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from luce.errors import LuceWarning

if TYPE_CHECKING:
    from luce.data.groups import Groups


def spelling(name: str) -> str:
    """What a reader sees of a name: without case, blanks, invisible signs and the two ways to write an accent.

    >>> spelling("Caf\u00e9 ") == spelling("cafe\u0301")
    True
    """
    seen = unicodedata.normalize("NFKC", name).casefold()
    return "".join(sign for sign in seen if not sign.isspace() and unicodedata.category(sign) != "Cf")


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
