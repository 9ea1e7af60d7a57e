"""`python benchmarks/quality/page.py`: what the bench of quality has found up to now, as a page of the docs."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from methods import METHODS
from run import METRICS, RESULTS
from sets import SETS

from luce.aggregate import score_board
from luce.metrics.significance import holm, randomisation_test

PAGE = Path(__file__).resolve().parents[2] / "docs" / "quality.md"
BASELINES = {
    "AdaRank-NDCG": (0.4824, 0.4950),
    "AdaRank-MAP": (0.4764, 0.4915),
    "RankBoost": (0.4775, 0.4850),
    "RankSVM-Struct": (0.4696, 0.4832),
}
"""The best official baselines of MQ2008: MAP and MeanNDCG."""
INTRODUCTION = """# How good is auto?

Made by `make quality` (`benchmarks/quality`), which goes on where it was ended. Every method gets the same training
queries of a cross-validation by query. Trees have 15 leaves (or depth 4), a step of 0.05 and at most 500 rounds; what
stops early holds out the same fifth of the training queries and stops after 60 rounds without a better NDCG@10;
penalties of linear systems are chosen there. [`auto`](models/auto.md) is as it comes, with the budget "fast". No
setting was chosen by these figures. The peers have the same trees and patience, not the same time: `auto` fits some
thirty times as many models, and takes so much longer than one of them.

A figure is the mean over queries. A star marks what is below `auto`, a dagger what is above it, with p < .05 by a
randomisation test over queries after Holm's correction over the methods of the set."""
Cells = dict[tuple[str, str], Any]


def main() -> None:
    values, runs = _read()
    PAGE.write_text("\n".join(_page(values, runs)) + "\n")
    print(f"Wrote {PAGE}.")


def _read() -> tuple[dict[str, Cells], dict[str, list[str]]]:
    """By metric, the values of every query for a set and a method, the mean over repeats; and what was run."""
    found: dict[str, dict[tuple[str, str], list[list[float]]]] = {metric: defaultdict(list) for metric in METRICS}
    runs: dict[str, set[str]] = defaultdict(set)
    for path in sorted(RESULTS.glob("*.*.*.*.json")):
        record = json.loads(path.read_text())
        runs[record["set"]].add(f"{record['folds']} folds, draw {record['repeat'] + 1}")
        for metric in METRICS:
            column = [np.nan if value is None else value for value in record["values"][metric]]
            found[metric][record["set"], record["method"]].append(column)
    means = {metric: {key: np.mean(rows, axis=0) for key, rows in cells.items()} for metric, cells in found.items()}
    return means, {name: sorted(seen) for name, seen in runs.items()}


def _page(values: dict[str, Cells], runs: dict[str, list[str]]) -> list[str]:
    lines = INTRODUCTION.splitlines()
    for metric in METRICS:
        lines += ["", f"## {metric}", "", *_table(values[metric])]
    lines += ["", "## Ranks over sets", "", *_board(values["ndcg@10"])]
    lines += ["", "## MQ2008 by the official rule", "", *_official()]
    lines += ["", "## Does the estimate hold?", "", *_coverage()]
    lines += ["", "## What was run", "", "| set | queries | run |", "|---|---|---|"]
    whole = [name for name in SETS if (name, "auto") in values["ndcg@10"]]
    for name in SETS:
        if name in whole:
            queries = len(next(column for (s, _), column in values["ndcg@10"].items() if s == name))
            lines.append(f"| {name} | {queries:,} | {'; '.join(runs[name])} |")
    begun = {name: sum(s == name for s, _ in values["ndcg@10"]) for name in SETS if name in runs and name not in whole}
    if begun:
        said = ", ".join(f"{name} ({count} of {len(METHODS)} methods, not auto)" for name, count in begun.items())
        lines += ["", f"Begun: {said}."]
    left = [name for name in SETS if name not in runs]
    if left:
        lines += ["", f"Not run up to now: {', '.join(left)}."]
    return lines


