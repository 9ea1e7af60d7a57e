"""Metrics with explicit conventions: one file a family, `get` and `names` for all of them."""

import lazy_loader

from luce.metrics.catalog import Metric, get, names, of, register
from luce.metrics.conventions import PRESETS, Conventions, conventions
from luce.metrics.evaluate import Evaluation, evaluate, evaluate_arrays

__all__ = [
    "PRESETS",
    "Conventions",
    "Evaluation",
    "Metric",
    "bootstrap_interval",
    "compare",
    "conventions",
    "evaluate",
    "evaluate_arrays",
    "get",
    "holm",
    "names",
    "of",
    "randomisation_test",
    "register",
    "win_tie_loss",
]

_LATER = {"significance": ["bootstrap_interval", "compare", "holm", "randomisation_test", "win_tie_loss"]}
__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_LATER)
