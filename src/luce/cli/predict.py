"""`luce predict` and `luce convert`: scores of documents, and documents in other formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import QuietFlag, Report, SeedOption, check_outputs
from luce.cli.data_options import (
    JudgedReading,
    Reading,
    check_predictions,
    read_matching,
    say_columns,
    size_of,
    write_scores,
)
from luce.cli.options import flag
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.ranker import Ranker
    from luce.types import FloatArray


@dataclass(frozen=True)
class _Answer:
    """What is written."""

    out: Path | None = flag(None, "Where to write (default: standard output).", "--out", "-o")
    probabilities: Path | None = flag(None, "Also write a CSV with the chances of every pair of documents of a query.")
    top_k: int | None = flag(
        None, "With --format csv: a column with the chance to be among the first k, and its error where it is drawn."
    )
    format: str = flag("scores", "scores, trec or csv.")


def predict(
    *,
    data: Path = typer.Argument(..., help="Documents to score; labels are not needed in tables."),
    model: Path = typer.Option(..., help="A model file."),
    given: _Answer,
    seed: SeedOption = 0,
    reading: Reading,
    quiet: QuietFlag = False,
) -> None:
    """Score documents, one line each in the order of the file (trec: best first)."""
    report = Report(quiet=quiet)
    from luce.model_file import load
    from luce.registry import canonical

    check_predictions(given.out, given.format)
    if given.top_k is not None and canonical(given.format) != "csv":
        raise SettingError("--top-k adds a column to the table; give --format csv with it.")
    check_outputs(given.probabilities)
    ranker = load(model)
    options = reading.given()
    groups = read_matching(data, ranker.feature_names_, options, ranker.schema_)
    say_columns(report, groups)
    scores = ranker.predict(groups)
    ranker.random_state = seed
    if given.probabilities is not None:
        rows = _write_pairs(given.probabilities, ranker, groups, scores)
        report.say(f"Wrote {given.probabilities}: {rows:,} pairs.")
    extra = {} if given.top_k is None else _top_columns(ranker, groups, given.top_k, report)
    write_scores(report, given.out, groups, scores, given.format, extra=extra)


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

    from luce.data.groups import document_names
    from luce.data.text_files import write_text

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


def convert(
    *,
    source: Path = typer.Argument(..., metavar="IN", help="LETOR text, CSV, Parquet, Arrow, .lucedata or a JSON log."),
    out: Path = typer.Option(
        ..., "--out", "-o", help="File; its end says the format: .lucedata, .parquet, .txt, .txt.gz."
    ),
    reading: JudgedReading,
    report: Report,
) -> None:
    """Convert judged documents; a .lucedata file opens at once by memory map, and is written in bounded memory."""
    from luce.data.groups import Groups
    from luce.data.mapped import stream_data
    from luce.data.readers.detect import open_source, read
    from luce.data.writers import check_data_output, write

    options = reading.given()
    suffix = check_data_output(out)
    report.say(f"Reading {source}")
    data: Any = open_source(source, **options) if suffix == ".lucedata" else read(source, **options)
    if isinstance(data, Groups):
        write(data, out)
    else:
        data = stream_data(data, out)
    say_columns(report, data)
    report.result(*size_of(out, data))
