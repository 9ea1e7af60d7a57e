"""The tables of docs/papers/clicks.md, made of the numbers of papers/results/clicks.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.clicks.users import KINDS

__all__ = ["ETAS", "SETS", "SIZES", "page"]

SIZES = (10_000, 100_000, 1_000_000)
ETAS = (0.5, 1.0, 2.0)
SETS = ("MQ2007", "MQ2008", "OHSUMED", "MSLR-sample")
RMSE = {
    "rmse": "error of log examination",
    "rmse, conditional": "by conditional choice",
    "rmse, joint": "by joint choice",
}


class Runs:
    """The runs under one prefix; a mean is that of the means of the folds."""

    def __init__(self, numbers: dict[str, Any], prefix: str) -> None:
        self.folds: dict[str, list[dict[str, float]]] = {}
        for key, value in numbers.items():
            if key.startswith(prefix + "/fold"):
                self.folds.setdefault(key.split("/")[-2], []).append(value)
        self.logs = sum(map(len, self.folds.values()))
        runs = [run for fold in self.folds.values() for run in fold]
        self.names = [name for name in (runs[0] if runs else ()) if all(name in run for run in runs)]
        self.title = f"{len(self.folds)} fold{'s' * (len(self.folds) != 1)}, {self.logs} log{'s' * (self.logs != 1)}"

    def mean(self, name: str) -> float:
        return float(np.mean([np.mean([run[name] for run in fold]) for fold in self.folds.values()]))

    def cell(self, name: str) -> str:
        """The mean; the share of the way from naive to the skyline, with its standard error over logs of a fold."""
        if name not in self.names:
            return ""
        if name in RMSE:
            return f"{self.mean(name):.3f}"
        naive, way = self.mean("naive"), self.mean("skyline") - self.mean("naive")
        if name in ("skyline", "naive") or way <= 0:
            return f"{self.mean(name):.4f}"
        share = (self.mean(name) - naive) / way
        off = [
            [run[name] - run["naive"] - share * (run["skyline"] - run["naive"]) for run in fold]
            for fold in self.folds.values()
        ]
        error = ""
        if all(len(fold) > 1 for fold in off):
            spread = np.sqrt(sum(np.var(fold, ddof=1) / len(fold) for fold in off)) / len(off) / way
            error = f" ± {100 * spread:.0f}"
        return f"{self.mean(name):.4f} ({100 * share:.0f}%{error})"


def learners_by_column(columns: dict[str, Runs]) -> list[str]:
    """A table with a learner a row."""
    columns = {head: runs for head, runs in columns.items() if runs.logs}
    if not columns:
        return []
    heads = [f"{head}, {runs.title}" for head, runs in columns.items()]
    lines = [f"| NDCG@10 | {' | '.join(heads)} |", "|---|" + "---|" * len(columns)]
    names = list(dict.fromkeys(name for runs in columns.values() for name in runs.names if name != "joint"))
    for name in [name for name in names if name not in RMSE] + [name for name in RMSE if name in names]:
        lines.append(f"| {RMSE.get(name, name)} | {' | '.join(runs.cell(name) for runs in columns.values())} |")
    return [*lines, ""]


def learners_by_row(head: str, rows: dict[str, Runs], names: tuple[str, ...]) -> list[str]:
    """A table with a learner a column."""
    rows = {what: runs for what, runs in rows.items() if runs.logs}
    if not rows:
        return []
    lines = [f"| {head} | folds, logs | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for what, runs in rows.items():
        lines.append(f"| {what} | {runs.title} | {' | '.join(runs.cell(name) for name in names)} |")
    return [*lines, ""]


def taken(numbers: dict[str, Any]) -> str:
    """How often the guard took which learner."""
    found = [name.removeprefix("guard: ") for run in numbers.values() for name in run if name.startswith("guard: ")]
    counted = sorted(set(found), key=found.count, reverse=True)
    return f"The guard took: {'; '.join(f'{name} ({found.count(name)} times)' for name in counted)}." if found else ""


def coverage(numbers: dict[str, Any]) -> list[str]:
    """Shares of the intervals that hold the truth, by size of the log."""
    columns = {size: Runs(numbers, f"coverage/{size}") for size in SIZES}
    columns = {size: runs for size, runs in columns.items() if runs.logs}
    if not columns:
        return []
    logs = {size: sum(run["logs"] for fold in runs.folds.values() for run in fold) for size, runs in columns.items()}
    heads = [f"{size:,} sessions, {logs[size]:.0f} logs" for size in columns]
    lines = [f"| metric, estimator, what | {' | '.join(heads)} |", "|---|" + "---|" * len(columns)]
    names = next(iter(columns.values())).names
    for name in [name for name in names if name != "logs"]:
        lines.append(f"| {name} | {' | '.join(f'{runs.mean(name):.3f}' for runs in columns.values())} |")
    return lines


def held(numbers: dict[str, Any]) -> list[str]:
    """What trees and a linear scorer explain of held-out clicks."""
    lines = ["| set, queries | sessions a query | linear | trees | trees less linear |", "|---|---|---|---|---|"]
    for key, value in numbers.items():
        if key.startswith("held/"):
            _, name, queries, per_query = key.split("/")
            nats = f"{value['linear']:.4f} | {value['trees']:.4f} | {value['difference']:+.4f} ± {value['error']:.4f}"
            lines.append(f"| {name}, {queries} | {per_query} | {nats} |")
    return lines if len(lines) > 2 else []


def beside(numbers: dict[str, Any]) -> str:
    """The better of choice with linear scores and with trees beside the best of the others, by their means."""
    found = []
    for name, size in [(name, SIZES[0]) for name in SETS] + [(SETS[0], size) for size in SIZES[1:]]:
        runs = Runs(numbers, f"peers/{name}/{size}")
        others = [one for one in runs.names if one.startswith(("LightGBM, position", "XGBoost, unbiased"))]
        if others:
            ours, theirs = (max(map(runs.mean, names)) for names in (("choice", "choice, trees"), others))
            found.append(f"{name}, {size:,} sessions, {runs.title}: {ours:.3f} against {theirs:.3f}")
    return "; ".join(found)


def page(template: str, numbers: dict[str, Any]) -> str:
    """The template with its tables; what was not computed is left empty."""
    sizes = {f"{size:,} sessions": Runs(numbers, f"sizes/MQ2007/{size}") for size in SIZES}
    small = {name: Runs(numbers, f"peers/{name}/{SIZES[0]}") for name in SETS}
    large = {f"{size:,} sessions": Runs(numbers, f"peers/MQ2007/{size}") for size in SIZES}
    users = {f"{kind}, {eta:g}": Runs(numbers, f"users/{kind}/{eta}") for kind in KINDS for eta in ETAS}
    guard = {f"{name}, {size:,}": Runs(numbers, f"guard/{name}/{size}") for size in SIZES[:2] for name in SETS}
    made = {
        "SIZES": learners_by_column(sizes),
        "PEERS_BY_SIZE": learners_by_column(large),
        "PEERS_BY_SET": learners_by_column(small),
        "USERS": learners_by_row("users, eta", users, ("skyline", "naive", "choice", "choice, last click")),
        "GUARD": learners_by_row("set, sessions", guard, ("skyline", "naive", "choice", "choice, trees", "guard")),
        "TAKEN": [taken(numbers)],
        "COVERAGE": coverage(numbers),
        "HELD": held(numbers),
        "BESIDE": [beside(numbers)],
    }
    for name, lines in made.items():
        template = template.replace(f"@{name}@", "\n".join(lines).strip())
    return template
