"""Modules that are loaded when something is asked of them: what scikit-learn imports and no command needs.

scikit-learn's foundations import `scipy.stats` and pandas for functions of theirs that a command seldom comes to, which
takes more than half of the time of importing them (a second, of every command that trains or scores).
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Postponed(ModuleType):
    """Stands for a module until an attribute is asked for, and then has all that the module has."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:  # as if we had never been
            del sys.modules[self.__name__]
            package, _, own = self.__name__.rpartition(".")
            if package:
                delattr(sys.modules[package], own)
        real = importlib.import_module(self.__name__)
        self.__dict__.update(real.__dict__)
        return getattr(real, name)


def postpone(*names: str) -> None:
    """Let the first use of these modules import them; those that are there, or not installed, are left alone.

    The package that a module is part of must be imported already, or be quick to import.
    """
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is None:
            continue
        stand_in = _Postponed(name)
        stand_in.__spec__ = spec
        sys.modules[name] = stand_in
        package, _, own = name.rpartition(".")
        if package:
            setattr(sys.modules[package], own, stand_in)


def light(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which postpones what it seldom comes to once it runs: its help imports nothing."""

    @functools.wraps(command)
    def started(**given: Any) -> None:
        postpone("scipy.stats", "pandas")
        command(**given)

    return started
