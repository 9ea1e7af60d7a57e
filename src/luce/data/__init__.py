"""Data as they come in: judged documents (`Groups`), comparisons, readers, writers and a simulator."""

from importlib import import_module
from typing import Any

from luce.data.comparisons import Comparisons
from luce.data.groups import Groups, from_arrays

__all__ = ["Comparisons", "Groups", "from_arrays"]

_MODULES = ("describe", "mapped", "simulate", "writers")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"luce.data.{name}")
    raise AttributeError(f"module 'luce.data' has no attribute {name!r}")
