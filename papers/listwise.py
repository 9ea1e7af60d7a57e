"""Makes docs/papers/listwise.md and its numbers: reranked base rankers on the LETOR sets at hand, and diversity.

    python papers/listwise.py [--quick] [--page] [--again] [--part rerank/MQ2008 crossfit ...]

Numbers go to papers/results/listwise.json with their settings and seed, part by part; the page is made from them.
`--part` names parts by how they begin, and one that is there already is computed again with `--again` only. `--quick`
runs one fold with one base ranker into a temporary folder; `--page` only makes the page again. Base rankers are fitted
once, and their scores kept in the temporary folder of the system. The sets are read from LUCE_DATA, else ../shared/data
beside the project; a set that is absent keeps its last numbers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from kit import ROOT, add, data_folder, kept, official, write_page
from kit.crossfit import Entry, repeated, repeated_folds
from kit.verdicts import DRAWS, Claim, above, paired, with_verdicts

import luce
from luce.base import cross_fitted
from luce.data.simulate import simulate_duplicates
from luce.experiments import find_folds
from luce.metrics.significance import randomisation_test
from luce.ranker.parts import inner
from luce.storage import atomic_write

SETS = ("OHSUMED", "OHSUMED-2.0", "MQ2008")
METRICS = ["ndcg@1", "ndcg@2", "ndcg@5", "ndcg@10"]
SEED = 0
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "rankboost": ("RankBoost", {"early_stopping": None}),
    "mart": ("MART", {}),
    "random_forest": ("Random forest", {"trainer__trees": 100, "trainer__min_samples_leaf": 50}),
    "linear_regression": ("Linear regression", {}),
    "ranknet": ("RankNet", {}),
    "adarank-ndcg": ("AdaRank", {}),
    "coordinate_ascent": ("Coordinate ascent", {}),
    "lambdamart": ("LambdaMART", {}),
    "listnet": ("ListNet", {}),
    "frank": ("FRank", {}),
}
"""Systems at their own settings, which are those of full strength, but for these."""
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "ndcg_cross_entropy": ("cross entropy", {}),
    "ndcg_square": ("square", {}),
    "ndcg_qnorm": ("q-norm", {}),
    "listnet": ("ListNet", {}),
    "cosine": ("cosine", {"loss__consistent": True}),
}

CROSSED: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "rankboost": ("RankBoost", [{"max_iter": 100, "early_stopping": 30}]),
    "mart": ("MART", [{"max_iter": 100, "early_stopping": 30}]),
    "random_forest": (
        "Random forest",
        [{"trainer__trees": 40, "trainer__min_samples_leaf": leaf} for leaf in (5, 20, 50, 100)],
    ),
}
"""Bases that are reranked on their own training scores and on cross-fitted ones; validation chooses the settings."""
CROSSED_SETS = ("OHSUMED", "OHSUMED-2.0", "MQ2008")
CROSSED_LOSSES = {loss: LOSSES[loss] for loss in ("ndcg_cross_entropy", "listnet", "cosine")}
RIVALS = {
    "listnet": "linear, listnet",
    "ccrf-prf": "continuous CRF, pseudo relevance feedback on the cosine",
    "lsr": "latent structured ranking",
}
ROUNDS = {"max_iter": 60, "early_stopping": 20}
POINTWISE: dict[str, tuple[str, dict[str, Any]]] = {
    "listnet": ("ListNet", {}),
    "ranknet": ("RankNet", {}),
    "pmop-fd": ("PMOP-FD", {}),
    "linear_regression": ("Linear regression", {}),
    "random_forest": ("Random forest", {"trainer__trees": 30}),
    "lambdamart": ("LambdaMART", ROUNDS),
    "mart": ("MART", ROUNDS),
    "rankboost": ("RankBoost", ROUNDS),
}
ALPHA = "alpha_ndcg@10"
GREEDY = {
    "mmr-minmax": {"method": "mmr", "normalise": "minmax"},
    "luce-minmax": {"method": "luce", "normalise": "minmax"},
    "mmr": {"method": "mmr", "normalise": "zscore"},
    "luce": {"method": "luce", "normalise": "zscore"},
}
"""MMR and the learned model, with the cosine of features on [0, 1] within queries and of z-scores."""
REPORTED = [  # as Tables 2.1 to 2.7 print them
    ("OHSUMED, RankBoost, cross entropy", (".5104", ".4798", ".4547", ".4356"), (".5421", ".4901", ".4615", ".4445")),
    ("OHSUMED, MART, cross entropy", (".4760", ".4065", ".3842", ".3677"), (".4760", ".4176", ".3939", ".3671")),
    ("TD2003, coordinate ascent, q-norm", (".3500", ".2875", ".3228", ".3210"), (".3250", ".3375", ".3461", ".3385")),
    ("TD2004, random forest, square", (".5600", ".4667", ".3903", ".3531"), (".5600", ".4867", ".3939", ".3546")),
    ("NP2003, MART", (".5467", ".6500", ".7112", ".7326"), (".5600", ".6567", ".7128", ".7344")),
    ("NP2004, MART", (".3600", ".4733", ".5603", ".5951"), (".3733", ".4867", ".5719", ".6102")),
    ("HP2003, MART", (".6667", ".7667", ".7546", ".7740"), (".7333", ".7667", ".7618", ".7747")),
    ("HP2004, RankBoost", (".5200", ".6067", ".7034", ".7387"), (".5333", ".6533", ".7042", ".7420")),
]


def base_scores(name: str, fold: str, base: str, parts: list[luce.Groups]) -> list[np.ndarray]:
    """Scores of a base ranker on train, validation and test data, and the rounds that were kept; fitted once."""
    folder = Path(tempfile.gettempdir()) / "luce-listwise-base"
    folder.mkdir(exist_ok=True)
    settings = {"random_state": SEED, "metric": "ndcg@10", **BASES[base][1]}
    store = folder / f"{name}-{fold}-{base}-{crc32(repr(settings).encode()):08x}.npz"
    if not store.exists():
        print(name, fold, base, flush=True)
        model = luce.model(base, **settings).fit(parts[0], valid=parts[1])
        with atomic_write(store) as stream:
            np.savez(stream, *[model.predict(part) for part in parts], [model.history_["best_iteration"] or 0])
    with np.load(store) as found:
        return [found[key] for key in found.files]


def reranked(name: str, base: str, folds: int | None = None) -> dict[str, Any]:
    """One base ranker on one set, as it is and reranked with each loss; the penalty by validation NDCG@10."""
    values: dict[str, dict[str, list[np.ndarray]]] = {}
    changed: dict[str, int] = {}
    figures: dict[str, Any] = {"rounds": []}
    for fold in find_folds(data_folder() / name)[:folds]:
        parts = list(fold.load())
        train, valid, test, rounds = base_scores(name, fold.name, base, parts)
        official.note(figures, {"test": (test, parts[2]), "valid": (valid, parts[1])}, int(rounds[0]))
        _note(values, base, test, parts[2])
        for loss, (_, settings) in LOSSES.items():
            model = luce.Ranker(loss, "listwise", metric="ndcg@10", random_state=SEED, **settings)
            model.fit(parts[0], valid=parts[1], base_scores=train, valid_base_scores=valid)
            _note(values, f"{base}/{loss}", model.predict(parts[2], base_scores=test), parts[2])
            changed[loss] = changed.get(loss, 0) + bool(model.scorer_.weights.any())
    rows: dict[str, Any] = {key: {"means": _means(found)} for key, found in values.items()}
    for loss, count in changed.items():
        old, new = (np.concatenate(values[key]["ndcg@10"]) for key in (base, f"{base}/{loss}"))
        rows[f"{base}/{loss}"] |= {"p": randomisation_test(new, old, rng=SEED).p_value, "changed": count}
    return {"rows": rows, "figures": figures}


def _note(values: dict[str, dict[str, list[np.ndarray]]], key: str, scores: np.ndarray, test: luce.Groups) -> None:
    for metric, column in luce.evaluate(scores, test, METRICS).values.items():
        values.setdefault(key, {}).setdefault(metric, []).append(column)


def _means(found: dict[str, list[np.ndarray]]) -> dict[str, float]:
    return {metric: float(np.mean([column.mean() for column in columns])) for metric, columns in found.items()}


def rivals(name: str, folds: int | None = None) -> dict[str, Any]:
    """The random field, latent structured ranking and the plain linear ranker, each with early stopping."""
    values: dict[str, dict[str, list[np.ndarray]]] = {}
    for fold in find_folds(data_folder() / name)[:folds]:
        train, valid, test = fold.load()
        for system in RIVALS:
            model = luce.model(system, metric="ndcg@10", random_state=SEED).fit(train, valid=valid)
            _note(values, system, model.predict(test), test)
    return {key: {"means": _means(found)} for key, found in values.items()}


def crossfit(name: str, base: str, folds: int | None = None) -> dict[str, Any]:
    """One base at the settings that validation chooses: as it is, and reranked on own and on cross-fitted scores."""
    values: dict[str, dict[str, list[np.ndarray]]] = {}
    chosen, changed = [], {}
    for fold in find_folds(data_folder() / name)[:folds]:
        train, valid, test = fold.load()
        models = [luce.model(base, random_state=SEED, **each).fit(train, valid=valid) for each in CROSSED[base][1]]
        judged = [luce.evaluate(model, valid, "ndcg@10").means["ndcg@10"] for model in models]
        best = int(np.argmax(judged))
        chosen.append(CROSSED[base][1][best])
        _note(values, "first setting", models[0].predict(test), test)
        _note(values, "base", models[best].predict(test), test)
        own = models[best].predict(train)
        at, crossed = cross_fitted(models[best], train, valid, 5, SEED, models[best])
        for loss, (_, settings) in CROSSED_LOSSES.items():
            for kind, scores in (("own", own), ("crossed", crossed)):
                model = luce.Ranker(loss, "listwise", metric="ndcg@10", random_state=SEED, **settings)
                model.fit(train, valid=valid, base_scores=scores, valid_base_scores=at.scores(valid))
                key = f"{loss}/{kind}"
                _note(values, key, model.predict(test, base_scores=at.scores(test)), test)
                changed[key] = changed.get(key, 0) + bool(model.scorer_.weights.any())
        print(name, base, fold.name, flush=True)
    rows: dict[str, Any] = {key: {"means": _means(found)} for key, found in values.items()}
    for key, count in changed.items():
        old, new = (np.concatenate(values[k]["ndcg@10"]) for k in ("base", key))
        rows[key] |= {"p": randomisation_test(new, old, rng=SEED).p_value, "changed": count}
    return {"rows": rows, "chosen": chosen}


def diversity(seeds: range) -> dict[str, list[float]]:
    """alpha-NDCG@10 on simulated collections of near-duplicates, a value a seed."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        train, valid, test = (simulate_duplicates(n, seed=3 * seed + i) for i, n in enumerate((80, 40, 60)))
        models = {}
        for name, (_, settings) in POINTWISE.items():
            models[name] = luce.model(name, random_state=SEED, **settings).fit(train, valid=valid)
        base = models["listnet"]
        models["listwise"] = luce.Ranker("listnet", "listwise", base=base, metric=ALPHA).fit(train, valid=valid)
        for name, settings in GREEDY.items():
            models[name] = luce.Ranker(trainer="greedy", base=base, **inner("trainer", settings)).fit(
                train, valid=valid
            )
        for name, model in models.items():
            found.setdefault(name, []).append(luce.evaluate(model, test, ALPHA).means[ALPHA])
        print("seed", seed, {name: round(values[-1], 4) for name, values in found.items()}, flush=True)
    return found


