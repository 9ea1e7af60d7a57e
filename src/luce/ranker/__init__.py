"""`Ranker`: scorer, loss and trainer as one scikit-learn estimator."""

from luce.ranker.estimator import Ranker

__all__ = ["Ranker"]
