"""Pairwise losses on one long query of five grades: growth with its length, time at 100,000, error, and the switch."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from harness import Line, exponent

import luce

SIZES = [1_000, 10_000, 100_000]
LOSSES: list[tuple[str, dict[str, object]]] = [
    ("ranknet", {}),
    ("ranksvm", {}),
    ("ranksvm", {"ties": True}),
    ("rank_regress", {}),
    ("rao_kupper", {}),
    ("rao_kupper", {"ties": False}),
    ("bradley_terry", {}),
    ("davidson", {}),
    ("thurstone_mosteller", {}),
    ("thurstone_mosteller", {"ties": False}),
    ("paired", {"link": "logistic"}),
]


def query(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(0, 1.5, n), rng.integers(0, 5, n).astype(float)


def seconds(loss: luce.losses.Loss, n: int, repeats: int = 5) -> float:
    """One evaluation, as in an iteration of training: the target is prepared once."""
    scores, labels = query(n)
    prepared = loss.prepare(labels, np.array([0, n]))
    grad, d_parameters = np.zeros(n), np.zeros((1, len(loss.parameters)))
    return least(lambda: loss.evaluate(prepared, scores, (0, 1), grad, np.empty(0), d_parameters), repeats)


def least(function: Callable[[], object], repeats: int) -> float:
    """Least processor time of several calls: one query is serial work, and a busy machine does not stretch it."""
    function()
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        function()
        times.append(time.thread_time() - start)
    return min(times)


def run() -> list[Line]:
    lines = []
    for name, options in LOSSES:
        loss = luce.losses.get(name, **options)
        times = [seconds(loss, n, 20 if n < 100_000 else 6) for n in SIZES]
        growth = exponent([SIZES[0], SIZES[-1]], [times[0], times[-1]])
        lines.append(Line(f"{loss!r}, N = 100,000", times[-1], goal="under 1 s", met=times[-1] < 1))
        lines.append(
            Line(f"{loss!r}, exponent 1,000 to 100,000", growth, unit="", goal="at most 1.15", met=growth <= 1.15)
        )
        if hasattr(loss, "exact"):
            lines += against_pairs(name, options)
    return lines


def against_pairs(name: str, options: dict[str, object]) -> list[Line]:
    """Time and error against every pair by itself, at N = 3,000."""
    scores, labels = query(3_000)
    fast, exact = luce.losses.get(name, **options), luce.losses.get(name, exact=True, **options)
    (value, grad), (expected, expected_grad) = (loss.value_and_grad(scores, labels) for loss in (fast, exact))
    error = max(
        abs(value - expected) / abs(expected), np.linalg.norm(grad - expected_grad) / np.linalg.norm(expected_grad)
    )
    return [
        Line(f"{fast!r}, relative error at 3,000", error, unit="", goal="at most 1e-8", met=bool(error <= 1e-8)),
        Line(f"{fast!r}, N = 3,000", seconds(fast, 3_000), peer="pair by pair", theirs=seconds(exact, 3_000, 2)),
    ]


def costs() -> dict[str, tuple[float, float, float]]:
    """Nanoseconds a pair, a document in panels, a panel: the numbers in `SmoothPairs.costs`."""
    from luce.numerics.chebyshev import grow_tree

    measured = {}
    rng = np.random.default_rng(0)
    for name in ("ranknet", "rao_kupper", "davidson", "thurstone_mosteller"):
        fast = luce.losses.get(name)
        pairs = 500**2 / 2 * (0.8 if name == "ranknet" else 1.0)
        pair = seconds(fast, 500) / pairs
        fast.costs = (np.inf, 0.0, 0.0)  # type: ignore[misc]
        target = fast.prepare(query(100_000)[1], np.array([0, 100_000]))
        visits = np.where(target.tasks[:, 0] == 1, 1, 2 * fast.uses_ties)  # a tier with itself: spread and gathered
        documents = visits @ (target.starts[target.tasks[:, 3]] - target.starts[target.tasks[:, 1]])
        document = seconds(fast, 100_000) / documents
        scores, labels = rng.uniform(-1e4, 1e4, 3_000), query(3_000)[1]
        target, grad = fast.prepare(labels, np.array([0, 3_000])), np.zeros(3_000)
        panels = len(grow_tree(scores, fast.panel_width).ids)
        tasks = sum(kind == 1 or fast.uses_ties for kind in target.tasks[:, 0])
        wide = least(lambda f=fast, t=target, s=scores, g=grad: f.evaluate(t, s, (0, 1), g), 3)
        panel = (wide - 3_000 * 4 * document) / panels / tasks
        measured[name] = (1e9 * pair, 1e9 * document, 1e9 * panel)
    return measured


if __name__ == "__main__":
    for name, (pair, document, panel) in costs().items():
        print(f"{name:<22} pair {pair:.1f} ns, document {document:.0f} ns, panel {panel:.0f} ns")
