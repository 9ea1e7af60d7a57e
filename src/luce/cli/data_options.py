"""Options of the commands that read judged documents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.options import flag
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.cli.common import Report

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


QidOption = Annotated[str | None, typer.Option("--qid", help="Column of the query ids of a table.")]
LabelOption = Annotated[str | None, typer.Option("--label", help="Column of the labels of a table.")]
DocOption = Annotated[str | None, typer.Option("--doc", help="Column of the document ids of a table.")]
WeightOption = Annotated[str | None, typer.Option("--weight", help="Column of the query weights of a table.")]
ColumnsOption = Annotated[
    list[str] | None, typer.Option("--features", help="Columns that are features, as a,b,c; default: all that can be.")
]
DropOption = Annotated[
    list[str] | None, typer.Option("--drop", help="Columns of a table that are no features, as a,b.")
]
CategoricalOption = Annotated[
    list[str] | None, typer.Option("--categorical", help="Columns whose values are names, even if they are numbers.")
]
LabelMapOption = Annotated[
    list[str] | None, typer.Option("--label-map", help="Numbers of labels that are text, as good=2,ok=1,bad=0.")
]
_LISTS = ("features", "drop", "categorical")


def given(**options: Any) -> dict[str, Any]:
    """The options that were given, for `luce.read`; lists of columns may be written as a,b,c.

    >>> given(absent=None, allow_nan=True, drop=["a,b", "c"])
    {'allow_nan': True, 'drop': ['a', 'b', 'c']}
    """
    said = {name: value for name, value in options.items() if value is not None and value is not False and value != []}
    for name in _LISTS:
        if name in said:
            said[name] = [part.strip() for text in said[name] for part in text.split(",") if part.strip()]
    if "label_map" in said:
        said["label_map"] = _label_map(said["label_map"])
    return said


def _label_map(texts: list[str]) -> dict[str, float]:
    """A label map as it is written in a command.

    >>> _label_map(["good=2, ok=1", "bad=0"])
    {'good': 2.0, 'ok': 1.0, 'bad': 0.0}
    """
    grades: dict[str, float] = {}
    for part in (part for text in texts for part in text.split(",") if part.strip()):
        name, _, grade = part.rpartition("=")
        try:
            value = float(grade)
        except ValueError:
            value = math.nan
        if not name.strip() or name.strip() in grades or not math.isfinite(value):
            raise SettingError(
                f"--label-map has the part {part.strip()!r}; write every label once, with its number, as in "
                "good=2,ok=1,bad=0."
            )
        grades[name.strip()] = value
    return grades


@dataclass(frozen=True)
class FoldReading:
    """How the files of folds are read."""

    absent: AbsentOption = None
    allow_nan: AllowNanFlag = False
    missing: MissingOption = None
    qid: QidOption = None
    label: LabelOption = None
    doc: DocOption = None
    weight: WeightOption = None
    features: ColumnsOption = None
    drop: DropOption = None
    categorical: CategoricalOption = None
    label_map: LabelMapOption = None

    def given(self) -> dict[str, Any]:
        """The options that were given, for `luce.read`."""
        return given(**vars(self))


@dataclass(frozen=True)
class Reading(FoldReading):
    """How the file is read."""

    n_features: FeaturesOption = None
    query_file: Path | None = flag(None, "Sizes of the queries, a line each, for text without qid.", "--query-file")


@dataclass(frozen=True)
class JudgedReading(Reading):
    """How the file is read; grades may stand in another one."""

    judgements: Path | None = flag(
        None, "Grades of the documents of a JSON log: `4 qid:1 # doc`, CSV or TREC qrels.", "--judgements"
    )


def say_columns(report: Report, data: Any) -> None:
    """Once for a file: which columns of a table are features, which are ids, which were left out and why."""
    if not report.quiet and (schema := getattr(data, "schema", None)) is not None:
        report.say(schema.remark())
