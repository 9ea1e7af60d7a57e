"""Makes docs/papers/trees.md and its numbers: boosted trees of luce beside LightGBM's lambdarank, fold by fold.

    python papers/trees.py [--quick] [--page] [--part SET/FOLD ...]

A part is one fold of one set, with every model trained on it. It goes to papers/results/trees.json as soon as it is
done, and one that is there already is not computed again unless it is named by `--part`. `--quick` runs a fold of a
few rounds into a temporary folder, `--page` only makes the page again. The sets are read from LUCE_DATA, else from
../shared/data beside the project; a set that is absent keeps its last numbers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, add, data_folder, kept, write_page
from kit.verdicts import Claim, paired, with_verdicts

import luce
from luce.experiments import find_folds
from luce.metrics.evaluate import evaluate
from luce.metrics.significance import randomisation_test
from luce.ranker.parts import inner

SETS = ("MQ2008", "OHSUMED")
METRICS = ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map"]
OFFICIAL = ["map", "mean_ndcg"]
SEED = 0
ROUNDS: dict[str, Any] = {"max_iter": 500, "early_stopping": 50}
GRID = [
    {"num_leaves": 10, "learning_rate": 0.1, "min_data_in_leaf": 20},
    {"num_leaves": 10, "learning_rate": 0.05, "min_data_in_leaf": 50},
    {"num_leaves": 5, "learning_rate": 0.1, "min_data_in_leaf": 50},
    {"num_leaves": 20, "learning_rate": 0.05, "min_data_in_leaf": 20},
]
FEW = GRID[1:3]
DRAWN = {"feature_fraction": 0.5, "members": 3}
LOSSES = {"pmop": "pmop", "ranknet": "ranknet", "bradley_terry": "Bradley-Terry with ties"}
LABELS = {
    "lambdarank": "LightGBM lambdarank, 4 settings",
    "lambdarank-members": "LightGBM lambdarank, 3 members",
    **{f"{loss}-trees": f"{label} trees, 3 members" for loss, label in LOSSES.items()},
    "chosen": "the luce trees that validation chose",
    "pmop-linear": "pmop, linear",
    "blend-trees": "blend of the three tree models",
    "blend": "blend of pmop trees, ranknet trees and linear pmop",
}
PROTOTYPES = {  # figures that were there before: lambdarank, and prototypes of pmop and bradley_terry without ties
    "MQ2008": {
        "lambdarank, another grid": (0.3682, 0.4199, 0.4608, 0.5061, 0.4787),
        "pmop trees, prototype": (0.3750, 0.4215, 0.4625, 0.5068, 0.4797),
    },
    "OHSUMED": {
        "lambdarank, another grid": (0.4420, 0.4636, 0.4428, 0.4315, 0.4279),
        "pmop trees, prototype": (0.5144, 0.4642, 0.4419, 0.4290, 0.4365),
        "Bradley-Terry without ties, prototype": (0.4978, 0.4811, 0.4569, 0.4413, 0.4400),
    },
}
LETOR = {  # official five-fold means on MQ2008: MAP, MeanNDCG
    "AdaRank-NDCG, official": (0.4824, 0.4950),
    "RankBoost, official": (0.4775, 0.4850),
    "AdaRank-MAP, official": (0.4764, 0.4915),
    "RankSVM-Struct, official": (0.4696, 0.4832),
}


def one_fold(name: str, number: int) -> dict[str, Any]:
    """Every model on one fold: what validation chose, and the test queries' values."""
    train, valid, test = find_folds(data_folder() / name)[number].load()
    best: dict[str, tuple[float, luce.Ranker]] = {}

    def fit(key: str, ranker: luce.Ranker) -> None:
        ranker.fit(train, valid=valid)
        value = evaluate(ranker, valid, ["ndcg@10"], ties="stable").means["ndcg@10"]
        if key not in best or value > best[key][0]:
            best[key] = (value, ranker)

    common: dict[str, Any] = {"metric": "ndcg@10", "random_state": SEED}
    for own in GRID:
        fit("lambdarank", luce.model("lambdamart", **ROUNDS, **common, **inner("scorer", own)))
    for own in FEW:
        fit("lambdarank-members", luce.model("lambdamart", **ROUNDS, **common, **inner("scorer", {**own, **DRAWN})))
        for loss in LOSSES:
            fit(f"{loss}-trees", luce.model("pmop-trees", loss=loss, **ROUNDS, **common, **inner("scorer", own)))
    for l2 in (1e-3, 1e-2, 1e-1):
        fit("pmop-linear", luce.model("pmop-fd", l2=l2, **common))
    trees = [best[f"{loss}-trees"] for loss in LOSSES]
    best["chosen"] = max(trees, key=lambda pair: pair[0])
    blends = {"blend-trees": trees, "blend": [*trees[:2], best["pmop-linear"]]}
    for key, members in blends.items():
        ranker = luce.blend([ranker for _, ranker in members], valid, weights="equal")
        best[key] = (evaluate(ranker, valid, ["ndcg@10"], ties="stable").means["ndcg@10"], ranker)
    return {key: _judged(value, ranker, test) for key, (value, ranker) in best.items()}


