"""Click logs: counts, examination, targets for learning, evaluation, interleaving and simulation."""

from __future__ import annotations

from luce.clicks.choice import Estimate
from luce.clicks.counts import ClickCounts
from luce.clicks.evaluation import ClickEvaluation, click_rate, evaluate, policy_value
from luce.clicks.examination import Examination, examination, given_examination, pairs
from luce.clicks.guard import Guarded, guarded
from luce.clicks.interleaving import Interleaving, interleaving
from luce.clicks.log import read
from luce.data.clicks import Clicks

__all__ = [
    "ClickCounts",
    "ClickEvaluation",
    "Clicks",
    "Estimate",
    "Examination",
    "Guarded",
    "Interleaving",
    "click_rate",
    "evaluate",
    "examination",
    "given_examination",
    "guarded",
    "interleaving",
    "pairs",
    "policy_value",
    "read",
]
