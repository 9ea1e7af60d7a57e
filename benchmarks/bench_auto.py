"""`auto` beside one LightGBM training of 300 rounds, at the sizes of MQ2008, twice MQ2007, and half a million rows.

The whole takes a quarter of an hour of a core: `python benchmarks/bench_auto.py 630 4833` measures the first two.
"""

from __future__ import annotations

import sys
import warnings

from harness import Line, best_of

import luce
from luce.data.groups import Groups
from luce.data.simulate import simulate

QUERIES, ROUNDS, FEATURES = (630, 4_833, 19_944), 300, 46
"""About 15,000, 116,000 and 480,000 documents."""
MOST, MICROSECONDS = 8.0, 15.0


def run(queries: tuple[int, ...] = QUERIES) -> list[Line]:
    warnings.simplefilter("ignore")
    luce.model("auto", random_state=0).fit(simulate(queries=20, features=4, seed=0))  # compiles
    return [line for n in queries for line in measure(simulate(queries=n, features=FEATURES, seed=0))]


def measure(data: Groups) -> list[Line]:
    """A whole training, one of the peer, and what a document costs afterwards."""
    size = f"{data.n_rows:,} x {data.n_features}"
    peer = best_of(lambda: _lambdarank(data), 1, warm_up=False)
    found: list[luce.Ranker] = []
    ours = best_of(lambda: found.append(luce.model("auto", random_state=0).fit(data)), 1, warm_up=False)
    model, part = found[0], data.take(range(min(1000, data.n_queries)))
    each = best_of(lambda: model.predict(part)) / part.n_rows * 1e6
    print({row["member"]: row["steps"] for row in model.history_["blend"]["members"]}, flush=True)
    what, trees = f"LightGBM lambdarank, {ROUNDS} rounds", model.scorer_.forest.n_trees
    return [
        Line(f"auto, {size}", ours, "s", what, peer, f"at most {MOST:g} times", ours <= MOST * peer),
        Line(
            f"  to score a document by its {trees:,} trees", each, "us", goal=f"at most {MICROSECONDS:g} us",
            met=each <= MICROSECONDS,
        ),
    ]  # fmt: skip


def _lambdarank(data: Groups) -> None:
    import lightgbm

    settings = {"objective": "lambdarank", "verbosity": -1, "learning_rate": 0.1}
    lightgbm.train(settings, lightgbm.Dataset(data.X, data.y, group=data.sizes), ROUNDS)


if __name__ == "__main__":
    for line in run(tuple(map(int, sys.argv[1:])) or QUERIES):
        print(line)
