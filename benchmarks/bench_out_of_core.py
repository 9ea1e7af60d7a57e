"""Features larger than the memory a training may have: the whole command, on a file that is mapped into memory.

What counts is anonymous memory (RssAnon): pages of the mapped file may be resident too, and the system drops them when
it needs the room.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Line
from numpy.typing import NDArray

from luce.data.mapped import stream_data
from luce.data.outline import Outline
from luce.data.simulate import simulate

GIGABYTES = 10
FEATURES = 136
ALLOWED = 2.0
"""Gigabytes of anonymous memory."""
BLOCK_QUERIES = 4_000
RUNS = {
    "linear, pmop": (["--loss", "pmop", "--max-iter", "5"], True),
    "linear, rao_kupper, checkpoints": (["--loss", "rao_kupper", "--max-iter", "3", "--checkpoint", "kept"], True),
    "second order, pmop": (["--loss", "pmop", "--scorer", "second_order", "--max-iter", "2"], True),
    "trees, pmop (LightGBM's bins are in memory)": (["--loss", "pmop", "--scorer", "trees", "--max-iter", "3"], False),
}


class Repeated:
    """A file that is never whole in memory: one simulated block again and again, with noise of its own each time."""

    def __init__(self, gigabytes: float, path: Path) -> None:
        self.path = path
        self.block = simulate(queries=BLOCK_QUERIES, features=FEATURES, seed=0)
        self.times = max(1, round(gigabytes * 1e9 / self.block.X.nbytes))

    def outline(self) -> Outline:
        block, times = self.block, self.times
        return Outline(
            y=np.tile(block.y, times),
            offsets=np.concatenate([[0], np.cumsum(np.tile(block.sizes, times))]).astype(np.int64),
            query_ids=np.arange(times * block.n_queries),
            document_ids=None,
            query_weight=None,
            feature_names=block.feature_names,
            row_order=None,
        )

    def blocks(self, width: int) -> Iterator[NDArray[np.float32]]:
        rng = np.random.default_rng(0)
        for _ in range(self.times):
            shift = rng.standard_normal((self.block.n_rows, 1), dtype=np.float32)
            yield self.block.X + np.float32(0.05) * shift


def run() -> list[Line]:
    with tempfile.TemporaryDirectory(prefix="luce-bench-") as there:
        folder = Path(there)
        if shutil.disk_usage(folder).free < 1.2e9 * GIGABYTES:
            print(f"  less than {1.2 * GIGABYTES:.0f} GB free in {folder}: left out")
            return []
        start = time.perf_counter()
        stream_data(Repeated(GIGABYTES, folder), folder / "big.lucedata")
        lines = [Line(f"write {GIGABYTES} GB of features, mapped form", time.perf_counter() - start)]
        for what, (options, bounded) in RUNS.items():
            peak, seconds = watched(["train", "big.lucedata", "--out", "m.luce", "--json", *options], folder)
            goal = {"goal": f"at most {ALLOWED:g} GB", "met": peak <= ALLOWED} if bounded else {}
            lines.append(Line(f"train {GIGABYTES} GB, {what}: peak RssAnon", peak, "GB", **goal))
            lines.append(Line(f"train {GIGABYTES} GB, {what}: time", seconds))
        return lines


def watched(arguments: list[str], folder: Path) -> tuple[float, float]:
    """Run a command; gigabytes of anonymous memory at the most, and seconds."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "luce", *arguments]
    peak = 0
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, anonymous(process.pid))
            time.sleep(0.05)
        assert process.stdout is not None
        told: dict[str, Any] = json.loads(process.stdout.read())
    assert told["iterations"] > 0
    return peak / 1e9, time.perf_counter() - start


def anonymous(pid: int) -> int:
    """Bytes of anonymous resident memory, 0 for a process that has just ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("RssAnon:"))
