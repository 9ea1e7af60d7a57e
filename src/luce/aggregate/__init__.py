"""Rank aggregation: ballots, rules, axioms as numbers, Mallows models, learning from labels, and leaderboards.

Names are loaded on first use, so that `import luce.aggregate` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "AxiomMargins": "luce.aggregate.axioms",
    "Ballots": "luce.aggregate.ballots",
    "Board": "luce.aggregate.board.result",
    "BordaAggregator": "luce.aggregate.supervised",
    "CPSAggregator": "luce.aggregate.supervised",
    "Consensus": "luce.aggregate.result",
    "ScoreBoard": "luce.aggregate.scores.score_board",
    "Mallows": "luce.aggregate.mallows",
    "MallowsMixture": "luce.aggregate.mallows",
    "PositionalAggregator": "luce.aggregate.supervised",
    "axiom_margins": "luce.aggregate.axioms",
    "check_profile": "luce.aggregate.profile_checks",
    "CategoryBoards": "luce.aggregate.board.categories",
    "History": "luce.aggregate.history.result",
    "save_board": "luce.aggregate.board.saved",
    "update_board": "luce.aggregate.board.saved",
    "consensus": "luce.aggregate.rules",
    "fit_mallows": "luce.aggregate.mallows",
    "fit_mixture": "luce.aggregate.mallows",
    "footrule": "luce.aggregate.distances",
    "footrule_matrix": "luce.aggregate.distances",
    "judge_agreement": "luce.aggregate.board.judges",
    "kendall": "luce.aggregate.distances",
    "kendall_matrix": "luce.aggregate.distances",
    "leaderboard": "luce.aggregate.board.fit",
    "majority_bound": "luce.aggregate.axiom_programs",
    "margin_bounds": "luce.aggregate.axiom_programs",
    "read_ballots": "luce.aggregate.readers",
    "read_runs": "luce.aggregate.readers",
    "rearranged": "luce.aggregate.axiom_programs",
    "rule_names": "luce.aggregate.rules",
    "score_board": "luce.aggregate.scores.score_board",
    "simulate_battles": "luce.aggregate.board.simulated_battles",
    "support": "luce.aggregate.positional",
    "write_ballots": "luce.aggregate.readers",
}

__all__ = [
    "AxiomMargins",
    "Ballots",
    "Board",
    "BordaAggregator",
    "CPSAggregator",
    "CategoryBoards",
    "Consensus",
    "History",
    "Mallows",
    "MallowsMixture",
    "PositionalAggregator",
    "ScoreBoard",
    "axiom_margins",
    "check_profile",
    "consensus",
    "fit_mallows",
    "fit_mixture",
    "footrule",
    "footrule_matrix",
    "judge_agreement",
    "kendall",
    "kendall_matrix",
    "leaderboard",
    "majority_bound",
    "margin_bounds",
    "read_ballots",
    "read_runs",
    "rearranged",
    "rule_names",
    "save_board",
    "score_board",
    "simulate_battles",
    "support",
    "update_board",
    "write_ballots",
]

if TYPE_CHECKING:
    from luce.aggregate.axiom_programs import majority_bound, margin_bounds, rearranged
    from luce.aggregate.axioms import AxiomMargins, axiom_margins
    from luce.aggregate.ballots import Ballots
    from luce.aggregate.board.categories import CategoryBoards
    from luce.aggregate.board.fit import leaderboard
    from luce.aggregate.board.judges import judge_agreement
    from luce.aggregate.board.result import Board
    from luce.aggregate.board.saved import save_board, update_board
    from luce.aggregate.board.simulated_battles import simulate_battles
    from luce.aggregate.distances import footrule, footrule_matrix, kendall, kendall_matrix
    from luce.aggregate.history.result import History
    from luce.aggregate.mallows import Mallows, MallowsMixture, fit_mallows, fit_mixture
    from luce.aggregate.positional import support
    from luce.aggregate.profile_checks import check_profile
    from luce.aggregate.readers import read_ballots, read_runs, write_ballots
    from luce.aggregate.result import Consensus
    from luce.aggregate.rules import consensus, rule_names
    from luce.aggregate.scores.score_board import ScoreBoard, score_board
    from luce.aggregate.supervised import BordaAggregator, CPSAggregator, PositionalAggregator


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'luce.aggregate' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
