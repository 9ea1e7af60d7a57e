"""Losses and metrics of luce inside the engines that people already use.

    lightgbm.train({"objective": luce.objectives.lightgbm("pmop")}, dataset)
    lightgbm.LGBMRanker(objective=luce.objectives.lightgbm("pmop"))
    xgboost.train({}, matrix, obj=luce.objectives.xgboost("pmop"))
    luce.objectives.torch("pmop")(scores, labels, offsets).backward()

The engine hands over scores, labels and query boundaries. A loss with a tie parameter keeps the value that it is made
with; only `torch` and the scorer `trees` learn it.
"""

from __future__ import annotations

from luce.objectives.engines import LightGBMMetric, LightGBMObjective, XGBoostMetric, XGBoostObjective
from luce.objectives.for_torch import TorchLoss

__all__ = ["lightgbm", "lightgbm_metric", "torch", "xgboost", "xgboost_metric"]

lightgbm = LightGBMObjective
lightgbm_metric = LightGBMMetric
torch = TorchLoss
xgboost = XGBoostObjective
xgboost_metric = XGBoostMetric
