"""Makes docs/papers/structrank.md and its numbers: Figure 4 of the StructRank paper, on both OHSUMED sets.

    python papers/structrank.py [--quick] [--page] [--only SET ...] [--part PART ...] [--model MODEL ...]

Numbers go to papers/results/structrank.json with their settings and seed; the page is made from them. `--part` takes
"growth" (times), "network" (StructRank), "linear" (the same losses on the linear scorer), "field" (base rankers).
StructRank is kept fold by fold: `--minutes` begins no further fold after so many, the next call goes on, and a fold is
run again where its numbers are taken out of the file.
`--quick` runs one small fold into a temporary folder; `--page` only makes the page again. The sets are read from
LUCE_DATA, else ../shared/data beside the project; a set that is absent keeps its last numbers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, add, data_folder, keep, kept, write_page
from kit.structrank_page import BANDED, DEPTHS, METRICS, NETWORKS, PARTS, SEED, SETS, page

from luce.experiments import Candidate, Fold, ModelComparison, compare, find_folds
from luce.losses.cdn.loss import CDN
from luce.ranker.parts import inner

_PAPER: dict[str, Any] = {
    "trainer": "projected",
    "trainer__inside": "shrinking",
    "learning_rate": 0.5,
    "max_epochs": 10,
    "loss__weighting": "all",
}
"""The trainer as it is printed: the sum over all terms, steps of 0.5 that shrink until they are allowed."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper-full": ("structrank", _PAPER),
    "paper-disconnected": ("structrank-disconnected", _PAPER),
    "start": ("structrank", {"max_iter": 0}),
    "fixed": ("structrank", {"loss__w1": 1.0, "loss__w2": 1.0}),
    "two": ("structrank", {"loss__functions": 2}),
    "gaussian": ("structrank", {"loss__family": "gaussian"}),
    "all-full": ("structrank", {"scorer__references": None}),
    "all-disconnected": ("structrank-disconnected", {"scorer__references": None}),
}
"""A system and what is changed in it; each has the choice of t and the starts of the networks but for BORROWED."""
MODELS = (*NETWORKS, *VARIANTS)
BALLS = {"trainer__radius": [10.0, 20.0, 40.0, 80.0]}
CHOICE: dict[str, Any] = {"trainer__starts": 1}
"""The training by which validation chooses the ball."""
TRAINED: dict[str, Any] = {"scorer__references": 1500, "scorer__precision": "single", "trainer__keep": "last"}
TO_THE_END: dict[str, Any] = {"max_iter": 200, "trainer__tol": 1e-6}
STARTS = 3
BORROWED = {**dict.fromkeys(("fixed", "two", "gaussian", "all-full"), NETWORKS[0]), "all-disconnected": NETWORKS[1]}
"""Trained from one start, with the t that was chosen for another network."""
FIELD = ("rankboost", "adarank", "ranknet", "listnet", "coordinate_ascent", "frank", "ranksvm", "linear_regression")
GRADIENT_TRAINED = ("ranknet", "listnet", "ranksvm")
TOPOLOGIES = {"full": "cdn-full", "disconnected": "cdn-disconnected", "random": "cdn-random"}
L2 = {"l2": [1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0]}
MEAN_L2 = {"l2": [1e-5, 1e-4, 1e-3]}
"""A query that is divided by its number of terms wants a weaker penalty beside it."""
OFFICIAL = {"RankBoost": "RankBoost", "RankSVM": "Ranking SVM", "FRank": "FRank", "ListNet": "ListNet"}
OFFICIAL |= {"AdaRank.MAP": "AdaRank-MAP", "AdaRank.NDCG": "AdaRank-NDCG", "MHR-BC": "MHR-BC"}


def candidates(part: str) -> list[Candidate]:
    if part == "linear":
        # The linear scorer has the scale of the scores in its weights: w1 = w2 = 1 loses nothing.
        own = {"w1": 1.0, "w2": 1.0, "weighting": "pairs"}
        shared = {"scorer": "linear", "trainer": "auto", "query_norm": None, "early_stopping": 20}
        made = []
        for topology, name in TOPOLOGIES.items():
            losses = {"loss": "cdn", **inner("loss", {**own, "topology": topology})}
            made.append(Candidate(name, MEAN_L2, {**shared, **losses}, system="ranknet"))
        return made
    return [Candidate(name, L2 if name in GRADIENT_TRAINED else {}) for name in FIELD]


def run(name: str, part: str, models: list[str] | None = None, folds: int | None = None) -> dict[str, Any]:
    """One part of the models on one set: means by metric, and the values of every query."""
    wanted = [candidate for candidate in candidates(part) if not models or candidate.name in models]
    result = compared(find_folds(data_folder() / name)[:folds], wanted)
    return {"settings": result.settings, "rows": {model: row(result, model) for model in result.models}}


def compared(folds: Sequence[Fold], models: list[Candidate]) -> ModelComparison:
    report = partial(print, flush=True)
    return compare(folds, models, METRICS, tune_on="map", seed=SEED, preset="letor3", report=report)


def run_networks(store: Path, name: str, until: float, models: Sequence[str] | None = None) -> None:
    """StructRank on one set, a fold and a network at a time, as far as the time goes."""
    for fold in find_folds(data_folder() / name):
        for model in models or MODELS:
            key = f"{name}/network/{fold.name}/{model}"
            numbers = kept(store)
            if key not in numbers and time.monotonic() < until:
                lent = numbers[f"{name}/network/{fold.name}/{BORROWED[model]}"]["choice"] if model in BORROWED else None
                add(store, {key: network(fold, model, lent)})


