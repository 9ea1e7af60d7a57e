"""Learning from clicks: naive, luce, LightGBM and XGBoost on judged sets with simulated users.

    python papers/clicks.py [--quick] [--page] [--only PART ...] [--folds N]

Numbers go to papers/results/clicks.json with their settings and seed; the section of docs/clicks.md between its two
marks is made from them. `--quick` makes a small run into a temporary folder; `--page` only writes the section. The sets
are read from LUCE_DATA, else ../shared/data beside the project.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, add, data_folder, kept

import luce
from luce.clicks import ClickCounts, Clicks, examination, guarded, pairs, read
from luce.clicks.log_files import as_columns
from luce.clicks.simulation import (
    Production,
    SessionRows,
    production,
    simulate_counts,
    simulate_sessions,
    weak_rankers,
)
from luce.clicks.users import KINDS, Users

SEED = 0
SWAP, SHOWN, WEAK = 0.1, 10, 0.01
TREES, L2 = 50, 0.01
SIZES = (10_000, 100_000, 1_000_000)
ETAS = (0.5, 1.0, 2.0)
SETS = ("MQ2007", "MQ2008", "OHSUMED", "MSLR-sample")
MARKS = ("<!-- study: made by papers/clicks.py -->", "<!-- end of the study -->")


# Data


def joined(parts: list[luce.Groups]) -> luce.Groups:
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "qid")}
    ids = np.concatenate([[f"{i}" for i in range(part.n_rows)] for part in parts])
    return luce.from_arrays(columns["X"], columns["y"], qid=columns["qid"], document_ids=ids)


def folds(name: str, folder: Path, most: int) -> list[tuple[luce.Groups, luce.Groups]]:
    """Training and test data of the folds; validation data are not used, nothing is chosen on them."""
    if name == "MQ2007":
        parts = [luce.read(folder / f"S{i + 1}.txt.gz") for i in range(5)]
        return [(joined([parts[(k + j) % 5] for j in range(3)]), joined([parts[(k + 4) % 5]])) for k in range(most)]
    if name == "MSLR-sample":
        whole = joined([luce.read(folder / "all.txt.gz")])
        part = np.arange(whole.n_queries) % 5
        return [(whole.take(part != k), whole.take(part == k)) for k in range(most)]
    found = []
    for k in range(most):
        train, test = (luce.read(folder / f"Fold{k + 1}" / f"{part}.txt.gz") for part in ("train", "test"))
        found.append((joined([train]), joined([test])))
    return found


def ndcg(model: Any, test: luce.Groups) -> float:
    """NDCG@10 over the queries that have a relevant document."""
    scores = model if isinstance(model, np.ndarray) else model.predict(test)
    values = luce.evaluate(scores, test, ["ndcg@10"]).values["ndcg@10"]
    relevant = np.maximum.reduceat(test.y, test.offsets[:-1]) > 0
    return float(values[relevant].mean())


# Learners


def shown_often(counts: ClickCounts, data: luce.Groups) -> Clicks:
    """Click rates: exposure is how often a document was shown, wherever."""
    rows = counts.rows_in(data)
    clicks, shown = np.zeros(data.n_rows), np.zeros(data.n_rows)
    clicks[rows] = np.bincount(counts.document, counts.clicked)
    shown[rows] = np.bincount(counts.document, counts.shown)
    return Clicks(clicks, shown)


def choice(data: luce.Groups, clicks: Clicks, scorer: str = "linear", base: Any = None) -> luce.Ranker:
    blank = replace(data, y=np.zeros(data.n_rows))
    settings: dict[str, Any] = {"max_iter": TREES} if scorer == "trees" else {"l2": L2}
    ranker = luce.Ranker(loss="click_choice", scorer=scorer, base=base, random_state=SEED, **settings)
    return ranker.fit(blank, clicks=clicks)


def paired(data: luce.Groups, log: SessionRows, counts: ClickCounts, test: luce.Groups) -> dict[str, float]:
    """Unbiased pairs with ties."""
    with_pairs = read(as_columns(log, data), pairs=True)
    found = pairs(replace(examination(counts, data), counts=with_pairs.by_position()), data)
    blank = replace(data, y=np.zeros(data.n_rows))
    linear = luce.Ranker(loss="davidson", l2=L2).fit(blank, comparisons=found)
    trees = luce.Ranker(loss="bradley_terry", scorer="trees", max_iter=TREES, random_state=SEED)
    return {
        "pairs, davidson": ndcg(linear, test),
        "pairs, bradley_terry, trees": ndcg(trees.fit(blank, comparisons=found), test),
    }


def peers(data: luce.Groups, log: SessionRows, test: luce.Groups, *, naive: bool) -> dict[str, float]:
    """LightGBM and XGBoost on the sessions themselves, with their own debiasing, each in two settings.

    LightGBM with its defaults and 100 trees, and with the first 50; XGBoost with its defaults and 100 trees, and with
    the learning rate of the others. `naive` also runs both without debiasing.
    """
    import lightgbm
    import xgboost

    X, clicked = data.X[log.row], log.clicked.astype(int)
    sizes = np.bincount(log.session)
    sizes = sizes[sizes > 0]
    options = {"objective": "lambdarank", "verbosity": -1, "seed": SEED, "num_threads": 1, "deterministic": True}
    found = {}
    for name, position in (("LightGBM, naive", None), ("LightGBM, position", log.position - 1)):
        if position is None and not naive:
            continue
        part = lightgbm.Dataset(X, clicked, group=sizes, position=position)
        booster = lightgbm.train(options, part, 100)
        found[name] = ndcg(booster.predict(test.X), test)
        found[f"{name}, 50 trees"] = ndcg(booster.predict(test.X, num_iteration=50), test)
    order = {"objective": "rank:ndcg", "seed": SEED, "nthread": 1, "lambdarank_pair_method": "topk"}
    part = xgboost.DMatrix(X, clicked, group=sizes)  # rows of a session are in the order that was shown
    kinds = {
        "XGBoost, unbiased": {"lambdarank_unbiased": True},
        "XGBoost, unbiased, rate 0.1": {"lambdarank_unbiased": True, "learning_rate": 0.1},
    }
    for name, kind in (({"XGBoost, naive": {}} if naive else {}) | kinds).items():
        booster = xgboost.train(order | kind, part, 100)
        found[name] = ndcg(booster.predict(xgboost.DMatrix(test.X)).astype(float), test)
    return found


def simulated(
    train: luce.Groups, size: int, users: Users, seed: tuple[int, int], sessions: bool
) -> tuple[ClickCounts, SessionRows | None]:
    """Counts of a log, and its rows where they are asked for."""
    rng = np.random.default_rng([*seed, size])
    made: Production = production(train, weak_rankers(train, rng, share=WEAK), shown=SHOWN, swap=SWAP)
    if not sessions:
        return simulate_counts(train, made, rng, sessions=size, users=users), None
    log = simulate_sessions(train, made, rng, sessions=size, users=users)
    return read(as_columns(log, train)), log


def error(seen: Any, users: Users) -> float:
    """Root mean squared error of log examination, positions 2 and on."""
    return float(np.sqrt(np.mean((np.log(seen.theta) + users.eta * np.log(seen.position))[1:] ** 2)))


def plain(
    train: luce.Groups, test: luce.Groups, counts: ClickCounts, users: Users, *, trees: bool
) -> tuple[dict[str, float], Any]:
    """NDCG@10 on the grades of the test queries, by learner; how far examination is from the truth; examination."""
    seen = examination(counts, train)
    linear = choice(train, seen.target(train))
    found = {
        "skyline": ndcg(luce.Ranker(loss="ranknet", l2=L2).fit(train), test),
        "naive": ndcg(choice(train, shown_often(counts, train)), test),
        "choice": ndcg(linear, test),
        "joint": float(seen.method == "joint"),
        "rmse": error(seen, users),
    }
    if users.stop:
        stopping = examination(counts, users="last_click")
        found["choice, last click"] = ndcg(choice(train, stopping.target(train)), test)
    if trees:
        found["choice, trees"] = ndcg(choice(train, seen.target(train), "trees"), test)
        found["choice, trees on linear"] = ndcg(choice(train, seen.target(train), "trees", base=linear), test)
    return found, seen


def with_guard(train: luce.Groups, test: luce.Groups, seen: Any) -> dict[str, float]:
    """The learner that held-out queries of the log itself choose, given trees."""
    blank = replace(train, y=np.zeros(train.n_rows))
    trees = luce.Ranker(loss="click_choice", scorer="trees", max_iter=TREES, random_state=SEED)
    taken = guarded(trees, blank, seen)
    return {"guard": ndcg(taken.model, test), f"guard: {taken.chosen}": 1.0}


# Parts


def record(store: Path, key: str, made: Callable[..., dict[str, float]], *given: Any) -> None:
    """Keep what `made(*given)` gives under this key, unless it is there."""
    if key not in kept(store):
        add(store, {key: {name: round(value, 5) for name, value in made(*given).items()}}, indent=None)
        print(key, flush=True)


def sets(names: tuple[str, ...], folder: Path, quick: bool, most: int) -> Iterator[tuple[str, int, Any, Any]]:
    """Name, number of the fold, training and test data."""
    for name in names[:1] if quick else names:
        for k, (train, test) in enumerate(folds(name, folder / name, most)):
            if quick:
                train, test = train.take(np.arange(60)), test.take(np.arange(30))
            yield name, k, train, test


def by_method(train: luce.Groups, test: luce.Groups, size: int, seed: tuple[int, int]) -> dict[str, float]:
    counts, _ = simulated(train, size, Users(), seed, False)
    found, _ = plain(train, test, counts, Users(), trees=True)
    for method in ("conditional", "joint"):
        found[f"rmse, {method}"] = error(examination(counts, train, method=method), Users())
    return found


def sizes_part(folder: Path, quick: bool, most: int, seeds: range, store: Path) -> None:
    """MQ2007, eta = 1, by number of sessions; and how far each way to estimate examination is from the truth."""
    for name, k, train, test in sets(("MQ2007",), folder, quick, most):
        for seed in seeds:
            for size in SIZES[:1] if quick else SIZES:
                record(store, f"sizes/{name}/{size}/fold{k + 1}/seed{seed}", by_method, train, test, size, (seed, k))


def beside_peers(train: luce.Groups, test: luce.Groups, size: int, seed: tuple[int, int]) -> dict[str, float]:
    counts, log = simulated(train, size, Users(), seed, True)
    assert log is not None
    found, _ = plain(train, test, counts, Users(), trees=True)
    found |= paired(train, log, counts, test)
    return found | peers(train, log, test, naive=seed == (SEED, 0) and size == SIZES[0])


def peers_part(folder: Path, quick: bool, most: int, seeds: range, store: Path) -> None:
    """All sets, eta = 1: every learner on the same sessions, LightGBM and XGBoost among them."""
    for seed, size in product(seeds, SIZES[:1] if quick else SIZES[:2]):
        for name, k, train, test in sets(SETS, folder, quick, most):
            if size == SIZES[0] or k == 0:
                record(store, f"peers/{name}/{size}/fold{k + 1}/seed{seed}", beside_peers, train, test, size, (seed, k))


def of_users(train: luce.Groups, test: luce.Groups, users: Users, seed: tuple[int, int]) -> dict[str, float]:
    counts, _ = simulated(train, SIZES[1], users, seed, False)
    return plain(train, test, counts, users, trees=False)[0]


def users_part(folder: Path, quick: bool, most: int, seeds: range, store: Path) -> None:
    """MQ2007, 1e5 sessions: three etas, three kinds of users, counts only."""
    for _, k, train, test in sets(("MQ2007",), folder, quick, most):
        for seed, kind, eta in product(seeds, KINDS, ETAS):
            record(
                store, f"users/{kind}/{eta}/fold{k + 1}/seed{seed}", of_users, train, test, Users(kind, eta), (seed, k)
            )


def beside_guard(train: luce.Groups, test: luce.Groups, size: int, seed: tuple[int, int]) -> dict[str, float]:
    counts, _ = simulated(train, size, Users(), seed, False)
    found, seen = plain(train, test, counts, Users(), trees=True)
    return found | with_guard(train, test, seen)


def guard_part(folder: Path, quick: bool, most: int, seeds: range, store: Path) -> None:
    """The smaller sets, eta = 1, counts only: the guard beside what it chooses from."""
    for name, k, train, test in sets(SETS[1:], folder, quick, most):
        for seed, size in product(seeds, SIZES[:1] if quick else SIZES[:2]):
            record(store, f"guard/{name}/{size}/fold{k + 1}/seed{seed}", beside_guard, train, test, size, (seed, k))


PARTS = {"sizes": sizes_part, "users": users_part, "peers": peers_part, "guard": guard_part}


# The page

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


def section(numbers: dict[str, Any]) -> str:
    sizes = {f"{size:,} sessions": Runs(numbers, f"sizes/MQ2007/{size}") for size in SIZES}
    peers = {f"{name}, {size:,}": Runs(numbers, f"peers/{name}/{size}") for size in SIZES[:2] for name in SETS}
    users = {f"{kind}, {eta:g}": Runs(numbers, f"users/{kind}/{eta}") for kind in KINDS for eta in ETAS}
    guard = {f"{name}, {size:,}": Runs(numbers, f"guard/{name}/{size}") for size in SIZES[:2] for name in SETS}
    lines = [MARKS[0], "", "MQ2007, eta = 1, by number of sessions:", "", *learners_by_column(sizes)]
    lines += ["The same sessions for all, eta = 1:", "", *learners_by_column(peers)]
    lines += ["MQ2007, 100,000 sessions, by kind of users and eta:", ""]
    lines += learners_by_row("users, eta", users, ("skyline", "naive", "choice", "choice, last click"))
    lines += ["The guard, which was given trees:", ""]
    lines += learners_by_row("set, sessions", guard, ("skyline", "naive", "choice", "choice, trees", "guard"))
    return "\n".join([*lines, taken(numbers), "", MARKS[1]])


def write_section(numbers: dict[str, Any], out: Path) -> None:
    text = section(numbers)
    if out != ROOT:
        (out / "clicks.md").write_text(text)
        print(f"Wrote {out / 'clicks.md'}.")
        return
    page = ROOT / "docs" / "clicks.md"
    before, _, rest = page.read_text().partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    page.write_text(before + text + after)
    print(f"Wrote {page}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2, help="logs a fold")
    parser.add_argument("--first-seed", type=int, default=SEED)
    given = parser.parse_args()
    folder = data_folder()
    out = Path(tempfile.mkdtemp()) if given.quick else ROOT
    store = out / "clicks.json" if given.quick else ROOT / "papers" / "results" / "clicks.json"
    if not given.page:
        if not (folder / "MQ2007").is_dir():
            print("No real data found; set LUCE_DATA.")
            return
        for name in given.only[:1] if given.quick else given.only:  # the first part runs every learner
            seeds = range(1) if given.quick else range(given.first_seed, given.first_seed + given.seeds)
            PARTS[name](folder, given.quick, 1 if given.quick else given.folds, seeds, store)
    write_section(kept(store), out)


if __name__ == "__main__":
    main()
