"""Trees as arrays: the same scores as LightGBM, and nothing hostile gets through."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, LuceWarning, ModelFormatError, SettingError
from luce.ranker.parts import inner
from luce.scorers.forest import Forest, forest_of
from luce.scorers.trees import FittedTrees, TreesScorer


def grown(zero_as_missing: bool = False, use_missing: bool = True) -> tuple[lightgbm.Booster, np.ndarray]:
    """A booster of trees with numbers, categories, zeros and holes; and rows to score, some like none it has seen."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6)).astype(np.float32)
    X[:, 2] = rng.integers(0, 70, 1500)
    X[:, 3] *= rng.random(1500) < 0.5
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.isin(X[:, 2], [3, 40, 69]) + (X[:, 3] == 0) + 2 * np.isnan(X[:, 1])
    parameters = {"verbosity": -1, "num_leaves": 12, "min_data_per_group": 5, "cat_smooth": 1, "num_threads": 1}
    parameters |= {"zero_as_missing": zero_as_missing, "use_missing": use_missing}
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, y, categorical_feature=[2]), 30)
    odd = np.array([[0.0, -0.0, -1, 1e-36, 1e30, np.nan], [0, 0, 1e9, 0, 0, 0], [0, 0, -0.5, 0, 0, 0]], np.float32)
    return booster, np.concatenate([X, odd])


@pytest.mark.parametrize("settings", [{}, {"zero_as_missing": True}, {"use_missing": False}])
def test_scores_are_those_of_lightgbm(settings):
    booster, X = grown(**settings)
    forest = forest_of(booster)
    assert (forest.kind & 1).any()
    np.testing.assert_allclose(forest.score(X), booster.predict(X, num_threads=1), rtol=1e-6, atol=1e-12)


def walked(forest: Forest, X: np.ndarray) -> np.ndarray:
    """The sum of leaves by walking down, a row and a tree at a time; of nodes that compare numbers or miss NaN."""
    found = np.zeros(len(X))
    for t in range(forest.n_trees):
        start = int(forest.nodes[t])
        for row, x in enumerate(X.astype(np.float64)):
            node = 0 if forest.nodes[t + 1] > start else -1
            while node >= 0:
                i = start + node
                value, kind = x[forest.feature[i]], int(forest.kind[i])
                left = bool(kind & 2) if np.isnan(value) and kind & 8 else np.nan_to_num(value) <= forest.threshold[i]
                node = int(forest.left[i] if left else forest.right[i])
            found[row] += forest.value[forest.leaves[t] - node - 1]
    return found


