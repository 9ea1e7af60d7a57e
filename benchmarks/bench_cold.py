"""The first use of every command: processor seconds and kernels compiled, with an empty cache and one thread."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Line

COMMANDS: list[tuple[str, list[str], float]] = [
    ("demo, five models", ["demo", "--no-auto", "--out", "demo"], 20.0),  # first: the others read its data
    ("info", ["info", "demo/train.txt"], 2.5),
    ("train --loss pmop", ["train", "demo/train.txt", "--loss", "pmop", "--out", "pmop.luce"], 6.0),
    ("train --loss ranknet", ["train", "demo/train.txt", "--loss", "ranknet", "--out", "ranknet.luce"], 6.0),
    (
        "train --loss plackett_luce",
        ["train", "demo/train.txt", "--loss", "plackett_luce", "--out", "plackett_luce.luce"],
        6.0,
    ),
    ("train --loss davidson", ["train", "demo/train.txt", "--loss", "davidson", "--out", "davidson.luce"], 6.0),
    ("train --model lambdamart", ["train", "demo/train.txt", "--model", "lambdamart", "--out", "trees.luce"], 6.0),
    ("evaluate", ["evaluate", "demo/test.txt", "--model", "pmop.luce"], 5.0),
    ("compare of three", ["compare", "demo", "--models", "pmop-fd,ranknet,listmle", "--out", "results"], 15.0),
    ("leaderboard", ["leaderboard", "battles.csv"], 4.0),
]


def first_use(arguments: list[str], folder: Path) -> tuple[float, int]:
    """Processor seconds of one command in a process of its own, and the kernels that it left on disk."""
    with tempfile.TemporaryDirectory() as cache:
        threads = dict.fromkeys(("LUCE_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "luce", *arguments],
            cwd=folder,
            env=os.environ | threads | {"NUMBA_CACHE_DIR": cache},
            capture_output=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        kernels = len(list(Path(cache).rglob("*.nbc")))
    return after.ru_utime - before.ru_utime, kernels


def run() -> list[Line]:
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first_use(["simulate", "battles", "--out", "battles.csv"], folder)
        for label, arguments, goal in COMMANDS:
            seconds, kernels = first_use(arguments, folder)
            lines.append(Line(f"{label}, {kernels} kernels", seconds, goal=f"at most {goal:g} s", met=seconds <= goal))
    return lines
