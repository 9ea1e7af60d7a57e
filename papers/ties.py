"""Makes docs/papers/ties.md and its numbers: boosted models of ties beside the base rankers, on the LETOR sets at hand.

    python papers/ties.py [--quick] [--page] [--list] [--part PART ...] [--minutes M]

A part is one model on one set with one kind of tree (`OHSUMED-2.0/pairs/bt-ties`), or a row of one of the studies, with
twelve settings a row; those that begin with `two/` have two. `--list` names them all, and `--part` takes the beginning
of a name too. Each goes to papers/results/ties.json with its
settings and seed as soon as it is done; one that is there is computed again only after it was taken out. `--minutes`
begins no further part after so many. `--quick` runs one fold into a temporary folder, `--page` only makes the page
again. The sets are read from LUCE_DATA, else ../shared/data beside the project; a set that is absent keeps its last
numbers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, add, data_folder, kept, write_page
from kit.click_pairs import LEARNED, SESSIONS, from_clicks
from kit.crossfit import Entry, best_of_grid, one_row, repeated_folds
from kit.ties_page import page

import luce
from luce.data.groups import document_names
from luce.experiments.folds import Fold, find_folds
from luce.metrics.evaluate import evaluate

SETS = ("OHSUMED-2.0", "OHSUMED", "MQ2008")
STUDIED, MERGED, AGAIN = "OHSUMED-2.0", "OHSUMED-2L", " x5"
"""The set of the studies, the one of the paper that is at hand; the same with two levels; cut five times anew."""
METRICS = ["map", *(f"ndcg@{k}" for k in range(1, 11)), "p@1", "p@3", "p@5"]
SEED, CUTS = 0, 5
ROUNDS: dict[str, Any] = {"max_iter": 300, "early_stopping": 40}
SHAPES = [
    {"scorer__num_leaves": 10, "scorer__min_data_in_leaf": 20},
    {"scorer__num_leaves": 5, "scorer__min_data_in_leaf": 50},
]
RANGES = {"newton": (0.05, 0.2), "pairs": (0.1, 0.5), "risk": (0.0005, 0.0025), "documents": (0.0005, 0.0025)}
"""The steps from which validation chooses; leaves of "risk" and "documents" are sums over pairs, "pairs" means."""
FEW: dict[str, Any] = {"max_iter": 200, "early_stopping": 30}
STEP = {"newton": 0.1, "pairs": 0.1, "risk": 0.0005, "documents": 0.0005}
"""Rounds and step of the rows of two settings, whose band is estimated."""
EPSILONS: tuple[float | None, ...] = (None, 0.5, 1.5)
"""None is estimated anew after every ten trees."""
TIES, TREES_ALONE = ("bt-ties", "bt-noties", "tm-ties", "tm-noties"), ("lambdamart", "mart")
OTHERS: dict[str, list[dict[str, Any]]] = {
    "ranksvm": [{"l2": float(f"{l2:.3g}")} for l2 in np.geomspace(1e-3, 1e3, 12)],
    "rankboost": [{"trainer__thresholds": 16}, {"trainer__thresholds": 64}],
    "adarank-map": [{"trainer__both_directions": True}, {"trainer__both_directions": False}],
    "frank": [{"trainer__thresholds": 16}, {"trainer__thresholds": 64}],
}
GRADES = {"relevant": [2], "possibly relevant": [1], "relevant or possibly relevant": [1, 2], "irrelevant": [0]}
EVERY = 5
"""Rounds between two points of a learning curve."""
CLICKED = ("OHSUMED-2.0", "MQ2008")


def steps(kind: str, number: int) -> list[dict[str, Any]]:
    return [{"scorer__learning_rate": float(f"{step:.3g}")} for step in np.geomspace(*RANGES[kind], number)]


def grid(model: str, kind: str = "newton", epsilons: Sequence[float | None] = EPSILONS) -> list[dict[str, Any]]:
    """Twelve settings a model: two trees by six steps, or by two steps and three widths of the band of ties."""
    widths = [{}] if "-ties" not in model else [{} if e is None else {"loss__epsilon": e} for e in epsilons]
    made = steps(kind, 2 if len(widths) > 1 else 6)
    return [{**shape, **step, **width} for shape in SHAPES for step in made for width in widths]


def few(model: str, kind: str = "newton", more: Mapping[str, Any] | None = None) -> Entry:
    """Two settings a model: the two trees with one step, or what a base ranker has."""
    if model == "ranksvm":
        return Entry(model, {}, [{"l2": 0.01}, {"l2": 0.1}], stopped=True)
    if model in OTHERS:
        return Entry(model, FEW, OTHERS[model], stopped=True)
    if model in TREES_ALONE:
        return Entry(model, FEW, [{**shape, "scorer__learning_rate": STEP[kind]} for shape in SHAPES], stopped=True)
    grid = [{**shape, "scorer__learning_rate": STEP[kind]} for shape in SHAPES]
    return Entry(model, {**FEW, "scorer__curvature": kind, **(more or {})}, grid, stopped=True)


def entry(model: str, kind: str = "newton", more: Mapping[str, Any] | None = None, **choices: Any) -> Entry:
    if model in OTHERS:
        return Entry(model, {} if model == "ranksvm" else ROUNDS, OTHERS[model], stopped=True)
    trees = {**ROUNDS, **({} if model in TREES_ALONE else {"scorer__curvature": kind})}
    return Entry(model, {**trees, **(more or {})}, grid(model, kind, **choices), stopped=True)


@cache
def cuts_of(name: str, n: int | None) -> list[list[Fold]]:
    """The folds of a set as LETOR has them, or five cuts of its queries into five."""
    plain = name.removesuffix(AGAIN)
    folds = find_folds(data_folder() / (STUDIED if plain == MERGED else plain))[:n]
    if plain == MERGED:
        folds = [replace(fold, load=Merged(fold)) for fold in folds]
    return repeated_folds(folds, CUTS, SEED) if name.endswith(AGAIN) else [folds]


@dataclass(frozen=True)
class Merged:
    """Definitely and possibly relevant are one grade."""

    fold: Fold

    def __call__(self) -> tuple[luce.Groups, luce.Groups, luce.Groups]:
        train, valid, test = (replace(part, y=np.minimum(part.y, 1)) for part in self.fold.load())
        return train, valid, test


def row(name: str, made: Entry, n: int | None) -> dict[str, Any]:
    """A row of a table, with what made it."""
    found = one_row(cuts_of(name, n), made, METRICS, SEED)
    found["queries"] = {metric: found["queries"][metric] for metric in ("map", "ndcg@1", "ndcg@5")}
    return found | {"seed": SEED, "system": made.system, "settings": dict(made.settings), "grid": list(made.grid)}


def learning_curves(kind: str, n: int | None) -> dict[str, Any]:
    """Figure 3: NDCG@5 of training, validation and test queries by round at the smaller step, the mean of the folds."""
    points, found = list(range(0, ROUNDS["max_iter"] + 1, EVERY)), {}
    settings = {**SHAPES[0], **steps(kind, 2)[0], "scorer__curvature": kind, "max_iter": ROUNDS["max_iter"]}
    for model in ("bt-ties", "bt-noties"):
        values = np.zeros((3, len(points)))
        folds = cuts_of(STUDIED, n)[0]
        for fold in folds:
            parts = fold.load()
            forest = luce.model(model, **settings, random_state=SEED).fit(parts[0]).scorer_.forest
            for line, part in enumerate(parts):
                for column, t in enumerate(points):
                    scores = forest.first(min(t, forest.n_trees)).score(part.X)
                    values[line, column] += evaluate(scores, part, ["ndcg@5"], ties="stable").means["ndcg@5"]
        means = (values / len(folds)).round(5).tolist()
        found[model] = dict(zip(("training", "validation", "test"), means, strict=True))
    return {"rounds": points, "curves": found, "settings": settings}


def top_lists(kind: str, n: int | None) -> dict[str, Any]:
    """Table 5: the first five documents of the paper's two queries, by the models that validation chose."""
    found: dict[str, Any] = {}
    for fold in cuts_of(STUDIED, n)[0]:
        train, valid, test = fold.load()
        names = [str(query) for query in test.query_ids]
        wanted = [query for query in ("79", "84") if query in names] or names[:1] * (n is not None)
        documents = document_names(test)
        for model in ("bt-noties", "bt-ties") if wanted else ():
            best, _, _ = best_of_grid(entry(model, kind), train, valid, "ndcg@10", SEED)
            scores = best.predict(test)
            for query in wanted:
                first, last = test.offsets[names.index(query)], test.offsets[names.index(query) + 1]
                order = first + np.argsort(-scores[first:last], kind="stable")[:5]
                found.setdefault(query, {})[model] = [[int(test.y[at]), str(documents[at])] for at in order]
    return found


