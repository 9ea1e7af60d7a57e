"""`auto` beside one LightGBM training: at the size of MQ2008, and at that of the PMOP paper's large data.

The whole takes ten minutes of a core. `python benchmarks/bench_auto.py bound` bounds the large comparison in two: every
member walks a few rounds of one fold, and is charged for all rounds that the plan allows.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from bench_trees import paper_size
from harness import Line

import luce
from luce import scorers, training
from luce.auto.crossfit import MEMBERS, PENALTIES, TreeWalk
from luce.auto.plan import make_plan
from luce.data.groups import Groups
from luce.data.simulate import simulate
from luce.training.task import Task

QUERIES, ROUNDS = 630, 300
"""About 15,000 documents, as MQ2008 has."""
SHORT = 9
"""Rounds that a bound looks at."""
GOAL = "under 10 times one training"


def run() -> list[Line]:
    warnings.simplefilter("ignore")
    return [small(), large()]


def large() -> Line:
    """A whole training at the size of the large data, and one of the peer."""
    data = paper_size()
    peer = _cpu(lambda: _lambdarank(data, ROUNDS))
    print(f"{ROUNDS} rounds of lambdarank: {peer:.0f} s", flush=True)
    model = luce.model("auto", random_state=0)
    ours = _cpu(lambda: model.fit(data))
    print({row["member"]: row["steps"] for row in model.history_["blend"]["members"]}, flush=True)
    return Line("auto, fast, 473,134 x 100, CPU", ours, "s", "lambdarank", peer, GOAL, ours < 10 * peer)


def small() -> Line:
    """A whole training at the size of MQ2008."""
    data = simulate(queries=QUERIES, features=46, seed=0)
    seconds = _cpu(lambda: luce.model("auto", random_state=0).fit(data))
    return Line("auto, fast, size of MQ2008, CPU", seconds, goal="under 60 s of two cores", met=seconds < 120)


def bound(data: Groups) -> Line:
    """What "fast" takes at most, and what the peer takes, both from a few rounds, in seconds of a processor."""
    warnings.simplefilter("ignore")
    plan = make_plan("fast", None, None, None, data)
    fold = np.arange(data.n_queries) % plan.folds
    task = Task(data.take(fold != 0), valid=data.take(fold == 0))
    a_fold = 0.0
    for job in plan.jobs:
        seconds = _walk(job.member, task, plan.pace)
        print(f"{job.member}: at most {seconds:.0f} s a fold", flush=True)
        a_fold += seconds
    ours = plan.folds * a_fold
    peer = _rounds(lambda rounds: _lambdarank(data, rounds), ROUNDS)
    what = f"auto, fast, {data.n_rows:,} x {data.n_features}, CPU, bound from {SHORT} rounds"
    return Line(what, ours, "s", "lambdarank", peer, GOAL, ours < 10 * peer)


def _walk(name: str, task: Task, pace: object) -> float:
    """Seconds of one fold of a member, all rounds or all penalties."""
    member = MEMBERS[name]
    if member.linear:
        part = replace(task, valid=None, scorer=scorers.get("linear"), loss=member.make_loss())
        return len(PENALTIES) * _cpu(lambda: training.get("lbfgs", l2=PENALTIES[-1], max_iter=50).train(part))
    own = replace(task, loss=member.make_loss())
    begun = time.process_time()
    walk = TreeWalk(member, own, pace)  # type: ignore[arg-type]
    made = time.process_time()
    for _ in range(SHORT):
        walk.growth.round()
    return made - begun + (time.process_time() - made) / SHORT * walk.pace.rounds


def _rounds(work: Callable[[int], object], rounds: int) -> float:
    """Seconds of so many rounds, from a few and from none but the first."""
    first, few = _cpu(lambda: work(1)), _cpu(lambda: work(1 + SHORT))
    return first + (few - first) / SHORT * (rounds - 1)


def _cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _lambdarank(data: Groups, rounds: int) -> None:
    import lightgbm

    settings = {"objective": "lambdarank", "verbosity": -1, "learning_rate": 0.1}
    lightgbm.train(settings, lightgbm.Dataset(data.X, data.y, group=data.sizes), rounds)


if __name__ == "__main__":
    for line in [bound(paper_size())] if "bound" in sys.argv else run():
        print(line)
