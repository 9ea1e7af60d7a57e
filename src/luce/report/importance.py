"""What the models look at: weights of linear models, gains of trees, ranges of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from luce.ranker import Ranker

MOST_FEATURES = 30
_EFFECT = "effect of one standard deviation on the score"


def feature_importance(rankers: Mapping[int, Ranker]) -> dict[str, Any] | None:
    """The strongest features of one model, by the mean of their size over folds; None where it has no such thing.

    `rankers` holds the fitted model of every fold.
    """
    found: dict[str, dict[int, float]] = {}
    meaning = _EFFECT
    for fold, ranker in rankers.items():
        scorer = ranker.scorer_
        if not hasattr(scorer, "importance"):
            return None
        meaning = getattr(scorer, "importance_is", _EFFECT)
        names = getattr(scorer, "term_names", None) or ranker.scored_names
        for name, value in zip(names, np.asarray(scorer.importance()).tolist(), strict=True):
            if value:
                found.setdefault(name, {})[fold] = value
    if not rankers:
        return None
    folds = sorted(rankers)
    strength = {name: sum(map(abs, by_fold.values())) for name, by_fold in found.items()}
    order = sorted(found, key=lambda name: -strength[name])[:MOST_FEATURES]
    values = [[float(f"{found[name].get(fold, 0.0):.5g}") for fold in folds] for name in order]
    return {
        "meaning": meaning,
        "folds": folds,
        "names": order,
        "values": values,
        "signed": any(value < 0 for row in values for value in row),
        "total": len(found),
    }
