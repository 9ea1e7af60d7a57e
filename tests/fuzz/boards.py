"""Small boards: two to six items, a few battles, races, scores or times, draws, and settings at their borders."""

from __future__ import annotations

from typing import Any

import numpy as np

PAIRED = ("davidson", "rao_kupper", "thurstone_mosteller", "bradley_terry")
Case = tuple[dict[str, list[Any]], dict[str, Any]]
"""Columns of a table, and settings."""


def battles(rng: np.random.Generator) -> dict[str, list[Any]]:
    items, count = rng.integers(2, 7), int(rng.integers(1, 13))
    pairs = [rng.choice(items, 2, replace=False) for _ in range(count)]
    outcomes = rng.choice(["a", "b", "tie"], count, p=rng.dirichlet([1, 1, 1]))
    return {"a": ["uvwxyz"[i] for i, _ in pairs], "b": ["uvwxyz"[j] for _, j in pairs], "outcome": outcomes.tolist()}


def races(rng: np.random.Generator) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"race": [], "competitor": [], "place": []}
    items = int(rng.integers(2, 7))
    for race in range(rng.integers(1, 7)):
        size = int(rng.integers(2, items + 1))
        places = rng.permutation(size) if rng.random() < 0.5 else rng.integers(0, size, size)
        columns["race"] += [race] * size
        columns["competitor"] += ["uvwxyz"[i] for i in rng.permutation(items)[:size]]
        columns["place"] += (1 + places).tolist()
    return columns


def some_options(rng: np.random.Generator) -> dict[str, Any]:
    drawn = {
        "prior": float(10.0 ** rng.uniform(-12, 6)) if rng.random() < 0.9 else 0.0,
        "bootstrap": 20,
        "errors": "curvature",
        "scale": "elo",
    }
    chance = {"prior": 0.4, "bootstrap": 0.1, "errors": 0.3, "scale": 0.2}
    return {name: value for name, value in drawn.items() if rng.random() < chance[name]}


def by_default(rng: np.random.Generator) -> Case:
    return battles(rng), {}


def with_a_prior(rng: np.random.Generator) -> Case:
    return battles(rng), {"prior": float(10.0 ** rng.uniform(-12, 6)), "model": PAIRED[rng.integers(4)]}


def with_options(rng: np.random.Generator) -> Case:
    data = battles(rng)
    rows, options = len(data["a"]), some_options(rng) | {"model": (*PAIRED, "pmop")[rng.integers(5)]}
    extra = {
        "count": (10.0 ** rng.uniform(0, 7, rows)).astype(int).tolist(),
        "weight": (10.0 ** rng.uniform(-6, 6, rows)).tolist(),
        "group": [str(g) for g in rng.integers(0, 3, rows)],
    }
    for name, column in extra.items():
        if rng.random() < 0.2:
            data[name], options[name] = column, name
    if options["model"] != "pmop":
        options |= {"draws": ("model", "half", "drop")[rng.integers(3)], "side": bool(rng.random() < 0.2)}
        if rng.random() < 0.15:
            data["k"], options["covariates"] = (rng.normal(size=rows) * 10.0 ** rng.uniform(-5, 5)).tolist(), ["k"]
    return data, options


def of_races(rng: np.random.Generator) -> Case:
    return races(rng), some_options(rng) | {"model": "plackett_luce" if rng.random() < 0.3 else "pmop"}


def by_least_squares(rng: np.random.Generator) -> Case:
    options = some_options(rng) | {"model": "hodge"}
    return battles(rng), {name: value for name, value in options.items() if name != "scale"}


def of_teams(rng: np.random.Generator) -> Case:
    data, options = battles(rng), some_options(rng) | {"team_separator": "+"}
    for side in "ab":
        data[side] = [f"{name}+{side}{rng.integers(0, 2)}" if rng.random() < 0.5 else name for name in data[side]]
    return data, options | {"model": PAIRED[rng.integers(4)]}


def of_goals(rng: np.random.Generator) -> Case:
    data, options = battles(rng), some_options(rng) | {"outcome": ("x", "y"), "side": True}
    rows = len(data.pop("outcome"))
    data["x"], data["y"] = rng.integers(0, 4, rows).tolist(), rng.integers(0, 4, rows).tolist()
    if rng.random() < 0.5:
        data["n"], options["neutral"] = (rng.random(rows) < 0.5).tolist(), "n"
    if rng.random() < 0.3:
        options |= {"anchor": data["a"][0], "anchor_at": float(10.0 ** rng.uniform(-3, 6))}
    return data, options | {"model": PAIRED[rng.integers(4)]}


def by_category(rng: np.random.Generator) -> Case:
    data, options = with_options(rng)
    return data | {"kind": rng.choice(["p", "q", "r"], len(data["a"])).tolist()}, options | {"by": "kind"}


def in_time(rng: np.random.Generator) -> Case:
    data = battles(rng)
    rows = len(data["a"])
    data["day"] = (rng.integers(0, 5, rows) if rng.random() < 0.7 else rng.uniform(0, 1e6, rows)).tolist()
    options = {"time": "day", "model": PAIRED[rng.integers(3)], "side": bool(rng.random() < 0.3)}
    return data, options | ({"drift": float(10.0 ** rng.uniform(-9, 4))} if rng.random() < 0.3 else {})


def of_scores(rng: np.random.Generator) -> Case:
    models, tasks = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    scores = rng.integers(0, 3, (models, tasks)) + rng.choice([0.0, 1e-8, 1e8]) * rng.normal(size=(models, tasks))
    scores[rng.random(scores.shape) < rng.choice([0.0, 0.3, 0.6])] = np.nan
    columns = {f"t{j}": [None if np.isnan(v) else v for v in scores[:, j].tolist()] for j in range(tasks)}
    options = {"model": ("plackett_luce", "davidson", "borda", "z_score")[rng.integers(4)], "resamples": 100}
    if rng.random() < 0.2:
        options["task_weights"] = dict(zip(columns, (10.0 ** rng.uniform(-6, 6, tasks)).tolist(), strict=True))
    return {"model": [f"m{i}" for i in range(models)], **columns}, options
