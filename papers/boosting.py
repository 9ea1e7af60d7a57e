"""Makes docs/papers/boosting.md and its numbers: NDCG-consistent boosting and the best surrogate, on LETOR sets.

    python papers/boosting.py [--quick] [--page] [--only SET ...] [--part PART ...]

Numbers go to papers/results/boosting.json with their settings and seed; the page is made from them. `--quick` runs one
fold of one set into a temporary folder; `--page` only makes the page again. The sets are read from LUCE_DATA, else
../shared/data beside the project; a set that is absent keeps its last numbers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, add, data_folder, kept, write_page
from kit.crossfit import folds_of
from kit.curves import Lines, curves
from kit.verdicts import Claim, emphasised, paired, with_verdicts

import luce
from luce.metrics.significance import randomisation_test
from luce.storage import atomic_write

SETS = ("OHSUMED", "OHSUMED-2.0", "MQ2008", "MQ2007")
PLACES = tuple(range(1, 11))
METRICS = [f"ndcg@{k}" for k in PLACES]
SEED = 0
ROUNDS: dict[str, Any] = {"max_iter": 200, "early_stopping": 40}
CONVERGED: dict[str, Any] = {"max_iter": 2000, "trainer__tol": 1e-3}
EVALUATIONS = 7
"""The corners of the grid; the next finer one has 19 points."""
SEARCHED = 20
"""Fits of the pattern search, four from each of its five starts."""
BETAS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
LOSSES = {"ndcg_cross_entropy": "cross entropy", "ndcg_square": "square", "ndcg_qnorm": "q-norm"}
ENTROPY = "ndcg_cross_entropy"


@dataclass(frozen=True)
class Row:
    """A system with its settings; `judged` where validation queries choose the round that is kept."""

    system: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    judged: bool = True
    grid: tuple[Mapping[str, Any], ...] = ({},)
    """Settings among which validation NDCG@10 chooses."""


Rows = dict[str, Row]
RIVALS: Rows = {
    "ListNet, linear": Row("listnet", grid=tuple({"l2": l2} for l2 in (1e-3, 1e-2, 1e-1))),
    "AdaRank": Row("adarank-ndcg"),
    "RankBoost": Row("rankboost"),
    "LambdaMART": Row("lambdamart"),
}


def boosted(loss: str, scorer: str = "single_feature", **settings: Any) -> Row:
    return Row("ndcg-boost-linear", {"loss": loss, "scorer": scorer, **ROUNDS, **settings})


def surrogates() -> Rows:
    """Figures 3.1 to 3.5: the three functions, the learnt mixture, and rankers that are no convex surrogates."""
    found = {label: Row("ndcg-boost-linear", {"loss": loss, **CONVERGED}, False) for loss, label in LOSSES.items()}
    grid = {"loss__evaluations": EVALUATIONS, "loss__search": "grid"}
    found["learnt surrogate"] = Row("best-surrogate", grid)
    found["learnt, fits stopped early"] = Row("best-surrogate", {**grid, "loss__fits": "stopped"})
    found["learnt, pattern search"] = Row("best-surrogate", {"loss__evaluations": SEARCHED})
    return found


def rivals() -> Rows:
    """Figures 3.2, 3.5 and 3.10 to 3.12: rankers that are no convex surrogates."""
    return RIVALS


def betas() -> Rows:
    """Figure 3.6: beta with Newton's steps, with the chapter's, and in the chapter's form."""
    found = {f"Newton's step, beta {b:g}": boosted(ENTROPY, loss__beta=b) for b in BETAS}
    unit = {"scorer__step": "unit"}
    found |= {f"step from 1, beta {b:g}": boosted(ENTROPY, loss__beta=b, **unit) for b in BETAS}
    plain = {**unit, "scorer__standardise": False, "loss__offset": 0.0}
    for b in (0.01, 0.1, 1.0):
        found[f"with an offset, beta {b:g}"] = boosted(ENTROPY, loss__beta=b, **unit, scorer__standardise=False)
        found[f"standardised, beta {b:g}"] = boosted(ENTROPY, loss__beta=b, **unit, loss__offset=0.0)
    return found | {f"the chapter's form, beta {b:g}": boosted(ENTROPY, loss__beta=b, **plain) for b in BETAS}


