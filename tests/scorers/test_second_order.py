"""The second-order scorer against products that are built, in float64."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import ModelFormatError, SettingError
from luce.numerics.products import Products
from luce.numerics.threads import one_blas_thread
from luce.scorers.correlation import Correlations, product_correlations, select_products
from luce.scorers.linear import standardise
from luce.scorers.second_order import FittedSecondOrder, SecondOrderScorer


def built(X: np.ndarray) -> np.ndarray:
    """Standardised features in float64; a constant one is 0."""
    X = X.astype(np.float64)
    deviation = X.std(axis=0)
    constant = deviation <= 1e-7 * np.abs(X.mean(axis=0))
    return np.where(constant, 0.0, (X - X.mean(axis=0)) / np.where(constant, 1.0, deviation))


def direct_correlations(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    Z, result = built(X), np.zeros((X.shape[1], X.shape[1]))
    for i, j in zip(*np.triu_indices(X.shape[1]), strict=True):
        product = Z[:, i] * Z[:, j]
        if product.std() > 1e-6 * np.abs(product).max():
            result[i, j] = np.corrcoef(product, y)[0, 1]
    return result


def by_row(X, y):
    """Every row a query."""
    return luce.from_arrays(X, y, group=np.ones(len(X), dtype=int))


def correlations(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    scale = standardise(X)
    return product_correlations(by_row(X, y), scale.mean, scale.inverse_sd).correlation


def awkward(rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Constant, binary, nearly binary, equal, far from zero and heavy-tailed features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 110))
    X[:, 0] = 7.0
    X[:, 1] = np.arange(rows) % 2
    X[:, 2] = X[:, 1] + 1e-3 * X[:, 2]
    X[:, 3] = 5 - 2 * X[:, 1]
    X[:, 4] += 1e4
    X[:, 5] = np.exp(3 * X[:, 5])
    X[:, 6] = X[:, 5]
    return X.astype(np.float32), np.round(np.clip(X[:, 8] * X[:, 9] + X[:, 10] + rng.normal(size=rows), 0, 4))


@pytest.mark.parametrize("rows", [3000, 18])
def test_correlations_of_all_products(rows):
    X, y = awkward(rows)
    found, expected = correlations(X, y), direct_correlations(X, y)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert found[1, 1] == found[1, 3] == found[0, 8] == 0
    assert found[2, 2] != 0
    assert (np.tril(found, -1) == 0).all()


def test_correlations_do_not_depend_on_threads():
    X, y = awkward(9000)
    results = []
    for threads in (1, 2):
        luce.set_threads(threads)
        try:
            results.append(correlations(X, y))
        finally:
            luce.set_threads(None)
    np.testing.assert_array_equal(*results)


def test_deviations_of_products():
    X, y = awkward(500)
    scale = standardise(X)
    found = product_correlations(by_row(X, y), scale.mean, scale.inverse_sd).deviation
    Z = built(X)
    expected = np.array([[(Z[:, i] * Z[:, j]).std() if i <= j else 0.0 for j in range(12)] for i in range(12)])
    np.testing.assert_allclose(found[:12, :12], expected, rtol=1e-4, atol=1e-6)


def test_dense_training_does_not_depend_on_threads():
    data = simulate(queries=600, features=40, seed=4)
    models = []
    for threads in (1, 2):
        luce.set_threads(threads)
        try:
            model = luce.Ranker(scorer="second_order", scorer__threshold=0.0, max_iter=3).fit(data)
        finally:
            luce.set_threads(None)
        models.append(model.scorer_.importance())
    assert model.scorer_.products.dense
    np.testing.assert_array_equal(*models)


def test_default_count_follows_the_data():
    small, large = simulate(queries=9, features=12, seed=0), simulate(queries=120, features=12, seed=0)
    assert len(SecondOrderScorer().bind(small).selection.left) == 10
    assert len(SecondOrderScorer().bind(large).selection.left) == large.n_rows // 100


def test_equal_labels_have_no_correlation():
    X, _ = awkward(50)
    assert not correlations(X, np.full(50, 3.0)).any()


def test_selection():
    correlation = Correlations(np.array([[0.3, -0.5, 0.0], [0, 0.5, -0.1], [0, 0, 0.2]]), np.arange(9.0).reshape(3, 3))
    by_threshold = select_products(correlation, threshold=0.3)
    assert by_threshold.left.tolist() == [0, 0, 1]
    assert by_threshold.right.tolist() == [0, 1, 1]
    assert by_threshold.correlation.tolist() == [0.3, -0.5, 0.5]
    assert by_threshold.deviation.tolist() == [0, 1, 4]
    assert select_products(correlation, count=1).right.tolist() == [1]
    assert len(select_products(correlation, count=99).left) == 5
    assert len(select_products(correlation, threshold=0.0).left) == 5
    with pytest.raises(SettingError, match=r"keeps none of the 6 products; the largest absolute correlation is 0\.5"):
        select_products(correlation, threshold=0.6)


@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
@pytest.mark.parametrize("features", [1, 7, 200])
def test_scores_and_gradient_are_those_of_built_products(features, share):
    rng = np.random.default_rng(features)
    X = (rng.normal(size=(700, features)) * rng.uniform(0.1, 10, features) + rng.normal(0, 5, features)).astype(
        np.float32
    )
    left, right = np.triu_indices(features)
    kept = np.flatnonzero(rng.random(len(left)) < share)
    scale = standardise(X)
    products = Products(scale.mean, scale.inverse_sd, left[kept], right[kept])
    assert products.dense == (share == 1.0)
    linear, weights, d_scores = rng.normal(size=features), rng.normal(size=len(kept)), rng.normal(size=700)
    Z = built(X)
    columns = Z[:, left[kept]] * Z[:, right[kept]]
    expected = Z @ linear + columns @ weights
    size = np.abs(expected).max()
    np.testing.assert_allclose(products.scores(X, linear, weights), expected, atol=3e-6 * size)
    np.testing.assert_allclose(products.scores(X, linear, weights, precise=True), expected, atol=1e-11 * size)
    d_linear, d_weights = products.gradients(X, d_scores)
    np.testing.assert_allclose(d_linear, Z.T @ d_scores, atol=1e-4)
    np.testing.assert_allclose(d_weights, columns.T @ d_scores, atol=5e-4)


@pytest.mark.parametrize("count", [30, 100_000])
def test_a_score_depends_on_its_own_row_only(count):
    data = simulate(queries=60, features=90, seed=5)
    model = luce.Ranker(scorer="second_order", scorer__count=count, max_iter=3).fit(data)
    assert model.scorer_.products.dense == (count > 30)
    scores = model.predict(data.X)
    some = np.random.default_rng(0).permutation(data.n_rows)[:101]
    np.testing.assert_array_equal(model.predict(data.X[some]), scores[some])


def test_objective_is_at_its_minimum():
    """The fit is that of a linear model on the built products: the gradient vanishes there."""
    data = simulate(queries=120, features=10, seed=1)
    model = luce.Ranker(scorer="second_order", scorer__count=12, l2=0.05, tol=1e-12, max_iter=1000).fit(data)
    fitted = model.scorer_
    Z = built(data.X)
    products = Z[:, fitted.products.left] * Z[:, fitted.products.right]
    columns = np.hstack([Z, products / products.std(axis=0)])
    assert columns.shape[1] == 22
    w = fitted.importance()
    np.testing.assert_allclose(columns @ w, model.predict(data), atol=1e-5)
    _, d_scores = luce.losses.get("pmop").value_and_grad(columns @ w, data.y, data.offsets)
    # The search ends where float32 products cannot tell two iterates apart any more.
    assert np.abs(columns.T @ d_scores / data.n_queries + 0.05 * w).max() < 3e-4


def test_products_find_what_features_cannot():
    """The label is a product of two features: the first order knows nothing of it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 12)).astype(np.float32)
    y = np.digitize(X[:, 2] * X[:, 7], [0.3, 1.0]).astype(float)
    qid = np.repeat(np.arange(200), 20)
    names = [f"f{i}" for i in range(12)]
    data = luce.from_arrays(X, y, qid=qid, feature_names=names)
    first = luce.Ranker().fit(data)
    second = luce.Ranker(scorer="second_order", scorer__threshold=0.3).fit(data)
    assert second.score(data) > 0.99 > 0.8 > first.score(data)
    (term,) = second.scorer_.table()
    assert term.name == "f2*f7"
    assert term.correlation == pytest.approx(np.corrcoef(built(X)[:, 2] * built(X)[:, 7], y)[0, 1], abs=1e-6)
    assert term.weight == second.scorer_.importance()[12] > 0
    assert second.scorer_.term_names == [*names, "f2*f7"]


