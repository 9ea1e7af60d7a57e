"""A boosting round with a loss of luce beside a round of LightGBM's own lambdarank; and scoring with our kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import Line, cpu_seconds, duel

import luce
from luce.data.groups import Groups
from luce.data.simulate import simulate
from luce.scorers.trees import TreesScorer
from luce.training.boosting import Boosting
from luce.training.task import Task

ROWS, FEATURES, QUERIES = 473_134, 100, 19_944
REPEATS, WARM_UP = 15, 3
LOSSES = {"pmop": 1.15, "ranknet": 1.15, "bradley_terry": 1.15, "davidson": 1.15, "thurstone_mosteller": 1.5}
"""Losses, and how many times a round of the peer a round may take."""


def run() -> list[Line]:
    data = paper_size()
    return [*one_round(data), *scoring(data)]


def paper_size() -> Groups:
    """Simulated queries, repeated or cut to exactly the rows of the PMOP paper's data."""
    data = simulate(queries=QUERIES, features=FEATURES, seed=0)
    rows = np.sort(np.random.default_rng(0).choice(data.n_rows, ROWS, replace=data.n_rows < ROWS))
    query = np.searchsorted(data.offsets, rows, side="right")
    return luce.from_arrays(data.X[rows], data.y[rows], qid=query)


def one_round(data: Groups) -> list[Line]:
    """Rounds of all losses and of the peer in turn, so that whatever else the machine does hits all alike."""
    steps: dict[str, Callable[[], object]] = {"lambdarank": _peer(data)}
    for name in LOSSES:
        steps[name] = Boosting(max_iter=10_000).rounds(Task(data, TreesScorer(), luce.losses.get(name)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(WARM_UP + REPEATS):
        for name, step in steps.items():
            start = cpu_seconds()
            step()
            if number >= WARM_UP:
                times[name].append(cpu_seconds() - start)
    theirs = float(np.median(times["lambdarank"]))
    return [
        Line(
            f"boosting round, {name}, {ROWS:,} x {FEATURES}",
            float(np.median(times[name])),
            peer="LightGBM lambdarank, same settings",
            theirs=theirs,
            goal=f"at most {most} times",
            met=bool(np.median(times[name]) <= most * theirs),
        )
        for name, most in LOSSES.items()
    ]


def _peer(data: Groups) -> Callable[[], object]:
    import lightgbm

    parameters = TreesScorer(objective="lambdarank").engine_parameters(data.n_rows, data.feature_names)
    dataset = lightgbm.Dataset(data.X, data.y, group=data.sizes, params=parameters)
    return lightgbm.Booster(parameters, dataset).update


def scoring(data: Groups) -> list[Line]:
    import lightgbm

    parameters = {"objective": "lambdarank", "num_leaves": 10, "verbosity": -1}
    booster = lightgbm.train(parameters, lightgbm.Dataset(data.X, data.y, group=data.sizes), 50)
    from luce.scorers.forest import forest_of

    forest = forest_of(booster)
    ours, theirs = duel(lambda: forest.score(data.X), lambda: booster.predict(data.X))
    what = f"scoring {ROWS:,} rows, 50 trees"
    return [Line(what, ours, peer="LightGBM predict", theirs=theirs, goal="faster", met=ours < theirs)]
