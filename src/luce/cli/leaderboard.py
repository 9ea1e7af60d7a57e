"""`luce leaderboard`: strengths with intervals from battles with draws, races with ties, or scores on tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from luce.aggregate.board.options import Columns, Inference, Scale, Treatment
from luce.cli.common import Publishing, Report, SeedOption, TableReport, check_unused, number_from
from luce.cli.options import Group, Shown, flag
from luce.display import PICTURES, check_picture
from luce.errors import SettingError
from luce.result import check_ending

_TABLES = (".csv", ".json", ".parquet", ".md", ".tex")


def _covariates(given: Sequence[str]) -> Any:
    """Names of columns, or a mapping where they are given as name=a,b."""
    pairs = {}
    for text in given:
        name, sign, columns = text.partition("=")
        parts = tuple(column.strip() for column in columns.split(","))
        if sign and len(parts) != 2:
            raise SettingError(f"--covariate was given {text!r}; it takes a column, or name=column of a,column of b.")
        pairs[name] = parts if sign else None
    if all(pair is None for pair in pairs.values()):
        return tuple(given)
    if any(pair is None for pair in pairs.values()):
        raise SettingError("Give all covariates as columns, or all as name=column of a,column of b.")
    return pairs


def _names(path: Path) -> dict[str, str]:
    from luce.aggregate.board.battles import read_names

    return read_names(path)


class Scores(Group):
    """Scores of models on tasks."""

    scores: bool = flag(False, "The file holds scores of models on tasks.")
    item: str | None = flag(None, "Column of the model.")
    task: str | None = flag(None, "Column of the task, in a long table.")
    score: str | None = flag(None, "Column of the score, in a long table.")
    score_se: str | None = flag(None, "Column of a score's standard error.")
    where: list[str] | None = flag(None, "Keep rows with column=value.")
    drop: list[str] | None = flag(None, "Leave this task or column out.")
    lower: list[str] | None = flag(None, "A task where lower is better.")
    tolerance: float = flag(0.0, "Differences up to this are ties.")
    task_weight: list[str] | None = flag(None, "task=weight; may be repeated.")
    resamples: int = flag(499, "Shuffles of the labels within tasks.")

    def settings(self) -> dict[str, Any]:
        """As `luce.aggregate.score_board` takes them."""
        given = {name: value for name, value in vars(self).items() if name != "scores"}
        pairs = _pairs("--task-weight", given.pop("task_weight"))
        weights = {key: number_from(f"--task-weight of {key!r}", value) for key, value in pairs}
        lists = {name: tuple(given.pop(name) or ()) for name in ("drop", "lower")}
        kept = dict(_pairs("--where", given.pop("where")))
        return {**given, **lists, "where": kept, "task_weights": weights}


def _pairs(option: str, given: list[str] | None) -> list[tuple[str, str]]:
    bad = next((text for text in given or () if "=" not in text), None)
    if bad is not None:
        raise SettingError(f"{option} was given {bad!r}; it takes name=value.")
    return [(name, value) for name, _, value in (text.partition("=") for text in given or ())]


class Outputs(Group):
    """What is printed and written."""

    against: str | None = flag(None, "Print differences from this item with their errors.")
    quasi: bool = flag(False, "Print quasi-variances.")
    top: int | None = flag(None, "Print only so many rows.", min=1)
    next: int | None = flag(None, "Propose so many battles that should shorten rank sets most.", min=1)
    save: Path | None = flag(None, "Keep the board for updates: a .luce file.")
    out: Path | None = flag(None, f"Write the table: {' '.join(_TABLES)}", "--out", "-o")
    plot: Path | None = flag(None, "Picture of the strengths: .png .svg .pdf")
    win_matrix: Path | None = flag(None, "P(row beats column): .csv, or a picture .png .svg .pdf")

    def check(self) -> None:
        """Refuse files that cannot be written before any work."""
        check_ending(self.out, _TABLES)
        check_ending(self.save, (".luce",))
        check_picture(self.plot)
        check_ending(self.win_matrix, (".csv", *PICTURES))


def leaderboard(
    *,
    context: typer.Context,
    file: Path = typer.Argument(..., help="Battles (a, b, outcome; or LMSYS) or races; .csv .json .jsonl .parquet"),
    model: str | None = typer.Option(
        None,
        help="davidson (default), bradley_terry, rao_kupper, thurstone_mosteller, plackett_luce, pmop or hodge; "
        "with --scores plackett_luce (default), davidson, borda or z_score.",
    ),
    columns: Annotated[
        Columns, Shown(names={"covariates": "--covariate"}, typed={"covariates": (list[str] | None, _covariates)})
    ],
    treatment: Annotated[
        Treatment,
        Shown(names={"side": "--side", "team_separator": "--teams"}, typed={"names": (Path | None, _names)}),
    ],
    scores: Scores,
    inference: Inference,
    scale: Scale,
    outputs: Outputs,
    publishing: Publishing,
    update: Path | None = typer.Option(None, help="Add the battles of the file to this board."),
    seed: SeedOption = 0,
    report: TableReport,
) -> None:
    """Strengths, intervals and ranks from battles with draws, races with ties, or scores on tasks.

    \b
    luce leaderboard battles.csv --scale elo --html board.html
    luce leaderboard scores.csv --scores
    """
    from luce.aggregate import leaderboard as fit_board
    from luce.aggregate import score_board, update_board

    outputs.check()
    publishing.check(context)
    if scores.scores:
        unused = [Columns, Treatment, Inference, Scale, Outputs, "update"]
        check_unused(context, unused, "does nothing with --scores", kept=["short_rows", "level", "top", "out"])
        how = {**scores.settings(), "short_rows": treatment.short_rows, "level": inference.level}
        board: Any = score_board(file, model or "plackett_luce", random_state=seed, **how)
    else:
        check_unused(context, [Scores], "does nothing without --scores")
        if columns.id is not None and outputs.save is None and update is None:
            raise SettingError("--id does nothing without --save or --update; leave it out.")
        groups = (columns, treatment, inference, scale)
        given = {name: value for group in groups for name, value in group.settings.items()}
        if update is not None:
            usual = {**Inference().settings, **Scale().settings}
            changed = {name: value for name, value in given.items() if name not in usual or value != usual[name]}
            board = update_board(update, file, model, random_state=seed, **changed)
        else:
            with report.progress("bootstrap") as progress:
                told = progress if given["bootstrap"] else None
                board = fit_board(file, model or "davidson", **given, random_state=seed, progress=told)
    _write(board, outputs, context)
    publishing.write(board)
    _show(report, board, outputs)


def _write(board: Any, outputs: Outputs, context: typer.Context) -> None:
    from luce.aggregate import Board, CategoryBoards, History

    if isinstance(board, CategoryBoards | History):
        by = isinstance(board, CategoryBoards)
        kept = ["top", "out", "save", "plot" if by else "next"]
        check_unused(context, [Outputs], f"does nothing with {'--by' if by else '--time'}", kept=kept)
    if outputs.save is not None:
        from luce.aggregate import save_board

        save_board(board, outputs.save)
    if outputs.out is not None:
        board.write(outputs.out)
    if outputs.plot is not None:
        board.plot(outputs.plot, top=outputs.top)
    if outputs.win_matrix is not None and isinstance(board, Board):
        from luce.aggregate.plots import write_win_matrix

        write_win_matrix(board, outputs.win_matrix, outputs.top)


def _show(report: Report, board: Any, outputs: Outputs) -> None:
    """The board, and the differences and quasi-variances that were asked for."""
    machine, more = board.as_dict(), []
    if outputs.against is not None:
        machine["differences"] = board.differences(outputs.against)
        more.append(board.differences_sheet(outputs.against))
    if outputs.next is not None:
        proposed = board.next(outputs.next)
        machine |= {"next": proposed.as_dict()}
        more += proposed.sheets()
        for note in proposed.notes:
            report.say(note)
    if outputs.quasi:
        quasi = board.quasi_variances
        machine["quasi_variances"] = None if quasi is None else dict(zip(board.names, quasi.values, strict=True))
        machine["quasi_worst"] = None if quasi is None else quasi.worst
        if quasi is None:
            report.say("No quasi-variances: there are too few items, several components, or no positive solution.")
        else:
            more.append(board.quasi_sheet())
    report.show(board, machine, top=outputs.top, more=more)