def _judged(validation: float, ranker: luce.Ranker, test: luce.Groups) -> dict[str, Any]:
    scores = ranker.predict(test)
    result = evaluate(scores, test, METRICS, ties="stable")
    official = evaluate(scores, test, OFFICIAL, preset="letor4").means
    values = {metric: [round(float(v), 5) for v in result.values[metric]] for metric in METRICS}
    own = {key: value for key, value in ranker.parts_.settings("scorer").items() if key in GRID[0]}
    return {"validation": validation, "loss": ranker.parts_.title, "chosen": own, "values": values, "letor": official}


def folds_of(name: str, numbers: dict[str, Any]) -> list[dict[str, Any]]:
    return [numbers[f"{name}/{k}"] for k in range(1, 6) if f"{name}/{k}" in numbers]


def means(folds: list[dict[str, Any]], model: str) -> list[float]:
    return [float(np.mean([np.mean(fold[model]["values"][metric]) for fold in folds])) for metric in METRICS]


def page(template: str, numbers: dict[str, Any]) -> str:
    tables = "\n".join(set_table(name, folds_of(name, numbers)) for name in SETS if folds_of(name, numbers))
    first = folds_of("MQ2008", numbers)
    text = template.replace("@TABLES@", tables).replace("@LETOR@", letor_table(first) if first else "")
    return with_verdicts(text, claims(numbers), numbers)


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """Trees of luce above LightGBM's lambdarank; on the folds of LETOR alone, which is one cut."""
    said = {
        "pmop-trees": "`pmop-trees` above lambdarank",
        "chosen": "the trees that validation chose above lambdarank",
        "blend": "the blend with a linear model above lambdarank",
    }
    found = []
    for name in SETS:
        folds = folds_of(name, numbers)
        for model, text in said.items() if folds else ():
            for metric in ("ndcg@10", "map"):
                pair = [_queries(folds, one, metric) for one in (model, "lambdarank")]
                found.append(paired(text, name, metric, *pair, rests_on="one cut"))
    return found


def decimal(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def set_table(name: str, folds: list[dict[str, Any]]) -> str:
    head = ["model", *map(str.upper, METRICS)]
    lines = [f"### {name}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    peer = means(folds, "lambdarank")
    for model, label in LABELS.items():
        cells = []
        for k, value in enumerate(means(folds, model)):
            a, b = (_queries(folds, one, METRICS[k]) for one in (model, "lambdarank"))
            differs = model != "lambdarank" and randomisation_test(a, b, rng=SEED).p_value < 0.05
            cells.append(decimal(value) + ("" if value >= peer[k] else " ↓") + (" *" if differs else ""))
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines += [f"| *{label}* | {' | '.join(map(decimal, row))} |" for label, row in PROTOTYPES[name].items()]
    return "\n".join([*lines, ""])


def _queries(folds: list[dict[str, Any]], model: str, metric: str) -> np.ndarray:
    return np.concatenate([fold[model]["values"][metric] for fold in folds])


def letor_table(folds: list[dict[str, Any]]) -> str:
    rows = {LABELS[m]: tuple(float(np.mean([f[m]["letor"][k] for f in folds])) for k in OFFICIAL) for m in LABELS}
    ordered = sorted({**rows, **LETOR}.items(), key=lambda row: -row[1][1])
    lines = ["| model | MAP | MeanNDCG |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {label} | {decimal(a)} | {decimal(b)} |" for label, (a, b) in ordered)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--part", nargs="*", default=[])
    options = parser.parse_args()
    out = Path(tempfile.mkdtemp(prefix="luce-paper-")) if options.quick else ROOT
    store = ROOT / "papers" / "results" / "trees.json"
    numbers: dict[str, Any] = {} if options.quick else kept(store)
    if options.quick:
        ROUNDS.update(max_iter=4, early_stopping=2)
        del GRID[1:], FEW[1:]
    known = [f"{name}/{k}" for name in SETS if (data_folder() / name).exists() for k in range(1, 6)]
    unknown = set(options.part) - set(known)
    if unknown:
        parser.error(f"no part {sorted(unknown)[0]!r}; there are {', '.join(known)}")
    wanted = known[:1] if options.quick else options.part or [key for key in known if key not in numbers]
    for key in wanted if not options.page else ():
        print(key, flush=True)
        name, number = key.split("/")
        found = {key: one_fold(name, int(number) - 1)}
        numbers = numbers | found if options.quick else add(store, found, indent=None)
    write_page("trees", page((ROOT / "papers" / "trees.md.in").read_text(), numbers), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
