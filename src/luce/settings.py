"""Settings that the library and the command line share: what each may be, what it is, and what it is if not given.

They stand here and not beside the work that they are for, which takes long to import: `luce train --help` needs none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal

from luce.checks import words
from luce.errors import SettingError
from luce.spec import Spec, option

MAX_INDEX = 10_000_000
"""The largest index of a feature in a text file."""
UNSET: Literal["default"] = "default"
"""`early_stopping` that was not given: None means never."""


class ShortForms(Spec):
    """How it is fitted; what is not given leaves the setting of the part, and what no part takes is refused.

    Parameters
    ----------
    l2
        Strength of the L2 penalty.
    max_iter
        Iterations or trees at most.
    max_epochs
        Passes over the queries in descent.
    tol
        Relative decrease at which L-BFGS ends.
    learning_rate
        Step of descent, or shrinkage of trees.
    schedule
        Steps of descent: constant, sqrt or inverse.
    batch_queries
        Queries of a step of descent.
    early_stopping
        Iterations without a better validation metric before training ends; 0: never.
    """

    l2: float | None = None
    max_iter: int | None = None
    max_epochs: int | None = None
    tol: float | None = None
    learning_rate: float | None = None
    schedule: str | None = None
    batch_queries: int | None = None
    early_stopping: int | Literal["auto", "default"] | None = UNSET


class PartNames(Spec):
    """What is trained: loss and scorer, or a complete system.

    Parameters
    ----------
    loss
        Name of the loss (default: pmop); `luce info --losses` lists them.
    scorer
        Name of the scorer (default: linear); `luce info --scorers` lists them.
    """

    loss: str | None = None
    scorer: str | None = None


class Choosing(Spec):
    """What trains, and by what its iterates are chosen.

    Parameters
    ----------
    trainer
        Name of the trainer; `luce info --trainers` lists them.
    metric
        Metric on the validation data.
    """

    trainer: str = "auto"
    metric: str = "ndcg@10"


def _folder(name: str, given: Any) -> Any:
    if isinstance(given, str | Path):
        return given
    raise SettingError(f"{name} is {given!r}; it must be None or the path of a folder.")


class Surroundings(Spec):
    """What a ranker stands on, and what it goes on from.

    Parameters
    ----------
    query_norm
        Normalise features within queries: minmax or zscore.
    base
        What trees are added to: a model file, also of LightGBM or XGBoost, or column:NAME for a feature.
    base_folds
        Fit the base again on so many folds: each query is scored by a copy that did not see it.
    warm_start
        Start from the scorer of the last fit; trees are added to its trees.
    checkpoint
        Folder for checkpoints, to go on from.
    """

    query_norm: Literal["minmax", "zscore"] | None = None
    base: Any = None
    base_folds: int | None = None
    warm_start: bool = False
    checkpoint: str | Path | None = option(default=None, convert=_folder)


def _budget(name: str, given: Any) -> Any:
    time = isinstance(given, Real) and not isinstance(given, bool) and 0 < float(given) < math.inf
    if time or (isinstance(given, str) and given in ("fast", "best")):
        return given
    raise SettingError(f"{name} is {given!r}; it must be 'fast', 'best', or seconds, a number above 0.")


class Budget(Spec):
    """How long a blend may take.

    Parameters
    ----------
    budget
        Of --model auto: fast, best, or seconds such as 120; with seconds, members are fitted in the order of their
        worth while there is time, and what was carried out is kept as a plan.
    """

    budget: str | float = option(default="fast", convert=_budget)


class Splits(Spec):
    """How one file is cut.

    Parameters
    ----------
    folds
        Number of folds, for a single file.
    hold_out
        Without --valid: share of the queries to hold out for it, such as 0.2.
    """

    folds: int = option(default=5, least=3)
    hold_out: float = option(default=0.2, above=0, below=1)


class Searching(Spec):
    """How settings are sought.

    Parameters
    ----------
    trials
        Settings to try; the first one is the model as it is.
    search
        random, or halving: bad settings leave on small parts.
    eta
        Halving: one of so many settings goes on.
    """

    trials: int = option(default=30, least=1)
    search: Literal["random", "halving"] = "random"
    eta: int = option(default=3, least=2)


class LetorOptions(Spec):
    """How a text file of features is to be understood.

    Parameters
    ----------
    absent
        A feature that a row leaves out is zero (text: default) or nan (logs: default).
    allow_nan
        Admit NaN as a feature value.
    n_features
        Number of columns of a text file; default: the largest index.
    query_file
        Sizes of the queries, a line each, for text without qid.
    missing
        Word that stands for a missing value, such as NULL; repeatable.
    """

    absent: Literal["zero", "nan"] = "zero"
    allow_nan: bool = False
    n_features: int | None = option(default=None, least=1, most=MAX_INDEX)
    query_file: str | Path | None = None
    missing: Sequence[str] = option(default=(), convert=words)


class LogReading(Spec):
    """How a log of features is to be understood.

    Parameters
    ----------
    judgements
        Grades of the documents of a JSON log: `4 qid:1 # doc`, CSV or TREC qrels.
    absent
        A feature that the log leaves out is zero or nan.
    features
        The features wanted, in this order; None takes all.
    log_name
        The log to take where hits carry several.
    """

    judgements: str | Path | None = None
    absent: Literal["zero", "nan"] = "nan"
    features: Sequence[str] | None = None
    log_name: str | None = None


def _names(name: str, given: Any) -> Any:
    if isinstance(given, str):
        raise SettingError(f"{name} is {given!r}; give a list of column names.")
    return given


def _grades(name: str, given: Any) -> dict[str, float]:
    """A map from the values of a label column to numbers, checked."""
    if not isinstance(given, Mapping) or not given:
        raise SettingError(f"{name} is {given!r}; give a number for every value, as in {{'good': 1, 'bad': 0}}.")
    grades: dict[str, float] = {}
    for label, value in given.items():
        try:
            grades[str(label)] = float(value)
        except (TypeError, ValueError):
            grades[str(label)] = math.nan
        if not math.isfinite(grades[str(label)]):
            raise SettingError(f"{name} gives {str(label)!r} the label {value!r}; labels are finite numbers.")
    return grades


class TableOptions(Spec):
    """What may be said of the columns of a table: the same words for files, frames and the command line.

    Parameters
    ----------
    qid
        Column of the query ids of a table.
    label
        Column of the labels of a table.
    doc
        Column of the document ids of a table.
    weight
        Column of the query weights of a table.
    features
        Columns that are features, as a,b,c; default: all that can be.
    drop
        Columns of a table that are no features, as a,b.
    categorical
        Columns whose values are names, even if they are numbers.
    label_map
        Numbers of labels that are text, as good=2,ok=1,bad=0.
    subtopics
        Column with the subtopics of a document, a list or a text with blanks between names.
    text
        A `luce.Text`, which makes features of texts; where `qid` is not said, its query is that, too.
    schema
        That of other data or of a model, which this table must fit.
    allow_nan
        False refuses gaps (nulls, NaN) among the features, which else are NaN.
    """

    qid: str | None = None
    label: str | None = None
    doc: str | None = None
    weight: str | None = None
    features: Sequence[str] | None = option(default=None, convert=_names)
    drop: Sequence[str] = option(default=(), convert=_names)
    categorical: Sequence[str] = option(default=(), convert=_names)
    label_map: Mapping[str, float] | None = option(default=None, convert=_grades)
    subtopics: str | None = None
    text: Any = None
    schema: Any = None
    allow_nan: bool = True
