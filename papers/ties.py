"""Makes docs/papers/ties.md and its numbers: boosted models of ties beside the base rankers, on the LETOR sets at hand.

    python papers/ties.py [--quick] [--page] [--part SET/MODEL | two-levels | grades | epsilons | curves | lists ...]

A part is one model on one set, or one of the studies; `--list` names them all. Each goes to papers/results/ties.json
with its settings and seed as soon as it is done, and one that is there already is not computed again unless it is named
by `--part`. `--quick` runs one fold into a temporary folder, `--page` only makes the page again. The sets are read from
LUCE_DATA, else ../shared/data beside the project; a set that is absent keeps its last numbers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, add, data_folder, kept, write_page

import luce
from luce.data.trec import document_names
from luce.experiments import Candidate, compare, find_folds
from luce.experiments.folds import Fold
from luce.metrics.evaluate import evaluate
from luce.metrics.significance import randomisation_test
from luce.ranker.parts import inner

SETS = ("OHSUMED-2.0", "OHSUMED", "MQ2008")
METRICS = ["map", *(f"ndcg@{k}" for k in range(1, 11)), "p@1", "p@3", "p@5"]
TESTED = ("map", "ndcg@5")
SEED = 0
ROUNDS: dict[str, Any] = {"max_iter": 200, "early_stopping": 30}
TREES = [
    {"num_leaves": 10, "learning_rate": 0.1, "min_data_in_leaf": 20},
    {"num_leaves": 5, "learning_rate": 0.1, "min_data_in_leaf": 50},
]
TIES = ("bt-ties", "bt-noties", "tm-ties", "tm-noties")
PAIR_TREES = {f"{name}-pairs": name for name in TIES}
"""The same systems on the paper's own tree, a leaf of which is the mean gradient of its pairs."""
GRIDS: dict[str, Any] = {
    **{name: [inner("scorer", own) for own in TREES] for name in (*TIES, "lambdamart", "mart")},
    **{name: [inner("scorer", {**own, "curvature": "pairs"}) for own in TREES] for name in PAIR_TREES},
    "ranksvm": {"l2": [1e-2, 1e-1]},
    "rankboost": {"trainer__thresholds": [16, 64]},
    "adarank-map": {"trainer__both_directions": [True, False]},
    "frank": {"trainer__thresholds": [16, 64]},
}
TIE_GRADES = {"relevant": [2], "possibly relevant": [1], "relevant or possibly relevant": [1, 2], "irrelevant": [0]}
EPSILONS = {"0.1": 0.1, "1": 1.0}
STUDIED = "OHSUMED-2.0"
"""The set of the studies: the one of the paper that is at hand."""
EVERY = 5
"""Rounds between two points of a learning curve."""


def folds_of(name: str, n: int | None) -> list[Fold]:
    return find_folds(data_folder() / name)[:n]