def shuffled(seeds: range) -> list[float]:
    """The control of the diversity table: the test queries of the same collections in an order that says nothing."""
    found = []
    for seed in seeds:
        test = simulate_duplicates(60, seed=3 * seed + 2)
        order = np.random.default_rng([SEED, seed]).random(test.n_rows)
        found.append(float(luce.evaluate(order, test, ALPHA).means[ALPHA]))
    return found


TERMS = [{"l2": l2} for l2 in (0.1, 1.0, 10.0)]


def sums(name: str) -> dict[str, Any]:
    """The scorer of sums of products beside a linear one, on the same loss, over five cuts."""
    rows = {
        "linear": Entry("plackett-luce", {}, TERMS),
        "list_terms": Entry("plackett-luce", {"scorer": "list_terms"}, TERMS),
    }
    return {
        "rows": repeated(repeated_folds(find_folds(data_folder() / name), 5, SEED), rows, ["ndcg@10"], "linear", SEED)
    }


def page(numbers: dict[str, Any]) -> str:
    text = (ROOT / "papers" / "listwise.md.in").read_text()
    tables = [set_table(name, numbers) for name in SETS]
    for name in official.FILES:
        text = text.replace(f"@OFFICIAL {name}@", official.table(numbers, name, BASES))
    text = text.replace("@TABLES@", "\n".join(tables)).replace("@PAPER@", paper_table())
    text = text.replace("@RIVALS@", rivals_table(numbers)).replace("@CROSSFIT@", crossfit_table(numbers))
    text = text.replace("@SIGNIFICANT@", significant(first_rows(numbers))).replace(
        "@CROSSED@", significant(crossed_rows(numbers))
    )
    measured = None if "diversity" not in numbers else {**numbers["diversity"], "shuffled": numbers.get("shuffled")}
    return with_verdicts(text.replace("@DIVERSITY@", diversity_table(measured)), claims(numbers), numbers)


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """What chapter 2 says of reranking, for its losses on every base; and what the simulation says of diversity.

    The folds of LETOR are one cut. The loss of a base is not chosen here, neither on validation nor on test queries, so
    that every loss is a claim of its own.
    """
    found = [
        Claim(f"reranking lifts {what.split(' on ')[0]}", *_where(what), by, p, rests_on="one cut")
        for what, by, p in first_rows(numbers)
        if what.startswith(("RankBoost", "MART"))
    ]
    rows = numbers.get("terms/MQ2008", {"rows": {}})["rows"]
    found.append(above("sums of products above a linear scorer", "MQ2008", "ndcg@10", rows, "list_terms", "linear"))
    if (seeds := numbers.get("diversity")) is not None:
        best = max(POINTWISE, key=lambda name: np.mean(seeds[name]))
        shuffles = numbers.get("shuffled")
        said = "placing documents one by one, learned, above"
        measure = "alpha-NDCG@10"
        found.append(paired(f"{said} MMR", "simulated", measure, seeds["luce"], seeds["mmr"], rests_on=DRAWS))
        found.append(
            paired(f"{said} any pointwise model", "simulated", measure, seeds["luce"], seeds[best], rests_on=DRAWS)
        )
        if shuffles is not None:
            found.append(
                paired(f"{said} a shuffled order", "simulated", measure, seeds["luce"], shuffles, rests_on=DRAWS)
            )
            text = "the best pointwise model above a shuffled order"
            found.append(paired(text, "simulated", measure, seeds[best], shuffles, rests_on=DRAWS))
    return found


