"""For the page of the top-k paper: its first figure with chances, and what the normaliser of a first layer is worth."""

from __future__ import annotations

from typing import Any

import numpy as np

import luce
from luce.losses.hierarchy import HierarchicalOrdering, LuceOrder

__all__ = ["processes_figure", "recovered", "recovered_table"]

SCORES = {"A": 0.9, "B": 0.2, "C": 0.0, "D": -0.2, "E": -0.4, "F": 1.2, "G": 1.6, "H": -0.6}
TOP = "GFA"
DOCUMENTS, TOPS, DRAWS = 6, (1, 3, 5), 2_000


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
