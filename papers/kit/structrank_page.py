"""The tables and curves of docs/papers/structrank.md, made of the numbers of papers/results/structrank.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit import ROOT
from kit.verdicts import Claim, emphasised, paired, with_verdicts
from luce.metrics.significance import randomisation_test

__all__ = ["BANDED", "DEPTHS", "METRICS", "NETWORKS", "PARTS", "SEED", "SETS", "page"]

SETS = ("OHSUMED-2.0", "OHSUMED")
DEPTHS = tuple(range(1, 11))
METRICS = ["map", *(f"ndcg@{n}" for n in DEPTHS), *(f"p@{n}" for n in DEPTHS)]
SHOWN = ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "p@1", "p@5", "p@10", "map"]
SEED = 0
PARTS = ("network", "linear", "field")
NETWORKS = ("structrank", "structrank-disconnected", "structrank-random")
BANDED = ("structrank", "structrank-disconnected")
VARIANTS = {
    "paper-full": "full, the paper's trainer",
    "paper-disconnected": "disconnected, the paper's trainer",
    "start": "full, untrained start",
    "fixed": "full, w1 = w2 = 1",
    "two": "full, K = 2",
    "gaussian": "full, Gaussian functions",
    "all-full": "full, all references",
    "all-disconnected": "disconnected, all references",
}
"""Changes of the networks, and the paper's trainer."""
LABELS = {
    "structrank": "StructRank, full",
    "structrank-disconnected": "StructRank, disconnected",
    "structrank-random": "StructRank, random",
    **VARIANTS,
    "cdn-full": "full, linear scorer",
    "cdn-disconnected": "disconnected, linear scorer",
    "cdn-random": "random, linear scorer",
}


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
    for mark, name in (("@COMPARISONS@", SETS[0]), ("@COMPARISONS_TOO@", SETS[1])):
        text = text.replace(mark, str(len(all_rows(numbers, name)) - 1))
    text = text.replace("@GAINS@", gains(numbers)).replace("@GROWTH@", growth_table(numbers["growth"]))
    return with_verdicts(text, claims(numbers), numbers)


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """Full above disconnected, and full above luce's own base rankers, by MAP; five folds, cut once."""
    found = []
    for name in SETS:
        rows = all_rows(numbers, name)
        pairs = [(f"{LABELS[model]} above {LABELS[base]}", model, base) for _, _, model, base in DEPENDENCE]
        pairs += [
            (f"StructRank, full, above `{other}`", "structrank", other)
            for other in numbers.get(f"{name}/field", {}).get("rows", {})
        ]
        for text, model, base in pairs:
            if model in rows and base in rows:
                found.append(paired(text, name, "map", rows[model]["map"], rows[base]["map"], rests_on="one cut"))
    return found


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


DEPENDENCE = (
    ("Nadaraya-Watson", "full", "structrank", "structrank-disconnected"),
    ("Nadaraya-Watson", "random", "structrank-random", "structrank-disconnected"),
    ("Nadaraya-Watson, all references", "full", "all-full", "all-disconnected"),
    ("Nadaraya-Watson, the paper's trainer", "full", "paper-full", "paper-disconnected"),
    ("linear", "full", "cdn-full", "cdn-disconnected"),
    ("linear", "random", "cdn-random", "cdn-disconnected"),
)
"""Scorer, network, its row, and the row of the disconnected network beside it."""


def gains(numbers: dict[str, Any]) -> str:
    """What the dependence of preferences adds: full and random against disconnected, paired over the test queries."""
    heads = "| set | scorer | network | MAP, less disconnected | p | NDCG@10, less disconnected |"
    lines = [heads, "|---" * 6 + "|"]
    for name in SETS:
        rows = all_rows(numbers, name)
        for scorer, network, model, base in DEPENDENCE:
            if model in rows and base in rows:
                own, other = rows[model], rows[base]
                p = randomisation_test(np.array(own["map"]), np.array(other["map"]), rng=SEED).p_value
                more = [own["means"][metric] - other["means"][metric] for metric in ("map", "ndcg@10")]
                lines.append(f"| {name} | {scorer} | {network} | {more[0]:+.4f} | {p:.2f} | {more[1]:+.4f} |")
    return "\n".join(lines)


def all_rows(numbers: dict[str, Any], name: str) -> dict[str, Any]:
    others = [numbers.get(f"{name}/{part}", {}).get("rows", {}) for part in PARTS[1:]]
    return {model: found for rows in (network_rows(numbers, name), *others) for model, found in rows.items()}


def table(rows: dict[str, Any], published_rows: dict[str, dict[str, float]]) -> list[str]:
    heads = [metric.upper().replace("P@", "P@") for metric in SHOWN]
    lines = [f"| model | {' | '.join(heads)} | p, MAP | fit, s |", "|---" * (len(SHOWN) + 3) + "|"]
    reference = np.array(rows["structrank"]["map"]) if "structrank" in rows else None
    tests = {
        (model, "map"): randomisation_test(reference, np.array(found["map"]), rng=SEED).p_value
        for model, found in rows.items()
        if reference is not None and model != "structrank"
    }
    bold = emphasised(tests, {model: {"map": found["means"]["map"]} for model, found in rows.items()}, "structrank")
    for model, found in rows.items():
        p = f"{tests[model, 'map']:.2f}".lstrip("0") if (model, "map") in tests else ""
        cells = [number(found["means"][metric], (model, metric) in bold) for metric in SHOWN]
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


def network_rows(numbers: dict[str, Any], name: str) -> dict[str, Any]:
    """Folds put together as `compare` does: means of the folds' means, queries laid end to end, the median time.

    A network whose folds are not all done is left out: its figures would be of other queries than those beside it.
    """
    beside = numbers.get(f"{name}/linear", {}).get("rows", {})
    queries = max((len(found["map"]) for found in beside.values()), default=0)
    rows = {}
    for model in (*NETWORKS, *VARIANTS):
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