def _where(what: str) -> tuple[str, str]:
    """Set, and metric with the loss, of a comparison that is told in words."""
    name, _, loss = what.partition(" on ")[2].partition(" with ")
    return name, f"NDCG@10, {loss}"


Compared = list[tuple[str, float, float]]
"""What was compared with its base, by how much NDCG@10 differs, and p."""


def first_rows(numbers: dict[str, Any]) -> Compared:
    """All reranked rows of the first tables."""
    found: Compared = []
    for name in SETS:
        for base, (label, _) in BASES.items():
            rows, _ = rows_of(name, base, numbers)
            for loss, (shown, _) in LOSSES.items():
                if (row := rows.get(f"{base}/{loss}")) is not None:
                    found.append((f"{label} on {name} with {shown}", gain(row, rows[base]), row["p"]))
    return found


def crossed_rows(numbers: dict[str, Any]) -> Compared:
    """All rows of the table of cross-fitted scores."""
    found: Compared = []
    for name in CROSSED_SETS:
        for base, (label, _) in CROSSED.items():
            rows = numbers.get(f"crossfit/{name}/{base}", {"rows": {}})["rows"]
            for key, row in rows.items():
                if "p" in row:
                    loss, kind = key.split("/")
                    kind = "own" if kind == "own" else "cross-fitted"
                    what = f"{label} on {name} with {LOSSES[loss][0]} on {kind} scores"
                    found.append((what, gain(row, rows["base"]), row["p"]))
    return found