def test_warm_start_on_another_scale_keeps_the_function():
    data = simulate(queries=80, features=9, seed=6)
    scorer = SecondOrderScorer(count=45).bind(data)
    parameters = np.random.default_rng(0).normal(size=scorer.n_parameters)
    other = luce.from_arrays(data.X * 3 + 1, data.y, qid=data.qid)
    moved = SecondOrderScorer(count=45)._changed(scale=standardise(other.X), selection=scorer.selection)
    before = scorer.fitted(parameters).score(data.X, data.offsets)
    after = moved.fitted(moved.parameters_of(scorer.fitted(parameters))).score(data.X, data.offsets)
    np.testing.assert_allclose(np.diff(after), np.diff(before), atol=1e-9 * np.abs(before).max())


def test_products_of_features_as_they_stand(tmp_path):
    """Correlations and scores are those of x_i x_j."""
    data = simulate(queries=60, features=5, seed=8)
    data = luce.from_arrays(data.X + np.arange(1, 6, dtype=np.float32), data.y, qid=data.qid)
    ranker = luce.Ranker(scorer="second_order", scorer__count=9, scorer__centred=False, max_iter=5).fit(data)
    fitted = ranker.scorer_
    left, right = fitted.products.left, fitted.products.right
    built = data.X[:, left].astype(float) * data.X[:, right]
    expected = [np.corrcoef(column, data.y)[0, 1] for column in built.T]
    np.testing.assert_allclose(fitted.correlation, expected, atol=1e-5)
    spread = data.X.std(axis=0, dtype=float)
    linear = data.X @ (fitted.weights / spread)
    scores = linear + built @ (fitted.pair_weights / (spread[left] * spread[right]))
    np.testing.assert_allclose(ranker.predict(data), scores, rtol=1e-5, atol=1e-5)
    ranker.save(tmp_path / "m.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "m.luce").predict(data), ranker.predict(data))


def test_settings_are_checked():
    for settings, match in (
        ({"threshold": 1.5}, "from 0 to 1"),
        ({"threshold": "high"}, "from 0 to 1"),
        ({"threshold": float("nan")}, "from 0 to 1"),
        ({"count": 0}, "at least 1"),
        ({"count": 2.5}, "at least 1"),
        ({"count": True}, "at least 1"),
        ({"threshold": 0.1, "count": 5}, "one of them"),
        ({"centred": "no"}, "True or False"),
        ({"pairs": 3}, "does not take"),
    ):
        with pytest.raises(SettingError, match=match):
            luce.scorers.get("second_order", **settings)


def test_streams_are_for_the_linear_scorer():
    with pytest.raises(AttributeError) as error:
        luce.Ranker(scorer="second_order").partial_fit(simulate(queries=5, features=3, seed=0))
    assert isinstance(error.value.__cause__, SettingError)


def test_a_checkpoint_of_another_selection_is_refused(tmp_path):
    data = simulate(queries=40, features=8, seed=1)
    luce.Ranker(scorer="second_order", scorer__count=5, max_iter=3, checkpoint=tmp_path).fit(data)
    with pytest.raises(SettingError, match="another training"):
        luce.Ranker(scorer="second_order", scorer__count=6, checkpoint=tmp_path).fit(data)


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        ([[0, 1], [0, 3]], "from 0 to 2"),
        ([[-1, 1], [0, 1]], "from 0 to 2"),
        ([[2, 1], [1, 2]], "from 0 to 2"),
        ([[1, 0], [1, 1]], "sorted"),
        ([[1, 1], [1, 1]], "sorted"),
        ([[1.0, 1.0], [1.0, 2.0]], "whole numbers"),
        ([1, 2], "whole numbers"),
    ],
)
def test_hostile_pairs_are_refused(pairs, match):
    three, two = np.ones(3), np.ones(2)
    arrays = {"mean": three, "inverse_sd": three, "weights": three, "pair_weights": two}
    arrays |= {"correlation": two, "deviation": two}
    names = {"feature_names": ["a", "b", "c"]}
    assert FittedSecondOrder.from_state(names, {**arrays, "pairs": np.array([[0, 1], [0, 2]])}).term_names[-1] == "b*c"
    with pytest.raises(ModelFormatError, match=match):
        FittedSecondOrder.from_state(names, {**arrays, "pairs": np.array(pairs)})
    with pytest.raises(ModelFormatError, match="feature_names"):
        FittedSecondOrder.from_state({"feature_names": [1, 2, 3]}, arrays)


