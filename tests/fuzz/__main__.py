"""`python -m tests.fuzz`: attack every reader, file and request for some minutes; `make fuzz` calls it.

Each target is attacked in processes of their own, input by input from a seed, so that a hang, a crash and the growth of
memory are seen whatever is in C. What is found is written to `tests/fuzz/found`, where the tests read it ever after.
With `--problems`, valid problems are solved instead, and every fault is printed with its seed; see `problems`.
With `--guided`, atheris (libFuzzer) looks for new paths through the code instead; see `guided`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOUND = Path(__file__).parent / "found"
SECONDS, MEGABYTES = 5.0, 1000
"""What no input may take."""
_BATCH = 100_000


def main() -> None:
    """Divide the time among the targets, and say what came out."""
    given = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    given.add_argument("--minutes", type=float, default=5.0, help="time for all targets together")
    given.add_argument("--inputs", type=int, default=0, help="end at so many inputs, if that is earlier")
    given.add_argument("--targets", nargs="*", default=[], help="beginnings of names of targets, such as 'read letor'")
    given.add_argument("--seed", type=int, default=0, help="first seed")
    given.add_argument("--figures", type=Path, help="a JSON file for what came out")
    given.add_argument("--problems", type=int, default=0, help="instead, so many valid problems for the estimators")
    given.add_argument("--guided", action="store_true", help="by coverage, where atheris is installed")
    given.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    options = given.parse_args()
    if options.worker:
        name, first, count, seconds, folder = options.worker
        work(name, int(first), int(count), float(seconds), Path(folder))
        return
    if options.problems:
        sys.exit(solve(options))
    from tests.fuzz.targets import targets

    known = list(targets())
    groups = options.targets or sorted({name.split()[0] for name in known})
    if unknown := [group for group in groups if not any(name.startswith(group) for name in known)]:
        sys.exit(f"There is no target {unknown[0]!r}; there are {', '.join(known)}.")
    if options.guided:
        from tests.fuzz.guided import run_all

        sys.exit(run_all([name for name in known if name.startswith(tuple(groups))], options.minutes))
    sys.exit(attack(groups, options))


def solve(options: argparse.Namespace) -> int:
    """Valid problems, one after the other, with the targets as beginnings of families; the number of faults."""
    from tests.fuzz.problems import run

    ended, faults = run(options.problems, options.seed, tuple(options.targets))
    if options.figures:
        options.figures.write_text(json.dumps(ended, indent=1))
    for name, counts in sorted(ended.items()):
        print(f"{name}: {counts}")
    print("\n".join(faults))
    print(json.dumps({key: sum(counts[key] for counts in ended.values()) for key in next(iter(ended.values()))}))
    return min(sum(counts["faults"] for counts in ended.values()), 100)


def attack(names: list[str], options: argparse.Namespace) -> int:
    """Batches of every group of targets in turn until the time is over; the number of findings."""
    end, figures = time.monotonic() + 60 * options.minutes, {name: _nothing() for name in names}
    first = dict.fromkeys(names, options.seed)
    while time.monotonic() < end and (not options.inputs or _sum(figures, "inputs") < options.inputs):
        for name in names:
            left = end - time.monotonic()
            if left <= 0:
                break
            _batch(name, first[name], left / len(names) if left > 60 else left, figures[name])
            first[name] += _BATCH
            if options.figures:
                options.figures.write_text(json.dumps(figures, indent=1))
    total = {key: _sum(figures, key) for key in _nothing()}
    print(json.dumps(total))
    for name, record in figures.items():
        if any(record[key] for key in ("foreign", "hangs", "crashes", "grown")):
            print(name, record)
    return min(total["foreign"] + total["hangs"] + total["crashes"] + total["grown"], 100)


def _nothing() -> dict[str, float]:
    return {"inputs": 0, "foreign": 0, "hangs": 0, "crashes": 0, "grown": 0, "megabytes": 0, "seconds": 0}


def _sum(figures: dict[str, dict[str, float]], key: str) -> float:
    values = [record[key] for record in figures.values()]
    return max(values, default=0) if key in ("megabytes", "seconds") else sum(values)


def _batch(name: str, first: int, seconds: float, record: dict[str, float]) -> None:
    """A process for some targets; one that makes no step for `SECONDS` is killed, and goes on behind that input."""
    with tempfile.TemporaryDirectory() as folder:
        progress, until = Path(folder) / "progress.json", first + _BATCH
        stop = time.monotonic() + max(seconds, 20)
        while first < until and time.monotonic() < stop:
            progress.unlink(missing_ok=True)
            command = [sys.executable, "-m", "tests.fuzz", "--worker", name, str(first), str(until - first)]
            process = subprocess.Popen([*command, str(stop - time.monotonic()), folder])
            state, since, used = "", time.monotonic(), _processor(process.pid)
            while process.poll() is None:
                time.sleep(0.1)
                now = progress.read_text() if progress.exists() else ""
                if now != state:
                    state, since, used = now, time.monotonic(), _processor(process.pid)
                # Until the first input there are imports and compilation.
                elif json.loads(state or "{}").get("begun"):
                    # By the time of the processor, as others may use it; a process that sleeps for minutes hangs too.
                    if _processor(process.pid) - used > SECONDS + 1 or time.monotonic() - since > 60 * SECONDS:
                        process.kill()
                elif time.monotonic() - since > 900:
                    process.kill()
            done = json.loads(progress.read_text() if progress.exists() else "{}")
            for key in ("inputs", "foreign", "grown"):
                record[key] += done.get(key, 0)
            for key in ("megabytes", "seconds"):
                record[key] = max(record[key], done.get(key, 0))
            record["hangs"] += done.get("slow", 0)
            if process.wait(60) == 0:
                return
            what = "hangs" if process.returncode == -9 else "crashes"
            record[what] += 1
            first = int(done.get("at", until)) + 1
            for path in Path(folder).glob("input.*"):
                _keep(name, path, what)


def _processor(process: int) -> float:
    """Seconds that a process has had of the processor, from Linux's /proc; 0 elsewhere."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _keep(name: str, path: Path, what: str) -> None:
    FOUND.mkdir(exist_ok=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    kept = FOUND / f"{name.replace(' ', '_')}-{digest}{path.suffix}"
    shutil.copy(path, kept)
    print(f"{name}: {what}: {kept}", flush=True)


def work(name: str, first: int, count: int, seconds: float, folder: Path) -> None:
    """Attack the targets whose names begin so, in turn, with `count` inputs."""
    from tests.fuzz.targets import one, targets

    known, end = [item for item in targets().items() if item[0].startswith(name)], time.monotonic() + seconds
    record: dict[str, float] = {**_nothing(), "slow": 0, "begun": 0}
    for name, target in known:
        one(name, target, first, folder / f"input.{target.ending}")  # imports and compiles
    before, written, seen = _megabytes(), 0.0, set()
    end = max(end, time.monotonic() + 5)
    for seed in range(first, first + count):
        name, target = known[seed % len(known)]
        path = folder / f"input.{target.ending}"
        if time.monotonic() - written > 0.2:
            _note(folder, record | {"at": seed, "begun": 1})
            written = time.monotonic()
        start, busy = time.monotonic(), time.process_time()
        error = one(name, target, seed, path)
        record["inputs"] += 1
        # Time of the processor, since the machine may have others to serve; a hang in C is killed from outside.
        took = min(time.process_time() - busy, time.monotonic() - start)
        record["seconds"] = max(record["seconds"], round(took, 2))
        if took > SECONDS:
            record["slow"] += 1
            _keep(name, path, f"{took:.1f} s")
        if error is not None:
            record["foreign"] += 1
            last = error.__traceback__
            while last is not None and last.tb_next is not None:
                last = last.tb_next
            where = (type(error), last.tb_frame.f_code.co_filename, last.tb_lineno) if last else (type(error),)
            if where not in seen:
                seen.add(where)
                _keep(name, path, f"seed {seed}: {error!r} at {where[1:]}")
        grown = _megabytes() - before
        record["megabytes"] = max(record["megabytes"], grown)
        if grown > MEGABYTES:
            record["grown"] += 1
            before += grown
            _keep(name, path, f"{grown} MB")
        if time.monotonic() > end:
            break
    _note(folder, record | {"at": first + count, "begun": 1})


def _note(folder: Path, record: dict[str, float]) -> None:
    (folder / "note").write_text(json.dumps(record))
    (folder / "note").replace(folder / "progress.json")


def _megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


if __name__ == "__main__":
    main()
