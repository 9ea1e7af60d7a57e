"""What the scripts of the paper pages share: where data are, how numbers are kept and a page is written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from luce.storage import atomic_write

__all__ = ["ROOT", "add", "data_folder", "keep", "kept", "write_page"]

ROOT = Path(__file__).resolve().parents[2]


def data_folder() -> Path:
    """LUCE_DATA, else ../shared/data beside the project."""
    return Path(os.environ.get("LUCE_DATA", ROOT.parent / "shared" / "data"))


def kept(store: Path) -> dict[str, Any]:
    """The numbers of a page as they were written last."""
    numbers: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {}
    return numbers


def keep(store: Path, numbers: dict[str, Any], indent: int | None = 1) -> None:
    """Write all numbers of a page."""
    with atomic_write(store, "w") as stream:
        json.dump(numbers, stream, indent=indent)


def add(store: Path, found: dict[str, Any], indent: int | None = 1) -> dict[str, Any]:
    """Add a part to those of the file as it is now, since another process may have added some; returns all of them."""
    numbers = kept(store) | found
    keep(store, numbers, indent)
    return numbers


def write_page(name: str, text: str, out: Path) -> None:
    """Write a page among the others where `out` is the project, else into that folder; say where."""
    target = out / "docs" / "papers" / f"{name}.md" if out == ROOT else out / f"{name}.md"
    with atomic_write(target, "w") as stream:
        stream.write(text)
    print(f"Wrote {target}.")
