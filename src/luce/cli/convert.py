"""`luce convert`: judged documents from one format to another."""

from __future__ import annotations

from pathlib import Path

import typer

from luce.cli.common import Report
from luce.cli.data_options import JudgedReading, say_columns


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
    if suffix == ".lucedata":
        opened = open_source(source, **options)
        if isinstance(opened, Groups):
            write(opened, out)
            queries, documents, features = opened.n_queries, opened.n_rows, opened.n_features
        else:
            outline = stream_data(opened, out)
            say_columns(report, outline)
            queries, documents, features = len(outline.query_ids), outline.n_rows, outline.n_features
    else:
        data = read(source, **options)
        say_columns(report, data)
        write(data, out)
        queries, documents, features = data.n_queries, data.n_rows, data.n_features
    report.result(
        f"{out}: {queries} queries, {documents} documents, {features} features",
        {"file": str(out), "queries": queries, "documents": documents, "features": features},
    )
