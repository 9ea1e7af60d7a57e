"""A fitted ranker as a table: what it looks at, and what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from luce.errors import SettingError
from luce.result import as_frame, facts, html_table, sheet_of
from luce.training.run import best_validation

if TYPE_CHECKING:
    from luce.ranker.estimator import Ranker

_EFFECT = "effect of one standard deviation"


def importance_table(ranker: Ranker) -> Any:
    """Features or terms with their importance, the largest first."""
    names, effect = _importance(ranker)
    return as_frame({"feature": names, "importance": effect}, ranker.frame_)


def _importance(ranker: Ranker) -> tuple[list[str], list[float]]:
    names = getattr(ranker.scorer_, "term_names", None) or ranker.scored_names
    if not hasattr(ranker.scorer_, "importance"):
        raise SettingError(f"The scorer {type(ranker.scorer_).__name__!r} has no method importance.")
    effect = np.asarray(ranker.scorer_.importance(), dtype=np.float64)
    order = np.argsort(-np.abs(effect), kind="stable")
    return [names[i] for i in order], effect[order].tolist()


def shown_as_html(ranker: Ranker) -> str:
    """Title, training and strongest features, for a notebook."""
    history, metric = ranker.history_, ranker.parts_.metric
    rows: list[tuple[str, Any]] = [("rounds", len(history.get("objective", []))), ("features", ranker.n_features_in_)]
    if history.get("objective"):
        rows.append(("objective", float(history["objective"][-1])))
    best = best_validation(history, metric)
    rows += [] if best is None else [(f"best {metric.name} on validation", best)]
    names, effect = _importance(ranker) if hasattr(ranker.scorer_, "importance") else ([], [])
    strongest = [[name, value] for name, value in zip(names, effect, strict=True) if value][:10]
    meaning = getattr(ranker.scorer_, "importance_is", _EFFECT)
    table = html_table(sheet_of("Strongest features", ["feature", meaning], strongest)) if strongest else ""
    return html_table(facts(ranker.parts_.title, rows)) + table
