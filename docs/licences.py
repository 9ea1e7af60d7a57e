"""Writes docs/licences.md, the licences of what the lock files name, as pip-licenses reads them: `make licences`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """# Licences

luce itself is under the MIT licence. These are the licences of what it stands on, as the packages declare them;
`make licences` writes this page from what is installed, and `make build` puts a bill of materials (CycloneDX) beside
the wheel.
"""
PARTS = {
    "core": "What `pip install luce` brings",
    "check": "What the extras and the tests bring as well",
}


def canonical(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def names(lock: str) -> set[str]:
    """The packages of a lock file."""
    found = re.findall(r"^([\w.-]+)==", (ROOT / "locks" / f"{lock}.txt").read_text(), re.MULTILINE)
    return set(map(canonical, found))


def licences(program: str, python: str) -> dict[str, str]:
    """The licence of every package of an environment, in a line."""
    command = [program, "--python", python, "--from=mixed", "--format=json", "--with-system"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout)
    return {canonical(each["Name"]): " ".join(each["License"].split()) for each in listed}


def page(known: dict[str, str]) -> str:
    """The tables, each package where it first comes in."""
    text, told = HEAD, set()
    for lock, title in PARTS.items():
        rows = sorted(name for name in names(lock) & set(known) if name not in told)
        told |= set(rows)
        text += f"\n## {title}\n\n| package | licence |\n| --- | --- |\n"
        text += "".join(f"| {name} | {known[name]} |\n" for name in rows)
    return text


if __name__ == "__main__":
    program, python = sys.argv[1:] or (str(Path(sys.executable).with_name("pip-licenses")), sys.executable)
    (ROOT / "docs" / "licences.md").write_text(page(licences(program, python)))
