"""`luce predict`: score documents with a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from luce.cli.common import QuietFlag, Report, SeedOption, check_outputs
from luce.cli.data_options import Reading, say_columns
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.ranker import Ranker
    from luce.types import FloatArray


def predict(
    *,
    data: Annotated[Path, typer.Argument(help="Documents to score; labels are not needed in tables.")],
    model: Annotated[Path, typer.Option(help="A model file.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write (default: standard output).")] = None,
    probabilities: Annotated[
        Path | None, typer.Option(help="Also write a CSV with the chances of every pair of documents of a query.")
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            help="With --format csv: a column with the chance to be among the first k, and its error where it is drawn."
        ),
    ] = None,
    seed: SeedOption = 0,
    format: Annotated[str, typer.Option(help="scores, trec or csv.")] = "scores",
    reading: Reading,
    quiet: QuietFlag = False,
) -> None:
    """Score documents, one line each in the order of the file (trec: best first)."""
    report = Report(quiet=quiet)
    from luce.cli.same_features import read_matching
    from luce.data.trec import FORMATS, write_predictions
    from luce.model_file import load
    from luce.registry import canonical, unknown_name

    if canonical(format) not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if top_k is not None and canonical(format) != "csv":
        raise SettingError("--top-k adds a column to the table; give --format csv with it.")
    check_outputs(out, probabilities)
    ranker = load(model)
    options = reading.given()
    groups = read_matching(data, ranker.feature_names_, options, ranker.schema_)
    say_columns(report, groups)
    scores = ranker.predict(groups)
    ranker.random_state = seed
    if probabilities is not None:
        rows = _write_pairs(probabilities, ranker, groups, scores)
        report.say(f"Wrote {probabilities}: {rows:,} pairs.")
    extra = {} if top_k is None else _top_columns(ranker, groups, top_k, report)
    write_predictions(sys.stdout if out is None else out, groups, scores, format, extra=extra)
    if out is not None:
        report.say(f"Wrote {out}: {groups.n_rows:,} scores.")


def _top_columns(ranker: Ranker, groups: Groups, k: int, report: Report) -> dict[str, FloatArray]:
    """The chance of each document to be among the first k; its standard error beside it where it is an estimate."""
    chances = ranker.topk_chances(groups, k)
    if not chances.draws:
        return {f"p_top_{k}": chances.probability}
    largest = f"standard errors are at most {chances.error.max():.2g}"
    report.say(f"p_top_{k} is estimated by {chances.draws:,} draws a query; {largest}.")
    return {f"p_top_{k}": chances.probability, f"p_top_{k}_error": chances.error}


def _write_pairs(path: Path, ranker: Ranker, groups: Groups, scores: FloatArray) -> int:
    """One row a pair of documents, the one with the higher score first; returns the number of rows."""
    import csv

    import numpy as np

    from luce.data.text_files import write_text
    from luce.data.trec import document_names

    names, count = document_names(groups), 0
    with write_text(path) as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(("qid", "document_a", "document_b", "a_better", "tied", "b_better"))
        for q, pairs in enumerate(ranker.pairs(groups)):
            start, stop = groups.offsets[q], groups.offsets[q + 1]
            order = np.argsort(-scores[start:stop], kind="stable")
            for k, i in enumerate(order):
                for j in order[k + 1 :]:
                    chances = (pairs.before[i, j], pairs.tie[i, j], pairs.before[j, i])
                    ids = (groups.query_ids[q], names[start + i], names[start + j])
                    rows.writerow((*ids, *(f"{chance:.6g}" for chance in chances)))
                    count += 1
    return count
