"""What a record of finished work must hold; a whole file with other content was not written by luce."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def trial_fault(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the record of a fit, or None.

    >>> trial_fault({"validation": 0.5, "seconds": "1", "history": {}, "model": {}})
    "'seconds' is not a number of at least 0"
    """
    validation, seconds = settings.get("validation", ""), settings.get("seconds")
    history, model = settings.get("history"), settings.get("model")
    if validation is not None and not _is_number(validation):
        return "'validation' is neither a number nor null"
    if seconds is None or not (_is_number(seconds) and 0 <= seconds < math.inf):
        return "'seconds' is not a number of at least 0"
    if not isinstance(history, dict):
        return "'history' is not an object"
    for name in ("objective", "validation"):
        values = history.get(name, [])
        if not (isinstance(values, list) and all(map(_is_number, values))):
            return f"{name!r} of its history is not a list of numbers"
    return None if isinstance(model, dict) else "'model' is not an object"


def verdict_fault(settings: Mapping[str, Any], arrays: Mapping[str, Any]) -> str | None:
    """What is wrong with the record of a judged model, or None.

    >>> verdict_fault({"metrics": ["map"]}, {"scores": np.zeros(3)})
    "it has no vector of numbers 'values.map'"
    """
    names = settings.get("metrics")
    if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
        return "'metrics' is not a list of names"
    expected = ["scores", *(f"values.{name}" for name in names)]
    for name in expected:
        array = arrays.get(name)
        if array is None or array.ndim != 1 or array.dtype != np.float64:
            return f"it has no vector of numbers {name!r}"
    lengths = {len(arrays[name]) for name in expected[1:]}
    return None if len(lengths) == 1 else "its metrics have values for different numbers of queries"


def results_are_whole(results: Any) -> bool:
    """Whether the content of `results.json` has what a reader of a run looks for, in its form.

    >>> results_are_whole({"settings": {"metrics": ["map"], "folds": []}, "leaderboard": [], "folds": [], "data": {}})
    True
    """
    if not isinstance(results, dict):
        return False
    settings, board, folds = results.get("settings"), results.get("leaderboard"), results.get("folds")
    named = isinstance(settings, dict) and all(_are_names(settings.get(name)) for name in ("metrics", "folds"))
    rows = isinstance(board, list) and all(isinstance(row, dict) and isinstance(row.get("model"), str) for row in board)
    places = isinstance(folds, list) and all(isinstance(row, dict) and {"model", "fold"} <= set(row) for row in folds)
    return named and rows and places and isinstance(results.get("data"), dict)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
