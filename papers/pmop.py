"""Makes docs/papers/pmop.md and its numbers: Tables 1 and 2 of the PMOP paper, on the LETOR sets at hand.

    python papers/pmop.py [--quick] [--page] [--only SET ...] [--order first|second ...]

Numbers go to papers/results/pmop.json with their settings and seed; the page is made from them. `--quick` runs one
fold of one set into a temporary folder; `--page` only makes the page again. The sets are read from LUCE_DATA, else
../shared/data beside the project; a set that is absent keeps its last numbers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, data_folder, keep, kept, write_page

import luce
from luce.experiments import Candidate, ModelComparison, compare, find_folds
from luce.metrics.significance import randomisation_test

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from harness import best_of, exponent

SETS = ("MQ2008", "OHSUMED", "OHSUMED-2.0")
METRICS = ["err", "ndcg@1", "ndcg@5", "ndcg@10", "map"]
GRID = {"l2": [1e-3, 1e-2, 1e-1]}
SEED = 0
MODELS = {
    "rank-regress": "Rank Regress",
    "ranknet": "RankNet",
    "ranksvm": "Ranking SVM",
    "listmle": "ListMLE",
    "pairties-d": "PairTies-D",
    "pairties-rk": "PairTies-RK",
    "pmop-fd": "PMOP-FD",
    "pmop-gibbs": "PMOP-Gibbs",
    "pmop-mh": "PMOP-MH",
    "pmop-exact": "PMOP exact (ours)",
}
SECOND = {"scorer": "second_order", "scorer__count": 100}
YAHOO = {  # ERR, NDCG@1, NDCG@5, first order then second order, as Table 1 of the paper prints them
    "rank-regress": (0.4882, 0.683, 0.6672, 0.4971, 0.7021, 0.6752),
    "ranknet": (0.4919, 0.6903, 0.6698, 0.5049, 0.7183, 0.6836),
    "ranksvm": (0.4868, 0.6797, 0.6662, 0.4970, 0.7009, 0.6733),
    "listmle": (0.4955, 0.6993, 0.6705, 0.5030, 0.7172, 0.6810),
    "pairties-d": (0.4941, 0.6944, 0.6725, 0.5013, 0.7131, 0.6786),
    "pairties-rk": (0.4946, 0.6970, 0.6716, 0.5030, 0.7136, 0.6793),
    "pmop-fd": (0.5038, 0.7137, 0.6762, 0.5086, 0.7272, 0.6858),
    "pmop-gibbs": (0.5037, 0.7105, 0.6792, 0.5040, 0.7124, 0.6706),
    "pmop-mh": (0.5045, 0.7139, 0.6790, 0.5053, 0.7122, 0.6713),
}


def table_one(name: str, order: str, folds: int | None = None) -> dict[str, Any]:
    """Every model on one set: means, p-values against pmop-fd, seconds a fit."""
    left_out = {"pmop-mh"} if folds else set() if order == "first" else {"pmop-exact"}
    models = [model for model in MODELS if model not in left_out]
    fixed = {} if order == "first" else SECOND
    candidates = [Candidate(model, GRID, fixed) for model in models]
    chosen = find_folds(data_folder() / name)[:folds]
    result = compare(
        chosen, candidates, METRICS, seed=SEED, ties="stable", report=lambda *what: print(*what, flush=True)
    )
    return {"settings": result.settings, "rows": {model: row(result, model) for model in models}}


def row(result: ModelComparison, model: str) -> dict[str, Any]:
    p = {
        metric: randomisation_test(
            result.per_query("pmop-fd", metric), result.per_query(model, metric), rng=SEED
        ).p_value
        for metric in METRICS
        if model != "pmop-fd"
    }
    means = {metric: result.mean(model, metric) for metric in METRICS}
    return {"means": means, "p": p, "seconds": result.seconds(model)}


def table_two(lengths: tuple[int, ...], queries: int = 20) -> dict[str, Any]:
    """How the cost of value and gradient grows with the length of a query."""
    losses = {
        "pmop": {},
        "pmop_gibbs": {"value": "surrogate"},
        "pmop_mh": {"value": "surrogate"},
        "pmop_exact": {},
        "listmle": {},
        "ranknet": {},
        "rao_kupper": {},
        "davidson": {},
        "ranksvm": {},
        "rank_regress": {},
    }
    found = {}
    for name, settings in losses.items():
        times = []
        sizes = [n for n in lengths if name != "pmop_exact" or n <= 400]
        for n in sizes:
            rng = np.random.default_rng(SEED)
            scores, labels = rng.normal(size=queries * n), rng.integers(0, 5, queries * n).astype(float)
            loss, offsets = luce.losses.get(name, **settings), np.arange(0, queries * n + 1, n)
            prepared, grad = loss.prepare(labels, offsets), np.zeros(queries * n)

            def call(loss=loss, prepared=prepared, scores=scores, grad=grad) -> None:
                loss.evaluate(prepared, scores, (0, queries), grad)

            times.append(best_of(call, 5) / queries)
        found[name] = {"lengths": sizes, "seconds": times, "exponent": exponent(sizes[-3:], times[-3:])}
    return found


def page(numbers: dict[str, Any]) -> str:
    parts = [(ROOT / "papers" / "pmop.md.in").read_text()]
    tables = []
    for name in SETS:
        if any(f"{name}/{order}" in numbers for order in ("first", "second")):
            tables.append(set_tables(name, numbers))
    text = parts[0].replace("@TABLES@", "\n".join(tables)).replace("@YAHOO@", yahoo_table())
    return text.replace("@GROWTH@", growth_table(numbers["growth"]))


def set_tables(name: str, numbers: dict[str, Any]) -> str:
    lines = [f"### {name}", ""]
    for order in ("first", "second"):
        found = numbers.get(f"{name}/{order}")
        if found is None:
            continue
        rows = found["rows"]
        best = {metric: max(r["means"][metric] for r in rows.values()) for metric in METRICS}
        lines += [f"**{order.capitalize()} order**", "", "| model | ERR | NDCG@1 | NDCG@5 | NDCG@10 | MAP | fit, s |"]
        lines += ["|---|---|---|---|---|---|---|"]
        for model, label in MODELS.items():
            if model in rows:
                cells = [cell(rows[model], metric, best[metric]) for metric in METRICS]
                lines.append(f"| {label} | {' | '.join(cells)} | {rows[model]['seconds']:.2f} |")
        lines.append("")
    return "\n".join(lines)


def cell(row: dict[str, Any], metric: str, best: float) -> str:
    text = f"{row['means'][metric]:.4f}".lstrip("0")
    text = f"**{text}**" if row["means"][metric] == best else text
    return text + (" *" if row["p"].get(metric, 1.0) < 0.05 else "")


def yahoo_table() -> str:
    lines = ["| model | ERR | NDCG@1 | NDCG@5 | ERR, second | NDCG@1 | NDCG@5 |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {MODELS[m]} | " + " | ".join(f"{v:.4f}".lstrip("0") for v in values) + " |" for m, values in YAHOO.items()
    ]
    return "\n".join(lines)


def growth_table(growth: dict[str, Any]) -> str:
    lengths = sorted({n for found in growth.values() for n in found["lengths"]})
    lines = [
        "| loss | " + " | ".join(f"N = {n:,}" for n in lengths) + " | exponent |",
        "|---" * (len(lengths) + 2) + "|",
    ]
    for name, found in growth.items():
        by_length = dict(zip(found["lengths"], found["seconds"], strict=True))
        cells = [f"{1e3 * by_length[n]:.3g} ms" if n in by_length else "" for n in lengths]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {found['exponent']:.2f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(SETS))
    parser.add_argument("--order", nargs="*", default=["first", "second"])
    options = parser.parse_args()
    out = Path(tempfile.mkdtemp(prefix="luce-paper-")) if options.quick else ROOT
    store = ROOT / "papers" / "results" / "pmop.json"
    numbers: dict[str, Any] = {} if options.quick else kept(store)
    if options.quick:
        GRID["l2"] = [1e-2]
        numbers["growth"] = table_two((20, 40, 80), queries=2)
        if (data_folder() / "MQ2008").exists():
            numbers["MQ2008/first"] = table_one("MQ2008", "first", folds=1)
    elif not options.page:
        numbers["growth"] = table_two((50, 100, 200, 400, 1_000, 4_000))
        for name in options.only:
            for order in options.order if (data_folder() / name).exists() else ():
                numbers[f"{name}/{order}"] = table_one(name, order)
                keep(store, numbers)
    if not options.quick:
        keep(store, numbers)
    write_page("pmop", page(numbers), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
