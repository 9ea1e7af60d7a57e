"""What the scripts of the paper pages share: where data are, how numbers are kept and a page is written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from luce.storage import atomic_write

from .stamps import Stamp, code_digest, data_digest, stamp

__all__ = ["DIGESTS", "ROOT", "STALE", "add", "data_folder", "keep", "kept", "restamp", "stale_note", "write_page"]

ROOT = Path(__file__).resolve().parents[2]
DIGESTS, STALE = "digests", "stale"
"""Beside the parts of a file of results: what each part rests on, and which `make papers-check` found out of date."""


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
    """Add parts to those of the file as it is now, since another process may have added some; returns all of them.

    Each carries digests of the code and of the data that this process has used, and is stale no more.
    """
    numbers = kept(store) | found
    restamp(numbers, dict.fromkeys(found, stamp(ROOT / "src", data_folder())))
    keep(store, numbers, indent)
    return numbers


def restamp(numbers: dict[str, Any], stamps: dict[str, Stamp]) -> None:
    """Note what parts rest on; lists of modules and files are kept once for all parts that have the same."""
    known = numbers.setdefault(DIGESTS, {"modules": [], "files": [], "parts": {}})
    for part, made in stamps.items():
        for kind in ("modules", "files"):
            if made[kind] not in known[kind]:
                known[kind].append(made[kind])
        places = {kind: known[kind].index(made[kind]) for kind in ("modules", "files")}
        known["parts"][part] = {**places, "code": made["code"], "data": made["data"]}
        numbers[STALE] = [other for other in numbers.get(STALE, []) if other != part]


def outdated(numbers: dict[str, Any], part: str) -> str | None:
    """Why a part may differ from what the code of today gives; None where its digests are those of today."""
    known = numbers.get(DIGESTS, {}).get("parts", {}).get(part)
    if known is None:
        return "no digest"
    modules, files = (numbers[DIGESTS][kind][known[kind]] for kind in ("modules", "files"))
    if code_digest(modules, ROOT / "src") != known["code"]:
        return "other code"
    now = data_digest(files, data_folder())
    return "other data" if now is not None and now != known["data"] else None


def parts_of(numbers: dict[str, Any]) -> list[str]:
    """The parts of a file of results."""
    return [part for part in numbers if part not in (DIGESTS, STALE, "settings")]


def stale_note(numbers: dict[str, Any]) -> str:
    """A sentence for a page: which of its parts were not computed by the code as it is."""
    known = numbers.get(DIGESTS, {}).get("parts", {})
    parts = parts_of(numbers)
    old = sorted(part for part in parts if part in numbers.get(STALE, []) or part not in known)
    if not old:
        return f"All {len(parts)} parts of this page were computed, or found the same again, by the code as it is."
    shown = "all of them" if len(old) == len(parts) else ", ".join(f"`{part}`" for part in old)
    return (
        f"‡ {len(old)} of the {len(parts)} parts of this page are of earlier code and were not computed again: {shown}."
    )


def write_page(name: str, text: str, out: Path) -> None:
    """Write a page among the others where `out` is the project, else into that folder; say where."""
    target = out / "docs" / "papers" / f"{name}.md" if out == ROOT else out / f"{name}.md"
    with atomic_write(target, "w") as stream:
        stream.write(text)
    print(f"Wrote {target}.")
