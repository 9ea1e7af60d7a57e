"""Exporting a model of 500 trees to every target: time and size; LightGBM writing its own text beside ours."""

from __future__ import annotations

from harness import Line, best_of

import luce
from luce.data.simulate import simulate
from luce.errors import MissingExtraError
from luce.export import export_model, targets

TREES, LEAVES, FEATURES = 500, 31, 50


def run() -> list[Line]:
    import lightgbm

    from luce.scorers.forest import forest_of
    from luce.scorers.trees import FittedTrees

    data = simulate(queries=400, features=FEATURES, seed=0)
    parameters = {"objective": "lambdarank", "num_leaves": LEAVES, "verbosity": -1, "num_threads": 1}
    booster = lightgbm.train(parameters, lightgbm.Dataset(data.X, data.y, group=data.sizes), TREES)
    model = luce.Ranker(scorer="trees", max_iter=1).fit(data)
    model.scorer_ = FittedTrees(forest_of(booster), FEATURES)
    lines = []
    for target in targets():
        try:
            size = len(export_model(model, target).content)
        except MissingExtraError as error:
            print(f"  {target} left out: {error}")
            continue
        peer = {}
        if target == "lightgbm":
            peer = {"peer": "LightGBM model_to_string", "theirs": best_of(booster.model_to_string)}
        what = f"{TREES} trees of {LEAVES} leaves to {target}, {size / 2**20:.1f} MB"
        lines.append(Line(what, best_of(lambda target=target: export_model(model, target)), **peer))
    return lines
