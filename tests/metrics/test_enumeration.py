"""Every metric against its plain definition, averaged over all orders of the tied documents."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from luce.metrics import Conventions, evaluate_arrays, get, names

RMAX = 4.0
TOP_K = 3

# The slow, obvious forms: `y` are labels in ranked order, `everything` all labels of the query, retrieved or not.


def discount(i: int, c: Conventions) -> float:
    if c.discount == "letor":
        return 1.0 if i <= 2 else 1.0 / math.log2(i)
    return 1.0 / math.log2(i + 1)


def gain(r: float, c: Conventions) -> float:
    return max(2.0**r - 1.0 if c.gain == "exponential" else r, 0.0)


def dcg(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    return sum(gain(r, c) * discount(i, c) for i, r in enumerate(y[:k], 1))


def ndcg(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    ideal = dcg(sorted(everything, reverse=True), everything, k, c)
    if ideal == 0:
        return float(c.empty)
    if c.shortfall != "truncate" and k != 10**9 and len(everything) < k:
        return 0.0
    return dcg(y, everything, k, c) / ideal


def mean_ndcg(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    return float(np.mean([ndcg(y, everything, j, c) for j in range(1, len(everything) + 1)]))


def err(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions, rmax: float = RMAX) -> float:
    total, reach = 0.0, 1.0
    for i, r in enumerate(y[:k], 1):
        v = (2.0 ** max(r, 0.0) - 1.0) / 2.0**rmax
        total += reach * v / i
        reach *= 1.0 - v
    return total


def relevant(values: Sequence[float], c: Conventions) -> list[bool]:
    return [r >= c.relevance for r in values]


def precision(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    if c.shortfall == "zero" and k != 10**9 and len(everything) < k:
        return 0.0
    places = min(k, len(y)) if k == 10**9 or c.precision_denominator == "retrieved" else k
    return sum(relevant(y[:k], c)) / places if places else 0.0


def recall(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    total = sum(relevant(everything, c))
    return sum(relevant(y[:k], c)) / total if total else float(c.empty)


def average_precision(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    total = sum(relevant(everything, c))
    if total == 0:
        return float(c.empty if c.empty_map is None else c.empty_map)
    hit = relevant(y[:k], c)
    below = min(total, k) if c.map_denominator == "cutoff" else total
    return sum(sum(hit[: i + 1]) / (i + 1) for i in range(len(hit)) if hit[i]) / below


def reciprocal_rank(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    return next((1.0 / i for i, hit in enumerate(relevant(y[:k], c), 1) if hit), 0.0)


def rbp(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    worth = [r if c.rbp_gain == "grade" else 1.0 for r in y]
    hit = relevant(y[:k], c)
    return (1 - c.persistence) * sum(hit[i] * worth[i] * c.persistence**i for i in range(len(hit)))


def position_aware(everything: Sequence[float]) -> list[float]:
    """top_k + 1 - position, where equal labels share their best position; what is not relevant has none."""
    better = [sum(other > mine for other in everything) for mine in everything]
    return [max(TOP_K - b, 0.0) if mine > 0 else 0.0 for b, mine in zip(better, everything, strict=True)]


def kappa_ndcg(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    table = dict(zip(everything, position_aware(everything), strict=True))
    exponential = Conventions(discount=c.discount, empty=c.empty, shortfall=c.shortfall)
    return ndcg([table[r] for r in y], position_aware(everything), k, exponential)


def kappa_err(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    table = dict(zip(everything, position_aware(everything), strict=True))
    return err([table[r] for r in y], everything, k, c, rmax=TOP_K)


def footrule(y: Sequence[float], everything: Sequence[float], k: int, c: Conventions) -> float:
    n = len(everything)
    if len(set(everything)) < 2:
        return math.nan
    by_label = {
        r: np.mean([i for i, s in enumerate(sorted(everything, reverse=True), 1) if s == r]) for r in everything
    }
    return sum(abs(i - by_label[r]) for i, r in enumerate(y, 1)) / (n * n // 2)


POSITIONAL: dict[str, Callable[..., float]] = {
    "ndcg": ndcg,
    "dcg": dcg,
    "mean_ndcg": mean_ndcg,
    "err": err,
    "map": average_precision,
    "p": precision,
    "recall": recall,
    "mrr": reciprocal_rank,
    "rbp": rbp,
    "kappa_ndcg": kappa_ndcg,
    "kappa_err": kappa_err,
    "spearman_footrule": footrule,
}
PAIRWISE = {"kendall_tau", "pairwise_accuracy", "tie_precision"}
CONVENTIONS = {
    "default": Conventions(rmax=RMAX, top_k=TOP_K),
    "linear": Conventions(
        rmax=RMAX, top_k=TOP_K, gain="linear", relevance=2, map_denominator="cutoff", rbp_gain="grade"
    ),
    "letor": Conventions(rmax=RMAX, top_k=TOP_K, discount="letor", shortfall="zero", empty=1, persistence=0.5),
    "short": Conventions(rmax=RMAX, top_k=TOP_K, precision_denominator="retrieved", empty=1, empty_map=0),
}


def test_every_metric_is_covered() -> None:
    assert set(names()) == set(POSITIONAL) | PAIRWISE | {"log_likelihood", "alpha_ndcg"}  # the last: test_novelty.py


def orders(scores: Sequence[float]) -> list[tuple[int, ...]]:
    """All orders by falling score, tied documents in every order."""
    levels = sorted(set(scores), reverse=True)
    blocks = [[i for i, s in enumerate(scores) if s == level] for level in levels]
    return [sum(choice, ()) for choice in itertools.product(*(itertools.permutations(b) for b in blocks))]


def queries(seed: int, count: int) -> list[tuple[list[float], list[float]]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        n = int(rng.integers(1, 6))
        found.append(
            (rng.integers(0, 3, n).astype(float).tolist(), rng.integers(0, int(RMAX) + 1, n).astype(float).tolist())
        )
    found += [([1.0] * 6, [0, 0, 1, 0, 3, 1]), ([1.0] * 4, [0, 0, 0, 0]), ([2, 2, 1, 1, 1, 0], [0, 4, 0, 0, 4, 4])]
    return found


def packed(cases: list[tuple[list[float], list[float]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = [len(scores) for scores, _ in cases]
    flat = [np.concatenate([case[i] for case in cases]).astype(float) for i in (0, 1)]
    return flat[0], flat[1], np.concatenate([[0], np.cumsum(sizes)])


def requests(name: str) -> list[tuple[str, int]]:
    if not get(name).formula.takes_cutoff:
        return [(name, 10**9)]
    return [(name, 10**9), *((f"{name}@{k}", k) for k in (1, 2, 3, 5, 8))]


@pytest.mark.parametrize("rules", CONVENTIONS)
def test_average_over_ties_equals_enumeration(rules: str) -> None:
    chosen = CONVENTIONS[rules]
    cases = queries(1, 16)
    wanted = [
        (get(full, **chosen.__dict__), slow, k) for name, slow in POSITIONAL.items() for full, k in requests(name)
    ]
    values = evaluate_arrays(*packed(cases), [metric for metric, _, _ in wanted])
    for metric, slow, k in wanted:
        for q, (scores, labels) in enumerate(cases):
            expected = np.mean([slow([labels[i] for i in order], labels, k, chosen) for order in orders(scores)])
            np.testing.assert_allclose(
                values[metric.name][q], expected, atol=1e-12, err_msg=f"{metric.name} {scores} {labels}"
            )


@pytest.mark.parametrize(("ties", "pick"), [("best", max), ("worst", min), ("stable", None)])
def test_other_rules_for_ties(ties: str, pick: Callable[[list[float]], float] | None) -> None:
    chosen = Conventions(rmax=RMAX, top_k=TOP_K, ties=ties)  # type: ignore[arg-type]
    cases = queries(2, 16)
    positional = {name: slow for name, slow in POSITIONAL.items() if pick is None or name != "spearman_footrule"}
    wanted = [
        (get(full, **chosen.__dict__), slow, k) for name, slow in positional.items() for full, k in requests(name)
    ]
    values = evaluate_arrays(*packed(cases), [metric for metric, _, _ in wanted])
    for metric, slow, k in wanted:
        for q, (scores, labels) in enumerate(cases):
            every = orders(scores) if pick else [tuple(np.argsort(-np.array(scores), kind="stable"))]
            found = [slow([labels[i] for i in order], labels, k, chosen) for order in every]
            expected = pick(found) if pick else found[0]
            np.testing.assert_allclose(
                values[metric.name][q], expected, atol=1e-12, err_msg=f"{metric.name} {scores} {labels}"
            )


def test_documents_that_were_not_retrieved() -> None:
    chosen = CONVENTIONS["default"]
    cases = [([2.0, -math.inf, 1.0, 1.0, -math.inf], [0.0, 3, 1, 0, 1]), ([-math.inf] * 3, [1.0, 0, 2])]
    positional = {name: slow for name, slow in POSITIONAL.items() if name != "spearman_footrule"}
    wanted = [
        (get(full, **chosen.__dict__), slow, k) for name, slow in positional.items() for full, k in requests(name)
    ]
    values = evaluate_arrays(*packed(cases), [metric for metric, _, _ in wanted])
    for metric, slow, k in wanted:
        for q, (scores, labels) in enumerate(cases):
            there = [i for i in range(len(scores)) if scores[i] > -math.inf]
            every = [[labels[there[i]] for i in order] for order in orders([scores[i] for i in there])]
            expected = np.mean([slow(ranked, labels, k, chosen) for ranked in every])
            np.testing.assert_allclose(values[metric.name][q], expected, atol=1e-12, err_msg=metric.name)


def pairs(scores: list[float], labels: list[float]) -> list[tuple[float, float]]:
    index = itertools.combinations(range(len(scores)), 2)
    return [(np.sign(scores[i] - scores[j]), np.sign(labels[i] - labels[j])) for i, j in index]


def test_pairwise_metrics_equal_counting_pairs() -> None:
    from scipy.stats import kendalltau

    cases = queries(3, 80)
    margin = 1.0
    wanted = [get("kendall_tau"), get("pairwise_accuracy"), get("tie_precision")]
    values = evaluate_arrays(*packed(cases), wanted)
    wide = evaluate_arrays(*packed(cases), [get("tie_precision", tie_margin=margin)])["tie_precision"]
    for q, (scores, labels) in enumerate(cases):
        found = pairs(scores, labels)
        apart = [s for s, y in found if y != 0]
        accuracy = np.mean([0.5 * (1 + s * y) for s, y in found if y != 0]) if apart else np.nan
        tied = [y == 0 for s, y in found if s == 0]
        np.testing.assert_allclose(values["pairwise_accuracy"][q], accuracy, atol=1e-12)
        np.testing.assert_allclose(values["tie_precision"][q], np.mean(tied) if tied else np.nan)
        near = [
            labels[i] == labels[j]
            for i, j in itertools.combinations(range(len(scores)), 2)
            if abs(scores[i] - scores[j]) <= margin
        ]
        np.testing.assert_allclose(wide[q], np.mean(near) if near else np.nan)
        if len(set(labels)) < 2:
            assert np.isnan(values["kendall_tau"][q])
        elif len(set(scores)) < 2:
            assert values["kendall_tau"][q] == 0.0
        else:
            np.testing.assert_allclose(values["kendall_tau"][q], kendalltau(scores, labels).statistic, atol=1e-12)


def test_long_tied_block_stays_accurate() -> None:
    """ERR and RR of one block of 400: the closed forms with exact fractions."""
    from fractions import Fraction

    n, k = 400, 7
    labels = np.repeat([0.0, 1.0], [n - k, k])
    values = evaluate_arrays(np.zeros(n), labels, np.array([0, n]), [get("mrr"), get("err", rmax=1)])
    first = [Fraction(math.comb(n - i, k - 1), math.comb(n, k)) for i in range(1, n + 1)]
    assert values["mrr"][0] == pytest.approx(float(sum(p / i for i, p in enumerate(first, 1))), rel=1e-13)
    # V is 0 or 1/2, so e_i counts the relevant documents among the first i.
    passed = [
        sum(Fraction(math.comb(k, j) * math.comb(n - k, i - j), math.comb(n, i)) / 2**j for j in range(min(i, k) + 1))
        for i in range(n + 1)
    ]
    exact = sum((passed[i - 1] - passed[i]) / i for i in range(1, n + 1))
    assert values["err"][0] == pytest.approx(float(exact), rel=1e-12)
