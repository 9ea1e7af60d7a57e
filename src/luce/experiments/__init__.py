"""Experiments: models compared over folds, each tuned on validation data with a stated grid."""

from luce.experiments.compare import Candidate, compare
from luce.experiments.comparison import Comparison, Failure, Outcome
from luce.experiments.folds import Fold, find_folds, grouped_folds
from luce.experiments.run_folder import Run, read_run, write_run
from luce.experiments.surrogate import Surrogate, best_surrogate, write_surrogates

__all__ = [
    "Candidate",
    "Comparison",
    "Failure",
    "Fold",
    "Outcome",
    "Run",
    "Surrogate",
    "best_surrogate",
    "compare",
    "find_folds",
    "grouped_folds",
    "read_run",
    "write_run",
    "write_surrogates",
]
