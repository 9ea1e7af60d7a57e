"""`auto` beside one LightGBM training: at the size of MQ2008, and at that of the PMOP paper's large data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

from bench_trees import paper_size
from harness import Line

import luce
from luce.data.groups import Groups
from luce.data.simulate import simulate

QUERIES, ROUNDS = 630, 300
"""About 15,000 documents, as MQ2008 has."""


def run() -> list[Line]:
    warnings.simplefilter("ignore")
    small, large = simulate(queries=QUERIES, features=46, seed=0), paper_size()
    seconds = _cpu(lambda: luce.model("auto", random_state=0).fit(small))
    lines = [Line("auto, fast, size of MQ2008, CPU", seconds, goal="under 60 s of two cores", met=seconds < 120)]
    peer = _cpu(lambda: _lambdarank(large))
    ours = _cpu(lambda: luce.model("auto", random_state=0).fit(large))
    goal = "under 10 times one training"
    lines.append(Line("auto, fast, 473,134 x 100, CPU", ours, "s", "lambdarank", peer, goal, ours < 10 * peer))
    return lines


def _cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _lambdarank(data: Groups) -> None:
    import lightgbm

    settings = {"objective": "lambdarank", "verbosity": -1, "learning_rate": 0.1}
    lightgbm.train(settings, lightgbm.Dataset(data.X, data.y, group=data.sizes), ROUNDS)
