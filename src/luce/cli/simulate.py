"""`luce simulate ...`: data to try things on."""

from __future__ import annotations

import typer

from luce.cli.guard import spares_inputs
from luce.cli.options import flattened
from luce.cli.simulate_ballots import ballots
from luce.cli.simulate_battles import battles
from luce.cli.simulate_clicks import simulate_clicks
from luce.cli.simulate_data import simulate_data
from luce.cli.simulate_track import simulate_track

simulate = typer.Typer(name="simulate", help="Simulate data to try things on.", no_args_is_help=True)
simulate.command("ballots")(flattened(ballots))
simulate.command("battles")(spares_inputs(flattened(battles), ("out", "truth")))
simulate.command("clicks")(spares_inputs(flattened(simulate_clicks)))
simulate.command("data")(spares_inputs(flattened(simulate_data), ("out", "valid", "test")))
simulate.command("track")(flattened(simulate_track))
