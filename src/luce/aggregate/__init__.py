"""Rank aggregation: rules, axioms, Mallows, and leaderboards from comparisons with draws. Loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "Board": "luce.aggregate.board.result",
    "leaderboard": "luce.aggregate.board.fit",
    "simulate_battles": "luce.aggregate.board.simulate",
}

__all__ = [
    "Board",
    "leaderboard",
    "simulate_battles",
]

if TYPE_CHECKING:
    from luce.aggregate.board.fit import leaderboard
    from luce.aggregate.board.result import Board
    from luce.aggregate.board.simulate import simulate_battles


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'luce.aggregate' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
