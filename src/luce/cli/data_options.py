"""Options of the commands that read judged documents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "AbsentOption",
    "AllowNanFlag",
    "FeaturesOption",
    "FoldReading",
    "JudgedReading",
    "MissingOption",
    "Reading",
    "given",
]

AbsentOption = Annotated[
    str | None,
    typer.Option("--absent", help="A feature that a row leaves out is zero (text: default) or nan (logs: default)."),
]
AllowNanFlag = Annotated[bool, typer.Option("--allow-nan", help="Admit NaN as a feature value.")]
FeaturesOption = Annotated[
    int | None, typer.Option("--n-features", help="Number of columns of a text file; default: the largest index.")
]
MissingOption = Annotated[
    list[str] | None, typer.Option("--missing", help="Word that stands for a missing value, such as NULL; repeatable.")
]


def given(**options: Any) -> dict[str, Any]:
    """The options that were given, for `luce.read`.

    >>> given(absent=None, allow_nan=True)
    {'allow_nan': True}
    """
    return {name: value for name, value in options.items() if value is not None and value is not False and value != []}


@dataclass(frozen=True)
class FoldReading:
    """How the files of folds are read."""

    absent: AbsentOption = None
    allow_nan: AllowNanFlag = False
    missing: MissingOption = None

    def given(self) -> dict[str, Any]:
        """The options that were given, for `luce.read`."""
        return given(**vars(self))


@dataclass(frozen=True)
class Reading:
    """How one file of documents is read."""

    absent: AbsentOption = None
    allow_nan: AllowNanFlag = False
    n_features: FeaturesOption = None
    query_file: Annotated[
        Path | None, typer.Option("--query-file", help="Sizes of the queries, a line each, for text without qid.")
    ] = None
    missing: MissingOption = None

    def given(self) -> dict[str, Any]:
        """The options that were given, for `luce.read`."""
        return given(**vars(self))


@dataclass(frozen=True)
class JudgedReading(Reading):
    """How one file of documents is read whose grades may stand in another one."""

    judgements: Annotated[
        Path | None,
        typer.Option("--judgements", help="Grades of the documents of a JSON log: `4 qid:1 # doc`, CSV or TREC qrels."),
    ] = None
