"""Boosting with listwise weak learners: columns against loops over pairs, what only a list says, steps, files."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import rankdata

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, ModelFormatError, SettingError
from luce.losses.base import Risk
from luce.ranker.parts import inner
from luce.scorers.kernel_sums import kernel_sums
from luce.scorers.list_functions import KINDS, FittedListFunctions, ListFunctions, places


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=40, features=4, seed=1)


def boosted(**settings) -> luce.Ranker:
    return luce.Ranker(
        **{"loss": "ndcg_square", "scorer": "list_functions", "max_iter": 8, "random_state": 0, **settings}
    )


def test_places_are_those_of_every_list():
    rng = np.random.default_rng(0)
    x, offsets = rng.integers(0, 4, 30).astype(np.float64), np.array([0, 1, 8, 30])
    for a, b in pairwise(offsets):
        part, m = x[a:b], b - a
        pairs = (part[:, None] > part) + 0.5 * (part[:, None] == part) - 0.5 * np.eye(m)
        np.testing.assert_allclose(places("rank", x, offsets)[a:b], pairs.sum(axis=1) / max(m - 1, 1))
        np.testing.assert_allclose(places("reciprocal", x, offsets)[a:b], 1 / rankdata(-part))
        np.testing.assert_array_equal(places("best", x, offsets)[a:b], (part[:, None] >= part).prod(axis=1))
        np.testing.assert_array_equal(places("least", x, offsets)[a:b], (part[:, None] <= part).prod(axis=1))


def test_columns_are_sums_and_products_of_pairs(data):
    scorer = ListFunctions(functions=("feature", "kernel", "product"), strengths=(0.5,))
    columns = scorer.columns(data)
    assert columns.names(data.feature_names) == ("1", "2", "3", "4", "kernel of cosine", "product of cosine to 0.5",
                                                 "product of cosine to -0.5")  # fmt: skip
    X = columns.expanded(data).X.astype(np.float64)
    np.testing.assert_allclose(X[:, :4], data.X)
    sums = kernel_sums(data, ["cosine"])[:, 0]
    deviation = np.concatenate([sums[a:b] - sums[a:b].mean() for a, b in pairwise(data.offsets)]).std()
    for a, b in pairwise(data.offsets[:6]):
        own = sums[a:b] / deviation
        np.testing.assert_allclose(X[a:b, 4], own - own.mean(), atol=1e-5)
        # exp(u sum_j S) is the product over j of exp(u S); its geometric mean over the list is divided out.
        np.testing.assert_allclose(X[a:b, 5] * np.exp(0.5 * own.mean()), np.exp(0.5 * own), rtol=1e-4)
        np.testing.assert_allclose(X[a:b, 5] * X[a:b, 6], 1.0, rtol=1e-5)


def test_one_round_takes_the_column_nearest_to_the_gradient(data):
    loss = luce.losses.get("ndcg_square", offset=0.0)
    model = boosted(loss=loss, max_iter=1).fit(data)
    H = ListFunctions().columns(data).expanded(data).X.astype(np.float64)
    spread = H.std(axis=0)
    H = np.divide(H - H.mean(axis=0), spread, out=np.zeros_like(H), where=spread > 0)
    d = loss.value_and_grad(np.zeros(data.n_rows), data.y, data.offsets)[1]
    best = int(np.argmax(np.abs(d @ H)))
    assert model.scorer_.used.tolist() == [best]
    assert (
        model.scorer_.function_table(data.feature_names)[0]["function"]
        == ListFunctions().columns(data).names(data.feature_names)[best]
    )


@pytest.mark.parametrize("weak", ["single_feature", "single_stump", "gradient_trees"])
def test_exchangeable_and_kept_in_a_file(data, weak, tmp_path):
    settings = {"scorer__weak": weak, "scorer__functions": ["rank", "kernel", "best", "product"]}
    model = boosted(**settings).fit(data, valid=data)
    order = np.concatenate([np.random.default_rng(5).permutation(np.arange(a, b)) for a, b in pairwise(data.offsets)])
    moved = luce.from_arrays(data.X[order], data.y[order], qid=data.qid[order])
    np.testing.assert_allclose(model.predict(moved), model.predict(data)[order], rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "m.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "m.luce").predict(data), model.predict(data))
    assert model.needs_queries
    settings, arrays = model.scorer_.state()
    table = settings["columns"]
    for change in (
        {"columns": [["rank", 99, 0.0], *table[1:]]},
        {"columns": [["median", 0, 0.0], *table[1:]]},
        {"columns": table[:-1]},
        {"kernels": ["cosin"]},
        {"inner": "mlp"},
    ):
        with pytest.raises(ModelFormatError):
            FittedListFunctions.from_state({**settings, **change}, arrays)
    with pytest.raises(ModelFormatError):
        FittedListFunctions.from_state(settings, {**arrays, "units": np.array([np.nan])})


def test_learns_what_only_the_list_says():
    """A document is good where few are like it: no feature says so, kernel sums do; a base is added to."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(900, 5)))
    sums = kernel_sums(luce.from_arrays(X, group=[15] * 60), ["cosine"])[:, 0].reshape(60, 15)
    y = (np.argsort(np.argsort(sums, axis=1), axis=1) < 4).ravel()
    data = luce.from_arrays(X, y, group=[15] * 60)
    alone = luce.Ranker("ndcg_square", "single_feature", max_iter=30).fit(data)
    for kinds in (["kernel"], ["product"]):
        lists = boosted(scorer__functions=kinds, max_iter=30).fit(data)
        values = [luce.evaluate(m, data, "ndcg@5").means["ndcg@5"] for m in (alone, lists)]
        assert values[1] > values[0] + 0.2
    base = rng.normal(size=900)
    on_top = boosted(max_iter=5).fit(data, base_scores=base)
    assert np.abs(on_top.predict(data, base_scores=base) - base).max() > 0


