"""`luce simulate`: data from known truths."""

from __future__ import annotations

import typer

from luce.cli.simulate_battles import battles

__all__ = ["simulate"]

simulate = typer.Typer(help="Data from known truths.", no_args_is_help=True, rich_markup_mode=None)
simulate.command("battles")(battles)
