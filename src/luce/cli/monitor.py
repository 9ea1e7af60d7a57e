"""`luce monitor`: logged requests beside the training of their model."""

from __future__ import annotations

from pathlib import Path

import typer

from luce.cli.common import JsonFlag, Report, check_ending, check_outputs, table

_GAPS = ("missing", "missing_in_training")


def monitor(
    *,
    logs: list[Path] = typer.Argument(..., help="Files that `luce serve --log` wrote."),
    model: Path = typer.Option(..., help="The model that answered."),
    out: Path | None = typer.Option(None, "--out", "-o", help="A page (.html) to write."),
    all_versions: bool = typer.Option(
        False, "--all-versions", help="Count requests that other versions of the model answered, too."
    ),
    json: JsonFlag = False,
) -> None:
    """Compare logged requests with the training of their model: drift of features and scores, gaps."""
    import hashlib

    from luce.model_file import load
    from luce.report.monitor_page import monitor, write_monitor_page

    report = Report(as_json=json)
    check_ending(out, (".html",))
    check_outputs(out)
    ranker = load(model)
    version = None if all_versions else hashlib.sha256(model.read_bytes()).hexdigest()[:12]
    found = monitor(logs, ranker, version)
    record = found.as_dict()
    if out is not None:
        write_monitor_page(found, out, f"Requests to {model.name} beside its training")
        report.say(f"Wrote {out}.")
    rows = [
        [
            row["column"],
            row["psi"],
            row["ks"],
            *(f"{row[key]:.1%}" for key in _GAPS),
            row["verdict"],
        ]
        for row in record["columns"][:20]
    ]
    title = f"{found.requests:,} requests, {found.documents:,} documents, {record['first']} to {record['last']}"
    if found.others:
        report.say(f"{found.others:,} requests of other versions were left out; --all-versions counts them.")
    header = ["column", "stability index", "distance", "missing", "in training", ""]
    report.result(table(title, header, rows), record)
