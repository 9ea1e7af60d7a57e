"""Supervised rank aggregation on MQ2008-agg and MQ2007-agg (LETOR 4.0): Borda, weighted Borda, CPS.

Writes docs/papers/aggregation.md and papers/results/aggregation.json; rows that are there already are not measured
again. `--quick` runs one fold of MQ2008-agg and writes to a temporary folder, `--page` only makes the page again. The
data are found in LUCE_DATA (default ../shared/data beside the project).
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from kit import ROOT, add, data_folder, kept, write_page
from kit.verdicts import Claim, above, with_verdicts

from luce.aggregate.supervised import (
    BordaAggregator,
    CPSAggregator,
    PositionalAggregator,
    Reading,
    average_precision,
)

DATA = data_folder()
PENALTIES = (0.01, 0.1, 1.0)
MODELS: dict[str, Callable[[float], Any]] = {
    "weighted Borda": lambda l2: PositionalAggregator(("borda",), l2),
    "weighted Borda + ranked": lambda l2: PositionalAggregator(("borda", "ranked"), l2),
    "CPS, Kendall": CPSAggregator,
    "CPS, Kendall, ranks read backwards": lambda l2: CPSAggregator(l2, Reading(False, "open")),
    "CPS, Spearman": lambda l2: CPSAggregator(l2, distance="spearman"),
    "CPS, Spearman, ranks read backwards": lambda l2: CPSAggregator(l2, Reading(False, "open"), "spearman"),
}


class Part(NamedTuple):
    """Rank matrix, labels and query offsets."""

    ranks: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray


def read_part(path: Path) -> Part:
    """A LETOR file whose features are ranks, NULL for a document that a system does not rank."""
    ranks, labels, queries = [], [], []
    with gzip.open(path, "rt") as stream:
        for line in stream:
            label, query, *features = line.partition("#")[0].split()
            values = (feature.partition(":")[2] for feature in features)
            ranks.append([np.nan if value == "NULL" else float(value) for value in values])
            labels.append(float(label))
            queries.append(query)
    change = np.flatnonzero(np.array(queries[1:]) != np.array(queries[:-1])) + 1
    return Part(np.array(ranks), np.array(labels), np.concatenate([[0], change, [len(labels)]]))


def join(parts: list[Part]) -> Part:
    """Several parts as one."""
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    return Part(
        np.concatenate([part.ranks for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([[0], np.cumsum(sizes)]),
    )


def folds(name: str) -> list[tuple[Part, Part, Part]]:
    """Training, validation and test parts of the five folds."""
    if name == "MQ2008-agg":
        kinds = ("train", "vali", "test")
        return [tuple(read_part(DATA / name / f"Fold{k}" / f"{kind}.txt.gz") for kind in kinds) for k in range(1, 6)]  # type: ignore[misc]
    parts = [read_part(DATA / name / f"A{k}.txt.gz") for k in range(1, 6)]
    return [(join([parts[(k + i) % 5] for i in range(3)]), parts[(k + 3) % 5], parts[(k + 4) % 5]) for k in range(5)]


CUT = ("weighted Borda", "CPS, Kendall", "CPS, Spearman")


def cuts(name: str, times: int = 5) -> dict[str, Any]:
    """Borda and learned rules over five cuts of the queries into five folds: average precision by query."""
    whole = join([test for _, _, test in folds(name)])
    spans = [slice(a, b) for a, b in zip(whole.offsets[:-1], whole.offsets[1:], strict=True)]
    queries = {label: np.zeros(len(spans)) for label in ("Borda", *CUT)}

    def taken(places: np.ndarray) -> Part:
        parts = [
            Part(whole.ranks[s], whole.labels[s], np.array([0, s.stop - s.start])) for s in (spans[q] for q in places)
        ]
        return join(parts)

    for seed in range(times):
        fifths = np.array_split(np.random.default_rng(seed).permutation(len(spans)), 5)
        for k in range(5):
            turned = [np.sort(fifths[(k + i) % 5]) for i in range(5)]
            train, valid, test = taken(np.concatenate(turned[:3])), taken(turned[3]), taken(turned[4])
            for label in queries:
                model = BordaAggregator().fit(*train) if label == "Borda" else learned(MODELS[label], train, valid)[0]
                queries[label][turned[4]] += query_quality(model, test) / times
    return {"rows": {label: {"queries": {"map": values.round(5).tolist()}} for label, values in queries.items()}}


def claims(results: dict[str, Any]) -> list[Claim]:
    """That weights which are learned from labels are worth it."""
    return [
        above(f"{label} above Borda", name, "map", results.get(f"cuts/{name}", {"rows": {}})["rows"], label, "Borda")
        for name in ("MQ2008-agg", "MQ2007-agg")
        for label in CUT
    ]


def query_quality(model: Any, part: Part) -> np.ndarray:
    """Average precision of a model on every query of a part."""
    return average_precision(model.predict(part.ranks, part.offsets), part.labels, part.offsets)


def learned(make: Callable[[float], Any], train: Part, valid: Part) -> tuple[Any, float]:
    """The model whose penalty does best on the validation part."""
    models = [(make(l2).fit(*train), l2) for l2 in PENALTIES]
    return max(models, key=lambda pair: query_quality(pair[0], valid).mean())


def randomisation_test(difference: np.ndarray, rounds: int = 10_000) -> float:
    """Two-sided p-value of a mean difference of pairs, by random signs."""
    rng = np.random.default_rng(0)
    observed = abs(difference.sum())
    hits = sum(
        int((np.abs(rng.choice([-1.0, 1.0], (1000, len(difference))) @ difference) >= observed - 1e-12).sum())
        for _ in range(rounds // 1000)
    )
    return (hits + 1) / (rounds + 1)


def official(name: str, algorithm: str) -> list[float]:
    """Test MAP of the five folds from the official result file."""
    lines = (DATA / "letor-baselines" / f"{algorithm}.{name}.txt").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.rstrip().endswith("MAP"))
    return [float(line.split("\t")[-1]) for line in lines[start + 1 : start + 6]]


def run(name: str, limit: int | None = None, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Everything measured on one set; learned rules whose rows are known are not fitted again."""
    earlier = known or {"rows": {}, "penalties": {}}
    result: dict[str, Any] = {"rows": {}, "readings": [], "penalties": dict(earlier["penalties"]), "reversed": []}
    queries: dict[str, list[np.ndarray]] = {}
    wanted = {label: make for label, make in MODELS.items() if label not in earlier["rows"]}
    for train, valid, test in folds(name)[:limit]:
        borda = BordaAggregator().fit(*train)
        assert borda.reading is not None
        result["readings"].append(borda.reading._asdict())
        queries.setdefault("Borda", []).append(query_quality(borda, test))
        result["reversed"].append(float(query_quality(BordaAggregator(Reading(False, "open")), test).mean()))
        for label, make in wanted.items():
            model, l2 = learned(make, train, valid)
            result["penalties"].setdefault(label, []).append(l2)
            queries.setdefault(label, []).append(query_quality(model, test))
            print(f"{name}: {label}: MAP {queries[label][-1].mean():.4f}", flush=True)
    baseline = np.concatenate(queries["Borda"])
    for label in ("Borda", *MODELS):
        if label not in queries:
            result["rows"][label] = earlier["rows"][label]
            continue
        values = queries[label]
        difference = np.concatenate(values) - baseline
        result["rows"][label] = {
            "folds": [float(v.mean()) for v in values],
            "map": float(np.mean([v.mean() for v in values])),
            "gain": float(difference.mean()),
            "p": None if label == "Borda" else randomisation_test(difference),
        }
    for algorithm in ("BordaCount", "CPS-KendallTau", "CPS-SpearmanRankCorrelation"):
        result["rows"][f"official {algorithm}"] = {"folds": official(name, algorithm)[:limit]}
    return result


