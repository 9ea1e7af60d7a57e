"""The layers of luce for the page on its architecture: picture and table, from `pyproject.toml` and the docstrings."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

from drawing import box, text

ROOT = Path(__file__).resolve().parents[1]
HIGH, WIDE, GAP = 26, 640, 6


def layers() -> list[list[str]]:
    """The layers from the top down, each a list of modules; imports point downwards only."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return [[name.removeprefix("luce.") for name in re.split(r" [|:] ", layer)] for layer in contract["layers"]]


def purpose(module: str) -> str:
    """The first sentence of a module's docstring."""
    place = ROOT / "src/luce" / module
    package = place / "__init__.py"
    file = package if package.is_file() else place.with_suffix(".py")
    said = ast.get_docstring(ast.parse(file.read_text())) or ""
    return re.split(r"(?<=\.) |  ", said.replace("\n", " "), maxsplit=1)[0].rstrip(".")


def picture() -> str:
    """The layers one above the other."""
    rows = layers()
    drawn = []
    for number, modules in enumerate(rows):
        width = (WIDE - GAP * (len(modules) - 1)) / len(modules)
        for place, module in enumerate(modules):
            x, y = place * (width + GAP), number * (HIGH + GAP)
            drawn += [box(x + 1, y + 1, width - 2, HIGH - 2), text(x + width / 2, y + 18, module, "middle")]
    high = len(rows) * (HIGH + GAP)
    label = "The layers of luce from the command line down to the errors; imports point downwards only."
    return f'<svg viewBox="0 0 {WIDE} {high}" role="img" aria-label="{label}">{"".join(drawn)}</svg>'


def table() -> str:
    """A row a module: its name and its purpose."""
    rows = [f"| `{module}` | {purpose(module)} |" for modules in layers() for module in modules]
    return "\n".join(["| module | what it is |", "|---|---|", *rows])


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the text of a page."""
    return (
        markdown.replace("<!-- layers -->", f"{picture()}\n\n{table()}") if "<!-- layers -->" in markdown else markdown
    )


if __name__ == "__main__":
    print(table())
