"""`luce report`: a finished comparison as one HTML page."""

from __future__ import annotations

from pathlib import Path

import typer

from luce.cli.common import Report, check_ending


def report(
    *,
    run: Path = typer.Argument(..., metavar="RUN", help="A folder that `luce compare --out` wrote."),
    out: Path = typer.Option(Path("report.html"), "--out", "-o", help="The page to write."),
    data: Path | None = typer.Option(None, help="Where the data of the run are now, if not where they were then."),
    title: str | None = typer.Option(None, help="Title of the page."),
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
