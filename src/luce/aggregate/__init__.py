"""Rank aggregation: ballots, rules, axioms as numbers, Mallows models, and aggregation that learns from labels.

Names are loaded on first use, so that `import luce.aggregate` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "Ballots": "luce.aggregate.ballots",
    "Consensus": "luce.aggregate.result",
    "consensus": "luce.aggregate.rule_table",
    "rule_names": "luce.aggregate.rule_table",
    "footrule": "luce.aggregate.distances",
    "footrule_matrix": "luce.aggregate.distances",
    "kendall": "luce.aggregate.distances",
    "kendall_matrix": "luce.aggregate.distances",
    "read_ballots": "luce.aggregate.readers",
    "read_runs": "luce.aggregate.readers",
    "write_ballots": "luce.aggregate.readers",
}

__all__ = ["Ballots", "read_ballots", "read_runs", "write_ballots"]

if TYPE_CHECKING:
    from luce.aggregate.ballots import Ballots
    from luce.aggregate.readers import read_ballots, read_runs, write_ballots


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'luce.aggregate' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
