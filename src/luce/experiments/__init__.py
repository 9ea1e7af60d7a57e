"""Experiments: models compared over folds, each tuned on validation data with a stated grid."""

from luce.experiments.compare import Candidate, compare
from luce.experiments.comparison import Comparison, Failure, Outcome
from luce.experiments.folds import Fold, find_folds, grouped_folds
from luce.experiments.run_folder import Run, read_run, write_run

__all__ = [
    "Candidate",
    "Comparison",
    "Failure",
    "Fold",
    "Outcome",
    "Run",
    "compare",
    "find_folds",
    "grouped_folds",
    "read_run",
    "write_run",
]
