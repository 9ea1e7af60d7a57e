"""The command line: one file a command, light imports at the top, heavy ones inside."""

from luce.cli.app import main

__all__ = ["main"]
