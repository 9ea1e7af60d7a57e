"""The tables of docs/papers/clicks.md, made of the numbers of papers/results/clicks.json."""

from __future__ import annotations

import re
from functools import partial
from textwrap import fill
from typing import Any

import numpy as np

from luce.clicks.simulation import KINDS

__all__ = ["ETAS", "RIVAL", "SETS", "SIZES", "page"]

SIZES = (10_000, 100_000, 1_000_000)
ETAS = (0.5, 1.0, 2.0)
RIVAL = "LightGBM, position, 8 leaves"
SETS = ("MQ2007", "MQ2008", "OHSUMED", "MSLR-sample")
RMSE = {
    "rmse": "error of log examination",
    "rmse, conditional": "by conditional choice",
    "rmse, joint": "by joint choice",
    "rmse, trust": "with trust",
}


USERS = ("skyline", "naive", "choice", "choice, last click", "choice, trust", "rmse", "rmse, trust")
TAKEN = "auto: "
"""What `auto` took, a 1 a run."""


class Runs:
    """The runs under one prefix; a mean is that of the means of the folds."""

    def __init__(self, numbers: dict[str, Any], prefix: str, beside: str | None = None) -> None:
        """`beside` is the prefix of what others got from the same logs; logs that they did not get are left out."""
        self.folds: dict[str, list[dict[str, float]]] = {}
        for key, value in numbers.items():
            if key.startswith(prefix + "/fold"):
                fold, seed = key.split("/")[-2:]
                if beside is not None:
                    start = f"{beside}/{fold}/{seed}/"
                    found = [other for name, other in numbers.items() if name.startswith(start)]
                    if not found:
                        continue
                    value = {name: number for part in (value, *found) for name, number in part.items()}
                self.folds.setdefault(fold, []).append(value)
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
        share, error = self.share(name)
        return f"{self.mean(name):.4f}" + (f" ({share}{error})" if share else "")

    def share(self, name: str) -> tuple[str, str]:
        """The share of the way, and its standard error; empty where there is none."""
        naive, way = self.mean("naive"), self.mean("skyline") - self.mean("naive")
        if name in ("skyline", "naive") or way <= 0:
            return "", ""
        share = (self.mean(name) - naive) / way
        off = [
            [run[name] - run["naive"] - share * (run["skyline"] - run["naive"]) for run in fold]
            for fold in self.folds.values()
        ]
        error = ""
        if all(len(fold) > 1 for fold in off):
            spread = np.sqrt(sum(np.var(fold, ddof=1) / len(fold) for fold in off)) / len(off) / way
            error = f" ± {100 * spread:.1f}"
        return f"{100 * share:.0f}%", error


def learners_by_column(columns: dict[str, Runs]) -> list[str]:
    """A table with a learner a row."""
    columns = {head: runs for head, runs in columns.items() if runs.logs}
    if not columns:
        return []
    heads = [f"{head}, {runs.title}" for head, runs in columns.items()]
    lines = [f"| NDCG@10 | {' | '.join(heads)} |", "|---|" + "---|" * len(columns)]
    names = list(dict.fromkeys(name for runs in columns.values() for name in runs.names if not name.startswith(TAKEN)))
    for name in [name for name in names if name not in RMSE] + [name for name in RMSE if name in names]:
        lines.append(f"| {RMSE.get(name, name)} | {' | '.join(runs.cell(name) for runs in columns.values())} |")
    return [*lines, ""]


def learners_by_row(head: str, rows: dict[str, Runs], names: tuple[str, ...]) -> list[str]:
    """A table with a learner a column."""
    rows = {what: runs for what, runs in rows.items() if runs.logs}
    if not rows:
        return []
    heads = [RMSE.get(name, name) for name in names]
    lines = [f"| {head} | folds, logs | {' | '.join(heads)} |", "|---|---|" + "---|" * len(names)]
    for what, runs in rows.items():
        lines.append(f"| {what} | {runs.title} | {' | '.join(runs.cell(name) for name in names)} |")
    return [*lines, ""]


def taken(numbers: dict[str, Any], prefix: str) -> str:
    """How often the guard took which learner."""
    runs = [run for key, run in numbers.items() if key.startswith(prefix)]
    found = [name.removeprefix(TAKEN) for run in runs for name in run if name.startswith(TAKEN)]
    counted = sorted(set(found), key=lambda name: (-found.count(name), name))
    many = "; ".join(f"{found.count(name)} of {len(found)} times {name}" for name in counted)
    return f"It took {many}." if found else ""


