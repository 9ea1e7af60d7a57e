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

from luce.experiments import Candidate, Fold, ModelComparison, compare, find_folds
from luce.losses.cdn.loss import CDN
from luce.metrics.significance import randomisation_test
from luce.ranker.parts import inner

SETS = ("OHSUMED-2.0", "OHSUMED")
DEPTHS = tuple(range(1, 11))
METRICS = ["map", *(f"ndcg@{n}" for n in DEPTHS), *(f"p@{n}" for n in DEPTHS)]
SHOWN = ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "p@1", "p@5", "p@10", "map"]
SEED = 0
PARTS = ("network", "linear", "field")
NETWORKS = ("structrank", "structrank-disconnected", "structrank-random")
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
}
"""A system and what is changed in it; each has the choice of t and the starts of the networks."""
MODELS = (*NETWORKS, *VARIANTS)
BALLS = {"trainer__radius": [10.0, 20.0, 40.0, 80.0]}
CHOICE: dict[str, Any] = {"trainer__starts": 1}
"""The training by which validation chooses the ball."""
TRAINED: dict[str, Any] = {"scorer__references": 1500, "scorer__precision": "single", "trainer__keep": "last"}
TO_THE_END: dict[str, Any] = {"max_iter": 200, "trainer__tol": 1e-6}
STARTS = 3
SMALLER = ("fixed", "two", "gaussian")
"""Trained with the t of the full network, from one start."""
BANDED = ("structrank", "structrank-disconnected")
FIELD = ("rankboost", "adarank", "ranknet", "listnet", "coordinate_ascent", "frank", "ranksvm", "linear_regression")
GRADIENT_TRAINED = ("ranknet", "listnet", "ranksvm")
TOPOLOGIES = {"full": "cdn-full", "disconnected": "cdn-disconnected", "random": "cdn-random"}
L2 = {"l2": [1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0]}
MEAN_L2 = {"l2": [1e-5, 1e-4, 1e-3]}
"""A query that is divided by its number of terms wants a weaker penalty beside it."""
LABELS = {
    "structrank": "StructRank, full",
    "structrank-disconnected": "StructRank, disconnected",
    "structrank-random": "StructRank, random",
    "paper-full": "full, the paper's trainer",
    "paper-disconnected": "disconnected, the paper's trainer",
    "start": "full, untrained start",
    "fixed": "full, w1 = w2 = 1",
    "two": "full, K = 2",
    "gaussian": "full, Gaussian functions",
    "cdn-full": "full, linear scorer",
    "cdn-disconnected": "disconnected, linear scorer",
    "cdn-random": "random, linear scorer",
}
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
                full = numbers[f"{name}/network/{fold.name}/{NETWORKS[0]}"]["choice"] if model in SMALLER else None
                add(store, {key: network(fold, model, full)})


def network(fold: Fold, model: str, choice: dict[str, Any] | None = None) -> dict[str, Any]:
    """One training to the end: the ball by validation in a smaller one; no test figure has a part in the choice."""
    system, changed = VARIANTS.get(model, (model, {}))
    shared = {**TRAINED, **({} if "max_epochs" in changed else TO_THE_END), **changed}
    if choice is None:
        smaller = compared([fold], [Candidate(model, BALLS, {**shared, **CHOICE}, system=system)]).outcomes[0]
        choice = {"chosen": smaller.chosen, "validation": smaller.validation, "grid": BALLS, "settings": CHOICE}
    settings = {**shared, **choice["chosen"], **(CHOICE if model in SMALLER else {"trainer__starts": STARTS})}
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


def network_rows(numbers: dict[str, Any], name: str) -> dict[str, Any]:
    """Folds put together as `compare` does: means of the folds' means, queries laid end to end, the median time.

    A network whose folds are not all done is left out: its figures would be of other queries than those beside it.
    """
    beside = numbers.get(f"{name}/linear", {}).get("rows", {})
    queries = max((len(found["map"]) for found in beside.values()), default=0)
    rows = {}
    for model in MODELS:
        folds = [
            numbers[key] for key in sorted(numbers) if key.startswith(f"{name}/network/") and key.endswith(f"/{model}")
        ]
        if folds and sum(len(fold["map"]) for fold in folds) >= queries:
            objectives = [value for fold in folds for value in fold["objective"]]
            rows[model] = {
                "means": {metric: float(np.mean([fold["means"][metric] for fold in folds])) for metric in METRICS},
                "map": [value for fold in folds for value in fold["map"]],
                "chosen": [fold["chosen"][0] for fold in folds],
                "seconds": float(np.median([fold["seconds"] for fold in folds])),
                "objective": float(np.mean(objectives)) if objectives else None,
                "iterations": float(np.median([fold["iterations"] for fold in folds])),
                "ndcg": [line for fold in folds for line in fold.get("ndcg", [])],
            }
    return rows


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


