"""`python benchmarks/run.py [name ...]`: run every `bench_*.py` here (or those named) and print one table.

Each file has a function `run() -> list[Line]`. A peer that is not installed is left out, with a remark.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
from pathlib import Path

from harness import Line

HERE = Path(__file__).resolve().parent


def main(names: list[str]) -> int:
    found = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = set(names) - set(found)
    if unknown:
        print(f"Unknown benchmark {sorted(unknown)}; available: {', '.join(found)}.", file=sys.stderr)
        return 2
    results: dict[str, list[Line]] = {}
    for name in names or found:
        print(f"== {name}", flush=True)
        results[name] = importlib.import_module(f"bench_{name}").run()
        for line in results[name]:
            print(show(line), flush=True)
    (HERE / "results").mkdir(exist_ok=True)
    for name, lines in results.items():
        record = {
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "lines": [x.as_dict() for x in lines],
        }
        (HERE / "results" / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0


def show(line: Line) -> str:
    text = f"  {line.what:<58} {line.ours:10.4g} {line.unit:<6}"
    if line.theirs is not None:
        text += f" {line.peer}: {line.theirs:.4g} ({line.ratio:.2f}x)"
    if line.goal:
        text += f"  [{line.goal}: {'met' if line.met else 'MISSED'}]"
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