@pytest.mark.parametrize("leaves", [2, 32, 33, 64, 65])
def test_rows_together_end_in_the_leaves_that_each_walks_to(leaves):
    rng = np.random.default_rng(leaves)
    X = rng.normal(size=(700, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    settings = {"num_leaves": leaves, "min_data_in_leaf": 1, "verbosity": -1, "num_threads": 1}
    y = rng.normal(size=700)
    missing = forest_of(lightgbm.train(settings, lightgbm.Dataset(X, y), 2))
    plain = forest_of(lightgbm.train({**settings, "use_missing": False}, lightgbm.Dataset(X, y), 2))
    forest = Forest.joined([missing, Forest.constant(0.5), plain])
    assert np.diff(forest.leaves).max() == leaves
    # Rows that lie on thresholds, as near as numbers of 32 bits can be, fall on either side.
    near = forest.threshold.astype(np.float32)
    X[: len(near), 0] = near[:700]
    expected = walked(forest, X)
    np.testing.assert_array_equal(forest.score(X), expected)
    np.testing.assert_array_equal(np.concatenate([forest.score(row[None]) for row in X[:20]]), expected[:20])


def test_forests_join_and_cut():
    booster, X = grown()
    whole = forest_of(booster)
    first, rest = whole.first(11), forest_of(booster, 11)
    joined = Forest.joined([first, Forest.empty(), rest, Forest.constant(2.0)])
    assert joined.n_trees == 31
    np.testing.assert_array_equal(joined.score(X), whole.score(X) + 2.0)
    np.testing.assert_allclose(first.score(X), booster.predict(X, num_iteration=11), rtol=1e-6, atol=1e-12)
    again = Forest.from_arrays(joined.arrays(), 6)
    np.testing.assert_array_equal(again.score(X), joined.score(X))


def hostile() -> dict[str, tuple[str, object]]:
    """What a damaged or malicious file may say: an array, and what is done to it."""
    return {
        "a child beyond the tree": ("left", lambda a: a + 1000),
        "a child before its parent": ("right", lambda a: np.where(a > 0, 0, a)),
        "a leaf beyond the tree": ("left", lambda a: np.where(a < 0, -1000, a)),
        "one leaf twice": ("right", lambda a: np.where(a < 0, -1, a)),
        "a child of the least number": ("left", lambda a: np.full_like(a, np.iinfo(np.int32).min)),
        "a feature beyond the data": ("feature", lambda a: a + 6),
        "a negative feature": ("feature", lambda a: a - 7),
        "an infinite leaf": ("value", lambda a: np.where(np.arange(len(a)) == 3, np.inf, a)),
        "a threshold that is no number": ("threshold", lambda a: a * np.nan),
        "a set of categories that is not there": ("threshold", lambda a: a + 1e6),
        "half a set": ("threshold", lambda a: a + 0.5),
        "an unknown kind": ("kind", lambda a: a | 16),
        "boundaries that fall": ("nodes", lambda a: a[::-1].copy()),
        "boundaries that wrap around": ("sets", lambda a: np.where(np.arange(len(a)) == 1, -(2**63), a)),
        "too few leaves": ("value", lambda a: a[:-1]),
        "too few nodes": ("left", lambda a: a[:-1]),
        "no boundaries": ("leaves", lambda a: a[:0]),
        "another type": ("threshold", lambda a: np.zeros(len(a), np.float32)),
        "a matrix": ("value", lambda a: a.reshape(-1, 1)),
        "nothing": ("bits", lambda a: None),
    }


@pytest.mark.parametrize("what", hostile())
def test_hostile_arrays_are_refused(what):
    name, change = hostile()[what]
    arrays = forest_of(grown()[0]).arrays()
    changed = change(arrays[name])
    arrays = {key: array for key, array in {**arrays, name: changed}.items() if array is not None}
    with pytest.raises(ModelFormatError):
        FittedTrees.from_state({"n_features": 6}, arrays)


@pytest.mark.parametrize("n_features", [None, 0, -1, 2.0, True, 2**40])
def test_hostile_settings_are_refused(n_features):
    with pytest.raises(ModelFormatError):
        FittedTrees.from_state({"n_features": n_features}, Forest.empty().arrays())


def test_random_damage_never_escapes():
    """Any one number changed at random is refused, or gives a forest that scores every row with a finite number."""
    booster, X = grown()
    arrays = forest_of(booster).arrays()
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        name = rng.choice([key for key in arrays if len(arrays[key])])
        damaged = {key: array.copy() for key, array in arrays.items()}
        view = damaged[name].view(np.uint8)
        view[rng.integers(len(view))] = rng.integers(256)
        try:
            forest = Forest.from_arrays(damaged, 6)
        except ModelFormatError:
            refused += 1
        else:
            assert np.isfinite(forest.score(X[:50])).all()
    assert refused > 50


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=60, features=6, seed=1)


def test_importance_counts_and_weighs_splits(data):
    model = luce.Ranker(scorer="trees", max_iter=5).fit(data)
    forest = model.scorer_.forest
    assert model.scorer_.importance("split").tolist() == np.bincount(forest.feature, minlength=6).tolist()
    assert model.scorer_.importance().sum() == pytest.approx(forest.gain.sum())
    with pytest.raises(SettingError, match="gain"):
        model.scorer_.importance("cover")


def test_monotone_constraints_hold(data):
    by_name = {data.feature_names[0]: 1, data.feature_names[1]: -1}
    for monotone in (by_name, [1, -1, 0, 0, 0, 0], "1:1,2:-1"):
        model = luce.Ranker(scorer="trees", max_iter=20, scorer__monotone=monotone).fit(data)
        for column, direction in ((0, 1), (1, -1)):
            rows = np.repeat(data.X[:1], 200, axis=0)
            rows[:, column] = np.linspace(data.X[:, column].min(), data.X[:, column].max(), 200)
            assert (np.diff(model.predict(rows)) * direction >= 0).all()
    for wrong, word in (
        ({"bm25": 1}, "bm25"),
        ("1", "bm25:1"),
        ([1, 0], "6 features"),
        ([2, 0, 0, 0, 0, 0], "-1, 0 or 1"),
    ):
        with pytest.raises(SettingError, match=word):
            luce.Ranker(scorer="trees", scorer__monotone=wrong).fit(data)


def test_categories_are_learned_as_such():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 20, size=(2000, 2)).astype(np.float32)
    y = np.isin(X[:, 1], [2, 3, 11, 17]).astype(float)
    qid = np.arange(2000) // 10
    for categorical in ([1], ["2"], 1, "2"):
        settings = {"categorical": categorical, "num_leaves": 2, "engine": {"cat_smooth": 1}}
        model = luce.Ranker(scorer="trees", max_iter=3, **inner("scorer", settings)).fit(X, y, qid=qid)
        scores = model.predict(X)
        assert scores[y == 1].min() > scores[y == 0].max()
        assert (model.scorer_.forest.kind & 1).all()
    with pytest.raises(SettingError, match="categorical"):
        luce.Ranker(scorer="trees", scorer__categorical=["x"]).fit(X, y, qid=qid)


