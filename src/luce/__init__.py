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
    "Ranker": "luce.ranker",
    "blend": "luce.blending",
    "cross_fit": "luce.cross_fitting",
    "compare": "luce.experiments.models",
    "comparisons_from_clicks": "luce.data.clicks",
    "evaluate": "luce.metrics.evaluate",
    "from_arrays": "luce.data.groups",
    "from_frame": "luce.data.readers.tables",
    "load": "luce.model_file",
    "model": "luce.systems",
    "model_names": "luce.systems",
    "read": "luce.data.readers.detect",
    "read_comparisons": "luce.data.named_rows",
    "read_csv": "luce.data.readers.tables",
    "read_letor": "luce.data.readers.letor",
    "read_orders": "luce.data.order_files",
    "read_parquet": "luce.data.readers.tables",
    "read_qrels": "luce.data.trec",
    "read_run": "luce.data.trec",
    "set_threads": "luce.numerics.segments",
    "with_relations": "luce.data.named_rows",
    "with_subtopics": "luce.data.named_rows",
    "write_letor": "luce.data.writers",
    "write_parquet": "luce.data.writers",
    "write_qrels": "luce.data.trec",
    "write_run": "luce.data.trec",
}
_MODULES = (
    "aggregate",
    "clicks",
    "data",
    "errors",
    "export",
    "losses",
    "metrics",
    "objectives",
    "scorers",
    "testing",
    "track",
    "training",
)

__all__ = [
    "Comparisons",
    "Evaluation",
    "Groups",
    "Ranker",
    "aggregate",
    "blend",
    "clicks",
    "compare",
    "comparisons_from_clicks",
    "cross_fit",
    "data",
    "errors",
    "evaluate",
    "export",
    "from_arrays",
    "from_frame",
    "load",
    "losses",
    "metrics",
    "model",
    "model_names",
    "objectives",
    "read",
    "read_comparisons",
    "read_csv",
    "read_letor",
    "read_orders",
    "read_parquet",
    "read_qrels",
    "read_run",
    "scorers",
    "set_threads",
    "testing",
    "track",
    "training",
    "with_relations",
    "with_subtopics",
    "write_letor",
    "write_parquet",
    "write_qrels",
    "write_run",
]

if TYPE_CHECKING:
    from luce import (
        aggregate,
        clicks,
        data,
        errors,
        export,
        losses,
        metrics,
        objectives,
        scorers,
        testing,
        track,
        training,
    )
    from luce.blending import blend
    from luce.cross_fitting import cross_fit
    from luce.data.clicks import comparisons_from_clicks
    from luce.data.comparisons import Comparisons
    from luce.data.groups import Groups, from_arrays
    from luce.data.named_rows import read_comparisons, with_relations, with_subtopics
    from luce.data.order_files import read_orders
    from luce.data.readers.detect import read
    from luce.data.readers.letor import read_letor
    from luce.data.readers.tables import from_frame, read_csv, read_parquet
    from luce.data.trec import read_qrels, read_run, write_qrels, write_run
    from luce.data.writers import write_letor, write_parquet
    from luce.experiments.models import compare
    from luce.metrics.evaluate import Evaluation, evaluate
    from luce.model_file import load
    from luce.numerics.segments import set_threads
    from luce.ranker import Ranker
    from luce.systems import model, model_names


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
