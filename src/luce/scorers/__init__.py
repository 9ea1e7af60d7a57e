"""Scorers by name. A scorer turns the items of a query into scores; it never sees labels."""

from __future__ import annotations

from typing import Any

from luce.errors import SettingError
from luce.registry import Registry

__all__ = ["fitted_class", "get", "names", "takes_missing"]

_registry = Registry(
    "scorer",
    {
        "linear": "luce.scorers.linear:LinearScorer",
        "second_order": "luce.scorers.second_order:SecondOrderScorer",
        "trees": "luce.scorers.trees:TreesScorer",
    },
)
_fitted = Registry(
    "scorer",
    {
        "linear": "luce.scorers.linear:FittedLinear",
        "second_order": "luce.scorers.second_order:FittedSecondOrder",
        "trees": "luce.scorers.trees:FittedTrees",
    },
)


def names() -> list[str]:
    """All scorers."""
    return _registry.names()


def get(name: str, **parameters: Any) -> Any:
    """A scorer of that name, to be trained."""
    factory = _registry.get(name)
    try:
        return factory(**parameters)
    except TypeError as error:
        raise SettingError(f"Scorer {name!r} does not take these parameters, {sorted(parameters)}: {error}.") from error


def fitted_class(name: str) -> Any:
    """The class that reads a fitted scorer of that name from a model file."""
    return _fitted.get(name)


def takes_missing(name: str) -> bool:
    """Whether a scorer of that name takes NaN for what is missing."""
    return name in _registry and getattr(_registry.get(name), "takes_missing", False)
