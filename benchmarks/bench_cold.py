"""The first use of every command: processor seconds and kernels compiled, with an empty cache and one thread."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Line

import luce


def train(loss: str) -> list[str]:
    return ["train", "demo/train.txt", "--loss", loss, "--out", f"{loss}.luce"]


COMMANDS: list[tuple[str, list[str], float]] = [
    ("demo, five models", ["demo", "--no-auto", "--out", "demo"], 20.0),  # first: the others read its data
    ("info", ["info", "demo/train.txt"], 2.5),
    *((f"train --loss {loss}", train(loss), 6.0) for loss in ("pmop", "ranknet", "plackett_luce", "davidson")),
    ("train --model lambdamart", ["train", "demo/train.txt", "--model", "lambdamart", "--out", "trees.luce"], 6.0),
    ("evaluate", ["evaluate", "demo/test.txt", "--model", "pmop.luce"], 5.0),
    ("compare of three", ["compare", "demo", "--models", "pmop-fd,ranknet,listmle", "--out", "results"], 15.0),
    ("leaderboard", ["leaderboard", "battles.csv"], 4.0),
]
REFERENCE = "import numba, sklearn.base, scipy.optimize"  # what a command could not do without: how fast the machine is


def processor_seconds(command: list[str], folder: Path) -> tuple[float, int]:
    """Processor seconds, the system's included, of one command of Python, and the kernels that it left on disk."""
    with tempfile.TemporaryDirectory() as cache:
        threads = dict.fromkeys(("LUCE_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=os.environ | threads | {"NUMBA_CACHE_DIR": cache},
            capture_output=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        kernels = len(list(Path(cache).rglob("*.nbc")))
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, kernels


def first_use(arguments: list[str], folder: Path) -> tuple[float, int]:
    return processor_seconds(["-m", "luce", *arguments], folder)


def judged(label: str, seconds: float, goal: float) -> Line:
    return Line(label, seconds, goal=f"at most {goal:g} s", met=seconds <= goal)


def losses(folder: Path) -> Line:
    """Every loss that learns from grades; the slowest is judged and the five slowest are named."""
    found = {name: first_use(train(name), folder)[0] for name in luce.losses.names() if name != "click_choice"}
    slowest = sorted(found, key=lambda name: -found[name])[:5]
    names = ", ".join(f"{name} {found[name]:.1f}" for name in slowest)
    return judged(f"train, slowest of {len(found)} losses: {names}", found[slowest[0]], 6.0)


def run() -> list[Line]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [Line("only imports of numba, scikit-learn and scipy", processor_seconds(["-c", REFERENCE], folder)[0])]
        first_use(["simulate", "battles", "--out", "battles.csv"], folder)
        for label, arguments, goal in COMMANDS:
            seconds, kernels = first_use(arguments, folder)
            lines.append(judged(f"{label}, {kernels} kernels", seconds, goal))
        return [*lines, losses(folder)]
