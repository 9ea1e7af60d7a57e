"""Click logs: rows of Parquet to examination with errors, beside the same sums in Polars; counts without rows; fits."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import Line, best_of
from pyarrow import parquet

import luce
from luce.clicks import Examination, examination, read
from luce.clicks.log_files import as_columns
from luce.clicks.simulation import production, simulate_counts, simulate_sessions

SESSIONS = 100_000
COPIES = 10


def run() -> list[Line]:
    rng = np.random.default_rng(0)
    n = 1000 * 20
    X = rng.normal(size=(n, 5)).astype(np.float32)
    data = luce.from_arrays(X, rng.integers(0, 3, n), qid=np.repeat(np.arange(1000), 20), document_ids=np.arange(n))
    made = production(data, [X[:, 0], X[:, 1]], swap=0.2)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "log.parquet"
        with parquet.ParquetWriter(
            path, pa.table(as_columns(simulate_sessions(data, made, rng, sessions=1), data)).schema
        ) as out:
            for copy in range(COPIES):
                columns = as_columns(simulate_sessions(data, made, rng, sessions=SESSIONS), data)
                out.write_table(pa.table(columns | {"session": columns["session"] + copy * SESSIONS}))
        rows = 10 * SESSIONS * COPIES
        start, cpu = time.perf_counter(), time.process_time()
        examination(read(path))
        ours, cpu = time.perf_counter() - start, time.process_time() - cpu
        theirs = _polars(path)
    counts = best_of(lambda: simulate_counts(data, made, rng, sessions=10_000_000), 2, warm_up=False)
    seen = examination(simulate_counts(data, made, rng, sessions=1_000_000), data)
    clicked, graded = _fits(data, seen)
    goal = f"{20 * rows / 1e7:.0f} s"
    return [
        Line(
            f"{rows:,} rows of Parquet to examination",
            ours,
            "s",
            "Polars group by",
            theirs,
            goal,
            ours < 20 * rows / 1e7,
        ),
        Line("the same, processor time", cpu),
        Line("10,000,000 simulated sessions as counts", counts, "s", goal="seconds", met=counts < 10),
        Line(
            "a linear fit on counts, processor time",
            clicked,
            "s",
            "on grades",
            graded,
            "as on grades",
            clicked < graded,
        ),
    ]


def _fits(data: luce.Groups, seen: Examination) -> tuple[float, float]:
    """Processor seconds of the choice loss on counts and of the default loss on grades, both compiled."""
    blank = replace(data, y=np.zeros(data.n_rows))
    target = seen.target(data)

    def on_counts() -> None:
        luce.Ranker(loss="click_choice").fit(blank, clicks=target)

    def on_grades() -> None:
        luce.Ranker().fit(data)

    found = []
    for fit in (on_counts, on_grades):
        fit()
        start = time.process_time()
        for _ in range(3):
            fit()
        found.append((time.process_time() - start) / 3)
    return found[0], found[1]


def _polars(path: Path) -> float | None:
    """The sums alone, without sessions, checks and examination."""
    try:
        import polars
    except ImportError:
        return None
    keys = ["query", "document", "position"]
    scan = polars.scan_parquet(path).group_by(keys).agg(polars.len(), polars.col("clicked").sum())
    return best_of(scan.collect, 1, warm_up=False)
