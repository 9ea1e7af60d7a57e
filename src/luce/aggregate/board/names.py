"""One name for all the ways to write it in Unicode, and a word on names that look like an empty cell."""

from __future__ import annotations

from collections.abc import Iterable
from unicodedata import normalize

__all__ = ["one_form"]

_EMPTY = {"nan", "null", "n/a", "<na>"}


def one_form(names: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Every name -> the one to show, and what there is to say.

    Names are one where they are equal but for spaces around them and for Unicode's forms of a letter (NFKC). The first
    of them in order is shown, in composed letters.

    >>> one_form(["Ana", " Ana", "Bo"])[0]
    {' Ana': 'Ana', 'Ana': 'Ana', 'Bo': 'Bo'}
    """
    forms: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        forms.setdefault(normalize("NFKC", name).strip(), []).append(name)
    shown = {name: normalize("NFC", same[0]).strip() for same in forms.values() for name in same}
    several = [same for same in forms.values() if len(same) > 1]
    notes = []
    if several:
        listed = "; ".join(" and ".join(map(ascii, same)) for same in several[:3])
        more = f"; and {len(several) - 3} more" if len(several) > 3 else ""
        notes.append(f"Names that differ only in spaces around them or in Unicode form are one: {listed}{more}.")
    notes += [
        f"{shown[same[0]]!r} is taken as a name; if it stands for an empty cell, leave its rows out."
        for key, same in forms.items()
        if key.lower() in _EMPTY
    ]
    return shown, tuple(notes)
