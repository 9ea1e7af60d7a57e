"""`luce simulate battles`: battles with draws from known strengths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luce.cli.common import Report, SeedOption
from luce.errors import SettingError


def battles(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the battles: .csv .jsonl .parquet")],
    players: Annotated[int, typer.Option(help="Number of players.")] = 20,
    count: Annotated[int, typer.Option("--battles", help="Number of battles.")] = 10_000,
    model: Annotated[
        str, typer.Option(help="davidson, rao_kupper, thurstone_mosteller or bradley_terry (no draws).")
    ] = "davidson",
    tie: Annotated[float | None, typer.Option(help="Tie parameter: nu, theta or epsilon.")] = None,
    side: Annotated[float, typer.Option(help="Advantage of being a.")] = 0.0,
    spread: Annotated[float, typer.Option(help="Standard deviation of the strengths.")] = 1.0,
    lmsys: Annotated[bool, typer.Option("--lmsys", help="Columns model_a, model_b, winner.")] = False,
    truth: Annotated[Path | None, typer.Option(help="Write the true strengths too: .csv")] = None,
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Write simulated battles of players with known strengths."""
    from luce.aggregate.board import export
    from luce.aggregate.board.simulated_battles import simulate_battles

    export.check(out, export.BATTLES)
    if truth is not None:
        export.check(truth, (".csv",))
    if players < 2:
        raise SettingError(f"The number of players is {players}; it must be at least 2.")
    drawn = simulate_battles(count, players, model=model, tie=tie, side=side, spread=spread, random_state=seed)
    export.write_battles(drawn, out, lmsys=lmsys)
    if truth is not None:
        export.write_truth(drawn, truth)
    machine = {"out": str(out), "battles": count, "players": players, "model": model, "tie": drawn.tie, "side": side}
    report.result(f"{count:,} battles of {players} players in {out}", machine)
