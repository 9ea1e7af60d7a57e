"""Experiments: models compared over folds, each tuned on validation data with a stated grid."""

from luce.experiments.compare import Candidate, Comparison, compare
from luce.experiments.folds import Fold, find_folds, grouped_folds

__all__ = ["Candidate", "Comparison", "Fold", "compare", "find_folds", "grouped_folds"]
