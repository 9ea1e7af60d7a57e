"""`call("train", ...)` runs a command as a person does, in this process: (exit code, stdout, stderr)."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from luce.cli.app import main


@pytest.fixture
def call(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["luce", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run
