"""`luce clicks`: aggregate a click log to counts, and say where users look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luce.cli.common import Report, check_unused
from luce.cli.options import Group, Shown, flag
from luce.clicks.log import LogOptions
from luce.display import check_picture
from luce.errors import DataError


class DocumentColumns(Group):
    """What the columns of the documents of `--data` are called, where they are a table."""

    data_qid: str | None = flag(None, "Column of the query ids of --data.")
    data_label: str | None = flag(None, "Column of the labels of --data.")
    data_doc: str | None = flag(None, "Column of the document ids of --data.")


def clicks(
    *,
    context: typer.Context,
    log: Path = typer.Argument(..., help="A click log (CSV, JSON, Parquet, Arrow), or counts of one."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the counts, for train, evaluate and this command."
    ),
    columns: Annotated[LogOptions, Shown(names={"document": "--doc"})],
    events: Path | None = typer.Option(
        None, help="The event store of User Behavior Insights; LOG is then its query store."
    ),
    pairs: bool = typer.Option(False, "--pairs", help="Also count pairs of documents in a session."),
    data: Path | None = typer.Option(None, help="The documents with their features, for joint choice."),
    documents: DocumentColumns,
    users: str = typer.Option(
        "position", help="What attention depends on: position, last_click, or trust (needs --data)."
    ),
    method: str = typer.Option("auto", help="auto, conditional or joint (which needs --data)."),
    examination: Path | None = typer.Option(None, help="Examination that is known: a table with position, propensity."),
    missing_documents: str = typer.Option("error", help="Documents that --data lacks: error or skip."),
    interleaved: str | None = typer.Option(
        None, help="The log mixes two rankers: team_draft (column team) or balanced (rank_a, rank_b)."
    ),
    plot: Path | None = typer.Option(None, help="Draw examination by position (.png, .svg, .pdf)."),
    report: Report,
) -> None:
    """Aggregate a click log to counts and estimate how likely users look at each position."""
    from luce import clicks as of_clicks
    from luce.clicks.counts import check_counts_output
    from luce.clicks.evaluation import LogSummary
    from luce.data.named_rows import NO_IDS
    from luce.data.readers.detect import read

    if out is not None:
        check_counts_output(out)
    check_picture(plot)
    report.say(f"Reading {log} ...")
    of_documents = ["data", "method", "users", "missing_documents", DocumentColumns]
    if interleaved is not None:
        unused = [*of_documents, LogOptions, "examination", "events", "out", "pairs", "plot"]
        check_unused(context, unused, "says nothing beside --interleaved", kept=["session", "clicked"])
        session = columns.session or "session"
        won = of_clicks.interleaving(log, interleaved, session=session, clicked=columns.clicked)
        report.show(won)
        return
    if examination is not None:
        check_unused(context, of_documents, "says nothing beside --examination")
    if data is None:
        check_unused(context, [DocumentColumns], "says nothing without --data")
    said = {name.removeprefix("data_"): value for name, value in vars(documents).items() if value is not None}
    groups = None if data is None else read(data, **said)
    if groups is not None and groups.document_ids is None:
        raise DataError(NO_IDS)
    counts = of_clicks.read(log, pairs=pairs, events=events, **columns.settings)
    found, reason = None, None
    try:
        if examination is not None:
            found = of_clicks.given_examination(counts, known_examination(examination))
        else:
            found = of_clicks.examination(counts, groups, method=method, users=users, missing=missing_documents)
    except DataError as error:
        # Counts are a result of their own; why they tell no examination is another.
        if plot is not None or examination is not None or data is not None:
            raise
        reason = str(error)
    told = LogSummary(counts, found)
    facts = told.as_dict() | {"counts": None if out is None else str(out), "not_identified": reason}
    if out is not None:
        counts.save(out)
        report.wrote(out)
    if found is not None and plot is not None:
        found.plot(plot)
        report.wrote(plot)
    why = [] if reason is None else [f"Examination cannot be told: {reason}"]
    report.result([*told.sheets(), *why], facts)
    for note in told.notes:
        report.say(f"Note: {note}")


def known_examination(path: Path) -> dict[int, float]:
    """Examination by position from a table with the columns position and propensity."""
    from luce.data.table import Table

    rows = Table.open(path).choose([("position", "propensity")])
    known: dict[int, float] = {}
    for row, (at, share) in enumerate(
        zip(*(rows[name].number().tolist() for name in ("position", "propensity")), strict=True)
    ):
        if not at.is_integer() or known.get(int(at), share) != share:
            raise rows.error(row, f"position {at:g} must be a whole number, and have one propensity.")
        known[int(at)] = share
    return known
