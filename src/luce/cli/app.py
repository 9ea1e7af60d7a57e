"""The `luce` command: assembles the commands and turns a user's mistake into one sentence and exit code 2."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from luce import __version__
from luce.cli.simulate import simulate
from luce.cli.track import track
from luce.errors import LuceError

__all__ = ["app", "main"]

app = typer.Typer(
    name="luce",
    help="Probabilistic ranking: ties, top-k lists, partial orders, draws and ballots.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"luce {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


app.command()(track)
app.add_typer(simulate)


def main() -> None:
    """Entry point of the `luce` command."""
    try:
        app()
    except LuceError as error:
        sys.exit(_complain(str(error)))
    except BrokenPipeError:
        # The reader of a pipe (head, less) has left; that is no mistake of anybody's.
        sys.stderr.close()
        sys.exit(0)


def _complain(message: str) -> int:
    print(f"luce: {' '.join(message.split())}", file=sys.stderr)
    return 2