def page(numbers: dict[str, Any]) -> str:
    text = (ROOT / "papers" / "structrank.md.in").read_text()
    tables = []
    for name in SETS:
        rows = all_rows(numbers, name)
        if rows:
            tables += [f"### {name}", "", *table(rows, numbers.get("official", {}) if name == "OHSUMED-2.0" else {})]
            for kind, what in (("ndcg", "NDCG"), ("p", "Precision")):
                tables += ["", f'<figure markdown="1">\n{curves(rows, kind, f"{what} at n, {name}")}\n</figure>', ""]
    text = text.replace("@TABLES@", "\n".join(tables)).replace("@TRAINING@", training(numbers))
    rows = all_rows(numbers, SETS[0])
    if "gaussian" in rows:
        text = text.replace("@GAUSSIAN@", f", nor do Gaussian functions ({number(rows['gaussian']['means']['map'])})")
    text = text.replace("@GAUSSIAN@", "").replace("@COMPARISONS@", str(len(rows) - 1))
    return text.replace("@GAINS@", gains(numbers)).replace("@GROWTH@", growth_table(numbers["growth"]))


def training(numbers: dict[str, Any]) -> str:
    """How far every network was trained: the objective at the end beside that of equal scores."""
    heads = "| set | network | objective | no learning | iterations | t, fold by fold |"
    lines = [heads, "|---" * 6 + "|"]
    for name in SETS:
        for model, found in network_rows(numbers, name).items():
            if found["objective"] is None:
                continue
            flat = "" if model in UNKNOWN_START else f"{start_of(model):.4f}"
            value = "" if model.startswith("paper") else f"{found['objective']:.4f}"
            balls = ", ".join(f"{chosen['trainer__radius']:g}" for chosen in found["chosen"])
            lines.append(f"| {name} | {LABELS[model]} | {value} | {flat} | {found['iterations']:.0f} | {balls} |")
    return "\n".join(lines)


UNKNOWN_START = ("paper-full", "paper-disconnected", "gaussian")


def start_of(model: str) -> float:
    """The objective of equal scores: a sigmoid of one or of two differences, K times."""
    return float(np.log(2.0 if "disconnected" in model else 3.0)) * (2 if model == "two" else 1)


def gains(numbers: dict[str, Any]) -> str:
    """What the dependence of preferences adds: full and random against disconnected, paired over the test queries."""
    lines = [
        "| set | scorer | network | MAP, less disconnected | p | NDCG@10, less disconnected |",
        "|---|---|---|---|---|---|",
    ]
    for name in SETS:
        rows = all_rows(numbers, name)
        for scorer, start in (("Nadaraya-Watson", "structrank"), ("linear", "cdn")):
            base = rows.get(f"{start}-disconnected")
            for network_name, model in (
                ("full", NETWORKS[0] if start == "structrank" else "cdn-full"),
                ("random", f"{start}-random"),
            ):
                if base is not None and model in rows:
                    p = randomisation_test(np.array(rows[model]["map"]), np.array(base["map"]), rng=SEED).p_value
                    more = [rows[model]["means"][metric] - base["means"][metric] for metric in ("map", "ndcg@10")]
                    lines.append(f"| {name} | {scorer} | {network_name} | {more[0]:+.4f} | {p:.2f} | {more[1]:+.4f} |")
    return "\n".join(lines)


def all_rows(numbers: dict[str, Any], name: str) -> dict[str, Any]:
    others = [numbers.get(f"{name}/{part}", {}).get("rows", {}) for part in PARTS[1:]]
    return {model: found for rows in (network_rows(numbers, name), *others) for model, found in rows.items()}


def table(rows: dict[str, Any], published_rows: dict[str, dict[str, float]]) -> list[str]:
    heads = [metric.upper().replace("P@", "P@") for metric in SHOWN]
    lines = [f"| model | {' | '.join(heads)} | p, MAP | fit, s |", "|---" * (len(SHOWN) + 3) + "|"]
    best = {metric: max(found["means"][metric] for found in rows.values()) for metric in SHOWN}
    reference = np.array(rows["structrank"]["map"]) if "structrank" in rows else None
    for model, found in rows.items():
        p = ""
        if reference is not None and model != "structrank":
            p = f"{randomisation_test(reference, np.array(found['map']), rng=SEED).p_value:.2f}".lstrip("0")
        cells = [number(found["means"][metric], found["means"][metric] == best[metric]) for metric in SHOWN]
        lines.append(f"| {LABELS.get(model, model)} | {' | '.join(cells)} | {p} | {found['seconds']:.1f} |")
    for label, means in published_rows.items():
        cells = [number(means[metric]) if metric in means else "" for metric in SHOWN]
        lines.append(f"| *{label}, as published* | {' | '.join(cells)} | | |")
    return lines


