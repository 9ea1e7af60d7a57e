"""Rankers of luce beside the figures that LETOR publishes for the same folds, by the rule of LETOR's own tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import luce
from luce.experiments import find_folds

from . import data_folder

__all__ = ["FILES", "jobs", "judged", "note", "published", "table"]

METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map")
Figures = dict[str, dict[str, list[float]]]
"""By part (test, valid) and metric, a value a fold."""

LONG = {"early_stopping": None}
VARIANTS: dict[str, tuple[str, dict[str, tuple[str, dict[str, Any]]]]] = {
    "rankboost": (
        "RankBoost",
        {
            "ended by 50 rounds without a better one": ("rankboost", {}),
            "round by MAP": ("rankboost", {**LONG, "metric": "map"}),
            "all queries alike": ("rankboost", {**LONG, "trainer__weighting": "queries"}),
            "64 thresholds": ("rankboost", {**LONG, "trainer__thresholds": 64}),
        },
    ),
    "adarank-ndcg": (
        "AdaRank-NDCG",
        {
            "round by MAP": ("adarank-ndcg", {"metric": "map"}),
            "trained on NDCG@5": ("adarank-ndcg", {"trainer__metric": "ndcg@5"}),
            "trained on NDCG@10": ("adarank-ndcg", {"trainer__metric": "ndcg@10"}),
            "features in their own direction only": ("adarank-ndcg", {"trainer__both_directions": False}),
        },
    ),
    "adarank-map": ("AdaRank-MAP", {"trained and stopped by MAP": ("adarank-map", {"metric": "map"})}),
    "frank": ("FRank", {}),
    "listnet": ("ListNet", {}),
}
"""By base ranker: the name of its published figures, and other settings than those of the first tables."""
FILES: dict[str, Callable[[str], str]] = {
    "MQ2008": lambda name: f"{name}.MQ2008.txt",
    "OHSUMED-2.0": lambda name: f"ohsumed-2.0/{name.replace('-', '.')}.csv",
}


def published(name: str, algorithm: str) -> Figures:
    """The figures that LETOR publishes, test and validation, fold by fold."""
    return read_figures(data_folder() / "letor-baselines" / FILES[name](algorithm))


def read_figures(path: Path) -> Figures:
    """A file of LETOR's figures, of either version: a heading a part, then tables with a row a fold."""
    found: Figures = {"test": {}, "valid": {}}
    part, names = "", []
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"[,\t]", line)]
        if line.startswith("Performance"):
            part = next((key for key, word in (("test", "test"), ("valid", "valid")) if word in line.lower()), "")
        elif cells[0] in ("Trials", "Folds"):
            names = [cell.lower() for cell in cells[1:]]
        elif part and re.fullmatch(r"(Fold)?[1-5]", cells[0]):
            for metric, value in zip(names, cells[1:], strict=False):
                if metric in METRICS:
                    found[part].setdefault(metric, []).append(float(value))
    return found


def jobs(name: str) -> dict[str, Callable[[], Any]]:
    """The published figures of one set, and the variants of each ranker, by the names under which they are kept."""
    found: dict[str, Callable[[], Any]] = {}
    for base, (algorithm, variants) in VARIANTS.items():
        if (data_folder() / "letor-baselines" / FILES[name](algorithm)).exists():
            found[f"official/{name}/{base}/published"] = partial(published, name, algorithm)
            for label, (system, settings) in variants.items():
                found[f"official/{name}/{base}/{label}"] = partial(judged, name, system, settings)
    return found


def judged(name: str, system: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """One ranker on all folds."""
    figures: dict[str, Any] = {"rounds": []}
    for fold in find_folds(data_folder() / name):
        train, valid, test = fold.load()
        model = luce.model(system, **{"metric": "ndcg@10", "random_state": 0, **settings}).fit(train, valid=valid)
        parts = {"test": (model.predict(test), test), "valid": (model.predict(valid), valid)}
        note(figures, parts, model.history_["best_iteration"])
    return figures


def note(figures: dict[str, Any], parts: Mapping[str, tuple[np.ndarray, luce.Groups]], rounds: int) -> None:
    """Add a fold by the rule of LETOR 4.0, and the rounds that validation kept."""
    figures["rounds"].append(rounds)
    for part, (scores, data) in parts.items():
        for metric, value in luce.evaluate(scores, data, list(METRICS), preset="letor4").means.items():
            figures.setdefault(part, {}).setdefault(metric, []).append(value)


def table(numbers: Mapping[str, Any], name: str, labels: Mapping[str, tuple[str, Any]]) -> str:
    """All rows of one set; how far each is from the published one in NDCG@5 and MAP, with its error over folds."""
    heads = " | ".join(metric.upper().replace("NDCG", "") for metric in METRICS)
    lines = [f"| | {heads} | validation @5 | MAP | from the published @5 | MAP | rounds kept |", "|---" * 11 + "|"]
    for base in dict.fromkeys([*VARIANTS, *labels]):
        algorithm, variants = VARIANTS.get(base, ("", {}))
        theirs = numbers.get(f"official/{name}/{base}/published")
        if theirs:
            lines.append(f"| **{algorithm}, published** | {_cells(theirs)} | | | |")
        rows = {label: numbers.get(f"official/{name}/{base}/{label}") for label in variants}
        if f"rerank/{name}/{base}" in numbers:
            rows = {f"{labels[base][0]}, as above": numbers[f"rerank/{name}/{base}"]["figures"], **rows}
        for label, ours in rows.items():
            if ours:
                kept = ", ".join(map(str, ours["rounds"])) if max(ours["rounds"]) > 1 else ""
                lines.append(f"| {label} | {_cells(ours)} | {_apart(ours, theirs)} | {kept} |")
    return "\n".join(lines)


def _cells(found: Figures) -> str:
    values = [*(np.mean(found["test"][m]) for m in METRICS), *(np.mean(found["valid"][m]) for m in ("ndcg@5", "map"))]
    return " | ".join(f"{value:.4f}".lstrip("0") for value in values)


def _apart(ours: Figures, theirs: Figures | None) -> str:
    if theirs is None:
        return " | "
    apart = [np.subtract(ours["test"][m], theirs["test"][m]) for m in ("ndcg@5", "map") if len(ours["rounds"]) == 5]
    return " | ".join(f"{d.mean():+.4f} ± {d.std(ddof=1) / np.sqrt(len(d)):.4f}" for d in apart) or " | "
