"""Complete systems by name: the rows of the papers' tables, each configured as there."""

from __future__ import annotations

from typing import Any

from luce.ranker import Ranker
from luce.registry import canonical, unknown_name

__all__ = ["model", "model_names", "search_space"]

_PAPER_DESCENT = {"max_iter": 1000, "learning_rate": 0.1}
_SYSTEMS: dict[str, dict[str, Any]] = {
    "hom-gg": {"loss": "hom_gg"},
    "hom-og": {"loss": "hom_og"},
    "hom-oo": {"loss": "hom_oo"},
    "listmle": {"loss": "listmle"},
    "listnet": {"loss": "listnet"},
    "pairties-d": {"loss": "davidson"},
    "pairties-rk": {"loss": "rao_kupper"},
    "pmop-exact": {"loss": "pmop_exact"},
    "pmop-fd": {"loss": "pmop"},
    "pmop-gibbs": {"loss": "pmop_gibbs", "loss_params": {"value": "surrogate"}, **_PAPER_DESCENT},
    # One step of the right chain is too short to learn from; ten are enough (see the page on pmop).
    "pmop-mh": {"loss": "pmop_mh", "loss_params": {"value": "surrogate", "steps": 10}, **_PAPER_DESCENT},
    "rank-regress": {"loss": "rank_regress"},
    "ranknet": {"loss": "ranknet"},
    "ranksvm": {"loss": "ranksvm"},
    "topk-cps": {"loss": "topk_listmle", "scorer": "cps"},
    "topk-listmle": {"loss": "topk_listmle"},
}

_LINEAR_GRID = {"l2": [1e-4, 1e-3, 1e-2, 1e-1, 1.0]}


def search_space(name: str) -> dict[str, list[Any]]:
    """The settings of a system that validation should choose, each with its values; the same effort for all."""
    model(name)
    return dict(_LINEAR_GRID)


def model_names() -> list[str]:
    """All complete systems.

    >>> "pmop-fd" in model_names()
    True
    """
    return sorted(_SYSTEMS)


def model(name: str, **overrides: Any) -> Ranker:
    """A complete system, not yet fitted; `overrides` replace its settings.

    >>> model("pmop-fd", l2=0.1)
    Ranker(l2=0.1)
    """
    for known, settings in _SYSTEMS.items():
        if canonical(known) == canonical(name):
            return Ranker(**{**settings, **overrides})
    raise unknown_name("model", name, _SYSTEMS)