def two_settings(there: Sequence[str], n: int | None) -> dict[str, Callable[[], dict[str, Any]]]:
    """The parts of two settings a row."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    merged = [MERGED, STUDIED + AGAIN, MERGED + AGAIN] if STUDIED in there else []
    again = ["OHSUMED" + AGAIN] if "OHSUMED" in there else []
    for name in (*merged, *there, *again):
        for kind in RANGES:
            for model in TIES if kind in ("pairs", "newton") and name in there else TIES[:2]:
                found[f"two/{name}/{kind}/{model}"] = partial(row, name, few(model, kind), n)
        for model in (*TREES_ALONE, *OTHERS) if name in there else ():
            found[f"two/{name}/{model}"] = partial(row, name, few(model), n)
    for kind in RANGES if merged else ():
        for cut in ("", AGAIN):
            for name, grades in GRADES.items():
                made = few("bt-ties", kind, {"loss__tie_grades": grades})
                found[f"two/grades{cut}/{kind}/{name}"] = partial(row, STUDIED + cut, made, n)
    return found


def parts(n: int | None) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every part by its name, in the order of what the page needs most; the folds are the first n."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}

    def rows(name: str, kinds: Sequence[str], models: Sequence[str]) -> None:
        for kind in kinds:
            for model in models:
                found[f"{name}/{kind}/{model}"] = partial(row, name, entry(model, kind), n)

    there = [name for name in SETS if (data_folder() / name).exists()]
    found |= two_settings(there, n)
    for name in there:
        rows(name, ("pairs", "newton", "risk"), TIES[:2])
        found |= {f"{name}/{model}": partial(row, name, entry(model), n) for model in (*TREES_ALONE, *OTHERS)}
    if STUDIED in there:
        rows(MERGED, ("pairs", "newton", "risk"), TIES[:2])
        for kind in ("pairs", "newton"):
            found[f"lists/{kind}"] = partial(top_lists, kind, n)
            found[f"curves/{kind}"] = partial(learning_curves, kind, n)
            for name, grades in GRADES.items():
                made = entry("bt-ties", kind, {"loss__tie_grades": grades})
                found[f"grades/{kind}/{name}"] = partial(row, STUDIED, made, n)
            for epsilon in EPSILONS:
                made = entry("bt-ties", kind, epsilons=(epsilon,))
                found[f"epsilons/{kind}/{epsilon or 'estimated'}"] = partial(row, STUDIED, made, n)
    for name in (name for name in CLICKED if name in there):
        for kind in ("pairs", "newton"):
            for model in LEARNED:
                made = entry(model, kind, epsilons=(None,))
                cuts = partial(cuts_of, name, n)
                found[f"clicks/{name}/{kind}/{model}"] = partial(from_clicks, cuts, made, METRICS, SEED, SESSIONS[name])
    if STUDIED in there:
        rows(STUDIED + AGAIN, ("pairs", "newton", "risk"), TIES[:2])
        rows(MERGED + AGAIN, ("pairs", "newton"), TIES[:2])
    for name in there:
        rows(name, ("pairs", "newton"), TIES[2:])
    return found


QUICK = ("OHSUMED-2.0/pairs/bt-ties", "OHSUMED-2.0/pairs/bt-noties", "curves/pairs", "lists/pairs")
QUICK_CLICKS = "clicks/OHSUMED-2.0/pairs/bt-ties"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--part", nargs="*", default=[""])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    out = Path(tempfile.mkdtemp(prefix="luce-paper-")) if options.quick else ROOT
    until = time.monotonic() + 60.0 * options.minutes
    store = ROOT / "papers" / "results" / "ties.json"
    numbers: dict[str, Any] = {} if options.quick else kept(store)
    if options.quick:
        ROUNDS.update(max_iter=10, early_stopping=5)
        del SHAPES[1:]
        SESSIONS[STUDIED] = 500
    known = parts(1 if options.quick else None)
    if options.list:
        print("\n".join(f"{key}{' (done)' * (key in numbers)}" for key in known))
        return 0
    wanted = [key for key in known if key.startswith(tuple(options.part)) and key not in numbers]
    if options.quick:
        wanted = [key for key in (*QUICK, QUICK_CLICKS) if key in known]
    elif not options.page and not any(key.startswith(tuple(options.part)) for key in known):
        parser.error(f"no part begins with {options.part[0]!r}; --list names them all")
    for key in wanted if not options.page else ():
        if time.monotonic() < until:
            print(key, flush=True)
            found = {key: known[key]()}
            numbers = numbers | found if options.quick else add(store, found, indent=None)
    write_page("ties", page((ROOT / "papers" / "ties.md.in").read_text(), numbers), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
