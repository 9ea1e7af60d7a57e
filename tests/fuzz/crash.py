"""`python -m tests.fuzz.crash`: kill commands at random moments, start them again, compare bytes; for `make crash`.

Every command that writes is run once in peace. Then it is killed by SIGKILL after a random part of that time, and run
again, with its checkpoint where it has one, until it ends by itself. Its output must be the same, byte for byte, and no
file may be left beside it. At every kill the output must be whole or absent.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LETOR = "\n".join(
    f"{(7 * i + i // 9) % 3} qid:{i // 9} "
    + " ".join(f"{j}:{((i * j * 37) % 101) / 10}" for j in range(1, 9))
    + f" # d{i}"
    for i in range(900)
)
BALLOTS = "\n".join(
    f"{1 + i % 5}: " + " > ".join(sorted("abcdef", key=lambda c, i=i: (ord(c) * (i + 3)) % 11)) for i in range(40)
)
BATTLES = "a,b,outcome\n" + "\n".join(
    f"p{i % 7},p{(i * 3 + 1) % 7},{'a' if i % 3 else 'b'}" for i in range(200) if i % 7 != (i * 3 + 1) % 7
)
CLICKS = "session,query,document,position,clicked\n" + "\n".join(
    f"{i // 4},q{i // 4 % 9},d{i % 4 + i // 4 % 3},{i % 4 + 1},{int(i % 5 == 0)}" for i in range(2000)
)
KEPT = ["--checkpoint", "kept"]
COMMANDS: dict[str, list[str]] = {
    "train": ["train", "d.txt", "--loss", "ranknet", "--max-iter", "60", "--tol", "1e-12", "-o", "out.luce", *KEPT],
    "train mlp": [
        "train",
        "d.txt",
        "--scorer",
        "mlp",
        "--loss",
        "ranknet",
        "--valid",
        "d.txt",
        "-o",
        "out.luce",
        *KEPT,
    ],
    "train sgd": [
        "train",
        "d.txt",
        "--trainer",
        "sgd",
        "--loss",
        "ranknet",
        "--max-epochs",
        "30",
        "-o",
        "out.luce",
        *KEPT,
    ],
    "train trees": [
        "train",
        "d.txt",
        "--model",
        "lambdamart",
        "--max-iter",
        "60",
        "--valid",
        "d.txt",
        "-o",
        "out.luce",
        *KEPT,
    ],
    "train rankboost": ["train", "d.txt", "--model", "rankboost", "--max-iter", "30", "-o", "out.luce"],
    "predict": ["predict", "d.txt", "--model", "m.luce", "-o", "out.txt"],
    "evaluate": ["evaluate", "d.txt", "--model", "m.luce", "--per-query", "out.csv"],
    "convert": ["convert", "d.txt", "-o", "out.lucedata"],
    "clicks": ["clicks", "c.csv", "-o", "out.lucedata"],
    "aggregate": ["aggregate", "b.txt", "--rule", "kemeny", "-o", "out.csv"],
    "leaderboard": ["leaderboard", "l.csv", "-o", "out.csv"],
    "simulate": ["simulate", "data", "--queries", "300", "--features", "10", "-o", "out.txt"],
    "export": ["export", "m.luce", "--to", "ranklib", "-o", "out.txt"],
    "compare": ["compare", "d.txt", "--models", "ranknet,listnet", "--folds", "3", "-o", "run"],
    "tune": ["tune", "d.txt", "--model", "ranknet", "--trials", "3", "-o", "run"],
    "train auto": ["train", "d.txt", "--model", "auto", "--budget", "fast", "-o", "out.luce", *KEPT],
    "train folds": ["train", "d.txt", "--loss", "ranknet", "--folds", "3", "-o", "out.luce"],
    "simulate clicks": ["simulate", "clicks", "d.txt", "--sessions", "5000", "-o", "out.csv"],
    "simulate battles": ["simulate", "battles", "--players", "9", "--battles", "2000", "-o", "out.csv"],
}
"""Commands by name; what begins with `out` or is the folder `run` is compared."""


def main() -> None:
    """Kill, go on, compare; the exit code is the number of differences."""
    given = argparse.ArgumentParser(prog="python -m tests.fuzz.crash", description=__doc__)
    given.add_argument("--kills", type=int, default=40)
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--commands", nargs="*", default=list(COMMANDS))
    given.add_argument("--figures", type=Path)
    options = given.parse_args()
    rng, wrong, kills, per = random.Random(options.seed), 0, 0, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clean = {command: _peace(command, folder) for command in options.commands}
        while kills < options.kills:
            for command, (bytes_, seconds) in clean.items():
                done, differs = _attack(command, folder, bytes_, seconds, rng)
                kills, wrong = kills + done, wrong + differs
                per[command] = per.get(command, 0) + done
                if options.figures:
                    options.figures.write_text(json.dumps({"kills": kills, "different": wrong, "by command": per}))
                if kills >= options.kills:
                    break
    print(f"{kills} kills over {len(clean)} commands, {wrong} outputs that differ.")
    sys.exit(min(wrong, 100))


def _start(command: str, folder: Path) -> subprocess.Popen[bytes]:
    run = [sys.executable, "-m", "luce", *COMMANDS[command]]
    return subprocess.Popen(run, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _fresh(folder: Path, model: bytes | None = None) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in (("d.txt", LETOR), ("b.txt", BALLOTS), ("l.csv", BATTLES), ("c.csv", CLICKS)):
        (folder / name).write_text(text + "\n")
    if _model:
        (folder / "m.luce").write_bytes(_model[0])


_model: list[bytes] = []


def _peace(command: str, folder: Path) -> tuple[dict[str, str], float]:
    """What it writes, and how long it takes; the second time, when all is compiled."""
    if not _model:
        _fresh(folder)
        train = [sys.executable, "-m", "luce", "train", "d.txt", "--loss", "ranknet", "-o", "m.luce", "--quiet"]
        subprocess.run(train, cwd=folder, check=True, capture_output=True, timeout=300)
        _model.append((folder / "m.luce").read_bytes())
    seconds = 0.0
    for _ in range(2):
        _fresh(folder)
        start = time.monotonic()
        process = _start(command, folder)
        said = process.communicate(timeout=1800)[1].decode()
        if process.returncode != 0:
            sys.exit(f"{command} does not work: {said.strip()}")
        seconds = time.monotonic() - start
    return _written(folder), seconds


def _written(folder: Path) -> dict[str, str]:
    """Names and digests of what was written, without times and durations."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and (name.startswith("out") or name.startswith("run/") or ".part" in name):
            if path.name in ("results.json", "report.md", "run.json") or path.suffix in (".log", ".html"):
                continue  # they say how long it took
            if name.startswith("run/state/") and ".part" not in name:
                continue  # so do notes of what is done
            content = path.read_bytes()
            if path.name == "leaderboard.csv":  # and its last column
                content = b"\n".join(line.rpartition(b",")[0] for line in content.splitlines())
            found[name] = hashlib.sha256(content).hexdigest()
    return found


def _attack(command: str, folder: Path, clean: dict[str, str], seconds: float, rng: random.Random) -> tuple[int, int]:
    """Kill it one to three times, then let it end; kills, and 1 where the output differs."""
    _fresh(folder)
    kills = 0
    for _ in range(rng.randint(1, 3)):
        process = _start(command, folder)
        try:
            process.communicate(timeout=rng.uniform(0.3, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate(timeout=60)
            kills += 1
            if COMMANDS[command][0] not in ("compare", "tune"):  # they go on in their folder
                torn = [name for name, digest in _written(folder).items() if name in clean and clean[name] != digest]
                if torn:
                    print(f"{command}: {torn} were torn by a kill.", flush=True)
                    return kills, 1
        else:
            break
    process = _start(command, folder)
    said = process.communicate(timeout=1800)[1].decode()
    found = _written(folder)
    if process.returncode != 0 or found != clean:
        differ = sorted(name for name in {*found, *clean} if found.get(name) != clean.get(name))
        print(f"{command}: after {kills} kills {differ} differ. {said.strip()[-300:]}", flush=True)
        return kills, 1
    return kills, 0


if __name__ == "__main__":
    main()
