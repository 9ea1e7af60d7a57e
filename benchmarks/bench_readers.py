"""Reading text like MQ2008 (46 features, six decimals, query ids, comments) against scikit-learn and LightGBM.

LightGBM reads neither query ids nor comments in this format, so it gets the same numbers without them and a `.query`
file; its time is that of `Dataset(path).construct()`, which also bins the features.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import lightgbm
import numpy as np
import pyarrow as pa
from harness import Line, best_of, duel
from pyarrow import parquet
from sklearn.datasets import load_svmlight_file

import luce
from luce.data.mapped import read_data, stream_data
from luce.data.readers.detect import open_source
from luce.data.simulate import simulate

COPIES = 24
"""Of 150 queries; about 50 MB."""


def run() -> list[Line]:
    with tempfile.TemporaryDirectory() as name:
        return [*measure(Path(name)), *measure_table(Path(name))]


def measure(folder: Path) -> list[Line]:
    text, plain = write_texts(folder)
    size = text.stat().st_size / 1e6
    ours, sklearn = duel(
        lambda: luce.read_letor(text), lambda: load_svmlight_file(str(text), query_id=True, dtype=np.float32)
    )
    ours_plain, lgb = duel(
        lambda: luce.read_letor(plain), lambda: lightgbm.Dataset(plain, params={"verbosity": -1}).construct()
    )
    mapped = folder / "train.lucedata"
    stream = best_of(lambda: stream_data(open_source(text), mapped), 1)
    opened = best_of(lambda: read_data(mapped))
    return [
        Line(f"read LETOR text, {size:.0f} MB", ours, "s", "scikit-learn", sklearn, "5x", sklearn >= 5 * ours),
        Line("read the same without qid", ours_plain, "s", "LightGBM", lgb, "faster", lgb > ours_plain),
        Line("text per second", size / ours, "MB/s"),
        Line("convert to .lucedata, out of core", stream),
        Line("open .lucedata", opened * 1e3, "ms"),
    ]


TABLE_ROWS, TABLE_PIECE = 2_000_000, 1_000_000
BLOCK = 8_192
"""Rows that the peer copies at once, so that what it writes stays in cache."""
TEXTS = {"brand": 300, "shop": 40}


def measure_table(folder: Path) -> list[Line]:
    """Parquet with 18 columns of numbers and two of text, against pyarrow's own read and a copy by blocks."""
    path = folder / "table.parquet"
    write_table(path)

    def arrow() -> None:
        table = parquet.read_table(path)
        X = np.empty((TABLE_ROWS, 16), dtype=np.float32)
        columns = [table.column(j + 2).to_numpy() for j in range(16)]
        for a in range(0, TABLE_ROWS, BLOCK):
            for j, column in enumerate(columns):
                X[a : a + BLOCK, j] = column[a : a + BLOCK]

    ours, peer = duel(lambda: luce.read(path), arrow)
    numbers = best_of(lambda: luce.read(path, drop=list(TEXTS)))
    added = (ours - numbers) / peer
    return [
        Line(
            f"read Parquet, {TABLE_ROWS:,} x 20, two text columns",
            ours,
            "s",
            "pyarrow + copy by blocks",
            peer,
            "1.5x",
            ours <= 1.5 * peer,
        ),
        Line("of it for the codes of the texts, in the peer's time", added, "", "", None, "0.3", added <= 0.3),
    ]


def write_table(path: Path) -> None:
    """Query, label, 16 columns of numbers and two of text, piece by piece."""
    rng = np.random.default_rng(0)
    names = {name: np.array([f"{name} {i}" for i in range(count)]) for name, count in TEXTS.items()}
    writer = None
    for first in range(0, TABLE_ROWS, TABLE_PIECE):
        columns: dict[str, np.ndarray] = {
            "qid": np.arange(first, first + TABLE_PIECE) // 25,
            "label": rng.integers(0, 5, TABLE_PIECE),
        }
        columns |= {f"f{i}": rng.normal(size=TABLE_PIECE) for i in range(16)}
        columns |= {name: words[rng.integers(0, len(words), TABLE_PIECE)] for name, words in names.items()}
        table = pa.table(columns)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def write_texts(folder: Path) -> tuple[Path, Path]:
    """The file with query ids and comments, and LightGBM's: the same rows without, and a file of sizes."""
    data = simulate(150, 46, seed=0)
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    X = (data.X - low) / np.where(high > low, high - low, 1)
    rows = [" ".join(f"{i + 1}:{value:.6f}" for i, value in enumerate(row)) for row in X.tolist()]
    labels = data.y.astype(int).tolist()
    qids = np.repeat(np.arange(data.n_queries), data.sizes).tolist()
    text, plain = folder / "train.txt", folder / "rank.train"
    with open(text, "w") as file:
        for copy in range(COPIES):
            for label, qid, row in zip(labels, qids, rows, strict=True):
                file.write(
                    f"{label} qid:{10_000 + copy * data.n_queries + qid} {row} #docid = GX008-86-4444840 inc = 1\n"
                )
    block = "".join(f"{label} {row}\n" for label, row in zip(labels, rows, strict=True))
    plain.write_text(block * COPIES)
    Path(f"{plain}.query").write_text("".join(f"{size}\n" for size in data.sizes.tolist() * COPIES))
    return text, plain
