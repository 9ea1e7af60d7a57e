"""Scorers by name. A scorer turns the items of a query into scores; it never sees labels."""

from __future__ import annotations

from typing import Any

from luce.errors import SettingError
from luce.registry import Registry

__all__ = ["fitted_class", "get", "names"]

_registry = Registry("scorer", {"linear": "luce.scorers.linear:LinearScorer"})
# A scorer whose model is tied to one loss: it is part of a complete system, and not in the list of names.
_tied = Registry("scorer", {"cps": "luce.scorers.cps:CPSScorer"})
_fitted = Registry("scorer", {"cps": "luce.scorers.cps:FittedCPS", "linear": "luce.scorers.linear:FittedLinear"})


def names() -> list[str]:
    """All scorers that go with any loss."""
    return _registry.names()


def get(name: str, **parameters: Any) -> Any:
    """A scorer of that name, to be trained."""
    factory = _tied.get(name) if name in _tied else _registry.get(name)
    try:
        return factory(**parameters)
    except TypeError as error:
        raise SettingError(f"Scorer {name!r} does not take these parameters, {sorted(parameters)}: {error}.") from error


def fitted_class(name: str) -> Any:
    """The class that reads a fitted scorer of that name from a model file."""
    return _fitted.get(name)
