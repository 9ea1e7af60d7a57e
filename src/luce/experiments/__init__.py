"""Experiments: models compared over folds, each tuned on validation data with a stated grid; one model searched."""

from luce.experiments.compare import Candidate, compare
from luce.experiments.comparison import Failure, ModelComparison, Outcome
from luce.experiments.folds import Fold, find_folds, find_splits, grouped_folds
from luce.experiments.run_folder import RunFolder, read_run, write_run
from luce.experiments.search import Tuning, tune
from luce.experiments.surrogate import Surrogate, best_surrogate, write_surrogates

__all__ = [
    "Candidate",
    "Failure",
    "Fold",
    "ModelComparison",
    "Outcome",
    "RunFolder",
    "Surrogate",
    "Tuning",
    "best_surrogate",
    "compare",
    "find_folds",
    "find_splits",
    "grouped_folds",
    "read_run",
    "tune",
    "write_run",
    "write_surrogates",
]
