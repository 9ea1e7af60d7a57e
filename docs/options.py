"""Every option of every command, as tables: made from the commands themselves, so that none can be missing.

The page of the command line gets them when the site is built; `python docs/options.py` prints them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import typer

MARK = "<!-- options -->"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by the words that call it."""
    from luce.cli.app import app

    waiting: list[tuple[str, Any]] = [("luce", typer.main.get_command(app))]
    while waiting:
        words, command = waiting.pop(0)
        context = click.Context(command)
        if not hasattr(command, "list_commands"):
            yield words, command
            continue
        inner = [(f"{words} {name}", command.get_command(context, name)) for name in command.list_commands(context)]
        waiting = inner + waiting


def options(command: Any) -> Iterator[tuple[str, str]]:
    """Every option of a command with what it does."""
    for parameter in command.params:
        if parameter.param_type_name == "option" and "--help" not in parameter.opts:
            names = [*parameter.opts, *parameter.secondary_opts]
            yield ", ".join(f"`{name}`" for name in names), (parameter.help or "").replace("|", "\\|")


def tables() -> str:
    """A heading and a table for each command."""
    parts = []
    for words, command in commands():
        rows = [f"| {name} | {what} |" for name, what in options(command)]
        parts.append("\n".join([f"### `{words}`", "", "| option | what it does |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return markdown.replace(MARK, tables()) if MARK in markdown else markdown


if __name__ == "__main__":
    print(tables())
