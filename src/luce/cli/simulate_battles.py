"""`luce simulate battles`: battles with draws from known strengths."""

from __future__ import annotations

from pathlib import Path

import typer

from luce.cli.common import Report, SeedOption
from luce.errors import SettingError


def battles(
    *,
    out: Path = typer.Option(..., "--out", "-o", help="Where to write the battles: .csv .jsonl .parquet"),
    players: int = typer.Option(20, help="Number of players."),
    count: int = typer.Option(10_000, "--battles", help="Number of battles."),
    model: str = typer.Option(
        "davidson", help="davidson, rao_kupper, thurstone_mosteller or bradley_terry (no draws)."
    ),
    tie: float | None = typer.Option(None, help="Tie parameter: nu, theta or epsilon."),
    side: float = typer.Option(0.0, help="Advantage of being a."),
    spread: float = typer.Option(1.0, help="Standard deviation of the strengths."),
    lmsys: bool = typer.Option(False, "--lmsys", help="Columns model_a, model_b, winner."),
    truth: Path | None = typer.Option(None, help="Write the true strengths too: .csv"),
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Write simulated battles of players with known strengths."""
    from luce.aggregate.board.simulated_battles import ENDINGS, simulate_battles
    from luce.result import check_ending

    check_ending(out, ENDINGS)
    if truth is not None:
        check_ending(truth, (".csv",))
    if players < 2:
        raise SettingError(f"The number of players is {players}; it must be at least 2.")
    drawn = simulate_battles(count, players, model=model, tie=tie, side=side, spread=spread, random_state=seed)
    drawn.write(out, lmsys=lmsys)
    if truth is not None:
        drawn.write_truth(truth)
    machine = {"out": str(out), "battles": count, "players": players, "model": model, "tie": drawn.tie, "side": side}
    report.result(f"{count:,} battles of {players} players in {out}", machine)
