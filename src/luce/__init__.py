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
    "from_frame": "luce.data.readers.frames",
    "read": "luce.data.readers.detect",
    "read_csv": "luce.data.readers.tables",
    "read_letor": "luce.data.readers.letor",
    "read_parquet": "luce.data.readers.tables",
    "set_threads": "luce.numerics.segments",
    "write_letor": "luce.data.writers",
    "write_parquet": "luce.data.writers",
}
_MODULES = ("data", "errors", "losses", "metrics", "scorers")

__all__ = [
    "Comparisons",
    "Groups",
    "errors",
    "from_arrays",
    "from_frame",
    "read",
    "read_csv",
    "read_letor",
    "read_parquet",
    "set_threads",
    "write_letor",
    "write_parquet",
]

if TYPE_CHECKING:
    from luce import errors
    from luce.data.comparisons import Comparisons
    from luce.data.groups import Groups, from_arrays
    from luce.data.readers.detect import read
    from luce.data.readers.frames import from_frame
    from luce.data.readers.letor import read_letor
    from luce.data.readers.tables import read_csv, read_parquet
    from luce.data.writers import write_letor, write_parquet
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
