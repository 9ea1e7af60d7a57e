"""`luce predict`: score documents with a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from luce.cli.common import QuietFlag, Report
from luce.cli.data_options import AbsentOption, AllowNanFlag, FeaturesOption, MissingOption, QueryFileOption, given

__all__ = ["predict"]


def predict(
    data: Annotated[Path, typer.Argument(help="Documents to score; labels are not needed in tables.")],
    model: Annotated[Path, typer.Option(help="A model file.")],
    out: Annotated[Path | None, typer.Option(help="Where to write (default: standard output).")] = None,
    format: Annotated[str, typer.Option(help="scores, trec or csv.")] = "scores",
    absent: AbsentOption = None,
    allow_nan: AllowNanFlag = False,
    n_features: FeaturesOption = None,
    query_file: QueryFileOption = None,
    missing: MissingOption = None,
    quiet: QuietFlag = False,
) -> None:
    """Score documents, one line each in the order of the file (trec: best first)."""
    report = Report(quiet=quiet)
    from luce.cli.matching import read_matching
    from luce.data.predictions import FORMATS, write_predictions
    from luce.model_file import load
    from luce.registry import canonical, unknown_name
    from luce.storage import check_output

    if canonical(format) not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if out is not None:
        check_output(out)
    ranker = load(model)
    options = given(absent=absent, allow_nan=allow_nan, n_features=n_features, query_file=query_file, missing=missing)
    groups = read_matching(data, ranker.feature_names_, options)
    write_predictions(sys.stdout if out is None else out, groups, ranker.predict(groups), format)
    if out is not None:
        report.say(f"Wrote {out}: {groups.n_rows:,} scores.")
