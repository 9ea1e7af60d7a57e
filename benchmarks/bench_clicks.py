"""Click logs, in processor seconds: rows of Parquet to examination with errors, beside sums in Polars; fits."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import Line, best_cpu
from pyarrow import parquet

import luce
from luce.clicks import examination, read
from luce.clicks.simulation import as_columns, production, simulate_counts, simulate_sessions

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
        columns = as_columns(simulate_sessions(data, made, rng, sessions=SESSIONS), data)
        with parquet.ParquetWriter(path, pa.table(columns).schema) as out:
            for copy in range(COPIES):  # other sessions with the same clicks: reading does not know
                out.write_table(pa.table(columns | {"session": columns["session"] + copy * SESSIONS}))
        rows = 10 * SESSIONS * COPIES
        ours, theirs = best_cpu(lambda: examination(read(path)), 1, warm_up=False), _polars(path)
    counts = best_cpu(lambda: simulate_counts(data, made, rng, sessions=10_000_000), 2, warm_up=False)
    target = examination(simulate_counts(data, made, rng, sessions=1_000_000), data).target(data)
    blank = replace(data, y=np.zeros(data.n_rows))
    clicked = best_cpu(lambda: luce.Ranker(loss="click_choice").fit(blank, clicks=target))
    graded = best_cpu(lambda: luce.Ranker().fit(data))
    most = 20 * rows / 1e7
    return [
        Line(
            f"{rows:,} rows of Parquet to examination",
            ours,
            "s",
            "Polars group by",
            theirs,
            f"{most:.0f} s",
            ours < most,
        ),
        Line("10,000,000 simulated sessions as counts", counts, "s", goal="seconds", met=counts < 10),
        Line("a linear fit on counts", clicked, "s", "on grades", graded, "as on grades", clicked < graded),
    ]


def _polars(path: Path) -> float | None:
    """The sums alone, without sessions, checks and examination."""
    try:
        import polars
    except ImportError:
        return None
    keys = ["query", "document", "position"]
    scan = polars.scan_parquet(path).group_by(keys).agg(polars.len(), polars.col("clicked").sum())
    return best_cpu(scan.collect, 1, warm_up=False)
