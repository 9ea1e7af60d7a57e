"""alpha-NDCG against its definition, document by document and order by order."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy import sparse

import luce
from luce.errors import DataError, SettingError


def alpha_dcg(order, about: np.ndarray, k: int, alpha: float) -> float:
    """The definition: every document counts what is new in it."""
    total = 0.0
    for position, d in enumerate(order[:k]):
        seen = about[list(order[:position])].sum(axis=0)
        total += (about[d] * (1 - alpha) ** seen).sum() / np.log2(position + 2)
    return total


def greedy_ideal(about: np.ndarray, k: int, alpha: float) -> float:
    order: list[int] = []
    for _ in range(min(k, len(about))):
        left = [d for d in range(len(about)) if d not in order]
        order.append(max(left, key=lambda d: (about[d] * (1 - alpha) ** about[order].sum(axis=0)).sum()))
    return alpha_dcg(order, about, k, alpha)


def case(seed: int, n: int = 6, subtopics: int = 3) -> tuple[np.ndarray, luce.Groups]:
    rng = np.random.default_rng(seed)
    about = (rng.random((n, subtopics)) < 0.4).astype(float)
    about[0, 0] = 1.0
    return about, luce.from_arrays(np.zeros((n, 1)), np.zeros(n), subtopics=about)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("alpha", "k"), [(0.5, 4), (0.2, 6), (1.0, 3), (0.0, 2)])
def test_value_of_an_order(seed, alpha, k):
    about, data = case(seed)
    scores = np.random.default_rng(seed + 100).permutation(6).astype(float)
    value = luce.evaluate(scores, data, f"alpha_ndcg@{k}", alpha=alpha).means[f"alpha_ndcg@{k}"]
    expected = alpha_dcg(np.argsort(-scores), about, k, alpha) / greedy_ideal(about, k, alpha)
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [2, 4, 6])
def test_tied_scores_count_as_the_mean_of_their_orders(seed, k):
    about, data = case(seed)
    scores = np.random.default_rng(seed).integers(0, 2, 6).astype(float)
    orders = [p for p in permutations(range(6)) if all(scores[a] >= scores[b] for a, b in pairwise(p))]
    expected = np.mean([alpha_dcg(p, about, k, 0.5) for p in orders]) / greedy_ideal(about, k, 0.5)
    assert luce.evaluate(scores, data, [f"alpha_ndcg@{k}"]).values[f"alpha_ndcg@{k}"][0] == pytest.approx(expected)
    first = luce.evaluate(scores, data, f"alpha_ndcg@{k}", ties="stable").means[f"alpha_ndcg@{k}"]
    stable = alpha_dcg(np.argsort(-scores, kind="stable"), about, k, 0.5)
    assert first == pytest.approx(stable / greedy_ideal(about, k, 0.5))


def test_greedy_ideal_is_near_the_best_order():
    for seed in range(20):
        about, _ = case(seed, n=5)
        best = max(alpha_dcg(p, about, 5, 0.5) for p in permutations(range(5)))
        assert best * (1 - 1 / np.e) <= greedy_ideal(about, 5, 0.5) <= best + 1e-12


def test_long_tied_blocks_stay_exact():
    """300 tied documents, one subtopic each of two: the mean gain of a position is a half of each subtopic's."""
    about = np.repeat(np.eye(2), 150, axis=0)
    data = luce.from_arrays(np.zeros((300, 1)), np.zeros(300), subtopics=about)
    draws = np.random.default_rng(0)
    sampled = [alpha_dcg(draws.permutation(300), about, 10, 0.5) for _ in range(2000)]
    value = luce.evaluate(np.zeros(300), data, "alpha_ndcg@10").means["alpha_ndcg@10"]
    error = np.std(sampled) / np.sqrt(2000)
    assert abs(value * greedy_ideal(about, 10, 0.5) - np.mean(sampled)) < 4 * error


def test_queries_without_subtopics_follow_the_convention():
    data = luce.from_arrays(np.zeros((4, 1)), np.zeros(4), group=[2, 2], subtopics=[[0], [1], [0], [0]])
    value = {
        e: luce.evaluate(np.arange(4.0), data, "alpha_ndcg@2", empty=e).values["alpha_ndcg@2"] for e in (0, "skip")
    }
    assert value[0].tolist() == [1.0, 0.0]
    assert np.isnan(value["skip"][1])


def test_documents_that_were_not_retrieved_count_for_the_ideal_only():
    data = luce.from_arrays(np.zeros((2, 1)), np.zeros(2), subtopics=np.eye(2))
    value = luce.evaluate([1.0, -np.inf], data, "alpha_ndcg@2").means["alpha_ndcg@2"]
    assert value == pytest.approx(1 / (1 + 1 / np.log2(3)))


def test_needs_subtopics_and_a_share():
    data = luce.from_arrays(np.zeros((2, 1)), [0, 1])
    with pytest.raises(DataError, match="needs the subtopics of documents"):
        luce.evaluate([0.0, 1.0], data, "alpha_ndcg@10")
    with pytest.raises(SettingError, match=r"alpha is 1\.5"):
        luce.metrics.get("alpha_ndcg", alpha=1.5)


def test_beside_other_metrics():
    data = luce.from_arrays(np.zeros((3, 1)), [0, 1, 2], subtopics=sparse.csr_array(np.eye(3)))
    result = luce.evaluate([3.0, 2.0, 1.0], data, ["ndcg@3", "alpha_ndcg@3", "map"])
    assert list(result.values) == ["ndcg@3", "alpha_ndcg@3", "map"]
    assert result.means["alpha_ndcg@3"] == pytest.approx(1.0)


def test_columns_may_mean_something_else_in_every_query():
    rng = np.random.default_rng(3)
    about = (rng.random((12, 3)) < 0.5).astype(float)
    wide = np.zeros((12, 6))
    wide[:6, :3], wide[6:, 3:] = about[:6], about[6:]
    scores = rng.normal(size=12)
    values = [
        luce.evaluate(scores, luce.from_arrays(np.zeros((12, 1)), group=[6, 6], subtopics=s), "alpha_ndcg@5")
        for s in (about, wide)
    ]
    np.testing.assert_array_equal(*[found.values["alpha_ndcg@5"] for found in values])