def test_blas_limit_is_taken_back_by_the_last():
    """Also where the last to leave is another thread than the first to enter."""
    from threadpoolctl import ThreadpoolController

    def threads() -> list[int]:
        return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]

    luce.set_threads(None)  # BLAS has heard of the budget
    before = threads()
    entered, leave, seen = threading.Event(), threading.Event(), []

    def other() -> None:
        with one_blas_thread():
            entered.set()
            leave.wait(60)
            seen.extend(threads())

    thread = threading.Thread(target=other)
    with one_blas_thread():
        thread.start()
        assert entered.wait(60)
        assert set(threads()) <= {1}
    leave.set()
    thread.join(60)
    assert not thread.is_alive()
    assert set(seen) <= {1}
    assert threads() == before


@pytest.mark.real
def test_mq2008(real_data):
    folder = real_data("MQ2008") / "Fold1"
    train, valid = (luce.read_letor(folder / f"{part}.txt.gz") for part in ("train", "vali"))
    model = luce.Ranker(scorer="second_order", scorer__threshold=0.1, l2=0.1).fit(train, valid=valid)
    direct = direct_correlations(train.X, train.y)
    assert len(model.scorer_.table()) == np.count_nonzero(np.abs(direct) >= 0.1) > 50
    random = np.random.default_rng(0).normal(size=valid.n_rows)
    chance = luce.evaluate(random, valid, ["ndcg@10"]).means["ndcg@10"]
    assert model.score(valid) > chance + 0.1