def trees() -> Rows:
    """Figures 3.7 to 3.12: linear against trees for each loss, beside other rankers."""
    found: Rows = {}
    for loss, label in LOSSES.items():
        found[f"{label}, single features"] = boosted(loss)
        found[f"{label}, trees, constant step"] = boosted(loss, "gradient_trees", scorer__step="constant")
        found[f"{label}, trees, searched step"] = boosted(loss, "gradient_trees")
        found[f"{label}, Newton trees"] = boosted(loss, "trees")
    return found


def lists() -> Rows:
    """Listwise weak learners: which kinds help, on the same loss."""
    kinds = {
        "features": "feature",
        "features and kernel sums": "feature,kernel",
        "features and products of pairs": "feature,product",
        "ranks (Borda)": "rank",
        "reciprocal ranks (Dowdall)": "reciprocal",
        "all kinds": "feature,rank,best,least,kernel,product",
    }
    found: Rows = {}
    for loss in (ENTROPY, "ndcg_square"):
        for label, chosen in kinds.items():
            found[f"{LOSSES[loss]}, {label}"] = boosted(loss, "list_functions", scorer__functions=chosen)
    stumps = {"scorer__weak": "single_stump", "scorer__learning_rate": 0.3}
    found["cross entropy, all kinds, steps"] = boosted(
        ENTROPY, "list_functions", scorer__functions=kinds["all kinds"], **stumps
    )
    return found


def retargeting() -> Rows:
    """Chapter 7: grades as numbers, as pairs, and as an order with free targets."""
    return {
        "linear, grades as numbers": Row("linear_regression"),
        "linear, squares of pairs": Row("rank-regress"),
        "linear, monotone retargeting": Row("monotone-retargeting"),
        "trees, grades as numbers": Row("mart", ROUNDS),
        "trees, monotone retargeting": Row("monotone-retargeting", {"scorer": "trees", **ROUNDS}),
    }


def maps() -> Rows:
    """Order-preserving maps g of [Pareek] (3.7) beside the identity."""
    found: Rows = {}
    for loss, links in ((ENTROPY, ("arcsinh", "stretch")), ("ndcg_square", ("arcsinh", "softplus", "stretch"))):
        found[f"{LOSSES[loss]}, identity"] = boosted(loss)
        found |= {f"{LOSSES[loss]}, {link}": boosted(loss, loss__link=link) for link in links}
    return found


PARTS: dict[str, Callable[[], Rows]] = {
    "surrogates": surrogates,
    "rivals": rivals,
    "beta": betas,
    "trees": trees,
    "lists": lists,
    "retargeting": retargeting,
    "maps": maps,
}
AGAINST = {"surrogates": "learnt surrogate"}
"""The row that others are compared with; the first where nothing else is said."""


def run(name: str, part: str, folds: int | None = None) -> dict[str, Any]:
    """All rows on one set: test means over folds, what was kept, and p against one of the rows."""
    rows, chosen = PARTS[part](), folds_of(data_folder() / name)[:folds]
    values: dict[str, dict[str, list[np.ndarray]]] = {label: {m: [] for m in METRICS} for label in rows}
    notes: dict[str, dict[str, Any]] = {label: {"validation": [], "rounds": [], "seconds": 0.0} for label in rows}
    for fold in chosen:
        train, valid, test = fold.load()
        for label, row in rows.items():
            begun = time.process_time()
            model = fitted(row, train, valid)
            notes[label]["seconds"] += (time.process_time() - begun) / len(chosen)
            judged = luce.evaluate(model, valid, METRICS, ties="stable").means
            notes[label]["validation"].append([judged[metric] for metric in METRICS])
            notes[label]["rounds"].append(kept_rounds(model))
            if "surface" in model.history_:
                alpha = model.loss_.alpha
                notes[label].setdefault("alpha", []).append((alpha / alpha.sum()).round(4).tolist())
            for metric, column in luce.evaluate(model, test, METRICS, ties="stable").values.items():
                values[label][metric].append(column)
        print(name, part, fold.name, flush=True)
    against = AGAINST.get(part, next(iter(rows)))
    return {"rows": {label: summary(values, notes[label], label, against) for label in rows}, "folds": len(chosen)}


def fitted(row: Row, train: luce.Groups, valid: luce.Groups) -> luce.Ranker:
    """The model, at the settings of the highest validation NDCG@10."""
    best: tuple[float, luce.Ranker] | None = None
    for choice in row.grid:
        model = luce.model(row.system, random_state=SEED, **{**row.settings, **choice})
        model.fit(train, valid=valid if row.judged else None)
        value = luce.evaluate(model, valid, "ndcg@10", ties="stable").means["ndcg@10"]
        best = (value, model) if best is None or value > best[0] else best
    assert best is not None
    return best[1]