def page(results: dict[str, Any]) -> str:
    """The page, from the results alone."""
    lines: list[str] = []
    for name, result in ((name, found) for name, found in results.items() if "readings" in found):
        count = len(result["readings"])
        header = " | ".join(["rule", *(f"fold {k + 1}" for k in range(count)), "MAP", "gain over Borda", "p"])
        lines += [f"\n## {name}\n", f"| {header} |", "|---" * (count + 4) + "|"]
        for label, row in result["rows"].items():
            cells = " | ".join(f"{value:.4f}" for value in row["folds"])
            gain = "" if row.get("p") is None else f"{row['gain']:+.4f}"
            p = "" if row.get("p") is None else ("< 0.001" if row["p"] < 0.001 else f"{row['p']:.3f}")
            lines.append(f"| {label} | {cells} | {np.mean(row['folds']):.4f} | {gain} | {p} |")
        readings = {(r["small_is_best"], r["missing"]) for r in result["readings"]}
        words = " and ".join(sorted(f"{'small' if s else 'large'} is best, unranked `{m}`" for s, m in readings))
        lines.append(f"\nReading chosen on the training folds: {words}.")
        there = ", ".join(f"{value:.4f}" for value in result["reversed"])
        theirs = ", ".join(f"{value:.4f}" for value in result["rows"]["official BordaCount"]["folds"])
        lines.append(
            "\nBorda with *large* ranks read as best and unranked documents on the mean of the open positions: "
            f"{there}; official BordaCount: {theirs}."
        )
    template = (ROOT / "papers" / "aggregation.md.in").read_text()
    return with_verdicts(template.replace("@TABLES@", "\n".join(lines) + "\n"), claims(results), results)


def main() -> int:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one fold of MQ2008-agg, into a temporary folder")
    parser.add_argument("--page", action="store_true", help="only the page again, from the stored numbers")
    options = parser.parse_args()
    store = ROOT / "papers" / "results" / "aggregation.json"
    if not (DATA / "MQ2008-agg").exists():
        print(f"No real data found under {DATA} (set LUCE_DATA); the page keeps its last numbers.")
        return 0
    if options.quick:
        out = Path(tempfile.mkdtemp(prefix="luce-paper-"))
        write_page("aggregation", page({"MQ2008-agg": run("MQ2008-agg", limit=1)}), out)
        return 0
    for name in () if options.page else ("MQ2008-agg", "MQ2007-agg"):
        add(store, {name: run(name, known=kept(store).get(name))})
        if f"cuts/{name}" not in kept(store):
            add(store, {f"cuts/{name}": cuts(name)})
    write_page("aggregation", page(kept(store)), ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
