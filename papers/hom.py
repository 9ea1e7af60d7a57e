"""Top-k ranking: the five models of the paper on full orders, on graded sets, on lists of their own making, as k grows.

    python papers/hom.py [--quick] [--page] [--only PART ...]

Numbers go to papers/results/hom.json with their settings and seed; the page is made from them. `--quick` makes a small
run into a temporary folder; `--page` only makes the page again; parts that are not asked for, or whose data are absent,
keep their last numbers. The sets are read from LUCE_DATA, else ../shared/data beside the project.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, add, data_folder, kept, write_page
from kit.crossfit import Entry, counted, folds_of, joined, repeated, repeated_folds, table
from kit.top_layers import both_forms, both_forms_table, processes_figure, recovered, recovered_table
from kit.verdicts import Claim, above, emphasised, with_verdicts

import luce
from luce.aggregate.supervised import choose_reading, system_positions
from luce.experiments.folds import Fold
from luce.losses.probabilities import topk_probability
from luce.scorers.cps import FittedCPS
from luce.systems import settings_grid
from luce.training.coset_objective import coset_log_likelihoods

SEED = 0
MODELS = {
    "topk-listmle": "Top-k ListMLE",
    "topk-cps": "Top-k CPS",
    "hom-gg": "HOM-GG",
    "hom-oo": "HOM-OO",
    "hom-og": "HOM-OG",
}
METRICS = [*(f"kappa_ndcg@{k}" for k in range(1, 11)), "kappa_err"]
SHOWN = ["kappa_ndcg@1", "kappa_ndcg@3", "kappa_ndcg@5", "kappa_ndcg@10", "kappa_err"]
SETS = ("MQ2008", "OHSUMED")
FIRST, ENUMERATED = 100, 40
GRID = settings_grid("hom-oo")
PAPER = {  # kappa-NDCG@1, @5, @10, kappa-ERR on top-10 MQ2007, then on top-10 MQ2008, as the paper prints them
    "hom-gg": (0.4321, 0.5440, 0.6037, 0.5881, 0.2846, 0.3887, 0.4525, 0.4411),
    "hom-oo": (0.4305, 0.5415, 0.6028, 0.5873, 0.2995, 0.3921, 0.4593, 0.4508),
    "hom-og": (0.4355, 0.5444, 0.6050, 0.5907, 0.2951, 0.3968, 0.4665, 0.4506),
    "topk-listmle": (0.4110, 0.5207, 0.5810, 0.5688, 0.2650, 0.3672, 0.4296, 0.4194),
    "topk-cps": (0.3563, 0.4648, 0.5238, 0.5138, 0.2587, 0.3366, 0.4014, 0.4049),
}
PRINTED: dict[str, dict[str, Any]] = {"hom-oo": {"loss__normalised": False}}
"""What trains a model as the paper prints it."""
ORDERS = {
    **{model: (label, Entry(model, PRINTED.get(model, {}), GRID)) for model, label in MODELS.items()},
    "plackett-luce": ("Plackett-Luce, the whole order", Entry("plackett-luce", {}, GRID)),
}
"""Rows of the table on full orders."""
GRADED = {
    "topk-listmle": ("Top-k ListMLE, ties exact", Entry("topk-listmle", {}, GRID)),
    "topk-cps": ("Top-k CPS, ties kept whole, in random order", Entry("topk-cps", {}, GRID)),
    **{
        f"{model}/{ties}": (
            f"{MODELS[model]}, ties at the cut {said}",
            Entry(model, {**PRINTED.get(model, {}), "loss__ties": ties}, GRID),
        )
        for model in ("hom-gg", "hom-oo", "hom-og")
        for ties, said in (("average", "averaged"), ("extend", "kept whole"), ("shrink", "left out"))
    },
    "listmle/stable": ("ListMLE, ties in file order", Entry("listmle", {"loss__ties": "stable"}, GRID)),
    "listmle/random": ("ListMLE, ties in random order", Entry("listmle", {"loss__ties": "random"}, GRID)),
    "plackett-luce": ("Plackett-Luce, ties exact", Entry("plackett-luce", {}, GRID)),
}
"""Rows of the table on graded sets: all ties inside T are exact but where it is said."""


# Table 1: full orders, and graded sets


def first_documents(data: luce.Groups, first: int = FIRST) -> luce.Groups:
    keep = np.arange(data.n_rows) - np.repeat(data.offsets[:-1], data.sizes) < first
    return luce.from_arrays(data.X[keep], data.y[keep], qid=data.qid[keep])


def mapped(fold: Fold, change: Callable[[luce.Groups], luce.Groups], queries: int | None = None) -> Fold:
    """A fold with its parts changed, and at most so many queries of each."""

    def load() -> tuple[luce.Groups, ...]:
        return tuple(change(part.take(np.arange(part.n_queries)[:queries])) for part in fold.load())

    return Fold(fold.name, load)


class BordaOrders:
    """The full order of a query by the mean position of its documents in the rankings of all systems of the set."""

    def __init__(self, folder: Path) -> None:
        ranks = joined([luce.read_letor(path, missing=("NULL",)) for path in rank_files(folder)])
        positions = system_positions(ranks.X.astype(np.float64), ranks.offsets, choose_reading(ranks))
        place = -positions.mean(axis=1)
        names = zip(ranks.qid.tolist(), ranks.document_ids.tolist(), strict=True)
        self.score = dict(zip(((str(q), str(d)) for q, d in names), place.tolist(), strict=True))

    def __call__(self, data: luce.Groups) -> luce.Groups:
        """The first documents of every query, graded by how many of them stand below; 1 for the last."""
        keep = np.arange(data.n_rows) - np.repeat(data.offsets[:-1], data.sizes) < FIRST
        X, qid = data.X[keep], data.qid[keep]
        names = zip(qid.tolist(), data.document_ids[keep].tolist(), strict=True)
        score = np.array([self.score[str(q), str(d)] for q, d in names])
        kept = luce.from_arrays(X, np.zeros(len(X)), qid=qid)
        grades = np.empty(len(X))
        for a, b in itertools.pairwise(kept.offsets):
            grades[a:b] = 1 + np.searchsorted(np.sort(score[a:b]), score[a:b])
        return luce.from_arrays(X, grades, qid=qid)


def rank_files(folder: Path) -> list[Path]:
    """The files that hold every query of a set once."""
    return sorted(folder.glob("A?.txt.gz")) or sorted(folder.glob("Fold*/test.txt.gz"))


def order_table(name: str, folds: int | None = None, queries: int | None = None, rows: Any = ORDERS) -> dict[str, Any]:
    """All models on the orders that the systems of the aggregation set give, with the features of the graded set."""
    against = "topk-listmle" if "topk-listmle" in rows else "plackett-luce"
    return judged(real_orders(name, folds, queries), rows, against)


def real_orders(name: str, folds: int | None = None, queries: int | None = None) -> list[Fold]:
    """The folds of a graded set with the orders that the systems of its aggregation set give."""
    orders = BordaOrders(data_folder() / f"{name}-agg")
    return [mapped(fold, orders, queries) for fold in folds_of(data_folder() / name)[:folds]]


def short_orders(name: str, folds: int | None = None, queries: int | None = None) -> list[Fold]:
    """The same, of the first documents of a query that leave few enough sets to enumerate in every evaluation."""
    return [mapped(fold, lambda part: first_documents(part, ENUMERATED)) for fold in real_orders(name, folds, queries)]


def graded_table(name: str, folds: int | None = None, queries: int | None = None, rows: Any = GRADED) -> dict[str, Any]:
    """All models on graded labels, with several rules for ties."""
    chosen = [mapped(fold, first_documents, queries) for fold in folds_of(data_folder() / name)[:folds]]
    return judged(chosen, rows, "plackett-luce")


def judged(folds: list[Fold], rows: Mapping[str, tuple[str, Entry]], against: str) -> dict[str, Any]:
    made = {name: entry for name, (_, entry) in rows.items()}
    settings = {name: {"system": e.system, **e.settings, "grid": list(e.grid)} for name, e in made.items()}
    found = table(folds, made, METRICS, against, tune_on="kappa_ndcg@10", seed=SEED)
    return {"seed": SEED, "tune_on": "kappa_ndcg@10", "settings": settings, "rows": found}


SHARE = 0.1
"""Documents of the top among all of a query, as in the paper: 10 of 100."""
DESCENT: dict[str, Any] = {"trainer": "sgd", "max_iter": 300, "l2": 0.0, "metric": "kappa_ndcg@10"}
STEPS = [{"learning_rate": step} for step in (0.01, 0.1, 1.0)]


def cut_table(name: str, descent: bool = False) -> dict[str, Any]:
    """The five models over five cuts of the orders, with a top as short as the paper's; by L-BFGS with a penalty or by
    gradient descent whose step and end validation chooses, as in the paper (CPS has a trainer of its own)."""
    folds = real_orders(name)
    k = max(2, round(SHARE * float(np.mean(np.concatenate([fold.load()[2].sizes for fold in folds])))))
    rows = {}
    for model in MODELS:
        if model == "topk-cps":
            rows |= {} if descent else {model: Entry(model, {"trainer__k": k}, GRID[::2])}
        else:
            own = {**PRINTED.get(model, {}), "loss__k": k}
            rows[model] = Entry(model, {**own, **DESCENT}, STEPS, stopped=True) if descent else Entry(model, own, GRID)
    found = repeated(repeated_folds(folds, 5, SEED), rows, SHOWN, "topk-listmle", SEED, "kappa_ndcg@10")
    settings = {label: {"system": e.system, **e.settings, "grid": list(e.grid)} for label, e in rows.items()}
    return {"seed": SEED, "tune_on": "kappa_ndcg@10", "k": k, "settings": settings, "rows": found}


# Table 2: lists simulated from each model


def simulated(model: str, n: int, k: int, queries: int, rng: np.random.Generator) -> luce.Groups:
    """Queries of n documents with five features, and the top k of each drawn from a model, as labels."""
    X = rng.normal(size=(queries * n, 5)).astype(np.float32)
    weights = np.array([1.0, -0.8, 0.6, 0.4, 0.0])
    labels = np.zeros(len(X))
    scores = X @ weights
    for q in range(queries):
        rows = slice(q * n, (q + 1) * n)
        if model == "topk-cps":
            top = FittedCPS(weights * 2.5 / n, k).draw(X[rows], rng)
            labels[rows][top] = np.arange(k, 0, -1)
        else:
            labels[rows] = luce.losses.get(luce.model(model).loss, k=k).sample(scores[rows], rng)
    return luce.from_arrays(X, labels, group=[n] * queries)


def held_out(ranker: luce.Ranker, data: luce.Groups, scale: float) -> np.ndarray:
    """Log-likelihood of every query, constants and normalisers included, with the scores times `scale`."""
    if isinstance(ranker.scorer_, FittedCPS):
        scaled = FittedCPS(ranker.scorer_.theta * scale, ranker.scorer_.k)
        return coset_log_likelihoods(scaled, ranker.loss_, data)
    scores = scale * ranker.predict(data)
    spans = itertools.pairwise(data.offsets)
    return np.array([ranker.loss_.log_prob(scores[a:b], data.y[a:b]) for a, b in spans])


def likelihood_table(n: int, k: int, sizes: tuple[int, int, int], scales: list[float]) -> dict[str, Any]:
    """Held-out log-likelihood a query: a row is the model that made the lists, a column the model that was fitted."""
    table: dict[str, Any] = {}
    for source in MODELS:
        rng = np.random.default_rng([SEED, n, k, list(MODELS).index(source)])
        train, valid, test = (simulated(source, n, k, size, rng) for size in sizes)
        values = {}
        for model in MODELS:
            size = {"trainer__k" if model == "topk-cps" else "loss__k": k}
            ranker = luce.model(model, l2=1e-4, **size, random_state=SEED).fit(train)
            best = max(scales, key=lambda scale, ranker=ranker: held_out(ranker, valid, scale).mean())
            values[model] = (held_out(ranker, test, best), best)
        own = values[source][0]
        table[source] = {
            model: {
                "mean": float(found.mean()),
                "behind": float((own - found).mean()),
                "error": float((own - found).std(ddof=1) / np.sqrt(len(own))),
                "scale": scale,
            }
            for model, (found, scale) in values.items()
        }
        print(n, k, source, {m: round(v["behind"], 3) for m, v in table[source].items()}, flush=True)
    return {"n": n, "k": k, "queries": sizes, "scales": scales, "table": table}


# Table 3: how the models differ as k grows


def growing_k(n: int = 12, gap: float = 0.4, draws: int = 4000) -> dict[str, Any]:
    """Equally spaced scores: the expected share of the k best documents that T holds, by k."""
    scores = -gap * np.arange(n)
    feature = scores.astype(np.float32)[:, None]
    rng = np.random.default_rng(SEED)
    found: dict[str, list[float]] = {model: [] for model in MODELS}
    for k in range(1, n + 1):
        for model in MODELS:
            if model == "topk-cps":
                tops = [FittedCPS(np.array([gap]), k).draw(feature, rng) for _ in range(draws)]
                found[model].append(float(np.mean([np.sum(top < k) / k for top in tops])))
            else:
                loss = luce.losses.get(luce.model(model).loss, k=k)
                found[model].append(float(topk_probability(loss, scores, k)[:k].sum() / k))
    return {"n": n, "gap": gap, "draws": draws, "share": found}


SCALES = [0.02, 0.05, 0.1, 0.2, 0.4, 0.55, 0.7, 0.85, 1.0, 1.2, 1.5]
PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "growth": growing_k,
    "normaliser": lambda: recovered(SEED),
    "forms/MQ2008": lambda: both_forms(short_orders("MQ2008"), 2, [{"l2": l2} for l2 in (0.01, 1.0, 100.0)], SEED),
    "lists/012": lambda: likelihood_table(12, 4, (1000, 200, 1000), SCALES),
    "lists/100": lambda: likelihood_table(100, 2, (1000, 50, 500), SCALES),
    "orders/MQ2008": lambda: order_table("MQ2008"),
    "orders/MQ2007": lambda: order_table("MQ2007"),
    "cuts/MQ2008": lambda: cut_table("MQ2008"),
    "cuts/MQ2007": lambda: cut_table("MQ2007"),
    "descent/MQ2008": lambda: cut_table("MQ2008", descent=True),
    "graded/MQ2008": lambda: graded_table("MQ2008"),
    "graded/OHSUMED": lambda: graded_table("OHSUMED"),
}


# The page


def page(numbers: dict[str, Any]) -> str:
    text = (ROOT / "papers" / "hom.md.in").read_text()
    graded = "\n".join(
        rows_markdown(f"{name} (grades)", numbers[f"graded/{name}"], GRADED)
        for name in SETS
        if f"graded/{name}" in numbers
    )
    orders = "\n".join(
        rows_markdown(f"{name} (orders)", numbers[f"orders/{name}"], ORDERS, METRICS)
        for name in ("MQ2008", "MQ2007")
        if f"orders/{name}" in numbers
    )
    lists = "\n".join(likelihood_markdown(numbers[key]) for key in sorted(numbers) if key.startswith("lists/"))
    text = text.replace("@VERDICT@", verdict(numbers)).replace("@ORDERS@", orders)
    text = text.replace("@GRADED@", graded or "No graded set was at hand.\n").replace("@LISTS@", lists)
    text = text.replace("@PROCESSES@", processes_figure())
    text = text.replace("@NORMALISER@", recovered_table(numbers["normaliser"]) if "normaliser" in numbers else "")
    text = text.replace("@FORMS@", both_forms_table(numbers["forms/MQ2008"]) if "forms/MQ2008" in numbers else "")
    text = text.replace("@GROWTH@", growth_markdown(numbers["growth"])).replace("@PAPER@", paper_markdown())
    cuts = [cuts_markdown(key, numbers[key]) for key in CUTS if key in numbers]
    return with_verdicts(text.replace("@CUTS@", "\n".join(cuts)), claims(numbers), numbers)


CUTS = {"cuts/MQ2008": "L-BFGS", "cuts/MQ2007": "L-BFGS", "descent/MQ2008": "gradient descent"}


def cuts_markdown(key: str, found: dict[str, Any]) -> str:
    """Means over five cuts, and the difference from top-k ListMLE with twice its standard error."""
    rows, name = found["rows"], key.partition("/")[2]
    heads = [metric.replace("kappa_", "κ-").upper().replace("Κ", "κ") for metric in SHOWN]
    lines = [f"**{name}, k = {found['k']}, {CUTS[key]}**", "", f"| model | {' | '.join(heads)} |", "|---" * 6 + "|"]
    for model, row in rows.items():
        cells = []
        for metric in SHOWN:
            gap = np.subtract(row["queries"][metric], rows["topk-listmle"]["queries"][metric])
            band = f" ({gap.mean():+.4f} ± {2 * gap.std(ddof=1) / np.sqrt(len(gap)):.4f})" if gap.any() else ""
            cells.append(short(row["means"][metric]) + band)
        lines.append(f"| {MODELS[model]} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """What the paper's Table 1 says, over five cuts, with a top as short as the paper's."""
    found = []
    for key, trainer in CUTS.items():
        rows, name = numbers.get(key, {"rows": {}})["rows"], key.partition("/")[2]
        on = f"{name}, {trainer}"
        for model in ("hom-gg", "hom-oo", "hom-og"):
            for metric in ("kappa_ndcg@5", "kappa_err"):
                found.append(above(f"{MODELS[model]} above top-k ListMLE", on, metric, rows, model, "topk-listmle"))
                if key.startswith("cuts/"):
                    found.append(above(f"{MODELS[model]} above top-k CPS", on, metric, rows, model, "topk-cps"))
    return found


def short(value: float) -> str:
    return f"{value:.4f}".replace("0.", ".", 1)


def rows_markdown(
    title: str, found: dict[str, Any], known: Mapping[str, tuple[str, Entry]], shown: Sequence[str] = SHOWN
) -> str:
    rows = found["rows"]
    against = next(name for name, row in rows.items() if not row["p"])
    p_values = {(name, metric): row["p"][metric] for name, row in rows.items() for metric in shown if row["p"]}
    bold = emphasised(p_values, {name: row["means"] for name, row in rows.items()}, against)
    names = [metric.replace("kappa_", "κ-").upper().replace("Κ", "κ") for metric in shown]
    if len(shown) > len(SHOWN):  # a wide table names the metric once
        names = [names[0], *(name.removeprefix("κ-NDCG") for name in names[1:])]
    lines = [f"**{title}**", "", f"| model | {' | '.join(names)} | L2 | fit, CPU s |", "|---" * (len(shown) + 3) + "|"]
    for name, row in rows.items():
        cells = []
        for metric in shown:
            text = short(row["means"][metric])
            text = f"**{text}**" if (name, metric) in bold else text
            cells.append(text + (" *" if row["p"].get(metric, 1.0) < 0.05 else ""))
        chosen = sorted(choice["l2"] for choice in row["chosen"])
        middle = f"{chosen[len(chosen) // 2]:g}"
        lines.append(f"| {known[name][0]} | {' | '.join(cells)} | {middle} | {row['seconds']:.2f} |")
    return "\n".join([*lines, "", counted(rows), ""])


def likelihood_markdown(found: dict[str, Any]) -> str:
    train, valid, test = found["queries"]
    lines = [
        f"**{found['n']} documents, k = {found['k']}**; {train:,} queries to learn from, {valid} for the scale, "
        f"{test:,} held out",
        "",
        "| lists made by | " + " | ".join(MODELS.values()) + " |",
        "|---" * (len(MODELS) + 1) + "|",
    ]
    for source, row in found["table"].items():
        cells = [
            f"{cell['mean']:.3f}" if model == source else f"−{cell['behind']:.3f} ± {cell['error']:.3f}"
            for model, cell in row.items()
        ]
        lines.append(f"| {MODELS[source]} | {' | '.join(cells)} |".replace("−-", "+"))
    return "\n".join([*lines, ""])


def verdict(numbers: dict[str, Any]) -> str:
    """In how many rows the model that made the lists is ahead of all others, and by how much at the least."""
    sentences = []
    for key in sorted(numbers):
        if key.startswith("lists/"):
            rivals = [
                (MODELS[source], MODELS[model], cell["behind"], cell["error"])
                for source, row in numbers[key]["table"].items()
                for model, cell in row.items()
                if model != source
            ]
            won = sum(all(r[2] > 0 for r in rivals if r[0] == name) for name in MODELS.values())
            source, model, behind, error = min(rivals, key=lambda r: r[2] / r[3])
            sentences.append(
                f"With {numbers[key]['n']} documents the model that made the lists is ahead of all others in {won} of "
                f"{len(MODELS)} rows; the closest rival is {model} on the lists of {source}, "
                f"{behind:.3f} ± {error:.3f} behind."
            )
    return "\n".join(sentences)


def growth_markdown(found: dict[str, Any]) -> str:
    ks = range(1, found["n"] + 1)
    lines = ["| model | " + " | ".join(f"k = {k}" for k in ks) + " |", "|---" * (found["n"] + 1) + "|"]
    for model, shares in found["share"].items():
        lines.append(
            f"| {MODELS[model]} | " + " | ".join(f"{share:.3f}".replace("0.", ".", 1) for share in shares) + " |"
        )
    return "\n".join(lines)


def paper_markdown() -> str:
    names = ["κ-NDCG@1", "@5", "@10", "κ-ERR"]
    lines = [
        "| model | "
        + " | ".join(f"MQ2007 {n}" for n in names)
        + " | "
        + " | ".join(f"MQ2008 {n}" for n in names)
        + " |"
    ]
    lines.append("|---" * 9 + "|")
    lines += [f"| {MODELS[m]} | " + " | ".join(short(v) for v in values) + " |" for m, values in PAPER.items()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    options = parser.parse_args()
    out = Path(tempfile.mkdtemp(prefix="luce-paper-")) if options.quick else ROOT
    store = ROOT / "papers" / "results" / "hom.json"
    numbers: dict[str, Any] = {} if options.quick else kept(store)
    if options.quick:
        del GRID[1:]
        numbers["lists/012"] = likelihood_table(6, 2, (60, 10, 20), [1.0])
        numbers["growth"] = growing_k(5, draws=50)
        if (data_folder() / "MQ2008").exists():
            few = {name: GRADED[name] for name in ("topk-listmle", "hom-oo/average", "plackett-luce")}
            numbers["graded/MQ2008"] = graded_table("MQ2008", 1, 30, few)
        if (data_folder() / "MQ2008-agg").exists():
            few = {name: ORDERS[name] for name in ("hom-og", "plackett-luce")}
            numbers["orders/MQ2008"] = order_table("MQ2008", 1, 30, few)
            numbers["forms/MQ2008"] = both_forms(short_orders("MQ2008", 1, 10), 2, GRID, SEED)
    elif not options.page:
        store.parent.mkdir(parents=True, exist_ok=True)
        for part in options.only:
            kind, _, name = part.partition("/")
            needed = {"growth": [], "normaliser": [], "lists": [], "graded": [name]}.get(kind, [name, f"{name}-agg"])
            if all((data_folder() / folder).exists() for folder in needed):
                numbers = add(store, {part: PARTS[part]()})
    write_page("hom", page(numbers), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
