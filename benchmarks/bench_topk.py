"""Top-k losses: how they grow with the query, the coset-permutation model, and chances to be in the top k."""

from __future__ import annotations

import numpy as np
from harness import Line, best_of, exponent

import luce
from luce.losses.probabilities import topk_chances
from luce.numerics.races import chances_in_top
from luce.scorers.cps import CPSScorer
from luce.training.coset_objective import CosetObjective


def lists(n: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.concatenate([rng.permutation(length) for _ in range(n)]).astype(float)
    return rng.normal(0, 1.5, n * length), labels, np.arange(0, n * length + 1, length)


def growth() -> list[Line]:
    """Value and gradient of one query, with half of its documents on top: the most pairs there can be."""
    lines, lengths = [], [1_000, 10_000, 100_000]
    for name in ("hom_oo", "topk_listmle", "hom_gg", "hom_og"):
        times = []
        for length in lengths:
            scores, labels, offsets = lists(1, length)
            loss = luce.losses.get(name, k=length // 2, **({"normalised": False} if name == "hom_oo" else {}))
            prepared, grad = loss.prepare(labels, offsets), np.zeros(length)
            times.append(
                best_of(lambda loss=loss, p=prepared, s=scores, g=grad: loss.evaluate(p, s, (0, 1), g), repeats=5)
            )
        lines += [Line(f"{name}: one query of {n:,}, k = n / 2", t) for n, t in zip(lengths, times, strict=True)]
        slope = exponent(lengths, times)
        lines.append(Line(f"{name}: exponent", slope, unit="", goal="at most 1.15", met=slope <= 1.15))
    scores, labels, offsets = lists(1, 10_000)
    fast, slow = (luce.losses.get("hom_oo", k=5_000, normalised=False, exact=exact) for exact in (False, True))
    prepared, grad = fast.prepare(labels, offsets), np.zeros(10_000)
    ours = best_of(lambda: fast.evaluate(prepared, scores, (0, 1), grad), repeats=5)
    theirs = best_of(lambda: slow.evaluate(prepared, scores, (0, 1), grad), repeats=2)
    return [*lines, Line("hom_oo: one query of 10,000", ours, peer="pair by pair", theirs=theirs)]


def coset() -> list[Line]:
    rng = np.random.default_rng(0)
    queries, length, features = 1_000, 100, 46
    X = rng.normal(size=(queries * length, features)).astype(np.float32).round(2)
    data = luce.from_arrays(X, lists(queries, length)[1], group=[length] * queries)
    objective = CosetObjective(data, CPSScorer(10).bind(data), luce.losses.get("topk_listmle", k=10), 0.01)
    at = rng.normal(0, 0.1, features)
    seconds = best_of(lambda: objective.value_and_grad(at), repeats=5)
    model = objective.scorer.fitted(at)
    greedy = best_of(lambda: model.score(data.X, data.offsets))
    return [
        Line(
            "topk-cps: value and gradient, 1,000 queries of 100, k = 10, 46 features",
            seconds,
            goal="under 0.5 s on two cores",
            met=seconds < 0.5,
        ),
        Line("topk-cps: greedy prediction of the same", greedy),
    ]


def chances() -> list[Line]:
    """Chances to be in the top k: Luce's race exactly, the models without a normaliser by weighted draws."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1.5, 5_000)
    lines = [
        Line(f"chance to be in the top {k} of {n:,}", best_of(lambda n=n, k=k: chances_in_top(scores[:n], k)))
        for n, k in [(100, 10), (1_000, 10), (1_000, 100)]
    ]
    seconds = best_of(lambda: chances_in_top(scores, 500), repeats=3)
    lines.append(Line("chance to be in the top 500 of 5,000", seconds, goal="under 2 s on one core", met=seconds < 2.0))
    for name in ("hom_oo", "hom_og"):
        loss = luce.losses.get(name, k=10)
        seconds = best_of(lambda loss=loss: topk_chances(loss, scores[:100], 10))
        lines.append(Line(f"{name}: chance to be in the top 10 of 100, by 4,000 weighted draws", seconds))
    data = luce.from_arrays(rng.normal(size=(100, 46)), rng.permutation(100).astype(float))
    model = luce.model("topk-cps", random_state=0, max_iter=5).fit(data)
    seconds = best_of(lambda: model.topk_chances(data, 10))
    return [*lines, Line("topk-cps: chance to be in the top 10 of 100, by 4,000 draws, 46 features", seconds)]


def run() -> list[Line]:
    return [*growth(), *coset(), *chances()]