def coverage(numbers: dict[str, Any], curve: str) -> list[str]:
    """Shares of the intervals that hold the truth, by size of the log."""
    columns = {size: Runs(numbers, f"coverage/{curve}/{size}") for size in SIZES}
    columns = {size: runs for size, runs in columns.items() if runs.logs}
    if not columns:
        return []
    logs = {size: sum(run["logs"] for fold in runs.folds.values() for run in fold) for size, runs in columns.items()}
    heads = [f"{size:,} sessions, {logs[size]:.0f} logs" for size in columns]
    lines = [f"| metric, estimator, what | {' | '.join(heads)} |", "|---|" + "---|" * len(columns)]
    names = next(iter(columns.values())).names
    for name in [name for name in names if name != "logs"]:
        lines.append(
            f"| {RMSE.get(name, name)} | {' | '.join(f'{runs.mean(name):.3f}' for runs in columns.values())} |"
        )
    return lines


def covered(numbers: dict[str, Any]) -> str:
    """The least and the greatest coverage of an evaluation, by size of the log and kind of attention."""
    found = []
    for size in SIZES:
        shares = [
            runs.mean(name)
            for curve in ("1k", "steps")
            for runs in [Runs(numbers, f"coverage/{curve}/{size}")]
            for name in runs.names
            if "@" in name
        ]
        if shares:
            found.append(f"{min(shares):.2f} to {max(shares):.2f} with {size:,} sessions")
    return "; ".join(found)


def held(numbers: dict[str, Any]) -> list[str]:
    """What trees and a linear scorer explain of held-out clicks, and how often each does harm."""
    lines = ["| set, queries | sessions a query | linear | trees | trees less linear |", "|---|---|---|---|---|"]
    rows = {tuple(key.split("/")[1:]): value for key, value in numbers.items() if key.startswith("held/")}
    if not rows:
        return []
    for (name, queries, per_query), value in rows.items():
        nats = f"{value['linear']:.4f} | {value['trees']:.4f} | {value['difference']:+.4f} ± {value['error']:.4f}"
        lines.append(f"| {name}, {queries} | {per_query} | {nats} |")
    of_linear = [(int(key[1]) >= 250, row["linear"] < 0) for key, row in rows.items()]
    of_trees = [(int(key[1]) >= 500, row["difference"] < 0) for key, row in rows.items()]
    return [
        *lines,
        "",
        f"The linear scorer is below 0 in {_of(of_linear, True)} rows with 250 queries or more, and in",
        f"{_of(of_linear, False)} with fewer. Trees are below the linear scorer in {_of(of_trees, False)} rows with",
        f"fewer than 500 queries, and in {_of(of_trees, True)} with 500 or more.",
    ]


def _of(found: list[tuple[bool, bool]], many: bool) -> str:
    """How many of those with many (or few) queries are so."""
    chosen = [low for over, low in found if over is many]
    return f"{sum(chosen)} of {len(chosen)}"


def of_peers(numbers: dict[str, Any], name: str, size: int) -> Runs:
    return Runs(numbers, f"peers/{name}/{size}", f"others/{name}/{size}")


def beside(numbers: dict[str, Any]) -> list[str]:
    """What `auto` chose, and the better of linear scores and trees, beside the best of the others, by their means."""
    lines = ["| set, sessions | logs | auto | better of linear and trees | best of LightGBM | best of XGBoost |"]
    lines.append("|---|---|---|---|---|---|")
    for name, size in [(name, SIZES[0]) for name in SETS] + [(SETS[0], size) for size in SIZES[1:]]:
        runs = of_peers(numbers, name, size)
        if runs.logs:
            best = [f"{max(map(runs.mean, kind)):.4f}" for kind in (("auto",), ("choice", "choice, trees"))]
            best += [_best_of(runs, kind) for kind in ("LightGBM", "XGBoost")]
            lines.append(f"| {name}, {size:,} | {runs.title} | {' | '.join(best)} |")
    return lines if len(lines) > 2 else []


def _best_of(runs: Runs, kind: str) -> str:
    """The best of one library; where it did not run on all folds, beside what `auto` has on the same ones."""
    names = [name for name in runs.names if name.startswith(kind)]
    if names:
        return f"{max(map(runs.mean, names)):.4f}"
    some = [run for fold in runs.folds.values() for run in fold if any(name.startswith(kind) for name in run)]
    if not some:
        return ""
    theirs = max(
        np.mean([run[name] for run in some])
        for name in some[0]
        if name.startswith(kind) and all(name in r for r in some)
    )
    return f"{theirs:.4f} ({len(some)} logs, on which auto has {np.mean([run['auto'] for run in some]):.4f})"


