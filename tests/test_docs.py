"""The pages: every Python block runs, every command line is one, and nothing public is left out."""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
import sys
from pathlib import Path
from types import FunctionType

import pytest
import typer

import luce
from luce.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: str(p.relative_to(ROOT))
)
def test_examples_run(page, tmp_path, monkeypatch):
    """In an empty folder, the blocks of a page one after the other."""
    monkeypatch.chdir(tmp_path)
    for registry in (luce.losses.registry, luce.scorers.registry, luce.metrics.catalog.METRICS):
        # What a page registers is gone with it.
        monkeypatch.setattr(registry, "_table", dict(registry._table))
        monkeypatch.setattr(registry, "_spelling", dict(registry._spelling))
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.findall(page.read_text()):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, namespace, page.name, str(page), 0)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
            runner.run(test, clear_globs=False)
            namespace.update(test.globs)
            assert runner.failures == 0, f"{page.name}: an example gives another answer"
        else:
            exec(compile(block, str(page), "exec"), namespace)


FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELLS = ("console", "sh", "bash", "")
COMMAND = re.compile(r"^(?:\$ )?luce (.*)$", re.MULTILINE)


def command_lines() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for language, block in FENCE.findall(page.read_text()):
            if language not in SHELLS:
                continue
            joined = re.sub(r"\\\n\s*", " ", block)
            found += [(str(page.relative_to(ROOT)), line) for line in COMMAND.findall(joined)]
    return found


def test_command_lines_have_known_commands_and_options():
    lines, root = command_lines(), typer.main.get_command(app)
    assert len(lines) > 50
    for page, line in lines:
        words, command = shlex.split(line, comments=True), root
        while hasattr(command, "commands") and words and not words[0].startswith("-"):
            assert words[0] in command.commands, f"{page}: luce {line}"
            command = command.get_command(None, words.pop(0))
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
        for word in words:
            option = word.split("=")[0]
            if re.fullmatch(r"--?[a-z][a-z0-9-]*", option):
                assert option in known, f"{page}: {option} in luce {line}"


def test_every_command_is_on_the_page_of_commands():
    text = (ROOT / "docs/cli.md").read_text()
    missing = [name for name in typer.main.get_command(app).commands if f"`luce {name}" not in text]
    assert not missing


def test_every_system_is_on_a_page():
    chosen = (ROOT / "docs/which.md").read_text()
    others = [page.read_text() for page in PAGES if page.name != "which.md" and "papers" not in page.parts]
    for name in luce.model_names():
        assert f"`{name}`" in chosen, name
        assert any(f"`{name}`" in text for text in others), name


@pytest.mark.parametrize("picture", sorted((ROOT / "docs/pictures").glob("*.html")), ids=lambda p: p.stem)
def test_a_picture_is_on_a_page_with_equation_example_and_command_line(picture):
    drawn, line = picture.read_text(), f'--8<-- "docs/pictures/{picture.name}"'
    assert "currentColor" in drawn
    assert 'aria-label="' in drawn
    (text,) = [text for page in PAGES if line in (text := page.read_text())]
    assert "$$" in text
    assert BLOCK.search(text)
    assert "```console\n$ luce " in text


def test_the_navigation_holds_every_page():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.name != "README.md"}
    assert set(re.findall(r"[\w/]+\.md", nav)) == pages


PACKAGES = ("aggregate", "clicks", "data", "distributed", "errors", "experiments", "export", "losses", "metrics")
PACKAGES += ("objectives", "report", "scorers", "serve", "track")


def test_the_reference_holds_every_public_name():
    pytest.importorskip("orjson", reason="luce.serve needs the extra 'serve'")
    pytest.importorskip("fastapi", reason="luce.serve needs the extra 'serve'")
    text = (ROOT / "docs/api.md").read_text()
    listed: dict[str, set[str]] = {}
    for path, members in re.findall(r"^::: ([\w.]+)(?:\n    options:\s*\{? ?members: \[(.*?)\])?", text, re.MULTILINE):
        listed[path] = set(members.split(", ")) if members else set(getattr(sys.modules.get(path), "__all__", ()))
    shown = {id(_at(path)) for path in listed}  # under the name of a package that hands it on, too
    for package in (luce, *(importlib.import_module(f"luce.{name}") for name in PACKAGES)):
        public = {name: getattr(package, name) for name in package.__all__}
        for name, value in public.items():
            if isinstance(value, type | FunctionType):  # the others are modules and constants
                home, own = value.__module__, value.__name__
                assert id(value) in shown or own in listed.get(home, ()), f"{package.__name__}.{name}"


def _at(path: str) -> object:
    """What a dotted path names: a module, or something in one."""
    home, _, name = path.rpartition(".")
    return getattr(importlib.import_module(home), name, None) if home else importlib.import_module(name)
