"""Recomputes the quick parts of the paper pages and compares them with what is stored; tells which parts are stale.

    python -m kit.check [--page PAGE ...] [--mark]

A quick part must agree to 5e-5 in every number but times. With `--mark` the files of results are written again: parts
that agree rest on the code of today from then on, and parts that are too dear to be computed and whose code or data
have changed are listed as stale, which the pages then say.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import ROOT, STALE, data_folder, keep, kept, outdated, parts_of, restamp
from .stamps import stamp

__all__ = ["TOLERANCE", "differences", "main"]

TOLERANCE = 5e-5
TIMES = ("seconds",)
"""Numbers of a result that differ from run to run."""
QUICK: dict[str, tuple[str, ...]] = {
    "pmop": ("table/MQ2008", "table/OHSUMED"),
    "hom": ("growth", "normaliser"),
    "ties": ("two/OHSUMED-2.0/pairs/bt-noties", "two/OHSUMED-2.0/risk/bt-ties", "two/OHSUMED-2.0/ranksvm"),
    "boosting": ("OHSUMED/retargeting",),
    "listwise": ("shuffled", "rivals/OHSUMED-2.0"),
    "axioms": ("exact",),
    "aggregation": (),
    "structrank": ("official",),
    "tracking": ("engines",),
    "trees": (),
}
"""The parts of each page that take seconds."""


def recompute(page: str) -> dict[str, Callable[[], Any]]:
    """How each part of a page is computed, by the script that makes it."""
    script = importlib.import_module(page)
    if page in ("pmop", "hom"):
        return dict(script.PARTS)
    if page == "ties":
        return dict(script.parts(None))
    if page == "listwise":
        return dict(script.jobs())
    if page == "boosting":
        return {part: lambda part=part: script.run(*part.split("/")) for part in QUICK[page]}
    if page == "axioms":
        return {"exact": lambda: script.exact_weights()}
    if page == "structrank":
        return {"official": script.official}
    if page == "tracking":
        return {"engines": lambda: script.PARTS["engines"].measure(False, Path())}
    return {}


def differences(stored: Any, found: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Where what is stored is not found again within the tolerance, and how; what is found beside it is no matter."""
    if isinstance(stored, dict) and isinstance(found, dict):
        for key in sorted({*stored} - {*TIMES}):
            if key not in found:
                yield f"{where}/{key}", "not found"
            else:
                yield from differences(stored[key], found[key], f"{where}/{key}")
    elif isinstance(stored, list) and isinstance(found, list):
        if len(stored) != len(found):
            yield where, f"{len(stored)} entries stored, {len(found)} found"
        for place, (a, b) in enumerate(zip(stored, found, strict=False)):
            yield from differences(a, b, f"{where}/{place}")
    elif isinstance(stored, int | float) and isinstance(found, int | float):
        if not abs(stored - found) <= TOLERANCE:
            yield where, f"{stored:.6g} stored, {found:.6g} found"
    elif stored != found:
        yield where, f"{stored!r} stored, {found!r} found"


def check(page: str, mark: bool) -> int:
    """One page; returns how many of its quick parts differ."""
    store = ROOT / "papers" / "results" / f"{page}.json"
    numbers, wrong, agree = kept(store), 0, []
    ways = recompute(page) if data_folder().exists() else {}
    for part in QUICK[page]:
        if part not in ways or part not in numbers:
            print(f"{page}: {part} cannot be computed here or was never stored")
            continue
        began = time.process_time()
        found = list(differences(numbers[part], json.loads(json.dumps(ways[part]()))))
        seconds = time.process_time() - began
        print(f"{page}: {part}: {f'{len(found)} differences' if found else 'the same'} ({seconds:.0f} s)", flush=True)
        for where, how in found[:5]:
            print(f"    {where}: {how}")
        wrong += bool(found)
        if not found:
            agree.append(part)
    if mark:
        restamp(numbers, dict.fromkeys(agree, stamp(ROOT / "src", data_folder())))
    old = {part: why for part in parts_of(numbers) if (why := outdated(numbers, part)) and part not in agree}
    print(f"{page}: {len(old)} of {len(parts_of(numbers))} parts are stale or carry no digest")
    if mark:
        numbers[STALE] = sorted(old)
        keep(store, numbers, indent=1 if "\n" in store.read_text()[:200] else None)
    return wrong


def main() -> int:
    """Check the pages that are asked for; 1 where a quick part differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", nargs="*", default=list(QUICK), choices=list(QUICK))
    parser.add_argument("--mark", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "papers"))
    return int(sum(check(page, options.mark) for page in options.page) > 0)


if __name__ == "__main__":
    sys.exit(main())
