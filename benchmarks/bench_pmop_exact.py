"""The general PMOP: exact value and gradient, how they grow with the query, and exact draws."""

from __future__ import annotations

import itertools

import numpy as np
from harness import Line, best_of, exponent
from numba import njit

import luce
from luce.losses.probabilities import pair_probabilities
from luce.losses.tier_sizes import SizeModel


def queries(n: int, length: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, n * length + 1, length)
    return rng.normal(0, 1.5, n * length), rng.integers(0, 5, n * length).astype(float), offsets


@njit(nogil=True, error_model="numpy")
def textbook(f: np.ndarray, starts: np.ndarray) -> tuple[float, np.ndarray]:
    """Value and gradient of one query whose documents are sorted by tier.

    The program E[i, j] = E[i - 1, j] + x E[i - 1, j - 1] on logarithms, once a stage and size, and its reverse sweep.
    """
    value, grad = 0.0, np.zeros(len(f))
    for k in range(len(starts) - 1):
        left, size = f[starts[k] :], starts[k + 1] - starts[k]
        n = len(left)
        log_e, inside = np.empty(n), np.empty((n, n))
        for m in range(1, n + 1):
            table = np.full((n + 1, m + 1), -np.inf)
            table[:, 0] = 0.0
            for i in range(1, n + 1):
                for j in range(1, min(i, m) + 1):
                    table[i, j] = np.logaddexp(table[i - 1, j], left[i - 1] / m + table[i - 1, j - 1])
            log_e[m - 1] = table[n, m]
            mass = np.zeros(m + 1)
            mass[m] = 1.0
            for i in range(n, 0, -1):
                taken = 0.0
                for j in range(1, min(i, m) + 1):
                    take = mass[j] * np.exp(left[i - 1] / m + table[i - 1, j - 1] - table[i, j])
                    mass[j] -= take
                    mass[j - 1] += take
                    taken += take
                inside[m - 1, i - 1] = taken / m
        top = log_e.max()
        weight = np.exp(log_e - top)
        value += top + np.log(weight.sum()) - left[:size].mean()
        grad[starts[k] :] += (weight / weight.sum()) @ inside
        grad[starts[k] : starts[k + 1]] -= 1.0 / size
    return value, grad


def textbook_all(scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> float:
    total = 0.0
    for a, b in itertools.pairwise(offsets):
        order = np.argsort(-labels[a:b], kind="stable")
        counts = np.unique(labels[a:b], return_counts=True)[1][::-1]
        total += textbook(scores[a:b][order], np.concatenate([[0], np.cumsum(counts)]))[0]
    return total


def run() -> list[Line]:
    exact = luce.losses.get("pmop_exact")
    problem = queries(10_000, 24)
    seconds = best_of(lambda: exact.value_and_grad(*problem))
    lines = [Line("pmop_exact: value and gradient, 10,000 queries of 24", seconds, goal="under 2 s", met=seconds < 2)]
    small = queries(100, 24)
    assert np.isclose(textbook_all(*small), exact.value_and_grad(*small)[0], rtol=1e-11)
    ours, theirs = best_of(lambda: exact.value_and_grad(*small)), best_of(lambda: textbook_all(*small))
    lines.append(Line("the same, 100 queries", ours, peer="textbook program, log domain, by stage", theirs=theirs))
    for name, settings in [("pmop", {}), ("pmop_exact", {"sizes": "given"}), ("pmop_gibbs", {"value": "surrogate"})]:
        loss = luce.losses.get(name, **settings)
        seconds = best_of(lambda loss=loss: loss.value_and_grad(*problem))
        inside = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        lines.append(Line(f"{name}({inside}): the same 10,000 queries", seconds))
    lengths, times = [100, 400, 1000], []
    for length in lengths:
        one = queries(1, length)
        times.append(best_of(lambda one=one: exact.value_and_grad(*one)))
        lines.append(Line(f"pmop_exact: one query of {length}", times[-1]))
    lines.append(Line("pmop_exact: exponent from 100 to 1,000 documents", exponent(lengths, times), unit=""))
    scores, labels, offsets = queries(200, 24)
    sizes = SizeModel.fit(labels, offsets)
    rng = np.random.default_rng(0)
    for name, model in [("pmop", None), ("pmop", sizes), ("pmop_exact", None), ("pmop_exact", sizes)]:
        loss, what = luce.losses.get(name), "model" if model is None else "fitted"
        seconds = best_of(lambda loss=loss, model=model: pair_probabilities(loss, scores[:24], rng, 2000, model))
        lines.append(Line(f"{name}: tie probabilities, 24 documents, 2,000 draws, {what} sizes", seconds))
    return lines