def gain(row: dict[str, Any], base: dict[str, Any]) -> float:
    return float(row["means"]["ndcg@10"] - base["means"]["ndcg@10"])


def significant(found: Compared) -> str:
    """How many comparisons have p below .05, which, and how many chance would give."""
    told = [f"{what} ({by:+.4f})".replace("0.", ".") for what, by, p in found if p < 0.05]
    many = f"{len(told)} of the {len(found)} differences {'has' if len(told) == 1 else 'have'} p below .05"
    return f"{many}: {'; '.join(told)}. Chance alone would give {0.05 * len(found):.0f}."


def set_table(name: str, numbers: dict[str, Any]) -> str:
    lines = [f"### {name}", "", "| base | loss | NDCG@1 | NDCG@2 | NDCG@5 | NDCG@10 | folds changed |"]
    lines.append("|---|---|---|---|---|---|---|")
    for base, (label, _) in BASES.items():
        rows, mark = rows_of(name, base, numbers)
        if base not in rows:
            continue
        lines.append(f"| {label}{mark} | | {' | '.join(cell(rows[base]['means'][m]) for m in METRICS)} | |")
        for loss, (shown, _) in LOSSES.items():
            if f"{base}/{loss}" in rows:
                row = rows[f"{base}/{loss}"]
                cells = [cell(row["means"][m], rows[base]["means"][m]) for m in METRICS]
                cells[-1] += " *" if row["p"] < 0.05 else ""
                lines.append(f"| | {shown} | {' | '.join(cells)} | {row['changed']} |")
    return "\n".join([*lines, ""])


