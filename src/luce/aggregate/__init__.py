"""Rank aggregation: ballots, rules, axioms as numbers, Mallows models, and aggregation that learns from labels.

Names are loaded on first use, so that `import luce.aggregate` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "Ballots": "luce.aggregate.ballots",
    "AxiomMargins": "luce.aggregate.axioms",
    "Consensus": "luce.aggregate.result",
    "Mallows": "luce.aggregate.mallows",
    "MallowsMixture": "luce.aggregate.mixture",
    "axiom_margins": "luce.aggregate.axioms",
    "check_profile": "luce.aggregate.profile_checks",
    "consensus": "luce.aggregate.rule_table",
    "rule_names": "luce.aggregate.rule_table",
    "fit_mallows": "luce.aggregate.mallows",
    "fit_mixture": "luce.aggregate.mixture",
    "footrule": "luce.aggregate.distances",
    "footrule_matrix": "luce.aggregate.distances",
    "kendall": "luce.aggregate.distances",
    "kendall_matrix": "luce.aggregate.distances",
    "majority_bound": "luce.aggregate.axiom_programs",
    "margin_bounds": "luce.aggregate.axiom_programs",
    "rearranged": "luce.aggregate.axiom_witnesses",
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
