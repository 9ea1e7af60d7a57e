"""The page of the command line lists every option, and every option says what it does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def load():
    spec = importlib.util.spec_from_file_location("options", ROOT / "docs/options.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_option_is_on_the_page() -> None:
    page = load()
    made = page.on_page_markdown((ROOT / "docs/cli.md").read_text())
    listed = dict(page.commands())
    assert {"luce train", "luce leaderboard", "luce simulate battles"} <= set(listed)
    for words, command in listed.items():
        assert f"### `{words}`" in made
        for name, what in page.options(command):
            assert f"| {name} | {what} |" in made
            assert what.strip(), f"{words} {name} has no help"
    assert page.MARK not in made
