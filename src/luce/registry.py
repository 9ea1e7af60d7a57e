"""The only map from names to factories.

A registry is a table of import paths, so that listing the names imports nothing: `import luce` and
`luce --help` stay light, and adding a loss, scorer, metric or model is one line in its table.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib import import_module
from inspect import Parameter, getmro, isclass, signature
from typing import Any

from luce.errors import LuceError, SettingError, UnknownNameError

__all__ = ["Registry", "canonical", "make", "unknown_name"]


def canonical(name: str) -> str:
    """Names accept `-` and `_` alike, in any case.

    >>> canonical("PMOP-Exact")
    'pmop_exact'
    """
    return name.strip().lower().replace("-", "_")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not known, with the nearest one that is."""
    known = sorted(known)
    close = difflib.get_close_matches(canonical(name), [canonical(k) for k in known], n=1, cutoff=0.6)
    hint = ""
    if close:
        hint = f" Did you mean {next(k for k in known if canonical(k) == close[0])!r}?"
    return UnknownNameError(f"Unknown {kind} {name!r}.{hint} Available: {', '.join(known)}.")


def make(kind: str, name: str, factory: Any, parameters: Mapping[str, Any]) -> Any:
    """What `factory` makes of the parameters; those that it does not take, or not with these values, are named.

    >>> from fractions import Fraction
    >>> make("number", "half", Fraction, {"numerator": 1, "denominator": 2})
    Fraction(1, 2)
    """
    try:
        return factory(**parameters)
    except LuceError:
        raise
    except (TypeError, ValueError) as error:
        taken = _parameters(factory)
        unknown = [key for key in parameters if key not in taken]
        if unknown:
            takes = f"it takes {', '.join(taken)}" if taken else "it takes none"
            message = f"{kind.capitalize()} {name!r} does not take these parameters: {', '.join(unknown)}; {takes}."
        else:
            given = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
            message = f"{kind.capitalize()} {name!r} cannot use {given}; check the values, which have a wrong type."
        raise SettingError(message) from error


def _parameters(factory: Any) -> list[str]:
    """The keyword parameters of a factory; a class passes what it does not name on to its bases."""
    found: dict[str, None] = {}
    makers = [vars(c)["__init__"] for c in getmro(factory) if "__init__" in vars(c)] if isclass(factory) else [factory]
    for maker in makers:
        named = signature(maker).parameters.values()
        found |= {p.name: None for p in named if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)}
        if not any(p.kind is Parameter.VAR_KEYWORD for p in named):
            break
    return [name for name in found if name != "self"]


class Registry:
    """Names of one kind of thing, each with the import path of its factory.

    >>> Registry("number", {"half": "fractions:Fraction"}).get("half")(1, 2)
    Fraction(1, 2)
    """

    def __init__(self, kind: str, table: Mapping[str, str]) -> None:
        self.kind = kind
        self._table = dict(table)
        self._spelling = {canonical(known): known for known in table}

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._table)

    def resolve(self, name: str) -> str:
        """The registered spelling of `name`, or an error that lists the names."""
        known = self._spelling.get(canonical(name))
        if known is None:
            raise unknown_name(self.kind, name, self._table)
        return known

    def get(self, name: str) -> Any:
        """The factory behind a name; imports its module on first use."""
        module, _, attribute = self._table[self.resolve(name)].partition(":")
        return getattr(import_module(module), attribute)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and canonical(name) in self._spelling