def kept_rounds(model: luce.Ranker) -> int:
    best = model.history_["best_iteration"]
    return len(model.history_["objective"]) if best is None else int(best)


def summary(values: Mapping[str, Any], notes: dict[str, Any], label: str, against: str) -> dict[str, Any]:
    means = {m: float(np.mean([column.mean() for column in found])) for m, found in values[label].items()}
    p = None
    if label != against:
        own, other = (np.concatenate(values[row]["ndcg@10"]) for row in (label, against))
        p = randomisation_test(own, other, rng=SEED).p_value
    queries = {"ndcg@10": np.concatenate(values[label]["ndcg@10"]).round(5).tolist()}
    averaged = np.mean(notes["validation"], axis=0).tolist()
    return {"means": means, "p": p, **notes, "validation": averaged, "queries": queries}


def page(numbers: dict[str, Any]) -> str:
    text = (ROOT / "papers" / "boosting.md.in").read_text()
    for part in PARTS:
        tables = [table(name, numbers[f"{name}/{part}"]) for name in SETS if f"{name}/{part}" in numbers]
        text = text.replace(f"@{part.upper()}@", "\n".join(tables))
    chosen = [row for name in SETS for row in alphas(name, numbers.get(f"{name}/surrogates", {"rows": {}}))]
    text = text.replace("@ALPHAS@", "\n".join(["| set | | weights by fold |", "|---|---|---|", *chosen]))
    for mark, value in (("ROUNDS", ROUNDS["max_iter"]), ("EVALUATIONS", EVALUATIONS), ("SEARCHED", SEARCHED)):
        text = text.replace(f"@{mark}@", str(value))
    return with_verdicts(text, claims(numbers), numbers)


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """What the chapter says of its surrogate, and what this page adds; on the folds of LETOR, one cut."""
    learnt, found = AGAINST["surrogates"], []
    for name in SETS:
        pairs = [("surrogates", learnt, label) for label in LOSSES.values()]
        pairs += [
            ("lists", f"{LOSSES[loss]}, ranks (Borda)", f"{LOSSES[loss]}, features")
            for loss in (ENTROPY, "ndcg_square")
        ]
        pairs += [("retargeting", "linear, monotone retargeting", "linear, grades as numbers")]
        for part, upper, lower in pairs:
            rows = numbers.get(f"{name}/{part}", {"rows": {}})["rows"]
            if upper in rows and lower in rows:
                found.append(one_cut(f"{upper} above {lower}", name, rows[upper], rows[lower]))
        if f"{name}/surrogates" in numbers:
            said = "learnt surrogate above ListNet"
            rows = {**numbers[f"{name}/surrogates"]["rows"], **numbers.get(f"{name}/rivals", {"rows": {}})["rows"]}
            found.append(one_cut(said, name, rows[learnt], rows["ListNet, linear"]))
    return found


def one_cut(said: str, name: str, upper: Mapping[str, Any], lower: Mapping[str, Any]) -> Claim:
    """By the values of queries where they were kept, else by the means and the p-value, if it is that of the two."""
    if "queries" in upper and "queries" in lower:
        pair = (row["queries"]["ndcg@10"] for row in (upper, lower))
        return paired(said, name, "ndcg@10", *pair, rests_on="one cut")
    gap = upper["means"]["ndcg@10"] - lower["means"]["ndcg@10"]
    p = upper["p"] if lower["p"] is None else lower["p"] if upper["p"] is None else None
    return Claim(said, name, "ndcg@10", gap, p, rests_on="one cut", remark="" if p is not None else "one cut, no test")


