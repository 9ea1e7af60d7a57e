"""For the page of the top-k paper: its first figure with chances, and what the normaliser of a first layer is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import luce
from kit.crossfit import Entry, best_of_grid
from luce.experiments.folds import Fold
from luce.losses.hierarchy import HierarchicalOrdering, LuceOrder
from luce.metrics.significance import randomisation_test

__all__ = ["both_forms", "both_forms_table", "processes_figure", "recovered", "recovered_table"]

SCORES = {"A": 0.9, "B": 0.2, "C": 0.0, "D": -0.2, "E": -0.4, "F": 1.2, "G": 1.6, "H": -0.6}
TOP = "GFA"
DOCUMENTS, TOPS, DRAWS = 6, (1, 3, 5), 2_000
FORMS = {"hom-oo": "HOM-OO", "hom-og": "HOM-OG"}
JUDGED = ("kappa_ndcg@1", "kappa_ndcg@2", "kappa_ndcg@10")


def recovered(seed: int) -> dict[str, Any]:
    """Scores learned from drawn tops, with and without the normaliser: slope on the true ones, and their error."""
    truth = np.linspace(1.0, -1.0, DOCUMENTS)
    found: dict[str, Any] = {"seed": seed, "documents": DOCUMENTS, "draws": DRAWS}
    for name in ("hom_oo", "hom_og"):
        for k in TOPS:
            drawn = luce.losses.get(name, k=k).sample_many(truth, np.random.default_rng(seed), DRAWS)
            tops, counts = np.unique(drawn, axis=0, return_counts=True)
            qid = np.repeat(np.arange(len(tops)), DOCUMENTS)
            data = luce.from_arrays(np.tile(np.eye(DOCUMENTS), (len(tops), 1)), tops.ravel(), qid=qid)
            for normalised in (False, True):
                model = luce.Ranker(name, loss__k=k, loss__normalised=normalised, l2=0.0, tol=1e-10)
                scores = model.fit(data, query_weight=counts.astype(float)).predict(np.eye(DOCUMENTS))
                scores -= scores.mean()
                slope, error = scores @ truth / (truth @ truth), np.sqrt(np.mean((scores - truth) ** 2))
                found[f"{name}/{k}/{normalised}"] = [float(slope), float(error)]
    return found


def recovered_table(found: dict[str, Any]) -> str:
    lines = ["| model | k | proportional: slope | error | normalised: slope | error |", "|---|---|---|---|---|---|"]
    for name, label in (("hom_oo", "HOM-OO"), ("hom_og", "HOM-OG")):
        for k in TOPS:
            cells = [value for kind in (False, True) for value in found[f"{name}/{k}/{kind}"]]
            lines.append(f"| {label} | {k} | {' | '.join(f'{value:.2f}' for value in cells)} |")
    return "\n".join(lines)


def both_forms(folds: Sequence[Fold], k: int, penalties: Sequence[Mapping[str, Any]], seed: int) -> dict[str, Any]:
    """HOM-OO and HOM-OG as printed and by maximum likelihood, on real orders: ranking, and chances of held-out tops."""
    kept = {f"{model}/{normalised}": _Kept() for model in FORMS for normalised in (False, True)}
    for fold in folds:
        train, valid, test = fold.load()
        for key, found in kept.items():
            model, _, normalised = key.partition("/")
            settings = {"loss__k": k, "loss__ties": "shrink", "loss__normalised": normalised == "True"}
            ranker, choice, seconds = best_of_grid(
                Entry(model, settings, penalties), train, valid, "kappa_ndcg@10", seed
            )
            found.add(ranker, test, choice, seconds)
        print(fold.name, flush=True)
    rows = {key: found.row() for key, found in kept.items()}
    for model in FORMS:
        printed, likely = kept[f"{model}/False"], kept[f"{model}/True"]
        gain = np.array(likely.chances) - np.array(printed.chances)
        tests = {
            m: randomisation_test(np.array(likely.values[m]), np.array(printed.values[m]), rng=seed) for m in JUDGED
        }
        rows[f"{model}/True"] |= {
            "p": {metric: test.p_value for metric, test in tests.items()},
            "gain": [float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain)))],
        }
    return {"seed": seed, "k": k, "penalties": list(penalties), "rows": rows}


class _Kept:
    """What is kept of one row: values of the test queries, log-chances of their tops, choices and seconds."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {metric: [] for metric in JUDGED}
        self.chances: list[float] = []
        self.chosen: list[dict[str, Any]] = []
        self.seconds: list[float] = []

    def add(self, ranker: luce.Ranker, test: luce.Groups, choice: dict[str, Any], seconds: float) -> None:
        judged = luce.evaluate(ranker, test, list(JUDGED), ties="stable")
        for metric in JUDGED:
            self.values[metric] += np.asarray(judged.values[metric]).tolist()
        scores = ranker.predict(test)
        self.chances += [ranker.loss_.log_prob(scores[a:b], test.y[a:b]) for a, b in pairwise(test.offsets)]
        self.chosen.append(choice)
        self.seconds.append(seconds)

    def row(self) -> dict[str, Any]:
        means = {metric: float(np.mean(values)) for metric, values in self.values.items()}
        chance, seconds = float(np.mean(self.chances)), float(np.mean(self.seconds))
        return {"means": means, "log_chance": chance, "chosen": self.chosen, "seconds": seconds}