def contest(numbers: dict[str, Any]) -> list[str]:
    """`auto` beside LightGBM with small trees on fresh logs; the error is that of the folds."""
    lines = [f"| MQ2007, sessions | logs | auto | {RIVAL} | difference |", "|---|---|---|---|---|"]
    for size in SIZES:
        runs = Runs(numbers, f"contest/MQ2007/{size}")
        if runs.logs:
            gaps = [np.mean([run["auto"] - run[RIVAL] for run in fold]) for fold in runs.folds.values()]
            error = f" ± {np.std(gaps, ddof=1) / np.sqrt(len(gaps)):.4f}" if len(gaps) > 1 else ""
            values = f"{runs.mean('auto'):.4f} | {runs.mean(RIVAL):.4f} | {np.mean(gaps):+.4f}{error}"
            lines.append(f"| {size:,} | {runs.title} | {values} |")
    return lines if len(lines) > 2 else []


def below_naive(numbers: dict[str, Any]) -> list[str]:
    """How far learners are above naive: in the mean over folds, in the worst fold, in the worst log."""
    lines = ["| set, sessions | learner | mean over folds | worst fold | worst log | logs more than .005 below |"]
    lines.append("|---|---|---|---|---|---|")
    parts = {f"MQ2007, {size:,}": Runs(numbers, f"sizes/MQ2007/{size}") for size in SIZES}
    parts |= {f"{name}, {size:,}": Runs(numbers, f"guard/{name}/{size}") for size in SIZES[:2] for name in SETS[1:]}
    for what, runs in parts.items():
        for name in [one for one in ("auto", "choice", "choice, trees") if one in runs.names]:
            gaps = [[run[name] - run["naive"] for run in fold] for fold in runs.folds.values()]
            each = [gap for fold in gaps for gap in fold]
            worst = f"{min(map(np.mean, gaps)):+.3f} | {min(each):+.3f}"
            low = sum(gap < -0.005 for gap in each)
            lines.append(
                f"| {what} | {name} | {np.mean(list(map(np.mean, gaps))):+.3f} | {worst} | {low} of {len(each)} |"
            )
    return lines if len(lines) > 2 else []


def in_words(numbers: dict[str, Any], match: re.Match[str]) -> str:
    """A number of a sentence: `@mean:prefix:name@`, or `share`, or `noise`, the standard error of that share."""
    what, prefix, name = match.groups()
    runs = Runs(numbers, prefix, prefix.replace("peers/", "others/") if prefix.startswith("peers/") else None)
    if name not in runs.names:
        return "?"
    if what == "mean":
        return f"{runs.mean(name):.3f}".lstrip("0")
    return runs.share(name)[0 if what == "share" else 1].removeprefix(" ± ")


def page(template: str, numbers: dict[str, Any]) -> str:
    """The template with its tables; what was not computed is left empty."""
    sizes = {f"{size:,} sessions": Runs(numbers, f"sizes/MQ2007/{size}") for size in SIZES}
    small = {name: of_peers(numbers, name, SIZES[0]) for name in SETS}
    large = {f"{size:,} sessions": of_peers(numbers, "MQ2007", size) for size in SIZES}
    users = {f"{kind}, {eta:g}": Runs(numbers, f"users/{kind}/{eta}") for kind in KINDS for eta in ETAS}
    guard = {f"{name}, {size:,}": Runs(numbers, f"guard/{name}/{size}") for size in SIZES[:2] for name in SETS}
    made = {
        "SIZES": learners_by_column(sizes),
        "TAKEN_SIZES": [taken(numbers, "sizes/")],
        "PEERS_BY_SIZE": learners_by_column(large),
        "PEERS_BY_SET": learners_by_column(small),
        "USERS": learners_by_row("users, eta", users, USERS),
        "GUARD": learners_by_row("set, sessions", guard, ("skyline", "naive", "choice", "choice, trees", "auto")),
        "TAKEN_GUARD": [taken(numbers, "guard/")],
        "CONTEST": contest(numbers),
        "BELOW": below_naive(numbers),
        "COVERAGE": coverage(numbers, "1k"),
        "COVERAGE_STEPS": coverage(numbers, "steps"),
        "COVERED": [covered(numbers)],
        "HELD": held(numbers),
        "BESIDE": beside(numbers),
    }
    for name, lines in made.items():
        template = template.replace(f"@{name}@", "\n".join(lines).strip())
    made = re.sub(r"@(mean|share|noise):([^:@]+):([^@]+)@", lambda found: in_words(numbers, found), template)
    wrapped = partial(fill, width=120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    return re.sub(r"^- .*(?:\n  .*)*", lambda item: wrapped(" ".join(item[0].split())), made, flags=re.MULTILINE)
