"""`python benchmarks/quality/page.py`: what the bench of quality has found up to now, as a page of the docs."""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from methods import METHODS
from run import METRICS, OFFICIAL, RESULTS
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

Made by `make quality` (`benchmarks/quality`). Every method gets the same training queries of a cross-validation by
query. Trees have 15 leaves (or depth 4), a step of 0.05 and at most 500 rounds; what stops early holds out the same
fifth of the training queries and stops after 60 rounds without a better NDCG@10; penalties of linear systems are
chosen there. [`auto`](auto.md) is as it comes, with the budget "fast". No setting was chosen by these figures.

`auto` learns from the queries that its peers hold out to stop by. So two of them are also refitted on all training
queries with the rounds that were best before, and so are the members of a plain mean of four peers (LightGBM's
regression, lambdarank and xendcg, XGBoost's pairwise): that row is the fair one to compare with. `auto` takes [more
time](auto.md#time); its figures are of an earlier version, slower and of about the same worth on held-out queries.
Of CatBoost there is no refit.

A figure is the mean over queries, and over [draws](#what-was-run) of the folds where there are several. A star marks
what is below `auto`, a dagger what is above it, with p < .05 by a randomisation test over queries after Holm's
correction over the methods of the set."""
Cells = dict[tuple[str, str], Any]


def main() -> None:
    values, runs = _read()
    PAGE.write_text("\n".join(_page(values, runs)) + "\n")
    print(f"Wrote {PAGE}.")


def _read() -> tuple[dict[str, Cells], dict[str, list[tuple[int, int]]]]:
    """By metric, the values of every query for a set and a method; and folds and draws that all methods were run on.

    Values are means over these draws, so that no method has an easier one.
    """
    found: dict[tuple[str, int, int], dict[str, dict[str, list[float]]]] = defaultdict(dict)
    for path in sorted(RESULTS.glob("*.*.*.*.json")):
        record = json.loads(path.read_text())
        found[record["set"], record["folds"], record["repeat"]][record["method"]] = record["values"]
    methods = {method for seen in found.values() for method in seen if "refitted" not in method}
    runs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    rows: dict[str, dict[tuple[str, str], list[Any]]] = {metric: defaultdict(list) for metric in METRICS}
    for (name, folds, repeat), seen in sorted(found.items()):
        refits = any("refitted" in method for (own, *_), draw in found.items() if own == name for method in draw)
        if not methods <= set(seen) or (refits and len(seen) == len(methods)):
            continue
        runs[name].append((folds, repeat + 1))
        for method, values in seen.items():
            for metric in METRICS:
                rows[metric][name, method].append(np.array(values[metric], dtype=float))
    means = {metric: {key: np.mean(own, axis=0) for key, own in cells.items()} for metric, cells in rows.items()}
    return means, runs


def _page(values: dict[str, Cells], runs: dict[str, list[tuple[int, int]]]) -> list[str]:
    lines = [*INTRODUCTION.splitlines(), "", "## In short", "", *_lines(values, list(runs))]
    lines += ["", "## NDCG@10", "", *_table(values["ndcg@10"])]
    lines += ["", "## All sets alike", "", *_alike(values["ndcg@10"])]
    lines += ["", "## MQ2008 by the official rule", "", *_official()]
    lines += ["", "## Does the estimate hold?", "", *_coverage()]
    said = []
    for name in SETS:
        if name in runs:
            draws = "" if len(runs[name]) == 1 else f", {len(runs[name])} draws"
            said.append(f"{name} ({len(values['ndcg@10'][name, 'auto']):,}{draws})")
    folds = " or ".join(sorted({str(count) for own in runs.values() for count, _ in own}))
    said[0] = f"Queries of every set, in {folds} folds: {said[0]}"
    lines += ["", "## What was run", "", *textwrap.wrap("; ".join(said) + ".", 120)]
    left = [name for name in SETS if name not in runs]
    if left:
        lines += ["", f"Not run with all methods up to now: {', '.join(left)}."]
    return lines


def _places(cells: Cells, sets: list[str]) -> dict[str, Any]:
    """The place of every method on every set, 1 the best; those that are level share the better place."""
    methods = [method for method in METHODS if all((name, method) in cells for name in sets)]
    means = np.array([[np.nanmean(cells[name, method]) for name in sets] for method in methods])
    places = (means[None, :, :] > means[:, None, :]).sum(axis=1) + 1.0
    return dict(zip(methods, places, strict=True))


def _lines(values: dict[str, Cells], sets: list[str]) -> list[str]:
    texts = [_short(metric, values[metric], sets) for metric in METRICS]
    return [line for text in texts for line in textwrap.wrap(text, 120, subsequent_indent="  ")]


def _short(metric: str, cells: Cells, sets: list[str]) -> str:
    """Where auto stands, in a line of a list."""
    places = _places(cells, sets)
    mean = {method: own.mean() for method, own in places.items()}
    second = min((method for method in mean if method != "auto"), key=mean.__getitem__)
    marks = [mark for name in sets for mark in _marks(name, cells).values()]
    count = sum(method != "auto" for _, method in cells)
    return (
        f"- **{metric}:** mean rank {mean['auto']:.1f} of {len(places)} over {len(sets)} sets, first on "
        f"{int(np.sum(places['auto'] == 1))} of them; next is {second} with {mean[second]:.1f}. Of {count} comparisons "
        f"with other methods, {sum('*' in mark for mark in marks)} are significantly for `auto` and "
        f"{sum('†' in mark for mark in marks)} against it."
    )


def _coverage() -> list[str]:
    """What auto expected of itself on halves of the queries, and what it was worth on the others."""
    lines = [
        "`auto` with two members (`coverage.py`), fitted on a random half of the queries, expects an NDCG@10 and has",
        "another on the other half. That holds where the two differ by less than 1.96 standard errors. The last three",
        "columns are the mean distance between its chances (that one document is better than another, that they are",
        "tied, that one is among the first five) and how often it was so. Every set had twelve halves; on MQ2008 8 of",
        "them held, so that it was run on to forty, and all of these count.",
        "",
        "| set | expected | expected less worth | holds | better | tie | top 5 |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted(RESULTS.glob("coverage.*.json")):
        rows = json.loads(path.read_text())
        expected, worth, low, high, error = (
            np.array([row[key] for row in rows]) for key in ("value", "worth", "low", "high", "error")
        )
        both = np.hypot((high - low) / (2 * 1.96), error)
        holds = int(np.sum(np.abs(expected - worth) <= 1.96 * both))
        numbers = f"{expected.mean():.4f} | {(expected - worth).mean():+.4f}"
        off = " | ".join(f"{np.mean([row['chances'][what] for row in rows]):.3f}" for what in rows[0]["chances"])
        lines.append(f"| {rows[0]['set']} | {numbers} | {holds} of {len(rows)} | {off} |")
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


def _alike(cells: Cells) -> list[str]:
    """What auto has more in the mean over sets, each set counted once, and the ranks of a race with ties a set."""
    sets = [name for name in SETS if (name, "auto") in cells]
    ranks = _ranks(cells, sets)
    lines = [
        "By how much `auto` is above a method in NDCG@10, each set counted once however many queries it has, with the",
        "standard error over the sets on which that method was run. Ranks are those of `luce.aggregate.score_board`,",
        f"every set a race, with 95% sets that hold for all methods at once; `auto` has {ranks.get('auto', 'none')}.",
        "",
        "| method | sets | `auto` above by | standard error | rank |",
        "|---|---|---|---|---|",
    ]
    for method in METHODS:
        own = [name for name in sets if (name, method) in cells and method != "auto"]
        if len(own) < 2:
            continue
        theirs, ours = (np.array([np.nanmean(cells[name, who]) for name in own]) for who in (method, "auto"))
        more = ours - theirs
        error = more.std(ddof=1) / np.sqrt(len(own))
        lines.append(f"| {method} | {len(own)} | {more.mean():+.4f} | {error:.4f} | {ranks.get(method, '')} |")
    return lines


def _ranks(cells: Cells, sets: list[str]) -> dict[str, str]:
    """The rank, and its range, of every method that was run on all sets."""
    if len(sets) < 2:
        return {}
    methods = list(_places(cells, sets))
    columns: dict[str, list[object]] = {"method": [*methods]}
    for name in sets:
        columns[name] = [float(np.nanmean(cells[name, method])) for method in methods]
    board = score_board(columns, random_state=0)
    rows = zip(board.names, board.rank, board.rank_lower, board.rank_upper, strict=True)
    return {name: f"{rank} ({lower} to {upper})" for name, rank, lower, upper in rows}


def _official() -> list[str]:
    path = RESULTS / "official.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    own = {
        way: [np.mean([row[metric] for row in rows]) for metric in OFFICIAL]
        for way, rows in found.items()
        if len(rows) == 5
    }
    if not own:
        return ["Not run to its end up to now."]
    lines = [
        "Five given folds, mean of folds; `auto` learns from training and validation queries together. All ways that",
        "were run are shown: as it comes, with three draws of the folds, and with the metric that it is judged by.",
        "",
        "| model | MAP | MeanNDCG |",
        "|---|---|---|",
    ]
    for name, pair in {**own, **BASELINES}.items():
        lines.append(f"| {name} | " + " | ".join(f"{value:.4f}".lstrip("0") for value in pair) + " |")
    lines += ["", _passed(own)]
    return lines


def _passed(own: dict[str, list[Any]]) -> str:
    """By how many ways the best baseline of each metric is passed."""
    best = np.max(list(BASELINES.values()), axis=0)
    counts = [sum(pair[i] > best[i] for pair in own.values()) for i in range(len(best))]
    said = (f"in {name} by {count} of {len(own)}" for name, count in zip(("MAP", "MeanNDCG"), counts, strict=True))
    return f"The best baseline is passed {' and '.join(said)} ways."


if __name__ == "__main__":
    main()