def _coverage() -> list[str]:
    """What auto expected of itself on halves of the queries, and what it was worth on the others."""
    lines = [
        "`auto` with two members (`coverage.py`) is fitted on a random half of the queries. It expects an NDCG@10,",
        "with an interval over queries, and has another on the other half. The expectation holds where the two differ",
        "by less than 1.96 standard errors of their difference.",
        "",
        "| set | halves | expected | worth | expected less worth | holds |",
        "|---|---|---|---|---|---|",
    ]
    for path in sorted(RESULTS.glob("coverage.*.json")):
        rows = json.loads(path.read_text())
        expected, worth, low, high, error = (
            np.array([row[key] for row in rows]) for key in ("value", "worth", "low", "high", "error")
        )
        both = np.hypot((high - low) / (2 * 1.96), error)
        holds = int(np.sum(np.abs(expected - worth) <= 1.96 * both))
        numbers = f"{expected.mean():.4f} | {worth.mean():.4f} | {(expected - worth).mean():+.4f}"
        lines.append(f"| {rows[0]['set']} | {len(rows)} | {numbers} | {holds} of {len(rows)} |")
    return lines


def _table(cells: Cells) -> list[str]:
    sets = [name for name in SETS if (name, "auto") in cells]
    lines = ["| method | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
    marks = {name: _marks(name, cells) for name in sets}
    for method in METHODS:
        shown = []
        for name in sets:
            column = cells.get((name, method))
            best = max((np.nanmean(c) for (s, _), c in cells.items() if s == name), default=np.nan)
            text = "" if column is None else f"{np.nanmean(column):.4f}".lstrip("0")
            bold = column is not None and np.nanmean(column) >= best - 5e-5
            shown.append((f"**{text}**" if bold else text) + marks[name].get(method, ""))
        if any(shown):
            lines.append(f"| {method} | " + " | ".join(shown) + " |")
    return lines


def _marks(name: str, cells: Cells) -> dict[str, str]:
    own = cells[name, "auto"]
    p_values, below = {}, {}
    for method in METHODS:
        other = cells.get((name, method))
        if other is None or method == "auto":
            continue
        counted = ~np.isnan(own) & ~np.isnan(other)
        difference = (other - own)[counted]
        p_values[method] = randomisation_test(other[counted], own[counted], rng=0).p_value
        below[method] = difference.mean() < 0
    corrected = holm(p_values) if p_values else {}
    return {m: (" *" if below[m] else " †") for m, p in corrected.items() if p < 0.05}


def _board(cells: Cells) -> list[str]:
    """Methods ranked over the sets on which all of them were run, by a race with ties a set."""
    methods = [m for m in METHODS if any(method == m for _, method in cells)]
    sets = [name for name in SETS if all((name, method) in cells for method in methods)]
    if len(sets) < 2:
        return ["Fewer than two sets have been run with all methods up to now."]
    columns: dict[str, list[object]] = {"method": list(methods)}
    for name in sets:
        columns[name] = [float(np.nanmean(cells[name, method])) for method in methods]
    board = score_board(columns, random_state=0)
    places = np.array([[sum(o > v for o in columns[name]) + 1 for v in columns[name]] for name in sets], dtype=float)
    mean = dict(zip(methods, places.mean(axis=0), strict=True))
    lines = [
        f"Our own score board (`luce.aggregate.score_board`) over {len(sets)} sets by NDCG@10, every set a race: ranks",
        "with 95% sets that hold for all methods at once.",
        "",
        "| method | strength | rank | from | to | mean rank |",
        "|---|---|---|---|---|---|",
    ]
    for i, name in enumerate(board.names):
        numbers = f"{board.rank[i]} | {board.rank_lower[i]} | {board.rank_upper[i]} | {mean[name]:.1f}"
        lines.append(f"| {name} | {board.strength[i]:+.2f} | {numbers} |")
    return lines


def _official() -> list[str]:
    path = RESULTS / "official.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    if len(rows) < 5:
        return ["Not run to its end up to now."]
    lines = ["Five given folds, mean of folds; `auto` learns from training and validation queries together.", ""]
    lines += ["| model | MAP | MeanNDCG |", "|---|---|---|"]
    own = [np.mean([row[metric] for row in rows]) for metric in ("map", "mean_ndcg")]
    for name, pair in {"auto": own, **BASELINES}.items():
        lines.append(f"| {name} | " + " | ".join(f"{value:.4f}".lstrip("0") for value in pair) + " |")
    return lines


if __name__ == "__main__":
    main()