def both_forms_table(found: dict[str, Any]) -> str:
    heads = " | ".join(metric.replace("kappa_ndcg", "κ-NDCG") for metric in JUDGED)
    lines = [
        f"| model | form | {heads} | log-chance of a held-out top | L2 | fit, CPU s |",
        "|---" * 8 + "|",
    ]
    for key, row in found["rows"].items():
        model, _, normalised = key.partition("/")
        cells = [f"{row['means'][m]:.4f}".lstrip("0") + (f" ({row['p'][m]:.2f})" if "p" in row else "") for m in JUDGED]
        chance = f"{row['log_chance']:.3f}"
        if "gain" in row:
            chance += " ({:+.3f} ± {:.3f})".format(*row["gain"])
        chosen = sorted(choice["l2"] for choice in row["chosen"])
        form = "maximum likelihood" if normalised == "True" else "proportional"
        ends = [chance, f"{chosen[len(chosen) // 2]:g}", f"{row['seconds']:.2f}"]
        lines.append(f"| {FORMS[model]} | {form} | {' | '.join([*cells, *ends])} |")
    return "\n".join(lines)


def processes_figure() -> str:
    """Figure 1 of the paper: the same top three, made one by one by Luce's stages, or as a set that is then ordered."""
    names, scores = list(SCORES), np.array(list(SCORES.values()))
    places = [names.index(name) for name in TOP]
    left, staged, stages = list(range(len(names))), [], [_braces(names)]
    for number, place in enumerate(places, 1):
        staged.append(float(np.exp(scores[place]) / np.exp(scores[left]).sum()))
        left.remove(place)
        stages.append(" | ".join([*TOP[:number], _braces([names[i] for i in left])]))
    model = HierarchicalOrdering(3, "one_to_group")
    members, chances = model.sets(scores)
    chance = float(chances[(members == np.sort(places)).all(axis=1)][0])
    inside = float(np.exp(LuceOrder().log_prob(scores[places])))
    both = f"{_braces(sorted(TOP))} | {_braces([names[i] for i in left])}"
    drawn = _column(20, "Sequential: Luce's stages", stages, staged)
    drawn += _column(340, "Hierarchical: HOM-OG", [_braces(names), both, stages[-1]], [chance, inside])
    shows = "Two ways to make the same top three of eight documents, with the chance of each step"
    return (
        '<svg viewBox="0 0 640 230" role="img" font-size="13" font-family="sans-serif" style="max-width:640px" '
        f'fill="currentColor"><title>{shows}</title>{drawn}</svg>'
    )


def _braces(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}"


def _column(x: float, title: str, states: list[str], chances: list[float]) -> str:
    drawn = [f'<text x="{x}" y="18" font-weight="bold">{title}</text>']
    for number, state in enumerate(states):
        y = 46 + 48 * number
        drawn.append(f'<text x="{x}" y="{y}">{state}</text>')
        if number < len(chances):
            drawn.append(f'<path d="M{x + 60} {y + 8}v18m-4 -6l4 6l4 -6" fill="none" stroke="currentColor"/>')
            drawn.append(f'<text x="{x + 76}" y="{y + 23}" font-size="11">{chances[number]:.3f}</text>')
    total = float(np.prod(chances))
    drawn.append(f'<text x="{x}" y="{46 + 48 * (len(states) - 1) + 24}" font-size="11">together {total:.4f}</text>')
    return "".join(drawn)