def network(fold: Fold, model: str, choice: dict[str, Any] | None = None) -> dict[str, Any]:
    """One training to the end: the ball by validation in a smaller one; no test figure has a part in the choice."""
    system, changed = VARIANTS.get(model, (model, {}))
    shared = {**TRAINED, **({} if "max_epochs" in changed else TO_THE_END), **changed}
    if choice is None:
        smaller = compared([fold], [Candidate(model, BALLS, {**shared, **CHOICE}, system=system)]).outcomes[0]
        choice = {"chosen": smaller.chosen, "validation": smaller.validation, "grid": BALLS, "settings": CHOICE}
    settings = {**shared, **choice["chosen"], **(CHOICE if model in BORROWED else {"trainer__starts": STARTS})}
    result = compared([fold], [Candidate(model, {}, settings, system=system)])
    history = result.outcomes[0].history
    found = {
        **row(result, model),
        "chosen": [settings],
        "objective": history["objective"][-1:],
        "iterations": len(history["objective"]),
        "validation": history["validation"],
        "choice": choice,
    }
    if model in BANDED:
        per_query = [result.per_query(model, f"ndcg@{n}") for n in DEPTHS]
        found["ndcg"] = np.round(np.column_stack(per_query), 4).tolist()
    return found


def row(result: ModelComparison, model: str) -> dict[str, Any]:
    return {
        "means": {metric: result.mean(model, metric) for metric in METRICS},
        "map": [round(float(value), 6) for value in result.per_query(model, "map")],
        "chosen": [outcome.chosen for outcome in result.outcomes if outcome.model == model],
        "seconds": result.seconds(model),
    }


def official() -> dict[str, dict[str, float]]:
    """The test means that LETOR 2.0 publishes, where the files are at hand."""
    folder = data_folder() / "letor-baselines" / "ohsumed-2.0"
    return {label: published(folder / f"{file}.csv") for file, label in OFFICIAL.items() if folder.exists()}


def published(path: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    names: list[str] = []
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if line.startswith("Performance") and found:
            break  # test figures come first, then those of training and validation
        if cells[0].lower() in ("trials", "algorithms"):
            names = [cell.lower().replace("precision@", "p@") for cell in cells[1:]]
        elif cells[0].lower().startswith("av"):
            numbers = zip(names, cells[1:], strict=False)
            found |= {"map" if name.startswith("m") else name: float(value) for name, value in numbers if value}
    return found


def growth(lengths: tuple[int, ...]) -> dict[str, Any]:
    """Seconds of value and gradient of the fully connected network, and of its double sum."""
    found: dict[str, Any] = {"lengths": list(lengths), "nodes": [], "edges": [], "direct": []}
    for n in lengths:
        rng = np.random.default_rng(SEED)
        scores, labels, offsets = rng.normal(size=n), rng.integers(0, 3, n).astype(float), np.array([0, n])
        for kind, exact in (("nodes", False), ("direct", True)):
            loss = CDN(w1=1.0, w2=1.0, exact=exact)
            prepared, grad = loss.prepare(labels, offsets), np.zeros(n)
            if exact and n > 150:
                continue
            loss.evaluate(prepared, scores, (0, 1), grad)
            times = []
            for _ in range(1 if exact else 5):
                start = time.perf_counter()
                loss.evaluate(prepared, scores, (0, 1), grad)
                times.append(time.perf_counter() - start)
            found[kind].append(min(times))
            if not exact:
                found["edges"].append(float(prepared.n_edges[0]))
    return found


def quick(numbers: dict[str, Any]) -> None:
    """One fold, few settings."""
    TRAINED["scorer__references"] = 200
    for name in ("all-full", "all-disconnected"):
        VARIANTS[name][1]["scorer__references"] = 400
    TO_THE_END["max_iter"] = 5
    BALLS["trainer__radius"] = [20.0]
    MEAN_L2["l2"] = [1e-3]
    numbers["growth"] = growth((40, 80))
    if (data_folder() / "OHSUMED-2.0").exists():
        numbers["official"] = official()
        fold = find_folds(data_folder() / "OHSUMED-2.0")[0]
        numbers |= {f"OHSUMED-2.0/network/{fold.name}/{model}": network(fold, model) for model in MODELS}
        numbers["OHSUMED-2.0/linear"] = run("OHSUMED-2.0", "linear", folds=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(SETS))
    parser.add_argument("--part", nargs="*", default=["growth", *PARTS])
    parser.add_argument("--model", nargs="*", help="these alone")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    out = Path(tempfile.mkdtemp(prefix="luce-paper-")) if options.quick else ROOT
    until = time.monotonic() + 60.0 * options.minutes
    store = ROOT / "papers" / "results" / "structrank.json"
    numbers: dict[str, Any] = {} if options.quick else kept(store)
    if options.quick:
        quick(numbers)
    elif not options.page:
        if "growth" in options.part:
            numbers["growth"] = growth((50, 100, 150, 600, 2_000, 6_000, 20_000))
        numbers["official"] = official() or numbers.get("official", {})
        for name in options.only:
            for part in PARTS if (data_folder() / name).exists() else ():
                if part == "network" and part in options.part:
                    keep(store, numbers)
                    run_networks(store, name, until, options.model)
                    numbers = kept(store)
                elif part in options.part:
                    found, before = run(name, part, options.model), numbers.get(f"{name}/{part}", {})
                    rows = {**before.get("rows", {}), **found["rows"]}
                    numbers[f"{name}/{part}"] = {"settings": found["settings"], "rows": rows}
                    keep(store, numbers)
    if not (options.quick or options.page):
        keep(store, numbers)
    write_page("structrank", page(numbers), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
