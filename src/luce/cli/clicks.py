"""`luce clicks`: aggregate a click log to counts, and say where users look."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import Report, table
from luce.cli.options import flag
from luce.errors import DataError, SettingError

if TYPE_CHECKING:
    from luce.clicks import ClickCounts, Examination
    from luce.data.groups import Groups


@dataclass(frozen=True)
class LogColumns:
    """What the columns of a log are called, and by which rules it is read."""

    session: str | None = flag(None, "Column of sessions or impressions (default: session); '-' if there is none.")
    query: str = flag("query", "Column of queries; '-' makes the log one query.")
    doc: str = flag("document", "Column of documents, or of lists of them, best first.")
    position: str | None = flag(None, "Column of positions (default: position, else the order of the rows).")
    clicked: str = flag("clicked", "Column of clicks, 0 or 1, or lists of clicked documents.")
    propensity: str | None = flag(None, "Column with the probability that the logged policy showed the document there.")
    first_position: int = flag(1, "What the log calls the top: 1 or 0.")
    last_position: int | None = flag(None, "Leave out what stands further down than this, counted from 1.")
    max_clicks: int | None = flag(None, "Leave out sessions with more clicks than this, as a robot's.")
    repeated: str = flag("error", "A document at two positions of a session: error, or first to keep the upper one.")
    events: Path | None = flag(None, "The event store of User Behavior Insights; LOG is then its query store.")

    def read(self, log: Path, pairs: bool = False) -> ClickCounts:
        """The counts of a log."""
        from luce.clicks import read

        settings = dict(vars(self))
        return read(log, document=settings.pop("doc"), pairs=pairs, **settings)

    def unlike_interleaved(self) -> dict[str, bool]:
        """By option, whether it was given and says nothing of an interleaved log."""
        default = LogColumns()
        others = [name for name in vars(self) if name not in ("session", "clicked")]
        return {f"--{name.replace('_', '-')}": getattr(self, name) != getattr(default, name) for name in others}


@dataclass(frozen=True)
class DocumentColumns:
    """What the columns of the documents of `--data` are called, where they are a table."""

    data_qid: str | None = flag(None, "Column of the query ids of --data.")
    data_label: str | None = flag(None, "Column of the labels of --data.")
    data_doc: str | None = flag(None, "Column of the document ids of --data.")

    def read(self, path: Path | None) -> Groups | None:
        """The documents, if there are any."""
        from luce.data.readers.detect import read

        said = {name.removeprefix("data_"): value for name, value in vars(self).items() if value is not None}
        if path is None and said:
            raise SettingError(f"--data-{next(iter(said))} says nothing without --data; give the documents.")
        return None if path is None else read(path, **said)


def _refuse(option: str, others: dict[str, Any]) -> None:
    """Options that would be left aside."""
    for name, given in others.items():
        if given:
            raise SettingError(f"{name} says nothing beside {option}; leave one of them out.")


def clicks(
    *,
    log: Path = typer.Argument(..., help="A click log (CSV, JSON, Parquet, Arrow), or counts of one."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the counts, for train, evaluate and this command."
    ),
    columns: LogColumns,
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
    from luce.clicks.summary import summary
    from luce.data.named_rows import NO_IDS
    from luce.display import check_picture

    if out is not None:
        check_counts_output(out)
    check_picture(plot)
    report.say(f"Reading {log} ...")
    given = {"--data": data, "--method": method != "auto", "--users": users != "position", "--examination": examination}
    given |= {f"--{name.replace('_', '-')}": value for name, value in vars(documents).items()}
    if interleaved is not None:
        _refuse(
            "--interleaved", given | {"--out": out, "--pairs": pairs, "--plot": plot} | columns.unlike_interleaved()
        )
        _interleaved(log, interleaved, columns, report)
        return
    if given.pop("--examination") is not None:
        _refuse("--examination", given)
    groups = documents.read(data)
    if groups is not None and groups.document_ids is None:
        raise DataError(NO_IDS)
    counts = columns.read(log, pairs)
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
    facts = (
        summary(counts, found)
        | _policies(counts)
        | {"counts": None if out is None else str(out), "not_identified": reason}
    )
    if out is not None:
        counts.save(out)
        report.say(f"Wrote {out}.")
    if found is not None and plot is not None:
        found.plot(plot)
        report.say(f"Wrote {plot}.")
    report.result(_tables(facts, found), facts)
    for note in facts["notes"]:
        report.say(f"Note: {note}")


def _interleaved(log: Path, method: str, columns: LogColumns, report: Report) -> None:
    """Which of two rankers won."""
    from luce.clicks import interleaving

    found = interleaving(log, method, session=columns.session or "session", clicked=columns.clicked)
    won = "neither ranker won" if found.winner is None else f"ranker {found.winner} won"
    rows = [[found.wins_a, found.wins_b, found.draws, found.empty, *found.preference, found.p_value]]
    header = ["a won", "b won", "draws", "no click", "preference for a", "error", "95% from", "to", "p"]
    report.result(table(f"Interleaving ({method}): {won}", header, rows), found.as_dict())
    for note in found.notes:
        report.say(note)


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


def _policies(counts: ClickCounts) -> dict[str, Any]:
    """What an even policy would get, where the log has propensities."""
    from luce.clicks import click_rate, policy_value

    if counts.propensity_sums is None:
        return {}
    even = {name: value._asdict() for name, value in policy_value(counts).items()}
    return {"logged_policy": click_rate(counts)._asdict(), "even_policy": even}


def _tables(facts: dict[str, Any], found: Examination | None) -> list[Any]:
    title = (
        f"{facts['sessions']:,} sessions of {facts['queries']:,} queries, {facts['documents']:,} documents, "
        f"{facts['clicks']:,} clicks; {facts['share_of_clicks_on_them']:.1%} of them on documents seen at several "
        "positions"
    )
    header = ["position", "shown", "clicked", "click rate"]
    rows = [[row["position"], row["shown"], row["clicked"], row["click_rate"]] for row in facts["positions"]]
    if found is not None and found.users != "last_click":
        header += ["examination", "95% from", "to", "error of log"]
        names = ["theta", "low", "high", "standard_error"]
        if found.trust is not None:
            header, names = [*header, "trust"], [*names, "trust"]
        rows = [[*row, *(known[name] for name in names)] for row, known in zip(rows, facts["positions"], strict=True)]
    tables: list[Any] = [table(title, header, rows)]
    if found is not None and found.users == "last_click":
        header = ["position", "last click", "examination", "95% from", "to", "error of log"]
        tables.append(table(None, header, [list(row.values()) for row in facts["places"]]))
    if "even_policy" in facts:
        found_values = {"as logged": facts["logged_policy"]}
        found_values |= {f"drawn evenly, {name}": value for name, value in facts["even_policy"].items()}
        rows = [
            [name, *(f"{value[key]:.5f}" for key in ("value", "low", "high"))] for name, value in found_values.items()
        ]
        tables.append(table("Clicks a row", ["policy", "click rate", "95% from", "to"], rows))
    if facts["not_identified"] is not None:
        tables.append(f"Examination cannot be told: {facts['not_identified']}")
    return tables