def test_ranks_alone_are_a_voting_rule(data):
    """Borda's rule over the rankings by features, with weights: scores are sums of weights times shares below."""
    model = boosted(scorer__functions="rank").fit(data)
    fitted = model.scorer_
    votes = np.column_stack([places("rank", data.X[:, k], data.offsets) for k in range(4)])
    by_rule = votes @ fitted.inner.weights
    apart = model.predict(data) - by_rule
    np.testing.assert_allclose(apart, apart[0], atol=1e-5)


def test_relations_reach_the_columns(data):
    from scipy import sparse

    query = np.repeat(np.arange(data.n_queries), data.sizes)
    near = sparse.csr_array(((query[:, None] == query) & (np.abs(data.y[:, None] - data.y) < 0.5)).astype(float))
    related = luce.from_arrays(data.X, data.y, qid=data.qid, relations={"same": near})
    model = boosted(scorer__functions="kernel", max_iter=2).fit(related, valid=related)
    assert model.scorer_.columns.kernels == ("cosine", "relation:same")
    with pytest.raises(DataError, match="needs the relation 'same'"):
        model.predict(data)


@pytest.mark.parametrize("scorer", ["single_feature", "gradient_trees"])
def test_steps_of_the_chapter(data, scorer):
    """A constant step is that of (3.19) with eta = 1, of sums over queries; for trees it is the tree, shrunken."""
    loss = luce.losses.get("ndcg_square", offset=0.0)
    sampling = {"bagging_fraction": 1.0, "feature_fraction": 1.0} if scorer == "gradient_trees" else {}
    settings = inner("scorer", {"step": "constant", "learning_rate": 0.1, **sampling})
    model = luce.Ranker(loss, scorer, max_iter=1, random_state=0, **settings).fit(data)
    h = model.predict(data)
    h = h - (h.mean() if scorer == "single_feature" else 0.0)
    d = loss.value_and_grad(np.zeros(data.n_rows), data.y, data.offsets)[1]
    # Least squares: the projection of -d on h is h itself, before the shrinkage.
    assert (-d @ h) / (h @ h) == pytest.approx(10.0, rel=1e-3)


def test_backtracking_from_one_lowers_the_risk_at_any_beta(data):
    for beta in (1e-3, 1.0, 100.0):
        loss = luce.losses.get("ndcg_cross_entropy", beta=beta)
        models = [
            luce.Ranker(loss, "single_feature", scorer__step=step, max_iter=15).fit(data) for step in ("unit", "newton")
        ]
        for model in models:
            risk = model.history_["objective"]
            assert np.all(np.diff(risk) <= 1e-12 * np.abs(risk[:-1]))
    # From a fixed size the steps do depend on beta, which Newton's do not.
    unit, newton = (model.history_["objective"] for model in models)
    assert unit != newton


def test_tolerance_ends_the_training(data):
    long, short = (
        luce.Ranker("ndcg_square", "single_feature", max_iter=400, trainer__tol=tol, loss__offset=0.0).fit(data)
        for tol in (0.0, 1e-2)
    )
    rounds = len(short.history_["objective"])
    assert rounds < len(long.history_["objective"])
    assert short.history_["converged"]
    risk = short.history_["objective"]
    start = Risk(luce.losses.get("ndcg_square", offset=0.0), data.y, data.offsets, None)(np.zeros(data.n_rows))[0]
    assert risk[-11] - risk[-1] < 1e-2 * (start - risk[-1])
    assert risk[-12] - risk[-2] >= 1e-2 * (start - risk[-2])


def test_mistakes(data):
    for settings, said in (
        ({"functions": "median"}, "functions is"),
        ({"functions": ()}, "functions is"),
        ({"functions": ("rank", "rank")}, "each once"),
        ({"strengths": (-1.0,)}, "strengths is"),
        ({"weak": "mlp"}, "weak is 'mlp'"),
        ({"step": "half"}, "step is 'half'"),
        ({"kernels": "sine"}, "The kernel 'sine' is not known"),
        ({"normalise": "max"}, "normalise is"),
        ({"learning_rate": 2.0}, "learning_rate is"),
    ):
        with pytest.raises(SettingError, match=said):
            boosted(**inner("scorer", settings)).fit(data)
    with pytest.raises(SettingError, match="tol"):
        boosted(trainer__tol=-1).parts()
    gaps = luce.from_arrays(np.array([[np.nan], [1.0]]), [0, 1], allow_nan=True)
    with pytest.raises(DataError, match="NaN"):
        ListFunctions().columns(gaps)
    assert set(KINDS) > {"rank", "kernel", "product"}
