"""Makes docs/papers/pmop.md and its numbers: Tables 1 and 2 of the PMOP paper, and studies of its claims.

    python papers/pmop.py [--quick] [--page] [--only PART ...]

Parts are `table/SET`, `sampled/SET`, `exact/SET`, `second/SET`, `curve/SET`, `lengths/SET`, `repeated/SET`, `growth`.
Numbers go to papers/results/pmop.json with their settings and seed; the page is made from them. `--quick` makes a small
run into a temporary folder; `--page` only makes the page again. The sets are read from LUCE_DATA, else ../shared/data
beside the project; a part whose set is absent keeps its last numbers.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, add, data_folder, kept, write_page
from kit.crossfit import Entry, counted, folds_of, repeated, repeated_folds, table
from kit.verdicts import Claim, above, emphasised, with_verdicts

import luce
from luce.scorers.second_order import SecondOrderScorer
from luce.systems import settings_grid

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from harness import best_of, exponent

SETS = ("MQ2008", "MQ2007", "OHSUMED", "OHSUMED-2.0", "MSLR-sample")
LONG = ("MQ2007", "OHSUMED", "OHSUMED-2.0", "MSLR-sample")
LETOR = ("MQ2008", "OHSUMED", "OHSUMED-2.0")
REPEATED = ("MQ2008", "MQ2007", "OHSUMED", "OHSUMED-2.0")
METRICS = ["err", "ndcg@1", "ndcg@5", "ndcg@10", "map"]
SEED = 0
GRID = settings_grid("pmop-fd")
DESCENT = settings_grid("pmop-gibbs")[-5:]  # below 0.001, a thousand steps of 0.1 do not feel a penalty
BY_QUERY = {"trainer": "sgd", "batch_queries": 1, "max_epochs": 10, "learning_rate": 0.1}
PRINTED = {"loss__paper_rule": True, "loss__steps": 1, "loss__samples": 3}
MODELS = {
    "rank-regress": ("Rank Regress", Entry("rank-regress", {}, GRID)),
    "ranknet": ("RankNet", Entry("ranknet", {}, GRID)),
    "ranksvm": ("Ranking SVM", Entry("ranksvm", {}, GRID)),
    "listmle": ("ListMLE, ties in file order", Entry("listmle", {"loss__ties": "stable"}, GRID)),
    "listmle-random": ("ListMLE, ties in random order", Entry("listmle", {"loss__ties": "random"}, GRID)),
    "plackett-luce": ("Plackett-Luce, ties exact (ours)", Entry("plackett-luce", {}, GRID)),
    "pairties-d": ("PairTies-D", Entry("pairties-d", {}, GRID)),
    "pairties-rk": ("PairTies-RK", Entry("pairties-rk", {}, GRID)),
    "pmop-fd": ("PMOP-FD", Entry("pmop-fd", {}, GRID)),
    "pmop-fd-plain": ("PMOP-FD, no L2", Entry("pmop-fd", {}, [{"l2": 0.0}])),
    "pmop-fd-queries": ("PMOP-FD, query by query", Entry("pmop-fd", BY_QUERY, DESCENT)),
    "pmop-gibbs": ("PMOP-Gibbs", Entry("pmop-gibbs", {}, DESCENT)),
    "pmop-gibbs-queries": ("PMOP-Gibbs, query by query", Entry("pmop-gibbs", BY_QUERY, DESCENT)),
    "pmop-mh": ("PMOP-MH, right ratio, 10 steps", Entry("pmop-mh", {}, DESCENT)),
    "pmop-mh-printed": ("PMOP-MH, printed ratio, 1 step, 3 samples", Entry("pmop-mh", PRINTED, DESCENT)),
    "pmop-mh-queries": ("the same, query by query", Entry("pmop-mh", {**PRINTED, **BY_QUERY}, DESCENT)),
    "pmop-exact": ("PMOP exact (ours)", Entry("pmop-exact", {}, GRID)),
    "pmop-exact-printed": ("PMOP exact, as the printed ratio samples", Entry("pmop-exact-printed", {}, GRID)),
    "pmop-exact-given": ("PMOP exact, sizes given", Entry("pmop-exact-given", {}, GRID)),
}
SAMPLED = [name for name in MODELS if name.endswith("-queries") or name[:7] in ("pmop-mh", "pmop-gi")]
EXACT = [name for name in MODELS if name.startswith("pmop-exact")]
FAST = [name for name in MODELS if name not in (*SAMPLED, *EXACT)]
GENERAL = ("pmop-fd", "pmop-exact")
PRODUCTS = ("rank-regress", "ranknet", "plackett-luce", "pairties-d", "pmop-fd")
AGAIN = (*FAST, "pmop-exact-given")
CUTS = (12, 24, 48, None)
CUT_MODELS = ("pmop-fd", "pmop-exact", "plackett-luce")
CURVE = {"centred": (True, (0.15, 0.1, 0.05)), "as they stand": (False, (0.15, 0.2, 0.3, 0.1, 0.25))}
"""Thresholds in the order in which they are tried: that of the paper, then others."""
STORE = ROOT / "papers" / "results" / "pmop.json"
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


def entries(names: tuple[str, ...] | list[str]) -> dict[str, Entry]:
    return {name: MODELS[name][1] for name in names}


def noted(rows: Mapping[str, Entry], found: dict[str, Any]) -> dict[str, Any]:
    """The rows with the settings that made them."""
    settings = {name: {"system": e.system, **e.settings, "grid": list(e.grid)} for name, e in rows.items()}
    return {"seed": SEED, "tune_on": "ndcg@10", "settings": settings, "rows": found}


def table_one(name: str, models: list[str], folds: int | None = None) -> dict[str, Any]:
    """Some models on one set, first order; PMOP-FD is among them, since the others are tested against it."""
    rows = entries([*(["pmop-fd"] if "pmop-fd" not in models else []), *models])
    return noted(rows, table(folds_of(data_folder() / name)[:folds], rows, METRICS, "pmop-fd", seed=SEED))


def second_order(name: str) -> dict[str, Any]:
    """Products of the features as they stand whose correlation reaches the threshold of the paper."""
    scorer = {"scorer": "second_order", "scorer__threshold": 0.15, "scorer__centred": False}
    rows = {model: replace(e, settings={**e.settings, **scorer}) for model, e in entries(PRODUCTS).items()}
    folds = folds_of(data_folder() / name)
    return noted(rows, table(folds, rows, METRICS, "pmop-fd", seed=SEED)) | {"products": products(folds, 0.15, False)}


def products(folds: Any, threshold: float, centred: bool) -> list[int]:
    """How many products of each fold reach the threshold; 0 where the scorer refuses because none does."""
    counts = []
    for fold in folds:
        try:
            bound = SecondOrderScorer(threshold=threshold, centred=centred).bind(fold.load()[0])
            counts.append(len(bound.selection.left))
        except luce.errors.SettingError:
            counts.append(0)
    return counts


def curve(name: str) -> dict[str, Any]:
    """PMOP-FD with the products above each threshold that some product of every fold reaches; kept point by point."""
    folds, points = folds_of(data_folder() / name), kept(STORE).get(f"curve/{name}", {})
    for kind, (centred, thresholds) in CURVE.items():
        for threshold in thresholds:
            counts = products(folds, threshold, centred) if f"{kind}/{threshold}" not in points else [0]
            if min(counts) == 0:
                continue
            scorer = {"scorer": "second_order", "scorer__threshold": threshold, "scorer__centred": centred}
            rows = {"none": MODELS["pmop-fd"][1], "pmop-fd": Entry("pmop-fd", scorer, GRID)}
            found = noted(rows, table(folds, rows, METRICS, "none", seed=SEED))
            points[f"{kind}/{threshold}"] = found | {"products": counts}
            add(STORE, {f"curve/{name}": points})
            print(kind, threshold, counts, flush=True)
    return points


def lengths(name: str, cuts: tuple[int | None, ...] = CUTS) -> dict[str, Any]:
    """Training queries cut at random into pieces of at most so many documents; validation and test are whole."""
    rows = {
        f"{model}/{cut}": replace(e, settings={**e.settings, **({} if cut is None else {"loss__cut": cut})})
        for model, e in entries(CUT_MODELS).items()
        for cut in cuts
        if cut is not None or model != "pmop-exact"  # whose whole queries are in Table 1
    }
    return noted(rows, table(folds_of(data_folder() / name), rows, METRICS, "pmop-fd/None", seed=SEED))


def again(name: str, models: Sequence[str] = AGAIN) -> dict[str, Any]:
    """Five times five folds of all queries."""
    rows = entries(list(models))
    cuts = repeated_folds(folds_of(data_folder() / name), 5, SEED)
    return noted(rows, repeated(cuts, rows, METRICS, "pmop-fd", SEED))


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


PARTS: dict[str, Any] = {
    **{f"table/{name}": lambda name=name: table_one(name, FAST) for name in SETS},
    **{f"exact/{name}": lambda name=name: table_one(name, EXACT) for name in SETS},
    **{f"sampled/{name}": lambda name=name: table_one(name, SAMPLED) for name in LETOR},
    **{f"repeated/{name}": lambda name=name: again(name) for name in REPEATED},
    **{f"general/{name}": lambda name=name: again(name, GENERAL) for name in ("OHSUMED", "OHSUMED-2.0")},
    **{f"second/{name}": lambda name=name: second_order(name) for name in LETOR},
    **{f"lengths/{name}": lambda name=name: lengths(name) for name in LONG},
    **{f"curve/{name}": lambda name=name: curve(name) for name in LETOR},
    "growth": lambda: table_two((50, 100, 200, 400, 1_000, 4_000)),
}


# The page


def page(numbers: dict[str, Any]) -> str:
    text = (ROOT / "papers" / "pmop.md.in").read_text()
    for part in ("repeated", "lengths", "curve"):  # sections whose study was never run are left out
        known = any(key.startswith(f"{part}/") for key in numbers)
        text = re.sub(rf"@IF {part}@\n(.*?)@FI@\n\n", r"\1\n" if known else "", text, flags=re.DOTALL)
    marks = {
        "TABLES": "\n".join(set_tables(name, numbers) for name in SETS if f"table/{name}" in numbers),
        "REPEATED": "\n".join(
            titled(name, [*rows_table(found := numbers[f"repeated/{name}"]["rows"]), "", counted(found)])
            for name in SETS
            if f"repeated/{name}" in numbers
        ),
        "LENGTHS": lengths_table(numbers),
        "CURVE": "\n".join(titled(name, curve_table(name, numbers)) for name in SETS if f"curve/{name}" in numbers),
        "YAHOO": yahoo_table(),
        "GROWTH": growth_table(numbers["growth"]),
    }
    for mark, made in marks.items():
        text = text.replace(f"@{mark}@", made)
    return with_verdicts(text, claims(numbers), numbers)


RIVALS = ("rank-regress", "ranknet", "ranksvm", "listmle", "listmle-random", "pairties-d", "pairties-rk")


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """What the paper says of its models, by two of its three measures."""
    found = []
    for metric in ("err", "ndcg@5"):
        for name in REPEATED:
            rows = numbers.get(f"repeated/{name}", {"rows": {}})["rows"]
            for other in RIVALS:
                found.append(above(f"PMOP-FD above {MODELS[other][0]}", name, metric, rows, "pmop-fd", other))
        for name in ("OHSUMED", "OHSUMED-2.0"):
            rows = numbers.get(f"general/{name}", {"rows": {}})["rows"]
            said = "the general potential (exact) above PMOP-FD"
            found.append(above(said, name, metric, rows, "pmop-exact", "pmop-fd"))
        for other in ("pmop-gibbs", "pmop-mh"):
            found.append(Claim(f"{MODELS[other][0]} level with PMOP-FD", "", metric, remark="not run over five cuts"))
    return found


def titled(title: str, lines: list[str]) -> str:
    return "\n".join([f"**{title}**", "", *lines, ""])


def set_tables(name: str, numbers: dict[str, Any]) -> str:
    rows = first_order(name, numbers)
    lines = [f"### {name}", "", *rows_table(rows), "", counted(rows), ""]
    second = numbers.get(f"second/{name}")
    if second is not None:
        few, many = min(second["products"]), max(second["products"])
        title = f"Second order, {few} to {many} products as they stand"
        lines += [titled(title, rows_table(second["rows"])), counted(second["rows"]), ""]
    return "\n".join(lines)


def first_order(name: str, numbers: dict[str, Any]) -> dict[str, Any]:
    parts = [numbers.get(f"{kind}/{name}", {"rows": {}})["rows"] for kind in ("sampled", "exact", "table")]
    return {model: row for part in parts for model, row in part.items()}


def rows_table(rows: dict[str, Any]) -> list[str]:
    bold = bold_cells(rows, "pmop-fd")
    lines = ["| model | ERR | NDCG@1 | NDCG@5 | NDCG@10 | MAP | L2 | fit, CPU s |", "|---" * 8 + "|"]
    for model, (label, _) in MODELS.items():
        if model in rows:
            cells = [cell(rows[model], metric, (model, metric) in bold) for metric in METRICS]
            chosen = sorted(choice["l2"] for choice in rows[model]["chosen"])
            middle = f"{chosen[len(chosen) // 2]:g}"
            lines.append(f"| {label} | {' | '.join(cells)} | {middle} | {rows[model]['seconds']:.2f} |")
    return lines


def bold_cells(rows: Mapping[str, Any], against: str) -> set[tuple[str, str]]:
    p_values = {(label, metric): p for label, row in rows.items() for metric, p in row["p"].items()}
    return emphasised(p_values, {label: row["means"] for label, row in rows.items()}, against)


def cell(row: dict[str, Any], metric: str, bold: bool) -> str:
    text = short(row["means"][metric])
    text = f"**{text}**" if bold else text
    return text + (" *" if row["p"].get(metric, 1.0) < 0.05 else "")


def short(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def lengths_table(numbers: dict[str, Any]) -> str:
    lines = [
        "| set | model | " + " | ".join(f"{cut or 'whole'}" for cut in CUTS) + " |",
        "|---" * (len(CUTS) + 2) + "|",
    ]
    for name in LONG:
        rows = numbers.get(f"lengths/{name}", {"rows": {}})["rows"]
        for model in CUT_MODELS if rows else ():
            whole = {"pmop-exact/None": first_order(name, numbers).get("pmop-exact")}
            means = [(rows | whole)[f"{model}/{cut}"]["means"] for cut in CUTS]
            cells = [f"{short(m['ndcg@1'])} {short(m['ndcg@10'])} {short(m['map'])}" for m in means]
            lines.append(f"| {name} | {MODELS[model][0]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def curve_table(name: str, numbers: dict[str, Any]) -> list[str]:
    """PMOP-FD by the threshold, with no products as the first line; asterisks mark differences from it."""
    points = numbers[f"curve/{name}"]
    lines = ["| products | threshold | how many | NDCG@1 | NDCG@5 | NDCG@10 | MAP |", "|---" * 7 + "|"]
    rows = [("none", "", "", {**numbers[f"table/{name}"]["rows"]["pmop-fd"], "p": {}})]
    for point in sorted(points):
        kind, threshold = point.split("/")
        counts = points[point]["products"]
        rows.append((kind, threshold, f"{min(counts)} to {max(counts)}", points[point]["rows"]["pmop-fd"]))
    for kind, threshold, counts, row in rows:
        cells = [cell(row, metric, False) for metric in METRICS[1:]]
        lines.append(f"| {kind} | {threshold} | {counts} | {' | '.join(cells)} |")
    return lines


def yahoo_table() -> str:
    lines = ["| model | ERR | NDCG@1 | NDCG@5 | ERR, second | NDCG@1 | NDCG@5 |", "|---" * 7 + "|"]
    names = {"listmle": "ListMLE", "pmop-mh": "PMOP-MH"}
    lines += [
        f"| {names.get(m, MODELS[m][0])} | " + " | ".join(short(v) for v in values) + " |"
        for m, values in YAHOO.items()
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
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    options = parser.parse_args()
    out = Path(tempfile.mkdtemp(prefix="luce-paper-")) if options.quick else ROOT
    numbers: dict[str, Any] = {} if options.quick else kept(STORE)
    if options.quick:
        del GRID[1:], DESCENT[1:]
        numbers["growth"] = table_two((20, 40, 80), queries=2)
        if (data_folder() / "MQ2008").exists():
            numbers["table/MQ2008"] = table_one("MQ2008", ["ranknet", "plackett-luce"], 1)
    elif not options.page:
        for part in options.only:
            if part == "growth" or (data_folder() / part.partition("/")[2]).exists():
                print(part, flush=True)
                numbers = add(STORE, {part: PARTS[part]()})
    write_page("pmop", page(numbers), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
