"""`luce simulate ...`: data to try things on."""

from __future__ import annotations

import typer

from luce.cli.simulate_track import simulate_track

__all__ = ["simulate"]

simulate = typer.Typer(name="simulate", help="Simulate data to try things on.", no_args_is_help=True)


@simulate.callback()
def _group() -> None: ...


simulate.command("track")(simulate_track)