def one_model(folds: Sequence[Fold], model: str, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """A system with its grid over the folds: means, what validation chose, and the queries of the tested metrics."""
    limits = {} if model == "ranksvm" else ROUNDS
    candidate = Candidate(model, GRIDS[model], {**limits, **(settings or {})}, PAIR_TREES.get(model))
    result = compare(folds, [candidate], METRICS, seed=SEED, ties="stable")
    return {
        "means": {metric: result.mean(model, metric) for metric in METRICS},
        "queries": {metric: [round(float(v), 6) for v in result.per_query(model, metric)] for metric in TESTED},
        "chosen": [outcome.chosen for outcome in result.outcomes],
        "seconds": result.seconds(model),
    }


def two_levels(n: int | None) -> dict[str, Any]:
    """OHSUMED-2L: definitely and possibly relevant are one grade."""
    folds = [replace(fold, load=_merged(fold)) for fold in folds_of(STUDIED, n)]
    return {model: one_model(folds, model) for model in ("bt-ties", "bt-noties")}


def _merged(fold: Fold) -> Callable[[], tuple[luce.Groups, luce.Groups, luce.Groups]]:
    def load() -> tuple[luce.Groups, luce.Groups, luce.Groups]:
        train, valid, test = (replace(part, y=np.minimum(part.y, 1)) for part in fold.load())
        return train, valid, test

    return load


def tie_grades(n: int | None) -> dict[str, Any]:
    """Figure 2: ties from documents of these grades only."""
    return variants(n, {name: {"tie_grades": grades} for name, grades in TIE_GRADES.items()})


def tie_parameters(n: int | None) -> dict[str, Any]:
    """The half-width of the band of ties given, instead of estimated."""
    return variants(n, {name: {"epsilon": value} for name, value in EPSILONS.items()})


def variants(n: int | None, settings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    folds = folds_of(STUDIED, n)
    return {name: one_model(folds, "bt-ties", inner("loss", own)) for name, own in settings.items()}


def learning_curves(n: int | None) -> dict[str, Any]:
    """Figure 3: NDCG@5 of the training, validation and test queries by round, the mean of the folds."""
    rounds = ROUNDS["max_iter"]
    points = list(range(0, rounds + 1, EVERY))
    curves: dict[str, Any] = {}
    for model in ("bt-ties", "bt-noties"):
        values = np.zeros((3, len(points)))
        folds = folds_of(STUDIED, n)
        for fold in folds:
            parts = fold.load()
            ranker = luce.model(model, max_iter=rounds, **inner("scorer", TREES[0]), random_state=SEED).fit(parts[0])
            forest = ranker.scorer_.forest
            for row, part in enumerate(parts):
                for column, t in enumerate(points):
                    scores = forest.first(min(t, forest.n_trees)).score(part.X)
                    values[row, column] += evaluate(scores, part, ["ndcg@5"], ties="stable").means["ndcg@5"]
        curves[model] = dict(zip(("training", "validation", "test"), (values / len(folds)).tolist(), strict=True))
    return {"rounds": points, "curves": curves}


def top_lists(n: int | None) -> dict[str, Any]:
    """Table 5: the first five documents of the paper's two queries, by the models that validation chose."""
    found: dict[str, Any] = {}
    for fold in folds_of(STUDIED, n):
        train, valid, test = fold.load()
        names = [str(query) for query in test.query_ids]
        wanted = [query for query in ("79", "84") if query in names] or names[:1] * (n is not None)
        if not wanted:
            continue
        documents = document_names(test)
        for model in ("bt-noties", "bt-ties"):
            candidates = [luce.model(model, **ROUNDS, **inner("scorer", own), random_state=SEED) for own in TREES]
            fitted = [ranker.fit(train, valid=valid) for ranker in candidates]
            best = max(fitted, key=lambda ranker: evaluate(ranker, valid, ["ndcg@10"], ties="stable").means["ndcg@10"])
            scores = best.predict(test)
            for query in wanted:
                first, last = test.offsets[names.index(query)], test.offsets[names.index(query) + 1]
                order = first + np.argsort(-scores[first:last], kind="stable")[:5]
                rows = [[int(test.y[row]), str(documents[row])] for row in order]
                found.setdefault(query, {})[model] = rows
    return found


def parts(n: int | None) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every part by its name; the folds are the first n."""
    tables = {f"{name}/{model}": (name, model) for name in SETS for model in GRIDS}
    found: dict[str, Callable[[], dict[str, Any]]] = {
        key: lambda name=name, model=model: one_model(folds_of(name, n), model)  # type: ignore[misc]
        for key, (name, model) in tables.items()
        if (data_folder() / name).exists()
    }
    if (data_folder() / STUDIED).exists():
        studies = {"two-levels": two_levels, "grades": tie_grades, "epsilons": tie_parameters}
        studies |= {"curves": learning_curves, "lists": top_lists}
        found |= {key: lambda study=study: study(n) for key, study in studies.items()}  # type: ignore[misc]
    return found


LABELS = {
    "bt-ties": "BT",
    "bt-noties": "BT-noties",
    "tm-ties": "TM",
    "tm-noties": "TM-noties",
    "bt-ties-pairs": "BT, pairs",
    "bt-noties-pairs": "BT-noties, pairs",
    "tm-ties-pairs": "TM, pairs",
    "tm-noties-pairs": "TM-noties, pairs",
    "lambdamart": "LambdaMART",
    "mart": "MART",
    "ranksvm": "RankSVM (linear)",
    "rankboost": "RankBoost",
    "adarank-map": "AdaRank-MAP",
    "frank": "FRank",
}
SHOWN = ("map", "ndcg@1", "ndcg@3", "ndcg@5", "p@1", "p@3", "p@5")
PAPER = {  # Table 1 of the paper, LETOR 2.0 OHSUMED
    "BT": (0.4537, 0.5288, 0.4911, 0.4759, 0.6650, 0.6211, 0.5806),
    "BT-noties": (0.4488, 0.4753, 0.4664, 0.4623, 0.6288, 0.5911, 0.5626),
    "TM": (0.4543, 0.5269, 0.4794, 0.4714, 0.6654, 0.6146, 0.6010),
    "TM-noties": (0.4476, 0.5072, 0.4764, 0.4652, 0.6252, 0.6047, 0.5803),
    "RankSVM": (0.4469, 0.4952, 0.4649, 0.4579, 0.6338, 0.5924, 0.5766),
    "RankBoost": (0.4403, 0.4977, 0.4726, 0.4502, 0.6048, 0.5861, 0.5446),
    "AdaRank": (0.4419, 0.5420, 0.4803, 0.4554, 0.6615, 0.5831, 0.5373),
    "FRank": (0.4463, 0.5449, 0.4995, 0.4688, 0.6710, 0.6175, 0.5597),
}
PAPER_GAINS = (11.26, 6.71, 5.30, 5.58, 2.94, 5.77, 4.94, 1.57, 1.94, 2.62)
PAPER_GAINS_2L = (4.58, 3.61, 4.67, 4.33, 2.45, 2.75, 1.68, 0.66, 0.36, 0.33)
COLOURS = {"training": "#3b6ea5", "validation": "#c77b30", "test": "#4c8c4a"}


def page(template: str, numbers: dict[str, Any]) -> str:
    """The template with its tables and figures; what was not computed is left empty."""
    made = {
        "TABLES": "\n".join(set_table(name, numbers) for name in SETS),
        "PAPER": table(["paper, Table 1", *map(str.upper, SHOWN)], [[k, *map(decimal, v)] for k, v in PAPER.items()]),
        "TESTS": tests_table(numbers),
        "GAINS": gains_table(numbers),
        "GRADES": variants_table("ties from documents that are", beside(numbers, "of any grade", "grades")),
        "EPSILONS": variants_table("epsilon", beside(numbers, "re-estimated", "epsilons")),
        "CURVES": curves_figures(numbers.get("curves")),
        "LISTS": lists_tables(numbers.get("lists", {})),
    }
    for key, text in made.items():
        template = template.replace(f"@{key}@", text)
    return template


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def decimal(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def set_table(name: str, numbers: dict[str, Any]) -> str:
    found = {model: numbers[f"{name}/{model}"]["means"] for model in GRIDS if f"{name}/{model}" in numbers}
    if not found:
        return ""
    best = {metric: max(means[metric] for means in found.values()) for metric in SHOWN}
    rows = []
    for model, means in found.items():
        cells = [f"**{decimal(means[m])}**" if means[m] == best[m] else decimal(means[m]) for m in SHOWN]
        rows.append([LABELS[model], *cells])
    return f"### {name}\n\n{table(['model', *map(str.upper, SHOWN)], rows)}\n"


def p_value(first: dict[str, Any], second: dict[str, Any], metric: str) -> float:
    a, b = (np.array(one["queries"][metric]) for one in (first, second))
    return randomisation_test(a, b, rng=SEED).p_value


def tests_table(numbers: dict[str, Any]) -> str:
    """Differences of models with ties from those without, and of BT from the base rankers, with p-values."""
    rows = []
    base = [model for model in GRIDS if model not in TIES and model not in PAIR_TREES]
    with_ties = [name for name in (*TIES, *PAIR_TREES) if "-ties" in name]
    pairs = [
        *((name, name.replace("-ties", "-noties")) for name in with_ties),
        *((name, PAIR_TREES[name]) for name in PAIR_TREES),
        *(("bt-ties", model) for model in base),
    ]
    for a, b in pairs:
        cells = []
        for name in SETS:
            first, second = numbers.get(f"{name}/{a}"), numbers.get(f"{name}/{b}")
            for metric in TESTED:
                if first is None or second is None:
                    cells.append("")
                    continue
                gap, p = first["means"][metric] - second["means"][metric], p_value(first, second, metric)
                cells.append(f"{gap:+.4f} ({p:.3f})" if p >= 0.05 else f"**{gap:+.4f}** ({p:.3f})")
        rows.append([f"{LABELS[a]} - {LABELS[b]}", *cells])
    head = [f"{name}, {metric.upper()}" for name in SETS for metric in TESTED]
    return table(["difference", *head], rows)


def gains(with_ties: dict[str, Any] | None, without: dict[str, Any] | None) -> list[str]:
    if with_ties is None or without is None:
        return [""] * 10
    pairs = [(with_ties["means"][f"ndcg@{k}"], without["means"][f"ndcg@{k}"]) for k in range(1, 11)]
    return [f"{100 * (a / b - 1):+.2f}%" for a, b in pairs]


def gains_table(numbers: dict[str, Any]) -> str:
    levels = numbers.get("two-levels", {})
    columns = {name: gains(numbers.get(f"{name}/bt-ties"), numbers.get(f"{name}/bt-noties")) for name in SETS}
    for name in SETS:
        with_ties, without = (numbers.get(f"{name}/{model}") for model in ("bt-ties-pairs", "bt-noties-pairs"))
        columns[f"{name}, pairs"] = gains(with_ties, without)
    columns["OHSUMED-2L"] = gains(levels.get("bt-ties"), levels.get("bt-noties"))
    columns["paper, OHSUMED"] = [f"{gain:+.2f}%" for gain in PAPER_GAINS]
    columns["paper, OHSUMED-2L"] = [f"{gain:+.2f}%" for gain in PAPER_GAINS_2L]
    return table(["n", *columns], [[str(k + 1), *(column[k] for column in columns.values())] for k in range(10)])


def beside(numbers: dict[str, Any], name: str, study: str) -> dict[str, Any]:
    """The rows of a study after the two that stand in the first table: BT as it is, and without ties."""
    found = {name: numbers.get(f"{STUDIED}/bt-ties"), "no ties": numbers.get(f"{STUDIED}/bt-noties")}
    return {row: one for row, one in (found | numbers.get(study, {})).items() if one is not None}


def variants_table(head: str, found: dict[str, Any]) -> str:
    shown = ("ndcg@1", "ndcg@5", "ndcg@10", "map")
    rows = [[name, *(decimal(one["means"][metric]) for metric in shown)] for name, one in found.items()]
    return table([head, *map(str.upper, shown)], rows) if rows else ""


def lists_tables(found: dict[str, Any]) -> str:
    texts = []
    for query, models in found.items():
        without, with_ties = models["bt-noties"], models["bt-ties"]
        rows = [
            [str(k + 1), *map(str, a), *map(str, b)] for k, (a, b) in enumerate(zip(without, with_ties, strict=True))
        ]
        head = ["rank", "BT-noties: grade", "document", "BT: grade", "document"]
        texts.append(f"**Query {query}**\n\n{table(head, rows)}\n")
    return "\n".join(texts)


def curves_figures(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    return "\n\n".join(svg(LABELS[model], found["rounds"], curves) for model, curves in found["curves"].items())


def svg(title: str, rounds: Sequence[int], curves: dict[str, list[float]]) -> str:
    """Lines of NDCG@5 by round as one inline drawing."""
    width, height, left, bottom = 460.0, 240.0, 50.0, 30.0
    low = np.floor(20 * min(map(min, curves.values()))) / 20
    high = np.ceil(20 * max(map(max, curves.values()))) / 20

    def x(t: float) -> float:
        return left + (width - left - 90) * t / max(rounds[-1], 1)

    def y(value: float) -> float:
        return 20 + (height - 20 - bottom) * (high - value) / max(high - low, 1e-9)

    parts = [
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-size="11" font-family="sans-serif" '
        f'style="max-width:{width:.0f}px" fill="currentColor"><title>{title}: NDCG@5 by round</title>',
        f'<text x="{left}" y="12">{title}: NDCG@5 by round</text>',
    ]
    for value in np.linspace(low, high, 5):
        parts.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3f}</text>')
        parts.append(
            f'<path d="M{left} {y(value):.1f}H{x(rounds[-1]):.1f}" stroke="currentColor" stroke-opacity=".15"/>'
        )
    for t in np.linspace(0, rounds[-1], 5):
        parts.append(f'<text x="{x(t):.1f}" y="{height - 8:.0f}" text-anchor="middle">{t:.0f}</text>')
    below = -np.inf
    for part, values in sorted(curves.items(), key=lambda curve: -curve[1][-1]):
        line = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in zip(rounds, values, strict=True))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[part]}" stroke-width="1.5"/>')
        below = max(y(values[-1]) + 4, below + 12)  # names do not overlap
        end = f'x="{x(rounds[-1]) + 5:.1f}" y="{below:.1f}" fill="{COLOURS[part]}"'
        parts.append(f"<text {end}>{part}</text>")
    return "".join([*parts, "</svg>"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--part", nargs="*", default=[])
    options = parser.parse_args()
    out = Path(tempfile.mkdtemp(prefix="luce-paper-")) if options.quick else ROOT
    store = ROOT / "papers" / "results" / "ties.json"
    numbers: dict[str, Any] = {} if options.quick else kept(store)
    if options.quick:
        ROUNDS.update(max_iter=10, early_stopping=5)
        del TREES[1:]
    known = parts(1 if options.quick else None)
    if options.list:
        print("\n".join(known))
        return 0
    unknown = set(options.part) - set(known)
    if unknown:
        parser.error(f"no part {sorted(unknown)[0]!r}; --list names them all")
    wanted = options.part or [key for key in known if key not in numbers]
    if options.quick:
        wanted = [key for key in ("OHSUMED-2.0/bt-ties", "OHSUMED-2.0/bt-noties", "curves", "lists") if key in known]
    for key in wanted if not options.page else ():
        print(key, flush=True)
        found = {key: known[key]()}
        numbers = numbers | found if options.quick else add(store, found, indent=None)
    write_page("ties", page((ROOT / "papers" / "ties.md.in").read_text(), numbers), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
