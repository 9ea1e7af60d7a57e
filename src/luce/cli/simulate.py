"""`luce simulate ...`: data to try things on."""

from __future__ import annotations

import typer

from luce.cli.simulate_ballots import ballots
from luce.cli.simulate_battles import battles
from luce.cli.simulate_clicks import simulate_clicks
from luce.cli.simulate_data import simulate_data
from luce.cli.simulate_track import simulate_track

__all__ = ["simulate"]

simulate = typer.Typer(name="simulate", help="Simulate data to try things on.", no_args_is_help=True)
simulate.command("ballots")(ballots)
simulate.command("battles")(battles)
simulate.command("clicks")(simulate_clicks)
simulate.command("data")(simulate_data)
simulate.command("track")(simulate_track)
