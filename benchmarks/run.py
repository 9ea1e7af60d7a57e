"""`python benchmarks/run.py [--stale] [name ...]`: run every `bench_*.py` here (or those named) and print one table.

Each file has a function `run() -> list[Line]`, and a process of its own. A peer that is not installed is left out, with
a remark. Times are seconds of a processor, with one thread on both sides unless OMP_NUM_THREADS says otherwise. A
record in `results` has the versions of all packages that took part, the parts of luce that were loaded, and a digest
of their code and of the benchmark's: `--stale` runs nothing, marks every record that is older than that code, and
names them.
"""

from __future__ import annotations

import os

THREADS = os.environ.setdefault("OMP_NUM_THREADS", "1")
"""Set before anything is imported that reads it."""

import hashlib  # noqa: E402
import importlib  # noqa: E402
import importlib.metadata  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from harness import Line  # noqa: E402

HERE = Path(__file__).resolve().parent
SOURCE, RESULTS = HERE.parent / "src" / "luce", HERE / "results"


def main(given: list[str]) -> int:
    names = [name for name in given if name != "--stale"]
    found = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = set(names) - set(found)
    if unknown:
        print(f"Unknown benchmark {sorted(unknown)}; available: {', '.join(found)}.", file=sys.stderr)
        return 2
    if "--stale" in given:
        return mark(names or found)
    if len(names) == 1:
        write(names[0], measure(names[0]))
        return 0
    return max(subprocess.run([sys.executable, __file__, name]).returncode for name in names or found)


def measure(name: str) -> list[Line]:
    print(f"== {name}", flush=True)
    lines: list[Line] = importlib.import_module(f"bench_{name}").run()
    for line in lines:
        print(show(line), flush=True)
    return lines


def write(name: str, lines: list[Line]) -> None:
    """The record of a benchmark that this process has run."""
    parts = sorted({module.split(".")[1] for module in sys.modules if module.startswith("luce.")})
    record = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "clock": f"processor time, {THREADS} thread{'s' * (THREADS != '1')}",
        "versions": versions(),
        "parts": " ".join(parts),
        "digest": digest(name, parts),
        "stale": False,
        "lines": [line.as_dict() for line in lines],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def versions() -> dict[str, str]:
    """Of the packages that were imported."""
    owners = importlib.metadata.packages_distributions()
    names = {owner for module in {name.partition(".")[0] for name in sys.modules} for owner in owners.get(module, ())}
    return {name: importlib.metadata.version(name) for name in sorted(names, key=str.lower)}


def digest(name: str, parts: list[str]) -> str:
    """Of the code that a record is about: the benchmark's, and that of these parts of luce."""
    files = [HERE / "harness.py", HERE / f"bench_{name}.py"]
    for part in parts:
        files += [path for path in (SOURCE / f"{part}.py",) if path.exists()]
        files += sorted((SOURCE / part).rglob("*.py"))
    found = hashlib.sha256()
    for path in files:
        found.update(path.relative_to(HERE.parent).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def mark(names: list[str]) -> int:
    """Say in every record whether it is older than its code; 1 where one is, or is not there."""
    old = []
    for name in names:
        path = RESULTS / f"{name}.json"
        if not path.exists():
            old.append(f"{name} (never run)")
            continue
        record: dict[str, Any] = json.loads(path.read_text())
        stale = record.get("digest") != digest(name, record.get("parts", "").split())
        old += [name] if stale else []
        if record.get("stale") != stale:
            path.write_text(json.dumps({**record, "stale": stale}, indent=1) + "\n")
    print(f"Older than the code: {', '.join(old)}." if old else "All records are of the code as it is.")
    return int(bool(old))


def show(line: Line) -> str:
    text = f"  {line.what:<58} {line.ours:10.4g} {line.unit:<6}"
    if line.theirs is not None:
        text += f" {line.peer}: {line.theirs:.4g} ({line.ratio:.2f}x)"
    if line.goal:
        text += f"  [{line.goal}: {'met' if line.met else 'MISSED'}]"
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
