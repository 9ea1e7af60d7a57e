"""Greedy reranking: placing document by document, its likelihood, MMR, and what no exchangeable score can do."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import luce
from luce.data.simulate import simulate_duplicates
from luce.errors import DataError, LuceWarning, ModelFormatError, SettingError
from luce.ranker.parts import inner
from luce.scorers.rerankers import FittedGreedy, Placing
from luce.training.rerankers import Choices, ideal_choices
from tests.thorough import many

METRIC = "alpha_ndcg@10"


@pytest.fixture(scope="module")
def parts() -> list[luce.Groups]:
    return [simulate_duplicates(n, seed=i) for i, n in enumerate((40, 20, 30))]


@pytest.fixture(scope="module")
def base(parts) -> luce.Ranker:
    return luce.Ranker("listnet").fit(parts[0])


def slow_order(X: np.ndarray, base: np.ndarray, weights: np.ndarray, depth: int) -> list[int]:
    """One query, one document after the other, every cosine by itself."""
    low, high = X.min(axis=0), X.max(axis=0)
    Z = np.divide(X - low, high - low, out=np.zeros_like(X), where=high > low)
    b = (base - base.min()) / (base.max() - base.min())
    placed: list[int] = []

    def utility(i: int) -> float:
        cosines = [Z[i] @ Z[j] / (np.linalg.norm(Z[i]) * np.linalg.norm(Z[j])) for j in placed]
        return weights[0] * b[i] + weights[1] * sum(cosines) + weights[2] * max(cosines, default=0.0)

    for _ in range(min(depth, len(X))):
        placed.append(max((i for i in range(len(X)) if i not in placed), key=utility))
    left = [i for i in range(len(X)) if i not in placed]
    return placed + sorted(left, key=utility, reverse=True)


@pytest.mark.parametrize("weights", [(1.0, -0.3, -0.5), (0.4, 0.0, -0.6), (0.5, 0.2, 0.0)])
def test_places_as_the_slow_form_does(parts, base, weights):
    data = parts[2]
    scores = base.predict(data)
    fitted = FittedGreedy(np.array(weights), ("cosine",), "minmax", 6, data.n_features)
    found = fitted.score_groups(data, scores)
    for a, b in list(pairwise(data.offsets))[:8]:
        order = slow_order(data.X[a:b].astype(float), scores[a:b], np.array(weights), 6)
        assert np.argsort(-found[a:b], kind="stable").tolist() == order
        assert sorted((-found[a:b]).tolist()) == list(range(b - a))


def test_relation_as_kernel():
    """d0 and d1 are related: after d0 comes d2."""
    S = sparse.csr_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(3, 3))
    data = luce.from_arrays(np.zeros((3, 1)), relations={"same": S})
    fitted = FittedGreedy(np.array([1.0, 0.0, -5.0]), ("relation:same",), None, 3, 1)
    assert fitted.score_groups(data, np.array([3.0, 2.0, 1.0])).tolist() == [0, -2, -1]
    with pytest.raises(DataError, match="needs the relation 'same'"):
        fitted.score_groups(luce.from_arrays(np.zeros((3, 1))), np.zeros(3))


def test_choices_against_enumeration_and_finite_differences(parts, base):
    data = parts[1]
    state = Placing(data, base.predict(data), ["cosine"], "minmax")
    choices = ideal_choices(data, state, 4)
    weights = np.array([0.7, -0.4, -1.2])
    value, grad = choices.value_and_grad(weights, 0.3)
    ends = np.append(choices.starts, len(choices.features))
    costs = []
    for a, b in pairwise(ends):
        p = np.exp(choices.features[a:b] @ weights)
        costs.append(-np.log(p[choices.right[a:b]].sum() / p.sum()))
    assert value == pytest.approx(np.array(costs) @ choices.weight + 0.15 * weights @ weights)
    for i, e in enumerate(np.eye(3)):
        numeric = (
            choices.value_and_grad(weights + 1e-6 * e, 0.3)[0] - choices.value_and_grad(weights - 1e-6 * e, 0.3)[0]
        )
        assert grad[i] == pytest.approx(numeric / 2e-6, rel=1e-5)


def test_right_documents_are_those_of_the_largest_gain():
    data = luce.from_arrays(np.eye(4), subtopics=[[1, 1], [1, 0], [0, 1], [0, 0]])
    choices: Choices = ideal_choices(data, Placing(data, np.arange(4.0), ["cosine"], None), 3)
    ends = np.append(choices.starts, len(choices.right))
    assert [choices.right[a:b].tolist() for a, b in pairwise(ends)] == [
        [True, False, False, False],
        [True, True, False],  # each 1/2, d0 is placed
        [True, False],  # d2 has the higher base, so d1 is left
    ]
    discounts = np.array([2.0, 0.5, 0.5]) / np.log2([2, 3, 4])
    np.testing.assert_allclose(choices.weight, discounts / discounts.sum())


def test_learned_and_mmr_beat_the_base(parts, base):
    train, valid, test = parts
    value = {"base": luce.evaluate(base, test, METRIC).means[METRIC]}
    for method in ("luce", "mmr"):
        model = luce.Ranker(trainer="greedy", base=base, trainer__method=method).fit(train, valid=valid)
        value[method] = luce.evaluate(model, test, METRIC).means[METRIC]
    assert value["luce"] > value["base"] + 0.05
    assert value["mmr"] > value["base"] + 0.05
    table = model.scorer_.kernel_table()[0]
    assert table["base"] - table["largest of cosine"] == pytest.approx(1.0)
    assert table["sum of cosine"] == 0.0


@pytest.mark.parametrize("method", ["luce", "mmr"])
def test_model_file(parts, base, tmp_path, method):
    for on in (base, None):
        model = luce.Ranker(trainer="greedy", base=on, trainer__method=method).fit(parts[0])
        model.save(tmp_path / "m.luce")
        np.testing.assert_array_equal(luce.load(tmp_path / "m.luce").predict(parts[2]), model.predict(parts[2]))
    settings, arrays = model.scorer_.state()
    for change in ({"depth": 0}, {"kernels": ["x"]}, {"n_features": None}):
        with pytest.raises(ModelFormatError):
            FittedGreedy.from_state({**settings, **change}, arrays)
    for weights in (arrays["weights"][:-1], arrays["weights"] * np.nan):
        with pytest.raises(ModelFormatError):
            FittedGreedy.from_state(settings, {**arrays, "weights": weights})


def best_exchangeable(about: np.ndarray, cluster: np.ndarray) -> float:
    """The best alpha-NDCG of scores that are equal for equal documents: all orders of the clusters, with ties."""
    data = luce.from_arrays(np.zeros((len(about), 1)), subtopics=about)
    n = cluster.max() + 1
    levels = {tuple(level) for level in np.ndindex(*[n] * n)}
    return max(luce.evaluate(np.array(p, dtype=float)[cluster], data, METRIC).means[METRIC] for p in levels)


def test_no_exchangeable_score_can_win_where_documents_are_equal():
    """Five copies of each of three documents: equal scores put copies side by side, placing one by one does not."""
    cluster = np.repeat([0, 1, 2], 5)
    about = X = np.eye(3)[cluster]
    data = luce.from_arrays(X, about.sum(axis=1), subtopics=about)
    base = 1.0 - 0.1 * cluster
    best = best_exchangeable(about, cluster)
    greedy = FittedGreedy(np.array([0.1, -1.0, 0.0]), ("cosine",), None, 15, 3)
    value = luce.evaluate(greedy.score_groups(data, base), data, METRIC).means[METRIC]
    assert value == pytest.approx(1.0)
    assert best < 0.97
    with pytest.warns(LuceWarning, match="All labels are equal"):
        listwise = luce.Ranker("listnet", "listwise", scorer__normalise=None).fit(data, base_scores=base)
    scores = listwise.predict(data, base_scores=base)
    assert scores[0] == scores[1] == scores[2]
    assert luce.evaluate(scores, data, METRIC).means[METRIC] <= best + 1e-12


def test_collections_of_near_duplicates():
    """At least .05 above every pointwise model, and on average not below tuned MMR."""
    pointwise = {"listnet": {}, "linear_regression": {}, "rankboost": {"max_iter": 15}}
    greedy, mmr = [], []
    for seed in range(many(20)):
        train, valid, test = (simulate_duplicates(n, seed=3 * seed + i) for i, n in enumerate((40, 25, 30)))
        models = {name: luce.model(name, **more).fit(train, valid=valid) for name, more in pointwise.items()}
        few = {"l2_grid": [1e-5, 1e-3, 1e-1], "depth": 10}
        ranker = luce.Ranker(trainer="greedy", base=models["listnet"], **inner("trainer", few)).fit(train, valid=valid)
        tuned = luce.Ranker(trainer="greedy", base=models["listnet"], trainer__method="mmr", trainer__depth=10)
        greedy.append(luce.evaluate(ranker, test, METRIC).means[METRIC])
        mmr.append(luce.evaluate(tuned.fit(train, valid=valid), test, METRIC).means[METRIC])
        for model in models.values():
            assert greedy[-1] > luce.evaluate(model, test, METRIC).means[METRIC] + 0.05
    assert np.mean(greedy) >= np.mean(mmr)


def test_bad_input(parts, base):
    plain = luce.from_arrays(parts[0].X, parts[0].y, qid=parts[0].qid)
    with pytest.raises(DataError, match="learns from the subtopics of documents, and the data have none"):
        luce.Ranker(trainer="greedy", base=base).fit(plain)
    empty = luce.from_arrays(plain.X, plain.y, qid=plain.qid, subtopics=np.zeros((plain.n_rows, 1)))
    with pytest.raises(DataError, match="No document of the training data has a subtopic"):
        luce.Ranker(trainer="greedy", base=base).fit(empty)
    for params in ({"method": "x"}, {"depth": 0}, {"kernels": "relation:a:in"}, {"l2_grid": []}, {"kernels": [abs]}):
        name = next(iter(params))
        refusal = "The greedy reranker takes the kernels" if name == "kernels" else f"^{name} is .*; it must "
        with pytest.raises(SettingError, match=refusal):
            luce.Ranker(trainer="greedy", base=base, **inner("trainer", params)).fit(parts[0])


def test_simulation():
    data = simulate_duplicates(50, seed=3)
    again = simulate_duplicates(50, seed=3)
    np.testing.assert_array_equal(data.X, again.X)
    assert not np.array_equal(data.y[:100], simulate_duplicates(50, seed=4).y[:100])
    assert ((data.subtopics.sum(axis=1) > 0) == (data.y > 0)).all()
    with pytest.raises(SettingError, match="stories is 0"):
        simulate_duplicates(5, stories=0)
    with pytest.raises(SettingError, match="it must be a number of at least 1"):
        simulate_duplicates(5, copies=0.5)