def pictures(numbers: dict[str, Any]) -> dict[str, str]:
    """The figures of the chapter, by the name of their file."""
    sets = [name for name in SETS if f"{name}/surrogates" in numbers]
    test = {name: curves_of(numbers, name, "surrogates") for name in sets}
    drawn = {"test": curves(test)}
    drawn["validation"] = curves({name: curves_of(numbers, name, "surrogates", "validation") for name in sets})
    rivals = {name: curves_of(numbers, name, "rivals") for name in sets}
    beside = {name: {"learnt surrogate": test[name]["learnt surrogate"], **rivals[name]} for name in sets}
    drawn["baselines"] = curves(beside, dashed=list(RIVALS))
    if "OHSUMED/beta" in numbers:
        drawn["beta"] = curves(by_first_word(curves_of(numbers, "OHSUMED", "beta")))
    losses: dict[str, dict[str, Lines]] = {label: {} for label in LOSSES.values()}
    for name in sets:
        for label, lines in by_first_word(curves_of(numbers, name, "trees")).items():
            losses[label][name] = {**lines, **rivals[name]}
    return drawn | {
        f"trees-{label.replace(' ', '-')}": curves(p, dashed=list(RIVALS)) for label, p in losses.items() if p
    }


def curves_of(numbers: dict[str, Any], name: str, part: str, which: str = "means") -> dict[str, list[float]]:
    """NDCG@1 to NDCG@10 of all rows of a table."""
    rows = numbers.get(f"{name}/{part}", {"rows": {}})["rows"]
    if which == "means":
        return {label: [row["means"][metric] for metric in METRICS] for label, row in rows.items()}
    return {label: row[which] for label, row in rows.items()}


def by_first_word(lines: Mapping[str, list[float]]) -> dict[str, dict[str, list[float]]]:
    """Lines named "a, b" in groups of the same a."""
    found: dict[str, dict[str, list[float]]] = {}
    for label, heights in lines.items():
        first, rest = label.split(", ", 1)
        found.setdefault(first, {})[rest] = heights
    return found


def write_pictures(numbers: dict[str, Any], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, drawn in pictures(numbers).items():
        with atomic_write(folder / f"{name}.svg", "w") as stream:
            stream.write(drawn)


def table(name: str, found: dict[str, Any]) -> str:
    rows = found["rows"]
    tests = {(label, "ndcg@10"): row["p"] for label, row in rows.items() if row["p"] is not None}
    against = next((label for label, row in rows.items() if row["p"] is None), "")
    best = emphasised(tests, {label: {"ndcg@10": row["means"]["ndcg@10"]} for label, row in rows.items()}, against)
    heads = " | ".join(f"@{k}" for k in PLACES)
    lines = [f"**{name}**", "", f"| | valid @10 | {heads} | rounds kept |", "|---" * (len(METRICS) + 3) + "|"]
    for label, row in rows.items():
        untrained = not any(row["rounds"])
        cells = [bold(number(row["means"][m]), (label, m) in best and not untrained) for m in METRICS]
        label += " (untrained: the order of the file)" if untrained else ""
        cells[-1] += " *" if row["p"] is not None and row["p"] < 0.05 else ""
        rounds = ", ".join(map(str, row["rounds"]))
        lines.append(f"| {label} | {number(row['validation'][-1])} | {' | '.join(cells)} | {rounds} |")
    return "\n".join([*lines, ""])


def alphas(name: str, found: dict[str, Any]) -> list[str]:
    return [
        f"| {name} | {label} | {'; '.join('/'.join(f'{a:.2g}' for a in alpha) for alpha in row['alpha'])} |"
        for label, row in found["rows"].items()
        if "alpha" in row
    ]


def bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text


def number(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(SETS))
    parser.add_argument("--part", nargs="*", default=list(PARTS))
    options = parser.parse_args()
    store = ROOT / "papers" / "results" / "boosting.json"
    if options.quick:
        return quick()
    for name in () if options.page else options.only:
        for part in options.part if (data_folder() / name).exists() else ():
            if part != "beta" or name == "OHSUMED":  # the set of Figure 3.6
                add(store, {f"{name}/{part}": run(name, part)})
    write_pictures(kept(store), ROOT / "docs" / "papers" / "boosting")
    write_page("boosting", page(kept(store)), ROOT)
    return 0


def quick() -> int:
    global EVALUATIONS, SEARCHED
    EVALUATIONS = SEARCHED = 2
    ROUNDS.update(max_iter=3, early_stopping=2)
    if not (data_folder() / "OHSUMED-2.0").exists():
        print("No real data found; the page needs LETOR sets.")
        return 0
    numbers = {f"OHSUMED-2.0/{part}": run("OHSUMED-2.0", part, folds=1) for part in ("surrogates", "rivals", "maps")}
    out = Path(tempfile.mkdtemp(prefix="luce-paper-"))
    write_pictures(numbers, out / "boosting")
    write_page("boosting", page(numbers), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
