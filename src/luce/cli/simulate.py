"""`luce simulate`: synthetic data of every kind that luce reads."""

from __future__ import annotations

import typer

from luce.cli.simulate_ballots import ballots

__all__ = ["simulate"]

simulate = typer.Typer(help="Write synthetic data with a known truth.", no_args_is_help=True)
simulate.command("ballots")(ballots)
