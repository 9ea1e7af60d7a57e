"""The `luce` command: assembles the commands and turns a user's mistake into one sentence and exit code 2."""

from __future__ import annotations

import errno
import logging
import os
import sys
import warnings
from typing import Annotated, Any

import typer

from luce import __version__
from luce.cli.aggregate import aggregate
from luce.cli.axioms import axioms
from luce.cli.clicks import clicks
from luce.cli.compare import compare
from luce.cli.convert import convert
from luce.cli.demo import demo
from luce.cli.evaluate import evaluate
from luce.cli.export import export
from luce.cli.guard import spares_inputs
from luce.cli.info import info
from luce.cli.leaderboard import leaderboard
from luce.cli.monitor import monitor
from luce.cli.options import flattened
from luce.cli.postponed import light
from luce.cli.predict import predict
from luce.cli.report import report
from luce.cli.rerank import rerank
from luce.cli.serve import serve
from luce.cli.simulate import simulate
from luce.cli.track import track
from luce.cli.train import train
from luce.cli.tune import tune
from luce.errors import LuceError, LuceWarning, SettingError

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
    max_expansion: Annotated[
        float | None,
        typer.Option(help="How many times its size a packed file may grow, once it is above 256 MB.  [default: 100]"),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of texts that are not UTF-8, such as latin-1 or utf-16.")
    ] = None,
) -> None:
    if encoding is not None:
        os.environ["LUCE_ENCODING"] = encoding
    if max_expansion is not None:
        if not max_expansion >= 1:
            raise SettingError(f"--max-expansion is {max_expansion:g}; it must be at least 1, such as 1000.")
        os.environ["LUCE_MAX_EXPANSION"] = str(max_expansion)
    if sys.stderr.isatty():
        _tell_of_unpacking()


def _tell_of_unpacking() -> None:
    """How far a large packed file is, on one line of the terminal."""
    log, handler = logging.getLogger("luce.unpacking"), logging.StreamHandler(sys.stderr)
    handler.terminator = "\r"
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


for command in (
    demo,
    info,
    train,
    predict,
    evaluate,
    clicks,
    rerank,
    compare,
    report,
    tune,
    convert,
    export,
    serve,
    monitor,
    aggregate,
    axioms,
    leaderboard,
    track,
):
    app.command()(light(spares_inputs(flattened(command))))
app.add_typer(simulate)


def main() -> None:
    """Entry point of the `luce` command."""
    warnings.formatwarning = _format_warning
    try:
        app(standalone_mode=True)
        sys.stdout.flush()
    except LuceError as error:
        sys.exit(_complain(str(error)))
    except BrokenPipeError:
        # The reader of a pipe (head, less) has left; that is no mistake of anybody's. What is still to be flushed at
        # exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_complain("Cannot write to standard output: the disk is full; free some space and try again."))


def _format_warning(message: Warning | str, category: type[Warning], *where: Any, **line: Any) -> str:
    """What a user should know is one sentence, too; where in the code it was noticed is for developers."""
    if issubclass(category, LuceWarning):
        return f"luce: note: {message}\n"
    return _python_format(message, category, *where, **line)


_python_format = warnings.formatwarning


def _complain(message: str) -> int:
    print(f"luce: {' '.join(message.split())}", file=sys.stderr)
    return 2
