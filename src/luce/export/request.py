"""What a writer is asked for and what it gives; names of features as a target takes them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from luce.errors import DataError, ParseError, SettingError
from luce.form import Column, Form, Layer

if TYPE_CHECKING:
    from luce.data.text.transformer import Text


@dataclass(frozen=True)
class Request:
    """A form and how it is to be written."""

    form: Form
    name: str = "luce"
    store: str = ""
    """Feature set (Elasticsearch, OpenSearch) or feature store (Solr)."""
    folded: bool = False
    """Linear models: plain weights instead of normalizers, the intercept left out."""
    ignore_missing: bool = False
    """Write trees also where the target would send a missing value another way."""
    text: Text | None = None
    """What computes the last features of the form."""
    queries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Features that are no stored field of the engine: what it takes for them, by name."""


@dataclass(frozen=True, eq=False)
class Written:
    """The models, what their reader must know, and facts for machines."""

    models: Sequence[str | bytes]
    """The content of a file each; where there are several, their scores add up."""
    remarks: Sequence[str] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Column] | None = None
    """The features that the target must be given, by name; None where they are those of the model."""
    beside: dict[str, str] = field(default_factory=dict)
    """Other files, such as the features of an engine and the query that uses the model, by the end of their names."""


def refuse(form: Form, target: str, able: str) -> NoReturn:
    """The error for a form that a target has no words for."""
    raise SettingError(f"The model is {form.kind}, which {target} cannot express; {able}.")


def activation(layer: Layer, known: Mapping[str, str], form: Form, target: str) -> str:
    """What a target calls the activation of a layer; one that it does not have is refused."""
    if layer.activation not in known:
        refuse(form, target, f"it has no activation {layer.activation!r} here, only {', '.join(known)}")
    return known[layer.activation]


def filled_outside(form: Form) -> list[str]:
    """What must be said where the model fills gaps and the target does not."""
    if not any(column.fill is not None for term in form.terms for column in term.columns):
        return []
    return ["The model fills a gap with the median of training, and the export does not: give it rows without gaps."]


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
        try:
            given: Any = json.loads(text)
        except ValueError as error:
            raise ParseError(path, f"this is no valid JSON ({error}).") from error
        if not all(isinstance(name, str) for name in (given.values() if isinstance(given, dict) else given)):
            raise ParseError(path, "the names must be texts.")
        return given
    rows = [row for row in csv.reader(text.splitlines()) if row]
    bad = next((i for i, row in enumerate(rows) if len(row) != 2), None)
    if bad is not None or not rows:
        raise ParseError(path, "expected lines `old,new`, or JSON: an object from old to new names, or a list.")
    return {old.strip(): new.strip() for old, new in rows}