def number(value: float, best: bool = False) -> str:
    text = f"{value:.4f}".lstrip("0")
    return f"**{text}**" if best else text


def curves(rows: dict[str, Any], kind: str, title: str) -> str:
    """One line a model over the depth n, as inline SVG: the networks in colour, the field in grey."""
    values = {model: [found["means"][f"{kind}@{n}"] for n in DEPTHS] for model, found in rows.items()}
    values = {model: line for model, line in values.items() if model not in VARIANTS}
    bands = [band for model in BANDED if (band := bootstrap_band(rows.get(model, {}).get("ndcg", [])))]
    ends = [value for band in bands for edge in band for value in edge] if kind == "ndcg" else []
    low = min(ends + [min(line) for line in values.values()])
    high = max(ends + [max(line) for line in values.values()])
    low, high = np.floor(low * 50) / 50, np.ceil(high * 50) / 50
    width, height, left, top = 640, 320, 48, 28

    def at(n: int, value: float) -> str:
        x = left + (n - 1) / 9 * (width - left - 190)
        y = top + (high - value) / (high - low) * (height - top - 40)
        return f"{x:.1f},{y:.1f}"

    colours = {"structrank": "#c0392b", "structrank-disconnected": "#2471a3", "structrank-random": "#1e8449"}
    colours |= {"cdn-full": "#e59866", "cdn-disconnected": "#7fb3d5", "cdn-random": "#82c29a"}
    drawn = [f'<text x="{left}" y="16" font-size="13">{title}</text>']
    for tick in np.arange(low, high + 1e-9, 0.02):
        _, y = at(1, float(tick)).split(",")
        drawn.append(f'<line x1="{left}" x2="{width - 190}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        drawn.append(f'<text x="{left - 6}" y="{float(y) + 4:.1f}" font-size="10" text-anchor="end">{tick:.2f}</text>')
    for n in DEPTHS:
        x, _ = at(n, low).split(",")
        drawn.append(f'<text x="{x}" y="{height - 22}" font-size="10" text-anchor="middle">{n}</text>')
    for place, (model, line) in enumerate(sorted(values.items(), key=lambda item: item[0] in colours)):
        points = " ".join(at(n, value) for n, value in zip(DEPTHS, line, strict=True))
        colour = colours.get(model, "#aaa")
        thick = 2 if model in colours else 1
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="{thick}" points="{points}"/>')
        y = top + 14 * place
        drawn.append(
            f'<line x1="{width - 180}" x2="{width - 160}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
        )
        label = LABELS.get(model, model)
        drawn.append(f'<text x="{width - 154}" y="{y + 4}" font-size="11">{label}</text>')
    for model in BANDED if kind == "ndcg" else ():
        band = bootstrap_band(rows.get(model, {}).get("ndcg", []))
        if band is not None:
            edge = [at(n, value) for n, value in zip(DEPTHS, band[0], strict=True)]
            back = [at(n, value) for n, value in zip(DEPTHS, band[1], strict=True)]
            points = " ".join([*edge, *reversed(back)])
            drawn.append(f'<polygon fill="{colours[model]}" fill-opacity="0.08" stroke="none" points="{points}"/>')
    inside = "".join(drawn)
    return f'<svg viewBox="0 0 {width} {height}" fill="currentColor" role="img" aria-label="{title}">{inside}</svg>'


def bootstrap_band(values: list[list[float]]) -> tuple[list[float], list[float]] | None:
    """Where 90% of the means of resampled queries lie, at every depth."""
    if not values:
        return None
    rng = np.random.default_rng(SEED)
    lines = np.array(values)
    means = np.array([lines[rng.integers(0, len(lines), len(lines))].mean(axis=0) for _ in range(1000)])
    low, high = np.quantile(means, [0.05, 0.95], axis=0)
    return low.tolist(), high.tolist()


def growth_table(found: dict[str, Any]) -> str:
    lines = ["| documents | edges | through nodes | every pair of edges |", "|---|---|---|---|"]
    for place, (n, edges, seconds) in enumerate(zip(found["lengths"], found["edges"], found["nodes"], strict=True)):
        direct = f"{found['direct'][place]:.3g} s" if place < len(found["direct"]) else ""
        lines.append(f"| {n:,} | {int(edges):,} | {1e3 * seconds:.3g} ms | {direct} |")
    return "\n".join(lines)


def quick(numbers: dict[str, Any]) -> None:
    """One fold, few settings."""
    TRAINED["scorer__references"] = 200
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
    if not options.quick:
        keep(store, numbers)
    write_page("structrank", page(numbers), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
