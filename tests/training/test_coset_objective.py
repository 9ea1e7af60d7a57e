"""The coset-permutation model against a count of its distances by hand, stage by stage."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import luce
from luce.data.comparisons import Comparisons
from luce.errors import DataError, SettingError
from luce.scorers.cps import CPSScorer, FittedCPS
from luce.training.coset_objective import CosetObjective, coset_log_likelihoods


def stage_chances(X: np.ndarray, left: list[int], theta: np.ndarray) -> np.ndarray:
    """Chances of the documents left, distances counted one by one."""

    def distance(j: int, m: int) -> float:
        before = sum(X[i, m] > X[j, m] for i in left if i != j)
        return before + 0.5 * sum(X[i, m] == X[j, m] for i in left if i != j)

    utility = np.array([-sum(theta[m] * distance(j, m) for m in range(X.shape[1])) for j in left])
    weight = np.exp(utility - utility.max())
    return weight / weight.sum()


def list_chance(X: np.ndarray, chosen: tuple[int, ...], theta: np.ndarray) -> float:
    left, p = list(range(len(X))), 1.0
    for j in chosen:
        p *= stage_chances(X, left, theta)[left.index(j)]
        left.remove(j)
    return p


def small(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 3, (n, 3)).astype(np.float32), rng.normal(0, 0.7, 3)  # many ties


def log_prob(X: np.ndarray, chosen: tuple[int, ...], theta: np.ndarray) -> float:
    labels = np.zeros(len(X))
    labels[list(chosen)] = np.arange(len(chosen), 0, -1)
    loss = luce.losses.get("topk_listmle", k=len(chosen))
    return float(coset_log_likelihoods(FittedCPS(theta, len(chosen)), loss, luce.from_arrays(X, labels))[0])


@pytest.mark.parametrize(("n", "k"), [(1, 1), (4, 2), (5, 5), (6, 3)])
def test_probabilities_of_all_lists_sum_to_one(n, k):
    X, theta = small(n)
    total = sum(np.exp(log_prob(X, chosen, theta)) for chosen in itertools.permutations(range(n), k))
    assert total == pytest.approx(1, abs=1e-12)


def test_a_list_by_hand():
    X, theta = small(7, seed=1)
    for chosen in [(3, 0, 6, 2), (5,), (1, 2, 3, 4, 5, 6, 0)]:
        assert np.exp(log_prob(X, chosen, theta)) == pytest.approx(list_chance(X, chosen, theta), rel=1e-12)


def test_average_rank_of_the_full_list_would_be_wrong():
    """Of three tied documents and one ahead, ties are counted anew among those that are left."""
    X = np.array([[1.0], [1.0], [1.0], [2.0]], dtype=np.float32)
    p = np.exp(log_prob(X, (0, 3), np.array([1.0])))
    # First stage: d = 2, 2, 2, 0 for the three tied and the one ahead. Second: 1.5 twice and 0.
    first, second = np.exp(-2) / (3 * np.exp(-2) + 1), 1 / (2 * np.exp(-1.5) + 1)
    assert p == pytest.approx(first * second, rel=1e-12)


def objective(seed: int = 0, k: int = 4, weight: np.ndarray | None = None) -> CosetObjective:
    rng = np.random.default_rng(seed)
    sizes = [5, 1, 12, 3, 9]
    X = rng.integers(0, 6, (30, 4)).astype(np.float32)
    data = luce.from_arrays(X, rng.permutation(30).astype(float), group=sizes, query_weight=weight)
    return CosetObjective(data, CPSScorer(k).bind(data), luce.losses.get("topk_listmle", k=k), 0.1)


@pytest.mark.parametrize("weight", [None, np.array([1.0, 2.0, 0.5, 3.0, 0.0])])
def test_gradient_by_finite_differences(weight):
    found = objective(weight=weight)
    at = np.random.default_rng(1).normal(0, 0.5, 4)
    _, grad = found.value_and_grad(at)
    step = 1e-5 * np.eye(4)
    numeric = [(found.value_and_grad(at + e)[0] - found.value_and_grad(at - e)[0]) / 2e-5 for e in step]
    np.testing.assert_allclose(grad, numeric, rtol=1e-7, atol=1e-9)


def test_greedy_prediction():
    X, theta = small(8, seed=3)
    scores = FittedCPS(theta, 3).score(X, np.array([0, 8]))
    left = list(range(8))
    for place in range(3):
        chances = stage_chances(X, left, theta)
        best = left[int(np.argmax(chances))]
        assert scores[best] == 3 - place
        left.remove(best)
    rest = np.log(stage_chances(X, left, theta))
    np.testing.assert_allclose(scores[left], rest - rest.max(), atol=1e-12)


def test_draws_follow_the_model():
    X, theta = small(4, seed=4)
    rng, draws = np.random.default_rng(0), 4000
    model = FittedCPS(theta, 2)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        chosen = tuple(model.draw(X, rng).tolist())
        seen[chosen] = seen.get(chosen, 0) + 1
    for chosen in itertools.permutations(range(4), 2):
        p = list_chance(X, chosen, theta)
        assert abs(seen.get(chosen, 0) / draws - p) < 4.5 * np.sqrt(p * (1 - p) / draws) + 1e-9


def test_chances_are_those_of_enumeration():
    """To be among the first two, and of every pair, for a query of five; drawn values within 4.5 standard errors."""
    X, theta = small(5, seed=6)
    data = luce.from_arrays(X, np.arange(5.0))
    model = luce.model("topk-cps", trainer__k=2, random_state=0).fit(data)
    model.scorer_ = FittedCPS(theta, 2)
    top, before = np.zeros(5), np.zeros((5, 5))
    for chosen in itertools.permutations(range(5), 2):
        p = list_chance(X, chosen, theta)
        top[list(chosen)] += p
        labels = np.zeros(5)
        labels[list(chosen)] = [2, 1]
        before += p * (labels[:, None] > labels)
    found = model.topk_chances(data, 2)
    assert found.probability.sum() == pytest.approx(2)
    assert found.draws == 4000
    assert np.all(np.abs(found.probability - top) < 4.5 * found.error + 1e-12)
    pairs = model.pairs(data)[0]
    assert np.all(np.abs(pairs.before - before) < 4.5 * pairs.before_error)
    assert model.topk_probability(data, 7).tolist() == [1.0] * 5


@pytest.fixture(scope="module")
def drawn() -> tuple[luce.Groups, np.ndarray]:
    rng, theta = np.random.default_rng(0), np.array([0.4, -0.2, 0.0])
    X = rng.normal(size=(300 * 8, 3)).astype(np.float32)
    labels = np.zeros(len(X))
    for q in range(300):
        rows = slice(8 * q, 8 * q + 8)
        labels[rows][FittedCPS(theta, 3).draw(X[rows], rng)] = [3, 2, 1]
    return luce.from_arrays(X, labels, group=[8] * 300), theta


def test_training_finds_the_truth(drawn):
    data, theta = drawn
    model = luce.model("topk-cps", l2=0.0, trainer__k=3, tol=1e-9).fit(data)
    np.testing.assert_allclose(model.scorer_.theta, theta, atol=0.06)
    truth = coset_log_likelihoods(FittedCPS(theta, 3), model.loss_, data).sum()
    assert truth < model.log_likelihood(data).sum() < truth + 8  # twice the gain is about chi-square on 3


def test_estimator(drawn, tmp_path):
    data, _ = drawn
    model = luce.model("topk-cps", trainer__k=3).fit(data)
    scores = model.predict(data)
    model.save(tmp_path / "cps.luce")
    again = luce.load(tmp_path / "cps.luce")
    np.testing.assert_array_equal(again.predict(data), scores)
    np.testing.assert_array_equal(again.log_likelihood(data), model.log_likelihood(data))
    shuffle = np.random.default_rng(0).permutation(data.n_rows)
    np.testing.assert_allclose(model.predict(data.X[shuffle], qid=data.qid[shuffle]), scores[shuffle], atol=1e-12)
    assert luce.evaluate(model, data, ["kappa_ndcg@3"], top_k=3).means["kappa_ndcg@3"] > 0.5


def test_descent_and_lists(drawn):
    data, _ = drawn
    top = np.lexsort((-data.y, np.repeat(np.arange(300), 8))).reshape(300, 8)[:, :3]
    bare = luce.from_arrays(data.X, group=[8] * 300)
    lists = Comparisons.from_orders(top.tolist(), top=True)
    by_lists = luce.model("topk-cps", trainer__k=3).fit(bare, comparisons=lists)
    by_labels = luce.model("topk-cps", trainer__k=3).fit(data)
    np.testing.assert_allclose(by_lists.scorer_.theta, by_labels.scorer_.theta, rtol=1e-12)
    with pytest.raises(SettingError, match="grades or lists"):
        luce.model("topk-cps", trainer__k=3).fit(data, comparisons=lists)


def test_what_it_refuses(drawn):
    data, _ = drawn
    with pytest.raises(SettingError, match="a loss of its own, so that the loss 'pmop' would not be used"):
        luce.Ranker(loss="pmop", trainer="cps").fit(data)
    model = luce.model("topk-cps").fit(data)
    with pytest.raises(DataError, match="give qid"):
        model.predict(data.X)
    with pytest.raises(DataError, match="Feature 2 of row 1 is NaN"):
        CPSScorer(2).bind(luce.from_arrays([[1, 2], [3, np.nan]], [1, 0], allow_nan=True))
