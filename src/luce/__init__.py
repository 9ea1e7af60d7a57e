"""Probabilistic ranking for the data people really have.

data -> scorer -> loss -> trainer, four independent choices; then metric, report, export. Names are loaded on first use,
so that `import luce` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "Comparisons": "luce.data.comparisons",
    "Groups": "luce.data.groups",
    "from_arrays": "luce.data.groups",
    "set_threads": "luce.numerics.segments",
}
_MODULES = ("data", "errors", "losses", "metrics", "scorers", "track")

__all__ = ["Comparisons", "Groups", "errors", "from_arrays", "set_threads", "track"]

if TYPE_CHECKING:
    from luce import errors, track
    from luce.data.comparisons import Comparisons
    from luce.data.groups import Groups, from_arrays
    from luce.numerics.segments import set_threads


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
    elif name in _MODULES:
        value = import_module(f"luce.{name}")
    else:
        raise AttributeError(f"module 'luce' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_MODULES})