def rows_of(name: str, base: str, numbers: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The rows of a base ranker; those of an earlier run with smaller settings have a mark."""
    found = numbers.get(f"rerank/{name}/{base}")
    return (found["rows"], "") if found else (numbers.get(f"rerank/{name}", {}), " †")


def crossfit_table(numbers: dict[str, Any]) -> str:
    lines = ["| set, base | scores | loss | NDCG@1 | NDCG@2 | NDCG@5 | NDCG@10 | folds changed |", "|---" * 8 + "|"]
    for key in [f"crossfit/{name}/{base}" for name in CROSSED_SETS for base in CROSSED]:
        if key not in numbers:
            continue
        rows, label = numbers[key]["rows"], f"{key.split('/')[1]}, {CROSSED[key.split('/')[2]][0]}"
        before = rows["base"]["means"]
        lines.append(f"| {label} | | | {' | '.join(cell(before[m]) for m in METRICS)} | |")
        for kind, shown in (("own", "own"), ("crossed", "cross-fitted")):
            for loss, (named, _) in CROSSED_LOSSES.items():
                row = rows[f"{loss}/{kind}"]
                cells = [cell(row["means"][m], before[m]) for m in METRICS]
                cells[-1] += " *" if row["p"] < 0.05 else ""
                lines.append(f"| | {shown} | {named} | {' | '.join(cells)} | {row['changed']} |")
    return "\n".join(lines)


def cell(value: float, base: float | None = None) -> str:
    text = f"{value:.4f}".lstrip("0")
    return text + (" ↑" if base is not None and value > base + 5e-5 else "")


def paper_table() -> str:
    lines = ["| base, loss | NDCG@1 | NDCG@2 | NDCG@5 | NDCG@10 |", "|---|---|---|---|---|"]
    for label, before, after in REPORTED:
        lines.append(f"| {label} | {' | '.join(f'{a} to {b}' for a, b in zip(before, after, strict=True))} |")
    return "\n".join(lines)


def rivals_table(numbers: dict[str, Any]) -> str:
    found = {name: numbers[f"rivals/{name}"] for name in SETS if f"rivals/{name}" in numbers}
    lines = ["| system | " + " | ".join(f"{name} NDCG@1 | NDCG@10" for name in found) + " |"]
    lines.append("|---" * (1 + 2 * len(found)) + "|")
    for system, label in RIVALS.items():
        cells = [cell(rows[system]["means"][m]) for rows in found.values() for m in ("ndcg@1", "ndcg@10")]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def diversity_table(found: dict[str, list[float]] | None) -> str:
    if found is None:
        return "Not computed."
    labels = {name: f"{label} (pointwise)" for name, (label, _) in POINTWISE.items()}
    labels |= {"listwise": "listwise reranker (exchangeable)"}
    labels |= {"mmr-minmax": "MMR, tuned, cosine of [0, 1]", "luce-minmax": "greedy, learned, cosine of [0, 1]"}
    labels |= {"mmr": "MMR, tuned, cosine of z-scores", "luce": "greedy, learned, cosine of z-scores"}
    labels |= {"shuffled": "a shuffled order (control)"} if found.get("shuffled") else {}
    lines = ["| model | mean | least | greatest | below the learned one in |", "|---|---|---|---|---|"]
    for name, label in labels.items():
        values = np.array(found[name])
        best = np.array(found["luce-minmax" if name == "mmr-minmax" else "luce"])
        below = "" if name == "luce" else f"{int((values < best).sum())} of {len(values)}"
        lines.append(f"| {label} | {' | '.join(cell(f(values)) for f in (np.mean, np.min, np.max))} | {below} |")
    return "\n".join(lines)


def jobs() -> dict[str, Callable[[], Any]]:
    """Everything that is measured, by the name under which it is kept."""
    found: dict[str, Callable[[], Any]] = {}
    for name in (name for name in SETS if (data_folder() / name).exists()):
        found |= {f"rerank/{name}/{base}": partial(reranked, name, base) for base in BASES}
        found[f"rivals/{name}"] = partial(rivals, name)
        found |= {f"terms/{name}": partial(sums, name)} if name == "MQ2008" else {}
        if name in official.FILES:
            found |= official.jobs(name)
        if name in CROSSED_SETS:
            found |= {f"crossfit/{name}/{base}": partial(crossfit, name, base) for base in CROSSED}
    return found | {"diversity": partial(diversity, range(20)), "shuffled": partial(shuffled, range(20))}


def quick() -> dict[str, Any]:
    numbers: dict[str, Any] = {"diversity": diversity(range(2)), "shuffled": shuffled(range(2))}
    CROSSED["random_forest"] = ("Random forest", [{"trainer__trees": 3}])
    if (data_folder() / "OHSUMED").exists():
        numbers["crossfit/OHSUMED/random_forest"] = crossfit("OHSUMED", "random_forest", 1)
    if (data_folder() / "OHSUMED-2.0").exists():
        numbers["rerank/OHSUMED-2.0/listnet"] = reranked("OHSUMED-2.0", "listnet", 1)
        numbers["rivals/OHSUMED-2.0"] = rivals("OHSUMED-2.0", 1)
        numbers["official/OHSUMED-2.0/listnet/published"] = official.published("OHSUMED-2.0", "ListNet")
    return numbers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--part", nargs="*", default=[""])
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    store = ROOT / "papers" / "results" / "listwise.json"
    if options.quick:
        write_page("listwise", page(quick()), Path(tempfile.mkdtemp(prefix="luce-paper-")))
        return 0
    wanted = {key: job for key, job in jobs().items() if key.startswith(tuple(options.part))}
    for key, job in {} if options.page else wanted.items():
        if options.again or key not in kept(store):
            print(key, flush=True)
            add(store, {key: job(), "settings": {"seed": SEED, "bases": BASES, "pointwise": POINTWISE}})
    write_page("listwise", page(kept(store)), ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
