"""Click logs: counts, examination, targets for learning, evaluation, interleaving and simulation."""

from __future__ import annotations

from luce.clicks.counts import ClickCounts
from luce.clicks.examination import Examination, examination, given_examination
from luce.clicks.log import read
from luce.clicks.pairs import pairs
from luce.data.clicks import Clicks

__all__ = ["ClickCounts", "Clicks", "Examination", "examination", "given_examination", "pairs", "read"]
