"""One cluster of two processes for all tests here, and a data set of many small blocks in several files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pytest

import luce
from luce.data import blocks
from luce.data.groups import Groups
from luce.data.simulate import simulate

FEATURES = 12


class SmallBlocks(distributed.WorkerPlugin):
    """Sets the size of blocks on every worker, those too that start in place of a lost one."""

    def __init__(self, size: int) -> None:
        self.size = size

    def setup(self, worker: Any) -> None:
        from luce.data import blocks

        blocks.BLOCK_BYTES = self.size


@pytest.fixture(scope="package")
def client() -> Iterator[Any]:
    """Two worker processes; blocks of 64 rows, here and there."""
    before, small = blocks.BLOCK_BYTES, 4 * FEATURES * 64
    how = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(n_workers=2, **how) as cluster, distributed.Client(cluster) as client:
        client.register_plugin(SmallBlocks(small))
        blocks.BLOCK_BYTES = small
        yield client
        blocks.BLOCK_BYTES = before


@pytest.fixture(scope="package")
def whole() -> Groups:
    """About 2,800 documents with weights of queries, in 44 blocks."""
    data = simulate(queries=120, features=FEATURES, seed=5)
    return replace(data, query_weight=np.random.default_rng(0).uniform(0.5, 2.0, data.n_queries))


@pytest.fixture(scope="package")
def folder(whole: Groups, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in four Parquet files, cut in the middle of queries."""
    import pyarrow.parquet as pq

    there = tmp_path_factory.mktemp("spread")
    luce.write_parquet(whole, there.parent / "whole.parquet")
    table = pq.read_table(there.parent / "whole.parquet")
    edges = [0, int(whole.offsets[30]) + 2, int(whole.offsets[60]), int(whole.offsets[90]) + 1, whole.n_rows]
    for number, (first, last) in enumerate(pairwise(edges)):
        pq.write_table(table.slice(first, last - first), there / f"part-{number}.parquet")
    return there
