"""Searches of scikit-learn that would judge a ranker without its queries."""

from __future__ import annotations

import sys
from typing import Any

from sklearn import get_config

from luce.errors import DataError
from luce.ranker.intake import ROUTING


def refuse_blind_search(qid: Any, group: Any) -> None:
    """Refuse a fit whose score will be asked without query ids.

    Without metadata routing, GridSearchCV hands `qid` to `fit` and nothing to `score`. It makes NaN of an error of
    `score` and goes on with the first settings of its grid: only `fit` can refuse, and who calls is in the stack alone.
    """
    if group is not None and _search() is not None:
        raise DataError(f"group cannot be cut into folds, which take rows; give qid in its place. {ROUTING}")
    if qid is None or isinstance(qid, str) or get_config()["enable_metadata_routing"]:
        return
    scorer = _search()
    scorers = [scorer, *getattr(scorer, "_scorers", {}).values()]
    if any(type(each).__name__ == "_PassthroughScorer" for each in scorers):  # that of an estimator's own score
        raise DataError(f"qid was given to fit, and this search would call score without it. {ROUTING}")


def _search() -> Any:
    """The scorer of the search or cross-validation that is running, or None."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and frame.f_globals.get("__name__", "").startswith("sklearn."):
            return frame.f_locals.get("scorer")
        frame = frame.f_back  # type: ignore[assignment]
    return None
