"""`luce report`: a finished comparison as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luce.cli.common import Report, check_ending


def report(
    *,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `luce compare --out` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    data: Annotated[
        Path | None, typer.Option(help="Where the data of the run are now, if not where they were then.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    told: Report,
) -> None:
    """Show a comparison as one HTML page that needs no network: tables, charts, rankings, explanations."""
    check_ending(out, (".html", ".htm"))
    from luce.report import write_report

    with told.progress("Making the report") as progress:
        built = write_report(run, out, data=data, title=title, progress=progress)
    for remark in built.remarks:
        told.say(f"Note: {remark}")
    size = out.stat().st_size
    facts = {"report": str(out), "bytes": size, "models": built.models, "queries": built.queries}
    told.result(
        f"Wrote {out}: {built.models} models, {built.queries:,} test queries, {size / 1e6:.1f} MB.",
        {**facts, "remarks": built.remarks},
    )
