"""Makes docs/papers/boosting.md and its numbers: NDCG-consistent boosting and the best surrogate, on LETOR sets.

    python papers/boosting.py [--quick] [--page] [--only SET ...] [--part surrogates|beta|trees ...]

Numbers go to papers/results/boosting.json with their settings and seed; the page is made from them. `--quick` runs one
fold of one set into a temporary folder; `--page` only makes the page again. The sets are read from LUCE_DATA, else
../shared/data beside the project; a set that is absent keeps its last numbers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kit import ROOT, add, data_folder, kept, write_page

from luce.experiments import Candidate, ModelComparison, compare, find_folds
from luce.metrics.significance import randomisation_test

SETS = ("MQ2008", "OHSUMED", "OHSUMED-2.0")
METRICS = ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10"]
SEED = 0
ROUNDS: dict[str, Any] = {"max_iter": 100, "early_stopping": 30}
EVALUATIONS = 20
BETAS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
LOSSES = {"ndcg_cross_entropy": "cross entropy", "ndcg_square": "square", "ndcg_qnorm": "q-norm"}
LEARNT = "learnt surrogate"


def boosted(name: str, loss: str, system: str = "ndcg-boost-linear", **settings: Any) -> Candidate:
    return Candidate(name, {}, {"loss": loss, **ROUNDS, **settings}, system)


def surrogates() -> list[Candidate]:
    """Figures 3.1 to 3.5: the three functions, the learnt mixture, and rankers that are no convex surrogates."""
    found = [boosted(label, loss) for loss, label in LOSSES.items()]
    search = {"loss__evaluations": EVALUATIONS, **ROUNDS}
    found.append(Candidate(LEARNT, {}, search, "best-surrogate"))
    found += [Candidate("ListNet, linear", {"l2": [1e-3, 1e-2, 1e-1]}, {}, "listnet")]
    return found + [
        Candidate(label, {}, {}, system)
        for system, label in {"adarank-ndcg": "AdaRank", "rankboost": "RankBoost", "lambdamart": "LambdaMART"}.items()
    ]


def betas() -> list[Candidate]:
    """Figure 3.6: beta under boosting and under a penalty, and the offset that the chapter goes without."""
    entropy = "ndcg_cross_entropy"
    found = [boosted(f"boosting, beta {beta:g}", entropy, loss__beta=beta) for beta in BETAS]
    for beta in BETAS:
        settings = {"loss": entropy, "loss__beta": beta, "l2": 0.01, "scorer": "linear"}
        found.append(Candidate(f"L-BFGS, beta {beta:g}", {}, settings, "ndcg-boost-linear"))
    raw = {"scorer__standardise": False}
    fixed = {"loss__offset": 0.0}
    found.append(boosted("boosting, features as they are", entropy, **raw))
    return [
        *found,
        boosted("boosting, features as they are, offset 0", entropy, **raw, **fixed),
        boosted("boosting, offset 0", entropy, **fixed),
    ]


def trees() -> list[Candidate]:
    """Figures 3.7 to 3.9: linear against trees, for each loss."""
    found = []
    for loss, label in LOSSES.items():
        found.append(boosted(f"{label}, single features", loss))
        found.append(boosted(f"{label}, gradient trees", loss, "ndcg-boost-trees"))
        found.append(boosted(f"{label}, Newton trees", loss, scorer="trees"))
    return found


PARTS = {"surrogates": surrogates, "beta": betas, "trees": trees}


def run(name: str, part: str, folds: int | None = None) -> dict[str, Any]:
    chosen, candidates = find_folds(data_folder() / name)[:folds], PARTS[part]()
    start = time.perf_counter()
    result = compare(
        chosen, candidates, METRICS, seed=SEED, ties="stable", report=lambda *what: print(*what, flush=True)
    )
    against = LEARNT if part == "surrogates" else candidates[0].name
    rows = {candidate.name: row(result, candidate.name, against) for candidate in candidates}
    return {"rows": rows, "folds": len(chosen), "seconds": round(time.perf_counter() - start)}


def row(result: ModelComparison, model: str, against: str) -> dict[str, Any]:
    p = {}
    if model != against:
        p = {
            m: randomisation_test(result.per_query(against, m), result.per_query(model, m), rng=SEED).p_value
            for m in METRICS
        }
    validation = [outcome.validation for outcome in result.outcomes if outcome.model == model]
    means = {metric: result.mean(model, metric) for metric in METRICS}
    found = {"means": means, "validation": sum(validation) / len(validation), "p": p}
    return {**found, "seconds": result.seconds(model)}


def page(numbers: dict[str, Any]) -> str:
    text = (ROOT / "papers" / "boosting.md.in").read_text()
    for part in PARTS:
        tables = [table(name, numbers[f"{name}/{part}"]) for name in SETS if f"{name}/{part}" in numbers]
        text = text.replace(f"@{part.upper()}@", "\n".join(tables))
    return text.replace("@ROUNDS@", str(ROUNDS["max_iter"])).replace("@EVALUATIONS@", str(EVALUATIONS))


def table(name: str, found: dict[str, Any]) -> str:
    rows = found["rows"]
    best = {metric: max(r["means"][metric] for r in rows.values()) for metric in METRICS}
    heads = " | ".join(metric.upper() for metric in METRICS)
    lines = [f"**{name}**", "", f"| | validation NDCG@10 | {heads} | fit, s |", "|---" * (len(METRICS) + 3) + "|"]
    for model, values in rows.items():
        cells = [cell(values, metric, best[metric]) for metric in METRICS]
        lines.append(f"| {model} | {number(values['validation'])} | {' | '.join(cells)} | {values['seconds']:.2f} |")
    return "\n".join([*lines, ""])


def cell(values: dict[str, Any], metric: str, best: float) -> str:
    text = number(values["means"][metric])
    text = f"**{text}**" if values["means"][metric] == best else text
    return text + (" *" if values["p"].get(metric, 1.0) < 0.05 else "")


def number(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(SETS))
    parser.add_argument("--part", nargs="*", default=list(PARTS))
    options = parser.parse_args()
    store = ROOT / "papers" / "results" / "boosting.json"
    if options.quick:
        return quick()
    for name in () if options.page else options.only:
        for part in options.part if (data_folder() / name).exists() else ():
            if part != "beta" or name == "OHSUMED":
                add(store, {f"{name}/{part}": run(name, part)})
    write_page("boosting", page(kept(store)), ROOT)
    return 0


def quick() -> int:
    global EVALUATIONS
    EVALUATIONS = 2
    ROUNDS.update(max_iter=3, early_stopping=2)
    if not (data_folder() / "OHSUMED-2.0").exists():
        print("No real data found; the page needs LETOR sets.")
        return 0
    numbers = {f"OHSUMED-2.0/{part}": run("OHSUMED-2.0", part, folds=1) for part in ("surrogates", "beta")}
    write_page("boosting", page(numbers), Path(tempfile.mkdtemp(prefix="luce-paper-")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
