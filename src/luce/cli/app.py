"""The `luce` command: assembles the commands and turns a user's mistake into one sentence and exit code 2."""

from __future__ import annotations

import errno
import functools
import importlib
import logging
import os
import sys
import warnings
from typing import Annotated, Any

import typer

from luce import __version__
from luce.cli.options import Commands, Sectioned, prepared
from luce.errors import LuceError, LuceWarning, SettingError
from luce.result import seen


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"luce {__version__}")
        raise typer.Exit


_CONTEXT = {"help_option_names": ["-h", "--help"]}
_HOMES = {
    "demo": "demo",
    "info": "info",
    "train": "train",
    "predict": "predict",
    "explain": "predict",
    "evaluate": "evaluate",
    "clicks": "clicks",
    "rerank": "rerank",
    "compare": "experiments",
    "report": "demo",
    "tune": "experiments",
    "convert": "predict",
    "read-log": "predict",
    "text-check": "predict",
    "export": "export",
    "serve": "serve",
    "monitor": "serve",
    "aggregate": "aggregate",
    "axioms": "aggregate",
    "leaderboard": "leaderboard",
    "track": "track",
    "simulate": "simulate",
}
"""The module of each command, in the order of the help; a module is imported when its command is asked for."""


@functools.cache
def command(name: str) -> Any:
    """A command, whose module is imported now."""
    found = getattr(importlib.import_module(f"luce.cli.{_HOMES[name]}"), name.replace("-", "_"))
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=_CONTEXT)
        alone.command(name, cls=Sectioned)(prepared(found))
        found = alone
    return typer.main.get_command(found)


class Luce(Commands):
    """The command `luce`, whose commands are imported when they are asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        names: Any = dict.fromkeys(_HOMES)
        self.commands = names  # for who looks for a near one

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, or None."""
        return command(cmd_name) if cmd_name in _HOMES else None


app = typer.Typer(
    name="luce",
    cls=Luce,
    help="Probabilistic ranking: ties, top-k lists, partial orders, draws and ballots.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_CONTEXT,
)


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
    if sys.stderr.isatty():  # how far a large packed file is, on one line
        log, handler = logging.getLogger("luce.unpacking"), logging.StreamHandler(sys.stderr)
        handler.terminator = "\r"
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False


def main() -> None:
    """Entry point of the `luce` command."""
    _open_standard_files()
    warnings.formatwarning = _format_warning
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except _TypedWrongly as error:
        # What Typer says of a wrong option or value has what was typed in it: no terminal obeys that.
        if type(error).__name__ != "NoArgsIsHelpError":  # whose message is the help, where nothing was typed
            said = seen(" ".join(error.format_message().split()))
            error.format_message = lambda: said
        error.show()
        sys.exit(int(error.exit_code))
    except LuceError as error:
        sys.exit(_complain(str(error)))
    except BrokenPipeError:
        # The reader of a pipe (head, less) has left; that is no mistake of anybody's. What is still to be flushed at
        # exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            name = os.path.basename(str(error.filename))
            what = f"The name {name[:40]}... has {len(os.fsencode(name))} bytes, more than this system takes"
            sys.exit(_complain(f"{what}; give a shorter one."))
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        what = error.filename or "to standard output"
        sys.exit(_complain(f"Cannot write {what}: the disk is full; free some space and try again."))


_TypedWrongly: Any = typer.BadParameter.__base__


def _open_standard_files() -> None:
    """Where standard input, output or error was closed (`2>&-`), it is nothing.

    Else the next file that is opened, a model perhaps, would take its place and get what is said.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", encoding="utf-8"))  # noqa: SIM115 (open until the end)


def _format_warning(message: Warning | str, category: type[Warning], *where: Any, **line: Any) -> str:
    """What a user should know is one sentence, too; where in the code it was noticed is for developers."""
    if issubclass(category, LuceWarning):
        return f"luce: note: {seen(str(message))}\n"
    return _python_format(message, category, *where, **line)


_python_format = warnings.formatwarning


def _complain(message: str) -> int:
    print(f"luce: {seen(' '.join(message.split()))}", file=sys.stderr)
    return 2
