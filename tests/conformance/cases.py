"""Every registered loss, with the settings under which it is tested."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

import luce

VARIANTS: dict[str, list[dict[str, object]]] = {
    "bradley_terry": [{}, {"epsilon": 0.4}],
    "cdn": [
        {},
        {"w1": 0.4, "functions": 2, "weighting": "pairs"},
        {"topology": "disconnected"},
        {"topology": "random", "networks": 2, "pairs": 8},
        {"topology": "line"},
        {"topology": "star", "w2": 0.5},
        {"topology": "list"},
        {"topology": "random", "family": "gaussian", "rho": -0.4, "pairs": 5, "networks": 1},
    ],
    "cosine": [{}, {"consistent": True, "empty": "keep"}],
    "davidson": [{}, {"nu": 0.6}, {"ties": False}],
    "hom_gg": [{"k": 1}, {"k": 3, "ties": "stable"}, {"k": 3, "ties": "exact"}],
    "hom_og": [{"k": 2}, {"k": 3, "ties": "shrink"}, {"k": 3, "ties": "average"}],
    "hom_oo": [{}, {"k": 2}, {"k": 3, "exact": True}, {"k": 3, "normalised": False}],
    "listmle": [{}, {"ties": "random", "seed": 1}],
    "plackett_luce": [{"ties": "stable"}, {"ties": "efron"}, {"ties": "breslow"}, {"cut": 4}, {"tier_gain": 2}],
    "monotone_retargeting": [{}, {"margin": 0.2}],
    "ndcg_cross_entropy": [
        {},
        {"beta": 1.0, "offset": 0.1, "gain": "linear", "k": 3},
        {"beta": 1.0, "link": "arcsinh"},
    ],
    "ndcg_mix": [
        {},
        {"alpha": (30.0, 0.2, 1.0), "empty": "keep"},
        {"alpha": (0.0, 1.0, 0.5), "offset": 0.2},
        {"alpha": (50.0, 1.0, 0.0)},
        {"alpha": (50.0, 0.0, 1.0), "q": 3.0, "offset": 0.0},
        {"alpha": (1.0, 1.0), "dictionary": ("qnorm", "cross_entropy"), "beta": 1.0},
    ],
    "ndcg_qnorm": [{}, {"q": 3.0, "discount": "letor"}],
    "ndcg_square": [{}, {"empty": "keep"}, {"link": "stretch"}, {"link": "softplus", "offset": 0.0}],
    "order_and_size": [{}, {"weight": 0.3, "tier_gain": 2.0, "slope": None}, {"order": "pmop", "slope": 2.0}],
    "pmop": [
        {},
        {"direction": "backward"},
        {"stage_weights": (1.0, 0.6, 0.3)},
        {"direction": "backward", "cut": 5},
        {"tier_gain": 2},
    ],
    "pmop_exact": [{}, {"sizes": "given"}, {"sizes": "printed"}, {"cut": 5, "seed": 2}],
    "pmop_mh": [{}, {"paper_rule": True}],
    "ranknet": [{}, {"weighting": "pairs", "position_weight": "log2"}],
    "ranksvm": [{}, {"ties": True, "epsilon": 0.3}],
    "rao_kupper": [{}, {"theta": 1.5}, {"ties": False}, {"weighting": "size"}],
    "thurstone_mosteller": [{}, {"epsilon": 0.8}, {"ties": False}],
    "topk_listmle": [{}, {"k": 2}, {"k": None}],
}
"""Settings to test beside the defaults; a loss that is not named here is tested with its defaults."""


def all_losses() -> list[luce.losses.Loss]:
    return [luce.losses.get(name, **settings) for name in luce.losses.names() for settings in VARIANTS.get(name, [{}])]


def likelihoods() -> list[luce.losses.Likelihood]:
    """Those that are probabilities: not with weighted tiers, and not of pieces of a query."""
    known = [loss for loss in all_losses() if isinstance(loss, luce.losses.Likelihood)]
    return [loss for loss in known if getattr(loss, "tier_gain", None) is None and getattr(loss, "cut", None) is None]


def problem(
    seed: int, sizes: tuple[int, ...] = (1, 2, 7, 12, 30, 5), grades: int = 4, untied: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels and offsets of a few queries of different lengths."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n = int(offsets[-1])
    labels = rng.permutation(n) if untied else rng.integers(0, grades, n)
    return rng.normal(0, 1.5, n), labels.astype(float), offsets


def ordered_partitions(n: int) -> Iterator[np.ndarray]:
    """Every ordered partition of n items, as labels: Fubini(n) of them."""
    for labels in itertools.product(range(n), repeat=n):
        if set(labels) == set(range(max(labels) + 1)):
            yield np.array(labels, dtype=float)


def permutations(n: int) -> Iterator[np.ndarray]:
    """Every total order of n items, as labels."""
    for labels in itertools.permutations(range(n)):
        yield np.array(labels, dtype=float)


def tops(n: int, k: int | None) -> Iterator[np.ndarray]:
    """Every ordered choice of the top k of n items, as labels: k for the first, 0 for all that are not chosen."""
    for chosen in itertools.permutations(range(n), n if k is None else min(n, k)):
        labels = np.zeros(n)
        labels[list(chosen)] = np.arange(len(chosen), 0, -1)
        yield labels


def outcomes(loss: luce.losses.Likelihood, n: int) -> list[np.ndarray]:
    """Everything that a likelihood can say of n items."""
    if loss.outcome == "top":
        return list(tops(n, loss.k))
    return list(permutations(n) if loss.outcome == "order" else ordered_partitions(n))
