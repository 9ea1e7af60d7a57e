"""`luce leaderboard`: strengths with intervals from battles with draws or races with ties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import Report, SeedOption, table
from luce.cli.leaderboard_kinds import show_categories, show_history
from luce.cli.leaderboard_options import Columns, Estimation, Outputs
from luce.cli.leaderboard_scores import Scores, run_scores, show_scores
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.aggregate import Board


def leaderboard(
    *,
    file: Annotated[
        Path, typer.Argument(help="Battles (a, b, outcome; or LMSYS) or races; .csv .json .jsonl .parquet")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="davidson (default), bradley_terry, rao_kupper, thurstone_mosteller, plackett_luce, pmop or hodge; "
            "with --scores plackett_luce (default), davidson, borda or z_score."
        ),
    ] = None,
    columns: Columns,
    scores: Scores,
    estimation: Estimation,
    outputs: Outputs,
    update: Annotated[Path | None, typer.Option(help="Add the battles of the file to this board.")] = None,
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Strengths, intervals and ranks from battles with draws, races with ties, or scores on tasks."""
    outputs.check()
    if scores.scores:
        _check_scores(columns, estimation, outputs)
        found = run_scores(file, model, scores, estimation.level, seed)
        if outputs.out is not None:
            from luce.aggregate.board import export

            export.write_table(found, outputs.out)
        _write_page(found, outputs.page)
        show_scores(report, found, outputs.top)
        return
    _refuse("without --scores", scores, Scores())
    if columns.id is not None and outputs.save is None and update is None:
        raise SettingError("--id does nothing without --save or --update; leave it out.")
    from luce.aggregate.board.fit import leaderboard as fit

    if update is not None:
        board = _updated(update, file, model, columns, estimation, seed)
    else:
        with report.progress("bootstrap") as progress:
            board = fit(
                file,
                model or "davidson",
                **columns.settings(),
                **vars(estimation),
                random_state=seed,
                progress=progress if estimation.bootstrap else None,
            )
    if outputs.save is not None:
        from luce.aggregate import save_board

        save_board(board, outputs.save)
    _write_page(board, outputs.page)
    _present(report, board, outputs)
    for note in board.notes:
        report.say(f"Note: {note}")


def _write_page(board: Any, path: Path | None) -> None:
    if path is not None:
        from luce.report.board_page import write_board_page

        write_board_page(board, path)


def _updated(update: Path, file: Path, model: str | None, columns: Columns, estimation: Estimation, seed: int) -> Any:
    from luce.aggregate import update_board

    changed = {k: v for k, v in vars(estimation).items() if v != getattr(Estimation(), k)}
    return update_board(update, file, model, random_state=seed, **columns.settings(), **changed)


def _present(report: Report, board: Any, outputs: Outputs) -> None:
    """Show and write a board of any kind."""
    from luce.aggregate import CategoryBoards, History

    if isinstance(board, CategoryBoards | History):
        pictures = ("plot",) if isinstance(board, CategoryBoards) else ()
        _refuse(
            "with --by" if pictures else "with --time",
            outputs,
            replace(Outputs(), **{k: getattr(outputs, k) for k in ("top", "out", "save", "page", *pictures)}),
        )
    if isinstance(board, CategoryBoards):
        show_categories(report, board, outputs)
    elif isinstance(board, History):
        show_history(report, board, outputs)
    else:
        _write(board, outputs)
        _show(report, board, outputs)


def _refuse(when: str, given: Any, default: Any) -> None:
    """Options that would be ignored are refused."""
    for name, value in vars(given).items():
        if value != getattr(default, name):
            raise SettingError(f"--{name.replace('_', '-')} does nothing {when}; leave it out.")


def _check_scores(columns: Columns, estimation: Estimation, outputs: Outputs) -> None:
    _refuse("with --scores", columns, Columns())
    _refuse("with --scores", estimation, replace(Estimation(), level=estimation.level))
    _refuse("with --scores", outputs, Outputs(top=outputs.top, out=outputs.out, page=outputs.page))


def _machine(board: Board, outputs: Outputs) -> dict[str, Any]:
    """The board for machines, with what the options ask for beside it."""
    machine = board.as_dict()
    if outputs.against is not None:
        machine["differences"] = board.differences(outputs.against)
    if outputs.quasi:
        quasi = board.quasi_variances
        machine["quasi_variances"] = None if quasi is None else dict(zip(board.names, quasi.values, strict=True))
        machine["quasi_worst"] = None if quasi is None else quasi.worst
    return machine


def _show_more(report: Report, machine: dict[str, Any], outputs: Outputs) -> None:
    """Differences and quasi-variances, for a person."""
    if outputs.against is not None:
        from luce.aggregate.board.result import decimals

        rows = [[_cell(cell) for cell in row.values()] for row in machine["differences"][: outputs.top]]
        places = decimals([row["se"] for row in machine["differences"]])
        header = ["name", "difference", "se", "lower", "upper"]
        report.result(table(f"less {outputs.against}", header, rows, places), {})
    if outputs.quasi and machine["quasi_variances"] is None:
        report.say("No quasi-variances: there are too few items, several components, or no positive solution.")
    elif outputs.quasi:
        title = f"quasi-variances; errors of differences are right to {machine['quasi_worst']:.1%}"
        rows = [[name, float(q)] for name, q in machine["quasi_variances"].items()]
        report.result(table(title, ["name", "quasi-variance"], rows[: outputs.top]), {})


def _write(board: Board, outputs: Outputs) -> None:
    from luce.aggregate.board import export

    if outputs.out is not None:
        export.write_table(board, outputs.out)
    if outputs.plot is not None:
        board.plot(outputs.plot, top=outputs.top)
    if outputs.win_matrix is not None:
        export.write_win_matrix(board, outputs.win_matrix, outputs.top)


def _show(report: Report, board: Board, outputs: Outputs) -> None:
    from luce.aggregate.board.result import COLUMNS, decimals

    machine, top = _machine(board, outputs), outputs.top
    header, rows = list(COLUMNS), [list(row.values()) for row in machine["table"]]
    if len(machine["components"]) > 1:
        header, rows = ["component", *header], [[int(c) + 1, *r] for c, r in zip(board.component, rows, strict=True)]
    shown = rows[:top]
    places = decimals([row["se"] for row in machine["table"]])
    report.result(table(_title(board), header, [[_cell(cell) for cell in row] for row in shown], places), machine)
    if not report.as_json:
        _show_more(report, machine, outputs)
    beside = dict(board.effects) | ({} if board.tie is None else {machine["tie"]["name"]: board.tie})
    for name, effect in beside.items():
        report.say(f"{name} {effect.value:.4f} (se {effect.se:.4f}, {effect.lower:.4f} to {effect.upper:.4f})")
    if board.hodge is not None:
        report.say(
            f"Explained by the strengths: {board.hodge.gradient:.1%}; cyclic: {board.hodge.cyclic:.1%}"
            + ("" if board.hodge.curl is None else f" (three-cycles {board.hodge.curl:.1%})")
        )
    if top is not None and top < len(rows):
        report.say(f"{len(rows) - top} more items are not shown.")


def _title(board: Board) -> str:
    likelihood = "" if board.model.family == "hodge" else f", log-likelihood {board.log_likelihood:.4f}"
    return (
        f"{board.model.name}, {board.n_battles:,.0f} results{likelihood}, {board.level:.0%} intervals ({board.errors})"
    )


def _cell(value: Any) -> Any:
    return "-" if value is None else value
