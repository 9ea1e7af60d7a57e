"""Containers of every kind but models: judged documents, counts of clicks, boards; raw, and with mended checksums."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import luce
from luce.aggregate.board.saved import read_board
from luce.data.mapped import read_data, write_data
from luce.storage import container_kind, read_container, write_container
from tests.fuzz import model_files
from tests.fuzz.mutations import damaged_arrays, damaged_bytes, damaged_tree
from tests.fuzz.readers import BATTLES, CLICKS

__all__ = ["KINDS", "attack", "use"]

KINDS = ("data", "table data", "counts", "board", "season", "categories", "seasons")
BY = "a,b,outcome,by,judge,date\n" + "x,y,a,p,1,1\ny,z,b,p,2,2\nz,x,tie,q,1,3\nx,y,b,q,2,4\n" * 2
DATED = "a,b,outcome,date\nx,y,a,1\ny,z,b,2\nz,x,tie,3\nx,y,b,4\n"


@cache
def _clean(kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "c.luce", Path(folder) / "log.csv"
        if kind.endswith("data"):
            write_data(model_files.rows_for("table" if kind == "table data" else "linear"), path)
        elif kind == "counts":
            log.write_text(CLICKS)
            luce.clicks.read(log).save(path)
        else:
            log.write_text({"board": BATTLES, "season": DATED}.get(kind, BY))
            settings = {} if kind == "board" else {"time": "date"} if kind.startswith("season") else {"group": "judge"}
            settings |= {"by": "by"} if kind in ("categories", "seasons") else {}
            luce.aggregate.save_board(luce.aggregate.leaderboard(log, **settings), path)
        return path.read_bytes()


def attack(kind: str, rng: random.Random, path: Path) -> None:
    """Write a damaged container: any byte changed, or settings and arrays with right checksums."""
    path.write_bytes(_clean(kind))
    if rng.random() < 0.3:
        path.write_bytes(damaged_bytes(_clean(kind), rng))
        return
    name = container_kind(path)
    assert name is not None
    _, settings, arrays = read_container(path, name)
    if rng.random() < 0.3:
        settings = damaged_tree(settings, rng)
    else:
        arrays = damaged_arrays(arrays, rng)
    write_container(path, name, settings, arrays, durable=False)


def use(kind: str, path: Path) -> None:
    """Open it, and use it as its kind is used."""
    if kind.endswith("data"):
        data = read_data(path)
        data.take(range(data.n_queries))
        luce.evaluate(np.zeros(data.n_rows), data, ["ndcg@3"])
    elif kind == "counts":
        luce.clicks.read(path).by_position()
    else:
        read_board(path)
