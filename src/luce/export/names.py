"""Names of features as a target takes them, and files of new names."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from luce.errors import DataError, ParseError, SettingError

_WORD = re.compile(r"[A-Za-z0-9_.\-]+")
_WORDS = "letters, digits, '_', '.' and '-' are allowed"


def check_names(names: Sequence[str], target: str, allowed: re.Pattern[str] = _WORD, rule: str = _WORDS) -> None:
    """Names that a target takes: by default what stands in URLs, expressions and logs of the engines as it is."""
    bad = next((name for name in names if not allowed.fullmatch(name)), None)
    if bad is not None:
        raise SettingError(
            f"The feature name {bad!r} cannot be used in {target}: {rule}; "
            "give --feature-names (feature_names=) a file or mapping with other names."
        )


def check_name(what: str, name: str) -> str:
    """The name of a model or store, which becomes part of a URL."""
    if not _WORD.fullmatch(name):
        raise SettingError(f"The {what} {name!r} must be of letters, digits, '_', '.' and '-'; give another one.")
    return name


def renamed(names: tuple[str, ...], given: Mapping[str, str] | Sequence[str] | None) -> tuple[str, ...]:
    """The names under a mapping from old to new ones, or a list of all new ones.

    >>> renamed(("1", "2"), {"2": "bm25"})
    ('1', 'bm25')
    """
    if given is None:
        return names
    if isinstance(given, Mapping):
        unknown = next((old for old in given if old not in names), None)
        if unknown is not None:
            raise DataError(f"The feature names rename {unknown!r}, which is not a feature of the model.")
        new = tuple(given.get(name, name) for name in names)
    else:
        new = tuple(given)
        if len(new) != len(names):
            raise DataError(f"{len(new)} feature names were given, and the model has {len(names)} features.")
    if not all(isinstance(name, str) and name for name in new):
        raise DataError("Feature names must be texts that are not empty.")
    if len(set(new)) < len(new):
        twice = next(name for name in new if new.count(name) > 1)
        raise DataError(f"Two features would have the name {twice!r}; names must be different.")
    return new


def read_feature_names(path: str | Path) -> dict[str, str] | list[str]:
    """From JSON (an object from old to new names, or a list of all) or CSV lines `old,new`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"The feature names {path} cannot be read: {reason}.") from error
    if text.lstrip()[:1] in ("{", "["):
        return _from_json(path, text)
    rows = [row for row in csv.reader(text.splitlines()) if row]
    bad = next((i for i, row in enumerate(rows) if len(row) != 2), None)
    if bad is not None or not rows:
        raise ParseError(path, "expected lines `old,new`, or JSON: an object from old to new names, or a list.")
    return {old.strip(): new.strip() for old, new in rows}


def _from_json(path: str | Path, text: str) -> dict[str, str] | list[str]:
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise ParseError(path, f"this is no valid JSON ({error}).") from error
    values = list(given.values()) if isinstance(given, dict) else given
    if not all(isinstance(name, str) for name in values):
        raise ParseError(path, "the names must be texts.")
    return dict(given) if isinstance(given, dict) else list(given)