def test_missing_values_are_a_direction_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2)).astype(np.float32)
    X[rng.random(1000) < 0.3, 1] = np.nan
    y = np.isnan(X[:, 1]).astype(float)
    model = luce.Ranker(scorer="trees", max_iter=3).fit(X, y, qid=np.arange(1000) // 10)
    scores = model.predict(X)
    assert scores[y == 1].min() > scores[y == 0].max()
    with pytest.raises(ValueError, match="is inf; features must be finite"):
        model.predict(np.full((1, 2), np.inf))


@pytest.mark.parametrize(
    "setting",
    [
        {"num_leaves": 1},
        {"num_leaves": 4.5},
        {"num_leaves": "many"},
        {"learning_rate": 0},
        {"min_data_in_leaf": 0},
        {"lambda_l2": -1},
        {"bagging_fraction": 0},
        {"feature_fraction": 1.5},
        {"curvature": "hessian"},
        {"curvature_floor": 0},
        {"reestimate": 0},
        {"objective": "binary"},
        {"max_bin": 1},
        {"curvature": "pairs", "lambda_l2": 1.0},
        {"curvature": "risk", "lambda_l2": 1.0},
        {"engine": {"num_leaves": 3}},
        {"engine": {"linear_tree": True}},
        {"leaves": 3},
    ],
)
def test_settings_are_checked(data, setting):
    with pytest.raises(SettingError, match=next(reversed(setting))):
        luce.Ranker(scorer="trees", **inner("scorer", setting)).fit(data)


def test_few_documents_make_small_leaves():
    assert TreesScorer().least_in_leaf(10_000) == 20
    assert TreesScorer().least_in_leaf(100) == 5
    assert TreesScorer().least_in_leaf(3) == 1
    assert TreesScorer(min_data_in_leaf=7).least_in_leaf(3) == 7


@pytest.mark.parametrize("value", [1.0, np.nan])
@pytest.mark.parametrize("rows", [100, 2000])
def test_constant_features_warn(rows, value):
    X = np.full((rows, 3), value, dtype=np.float32)
    with pytest.warns(LuceWarning, match="no split"):
        model = luce.Ranker(scorer="trees").fit(X, np.arange(rows) % 3, qid=np.arange(rows) // 10)
    assert (model.predict(X) == 0).all()


@pytest.mark.parametrize("objective", [None, "lambdarank"])
def test_nothing_but_zeros_is_refused(objective):
    X = np.zeros((100, 3), dtype=np.float32)
    ranker = luce.Ranker(scorer="trees", scorer__objective=objective)
    with pytest.raises(DataError, match="All 3 features are 0 everywhere"):
        ranker.fit(X, np.arange(100) % 3, qid=np.arange(100) // 10)


def test_one_query_and_equal_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    model = luce.Ranker(scorer="trees", max_iter=10).fit(X, X[:, 1] > 0)
    assert np.corrcoef(model.predict(X), X[:, 1] > 0)[0, 1] > 0.9
    with pytest.warns(LuceWarning, match="no split"), pytest.warns(LuceWarning, match="All labels are equal"):
        luce.Ranker(scorer="trees").fit(X, np.ones(200))


def test_wrong_features_for_a_loaded_model(data, tmp_path):
    luce.Ranker(scorer="trees", max_iter=2).fit(data).save(tmp_path / "m.luce")
    with pytest.raises(ValueError, match="features"):
        luce.load(tmp_path / "m.luce").predict(np.zeros((2, 4), dtype=np.float32))
