"""What must hold for every scorer that gradients train. A scorer joins by being registered."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, ModelFormatError
from luce.training.objective import Objective

SCORERS = [name for name in luce.scorers.names() if hasattr(luce.scorers.get(name), "bind")]
pytestmark = pytest.mark.parametrize("name", SCORERS)


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=40, features=12, seed=2)


def bound_at_random(name: str, data: luce.Groups):
    scorer = luce.scorers.get(name).bind(data)
    rng = np.random.default_rng(0)
    return scorer, scorer.initial(rng) + rng.normal(0, 0.3, scorer.n_parameters)


def test_gradient_is_that_of_the_scores(name, data):
    scorer, parameters = bound_at_random(name, data)
    direction = np.random.default_rng(1).normal(size=data.n_rows)
    grad = scorer.backward(parameters, data.X, data.offsets, direction)
    assert grad.shape == (scorer.n_parameters,)

    def along(e: np.ndarray, h: float) -> float:
        ahead, behind = (scorer.forward(parameters + s * e, data.X, data.offsets) for s in (h, -h))
        return float(direction @ (ahead - behind)) / (2 * h)

    # Steps large enough that float32 sums in the scores do not show; Richardson's rule takes the rest.
    chosen = np.random.default_rng(2).choice(scorer.n_parameters, min(40, scorer.n_parameters), replace=False)
    numeric = [(4 * along(e, 0.01) - along(e, 0.02)) / 3 for e in np.eye(scorer.n_parameters)[chosen]]
    np.testing.assert_allclose(grad[chosen], numeric, rtol=1e-3, atol=1e-3 * np.abs(grad).max())


def test_blocks_do_not_matter(name, data):
    """Scores and gradient of two blocks are those of the whole."""
    scorer, parameters = bound_at_random(name, data)
    cut = data.n_queries // 3
    row = data.offsets[cut]
    blocks = [
        (data.X[:row], data.offsets[: cut + 1], slice(None, row)),
        (data.X[row:], data.offsets[cut:] - row, slice(row, None)),
    ]
    whole = scorer.forward(parameters, data.X, data.offsets)
    parts = np.concatenate([scorer.forward(parameters, X, offsets) for X, offsets, _ in blocks])
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5 * np.abs(whole).max())
    d_scores = np.random.default_rng(3).normal(size=data.n_rows)
    grad = scorer.backward(parameters, data.X, data.offsets, d_scores)
    summed = sum(scorer.backward(parameters, X, offsets, d_scores[rows]) for X, offsets, rows in blocks)
    np.testing.assert_allclose(summed, grad, rtol=1e-5, atol=1e-5 * np.abs(grad).max())


def test_fitted_scores_are_those_of_training(name, data):
    scorer, parameters = bound_at_random(name, data)
    scores = scorer.forward(parameters, data.X, data.offsets)
    fitted = scorer.fitted(parameters)
    np.testing.assert_allclose(fitted.score(data.X, data.offsets), scores, rtol=1e-4, atol=1e-4 * np.abs(scores).max())
    assert fitted.name == scorer.name == name
    assert fitted.n_features == data.n_features


def test_equal_documents_get_equal_scores(name, data):
    twice = luce.from_arrays(np.repeat(data.X, 2, axis=0), np.repeat(data.y, 2), qid=np.repeat(data.qid, 2))
    scorer, parameters = bound_at_random(name, twice)
    scores = scorer.fitted(parameters).score(twice.X, twice.offsets)
    np.testing.assert_array_equal(scores[::2], scores[1::2])


def test_threads_give_the_same_bits(name):
    # Each document meets every other one in nadaraya_watson: fewer of them say as much.
    queries = 90 if name == "nadaraya_watson" else 900
    data = simulate(queries=queries, features=70, seed=4)
    results = []
    for threads in (1, 2, 3):
        luce.set_threads(threads)
        try:
            scorer, parameters = bound_at_random(name, data)
            objective = Objective(data, scorer, luce.losses.get("ranknet"), 0.1)
            objective.chunks = [(q, q + queries // 9) for q in range(0, queries, queries // 9)]
            value, grad = objective.value_and_grad(parameters)
            scores = scorer.fitted(parameters).score(data.X, data.offsets)
        finally:
            luce.set_threads(None)
        results.append(np.concatenate([[value], grad, scores]))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_model_file_gives_the_same_scores(name, data, tmp_path):
    model = luce.Ranker(scorer=name, max_iter=5, random_state=0).fit(data)
    model.save(tmp_path / "model.luce")
    loaded = luce.load(tmp_path / "model.luce")
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
    np.testing.assert_array_equal(loaded.scorer_.importance(), model.scorer_.importance())


def test_states_that_miss_an_array_are_refused(name, data):
    scorer, parameters = bound_at_random(name, data)
    fitted = scorer.fitted(parameters)
    settings, arrays = fitted.state()
    for key, array in arrays.items():
        for bad in (None, array[..., :-1], np.where(np.arange(array.size).reshape(array.shape), array, np.nan)):
            broken = {k: v for k, v in arrays.items() if k != key} | ({} if bad is None else {key: bad})
            with pytest.raises(ModelFormatError):
                luce.scorers.fitted_class(fitted.name).from_state(settings, broken)


def test_warm_start_on_the_same_data_is_the_same_point(name, data):
    scorer, parameters = bound_at_random(name, data)
    again = scorer.parameters_of(scorer.fitted(parameters))
    fresh, old = (scorer.forward(p, data.X, data.offsets) for p in (again, parameters))
    np.testing.assert_allclose(fresh, old, rtol=1e-5, atol=1e-5 * np.abs(old).max())


def test_gaps_are_filled_by_the_model_and_refused_by_the_scorer(name, data):
    X = data.X.copy()
    X[3, 2] = np.nan
    broken = luce.from_arrays(X, data.y, qid=data.qid, allow_nan=True)
    with pytest.raises(DataError, match="Feature 3 has NaN"):
        luce.scorers.get(name).bind(broken)
    assert np.isfinite(luce.Ranker(scorer=name, max_iter=3, random_state=0).fit(broken).predict(broken)).all()


def test_one_document_and_one_feature(name):
    model = luce.Ranker(scorer=name).fit(np.ones((1, 1), dtype=np.float32), [1.0])
    query = {"qid": [0, 0, 0]} if model.needs_queries else {}
    assert np.isfinite(model.predict(np.zeros((3, 1), dtype=np.float32), **query)).all()
