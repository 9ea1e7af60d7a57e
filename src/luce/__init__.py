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
    "Evaluation": "luce.metrics.evaluate",
    "Groups": "luce.data.groups",
    "evaluate": "luce.metrics.evaluate",
    "from_arrays": "luce.data.groups",
    "read_qrels": "luce.data.trec",
    "read_run": "luce.data.trec",
    "set_threads": "luce.numerics.segments",
    "write_qrels": "luce.data.trec",
    "write_run": "luce.data.trec",
}
_MODULES = ("data", "errors", "losses", "metrics", "scorers")

__all__ = [
    "Comparisons",
    "Evaluation",
    "Groups",
    "errors",
    "evaluate",
    "from_arrays",
    "read_qrels",
    "read_run",
    "set_threads",
    "write_qrels",
    "write_run",
]

if TYPE_CHECKING:
    from luce import errors
    from luce.data.comparisons import Comparisons
    from luce.data.groups import Groups, from_arrays
    from luce.data.trec import read_qrels, read_run, write_qrels, write_run
    from luce.metrics.evaluate import Evaluation, evaluate
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
