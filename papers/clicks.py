"""Learning from clicks: naive, luce, LightGBM and XGBoost on judged sets with simulated users.

    python papers/clicks.py [--quick] [--page] [--only PART ...] [--folds N]

Numbers go to papers/results/clicks.json with their settings and seed; the page is made from them. `--quick` makes a
small run into a temporary folder; `--page` only makes the page again. The sets are read from LUCE_DATA, else
../shared/data beside the project.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from kit import ROOT, add, data_folder, kept, write_page
from kit.click_coverage import CURVES, covered, error
from kit.click_held_out import held_out
from kit.click_peers import PEERS, peer_scores
from kit.clicks_page import ETAS, RIVAL, SETS, SIZES, page

import luce
from luce.clicks import ClickCounts, Clicks, examination, guarded, pairs, read
from luce.clicks.simulation import (
    KINDS,
    Production,
    SessionRows,
    Users,
    as_columns,
    production,
    simulate_counts,
    simulate_sessions,
    weak_rankers,
)

SEED = 0
SWAP, SHOWN, WEAK = 0.1, 10, 0.01
TREES, L2 = 50, 0.01
HELD = {"MQ2007": (50, 100, 250, 500, 1000), "MQ2008": (100, 400), "OHSUMED": (63,), "MSLR-sample": (48,)}
PER_QUERY = (10, 100, 1000)
FRESH = 1000
"""Added to a seed, for logs that are in no other table."""


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


def plain(fold: Fold, counts: ClickCounts, users: Users) -> tuple[dict[str, float], Any, Any]:
    """NDCG@10 on the grades of the test queries, by linear learner; examination; the debiased linear model."""
    train, test = fold.train, fold.test
    seen = examination(counts, train)
    linear = choice(train, seen.target(train))
    found = {
        "skyline": fold.skyline,
        "naive": ndcg(choice(train, shown_often(counts, train)), test),
        "choice": ndcg(linear, test),
        "rmse": error(seen, users),
    }
    return found, seen, linear


def trees_too(fold: Fold, counts: ClickCounts) -> tuple[dict[str, float], Any]:
    """Linear learners, trees, and what held-out queries of the log itself choose, `auto`."""
    train, test = fold.train, fold.test
    found, seen, linear = plain(fold, counts, Users())
    target = seen.target(train)
    found["choice, trees"] = ndcg(choice(train, target, "trees"), test)
    found["choice, trees on linear"] = ndcg(choice(train, target, "trees", base=linear), test)
    blank = replace(train, y=np.zeros(train.n_rows))
    trees = luce.Ranker(loss="click_choice", scorer="trees", max_iter=TREES, random_state=SEED)
    taken = guarded(trees, blank, seen)
    return found | {"auto": ndcg(taken.model, test), f"auto: {taken.chosen}": 1.0}, seen


# Parts


class Fold(NamedTuple):
    """Training and test queries of a set, and what the grades would teach a linear scorer."""

    name: str
    number: int
    train: luce.Groups
    test: luce.Groups
    skyline: float


class Plan(NamedTuple):
    """What is run, and where numbers are kept."""

    folder: Path
    store: Path
    quick: bool
    first_fold: int
    folds: int
    seeds: range
    sizes: tuple[int, ...]

    def sets(self, names: tuple[str, ...]) -> Iterator[Fold]:
        for name in names[:1] if self.quick else names:
            found = enumerate(folds(name, self.folder / name, self.folds))
            for k, (train, test) in islice(found, self.first_fold - 1, None):
                if self.quick:
                    train, test = train.take(np.arange(60)), test.take(np.arange(30))
                yield Fold(name, k, train, test, ndcg(luce.Ranker(loss="ranknet", l2=L2).fit(train), test))

    def record(self, key: str, made: Callable[..., dict[str, float]], *given: Any) -> None:
        """Keep what `made(*given)` gives under this key, unless it is there."""
        if key not in kept(self.store):
            add(self.store, {key: {name: round(value, 5) for name, value in made(*given).items()}}, indent=None)
            print(key, flush=True)


def by_method(fold: Fold, size: int, seed: tuple[int, int]) -> dict[str, float]:
    counts, _ = simulated(fold.train, size, Users(), seed, False)
    found, _ = trees_too(fold, counts)
    for method in ("conditional", "joint"):
        found[f"rmse, {method}"] = error(examination(counts, fold.train, method=method), Users())
    return found


def sizes_part(plan: Plan) -> None:
    """MQ2007, eta = 1, by number of sessions; and how far each way to estimate examination is from the truth."""
    all_folds = list(plan.sets(("MQ2007",)))
    for seed, fold, size in product(plan.seeds, all_folds, plan.sizes):
        key = f"sizes/MQ2007/{size}/fold{fold.number + 1}/seed{seed}"
        plan.record(key, by_method, fold, size, (seed, fold.number))


def ours(fold: Fold, size: int, seed: tuple[int, int]) -> dict[str, float]:
    counts, log = simulated(fold.train, size, Users(), seed, True)
    assert log is not None
    found, _ = trees_too(fold, counts)
    return found | (paired(fold.train, log, counts, fold.test) if size < SIZES[2] else {})


def theirs(fold: Fold, size: int, seed: tuple[int, int], name: str) -> dict[str, float]:
    """LightGBM or XGBoost on the sessions themselves, with their own debiasing."""
    _, log = simulated(fold.train, size, Users(), seed, True)
    assert log is not None
    return {one: ndcg(scores, fold.test) for one, scores in peer_scores(name, fold.train, log, fold.test).items()}


def peers_part(plan: Plan) -> None:
    """The same sessions for all, eta = 1: all sets (1e4), MQ2007 (1e5, 1e6; of the others their small trees only)."""
    for seed, size in product(plan.seeds, plan.sizes):
        all_folds = list(plan.sets(SETS if size == SIZES[0] else SETS[:1]))
        for name, fold in product(["", *islice(PEERS, 2 if size == SIZES[2] else None)], all_folds):
            key, drawn = f"{fold.name}/{size}/fold{fold.number + 1}/seed{seed}", (seed, fold.number)
            if name:
                plan.record(f"others/{key}/{name}", theirs, fold, size, drawn, name)
            else:
                plan.record(f"peers/{key}", ours, fold, size, drawn)


def contest(fold: Fold, size: int, seed: tuple[int, int]) -> dict[str, float]:
    counts, log = simulated(fold.train, size, Users(), seed, True)
    assert log is not None
    scores = peer_scores(RIVAL, fold.train, log, fold.test)[RIVAL]
    return trees_too(fold, counts)[0] | {RIVAL: ndcg(scores, fold.test)}


def contest_part(plan: Plan) -> None:
    """MQ2007, eta = 1, fresh logs: `auto` beside the best of the others, LightGBM with small trees (1e4, 1e5)."""
    all_folds = list(plan.sets(SETS[:1]))
    for seed, fold, size in product(plan.seeds, all_folds, plan.sizes[:2]):
        key = f"contest/MQ2007/{size}/fold{fold.number + 1}/seed{seed}"
        plan.record(key, contest, fold, size, (seed + FRESH, fold.number))


def of_users(fold: Fold, users: Users, seed: tuple[int, int]) -> dict[str, float]:
    counts, _ = simulated(fold.train, SIZES[1], users, seed, False)
    found, _, _ = plain(fold, counts, users)
    if users.stop:  # how far they look depends on what they click, so that no position has a number of its own
        del found["rmse"]
        stopping = examination(counts, users="last_click").target(fold.train)
        found["choice, last click"] = ndcg(choice(fold.train, stopping), fold.test)
    if users.kind == "trust":
        trusting = examination(counts, fold.train, users="trust")
        found["choice, trust"] = ndcg(choice(fold.train, trusting.target(fold.train)), fold.test)
        found["rmse, trust"] = error(trusting, users)
    return found


def users_part(plan: Plan) -> None:
    """MQ2007, 1e5 sessions: three etas, three kinds of users, counts only."""
    all_folds = list(plan.sets(("MQ2007",)))
    for seed, fold, kind, eta in product(plan.seeds, all_folds, KINDS, ETAS):
        key = f"users/{kind}/{eta}/fold{fold.number + 1}/seed{seed}"
        plan.record(key, of_users, fold, Users(kind, eta), (seed, fold.number))


def beside_guard(fold: Fold, size: int, seed: tuple[int, int]) -> dict[str, float]:
    return trees_too(fold, simulated(fold.train, size, Users(), seed, False)[0])[0]


def guard_part(plan: Plan) -> None:
    """The smaller sets, eta = 1, counts only: the guard beside what it chooses from."""
    for fold in plan.sets(SETS[1:]):
        for seed, size in product(plan.seeds, plan.sizes[:2]):
            key = f"guard/{fold.name}/{size}/fold{fold.number + 1}/seed{seed}"
            plan.record(key, beside_guard, fold, size, (seed, fold.number))


def coverage_part(plan: Plan) -> None:
    """MQ2007, first fold: intervals of examination and of `luce evaluate --clicks`, 20 logs at a time."""
    for fold in plan._replace(first_fold=1, folds=1).sets(("MQ2007",)):
        judged = partial(covered, share=max(WEAK, 2 / fold.train.n_queries), shown=SHOWN, swap=SWAP)
        for seed, curve, size in product(plan.seeds, CURVES, plan.sizes):
            logs = range(2) if plan.quick else range(20 * seed, 20 * seed + 20)
            key = f"coverage/{curve.replace('/', '')}/{size}/fold1/seed{seed}"
            plan.record(key, judged, fold.train, size, logs, CURVES[curve])


def held_part(plan: Plan) -> None:
    """Training queries alone, eta = 1: trees and a linear scorer on the clicks of held-out queries."""
    judged = partial(held_out, shown=SHOWN, swap=SWAP)
    for fold in plan._replace(first_fold=1, folds=1).sets(SETS):
        train, many = fold.train, HELD[fold.name]
        for queries, per_query in product(many[:1] if plan.quick else many, PER_QUERY):
            key = f"held/{fold.name}/{min(queries, train.n_queries)}/{per_query}"
            plan.record(key, judged, train, queries, per_query)


PARTS = {
    "sizes": sizes_part,
    "users": users_part,
    "peers": peers_part,
    "contest": contest_part,
    "guard": guard_part,
    "coverage": coverage_part,
    "held": held_part,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--first-fold", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=2, help="logs a fold")
    parser.add_argument("--first-seed", type=int, default=SEED)
    parser.add_argument("--most-sessions", type=int, default=SIZES[-1], help="leave larger logs out")
    parser.add_argument("--least-sessions", type=int, default=SIZES[0], help="leave smaller logs out")
    given = parser.parse_args()
    folder = data_folder()
    out = Path(tempfile.mkdtemp()) if given.quick else ROOT
    store = out / "clicks.json" if given.quick else ROOT / "papers" / "results" / "clicks.json"
    if not given.page:
        if not (folder / "MQ2007").is_dir():
            print("No real data found; set LUCE_DATA.")
            return
        seeds = range(1) if given.quick else range(given.first_seed, given.first_seed + given.seeds)
        sizes = (
            SIZES[:1]
            if given.quick
            else tuple(size for size in SIZES if given.least_sessions <= size <= given.most_sessions)
        )
        many = (1, 1) if given.quick else (given.first_fold, given.folds)
        plan = Plan(folder, store, given.quick, *many, seeds, sizes)
        for name in given.only[:1] if given.quick else given.only:  # the first part runs every learner
            PARTS[name](plan)
    template = (ROOT / "papers" / "clicks.md.in").read_text()
    write_page("clicks", page(template, kept(store)), out)


if __name__ == "__main__":
    main()
