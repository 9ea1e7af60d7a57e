"""The Nadaraya-Watson scorer against its formula, document by document."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, ModelFormatError, SettingError
from luce.scorers.nadaraya_watson import FittedNadarayaWatson
from luce.training.objective import Objective


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=12, features=5, seed=3)


def reference(data: luce.Groups, a: np.ndarray, leave_out: str) -> np.ndarray:
    scores = np.empty(data.n_rows)
    for i in range(data.n_rows):
        seen = np.ones(data.n_rows, dtype=bool)
        if leave_out == "query":
            seen &= data.qid != data.qid[i]
        elif leave_out == "document":
            seen[i] = False
        gap = (data.X[seen].astype(float) - data.X[i]) * a
        kernel = np.exp(-0.5 * (gap**2).sum(axis=1))
        scores[i] = kernel @ data.y[seen] / kernel.sum()
    return scores


@pytest.mark.parametrize("leave_out", ["query", "document", "nothing"])
def test_training_scores_are_the_formula(data, leave_out):
    a = np.array([0.3, 1.0, 0.0, 2.0, 0.7])
    bound = luce.scorers.get("nadaraya_watson", leave_out=leave_out).bind(data)
    whole = bound.of_queries(0).forward(a, data.X, data.offsets)
    np.testing.assert_allclose(whole, reference(data, a, leave_out), rtol=1e-10, atol=1e-12)
    # A block in the middle of the training set leaves out what is its own.
    first, last = 4, 7
    rows = slice(data.offsets[first], data.offsets[last])
    local = data.offsets[first : last + 1] - data.offsets[first]
    np.testing.assert_allclose(
        bound.of_queries(first).forward(a, data.X[rows], local), whole[rows], rtol=1e-10, atol=1e-12
    )


def test_small_blocks_and_recomputed_kernels_change_nothing(data, monkeypatch):
    a = np.array([0.3, 1.0, 0.1, 2.0, 0.7, 1.0, 1.0])
    values = []
    for block, kept in ((1 << 19, 1 << 22), (700, 1 << 22), (700, 1)):
        monkeypatch.setattr("luce.scorers.nadaraya_watson._BLOCK_ENTRIES", block)
        monkeypatch.setattr("luce.scorers.nadaraya_watson._KEPT_ENTRIES", kept)
        objective = Objective(data, luce.scorers.get("nadaraya_watson").bind(data), luce.losses.get("cdn"), 0.0)
        values.append(objective.value_and_grad(a))
    for value, grad in values[1:]:
        assert value == pytest.approx(values[0][0], rel=1e-12)
        np.testing.assert_allclose(grad, values[0][1], rtol=1e-9, atol=1e-10 * np.abs(grad).max())


@pytest.mark.parametrize("loss", ["cdn", "pmop", "ranknet"])
def test_gradient_of_the_training_objective(data, loss):
    objective = Objective(data, luce.scorers.get("nadaraya_watson").bind(data), luce.losses.get(loss), 0.01)
    at = np.concatenate([np.random.default_rng(0).uniform(0.2, 1.5, 5), objective.loss.parameters])
    _, grad = objective.value_and_grad(at)
    step = 1e-4
    numeric = [
        (objective.value_and_grad(at + step * e)[0] - objective.value_and_grad(at - step * e)[0]) / (2 * step)
        for e in np.eye(len(at))
    ]
    np.testing.assert_allclose(grad, numeric, rtol=1e-5, atol=1e-6 * np.abs(grad).max())


def test_single_precision_is_near_and_kept_in_the_file(data, tmp_path):
    at = np.array([0.3, 1.0, 0.0, 0.8, 0.7, 1.0, 1.0])
    found = {}
    for precision in ("double", "single"):
        bound = luce.scorers.get("nadaraya_watson", precision=precision).bind(data)
        found[precision] = Objective(data, bound, luce.losses.get("cdn", weighting="pairs"), 0.0).value_and_grad(at)
        scores = bound.of_queries(0).forward(at[:5], data.X, data.offsets)
        np.testing.assert_allclose(scores, reference(data, at[:5], "query"), rtol=1e-4, atol=1e-4)
    (value, grad), (near_value, near_grad) = found["double"], found["single"]
    assert near_value == pytest.approx(value, rel=1e-5)
    assert near_value != value
    np.testing.assert_allclose(near_grad, grad, atol=1e-3 * np.abs(grad).max())
    model = luce.Ranker("cdn", "nadaraya_watson", max_iter=2, scorer__precision="single").fit(data)
    model.save(tmp_path / "model.luce")
    again = luce.load(tmp_path / "model.luce")
    assert again.scorer_.precision == "single"
    np.testing.assert_array_equal(again.predict(data), model.predict(data))


def test_a_length_of_zero_leaves_the_feature_out_and_has_no_slope(data):
    a = np.array([0.3, 0.0, 1.2, 0.0, 0.7])
    bound = luce.scorers.get("nadaraya_watson").bind(data)
    whole = bound.of_queries(0).forward(a, data.X, data.offsets)
    np.testing.assert_allclose(whole, reference(data, a, "query"), rtol=1e-10, atol=1e-12)
    grad = bound.of_queries(0).backward(a, data.X, data.offsets, np.linspace(-1, 1, data.n_rows))
    assert (grad[[1, 3]] == 0).all()
    assert (grad[[0, 2, 4]] != 0).all()
    flat = bound.of_queries(0).forward(np.zeros(5), data.X, data.offsets)
    np.testing.assert_allclose(flat, reference(data, np.zeros(5), "query"), rtol=1e-12)


def test_far_from_everything_the_nearest_reference_counts():
    X = np.array([[0.0], [1.0]], dtype=np.float32)
    fitted = FittedNadarayaWatson(np.array([1e3]), X, np.array([0.0, 2.0]))
    far = np.array([[-5e3], [9e3]], dtype=np.float32)
    np.testing.assert_array_equal(fitted.score(far, np.array([0, 2])), [0.0, 2.0])


def test_references_are_drawn(data):
    bound = luce.scorers.get("nadaraya_watson", references=20).bind(data)
    assert len(bound.documents.y) == 20
    assert (np.diff(bound.documents.row) > 0).all()
    again = luce.scorers.get("nadaraya_watson", references=20).bind(data)
    np.testing.assert_array_equal(again.documents.row, bound.documents.row)


def test_bad_settings_and_files_are_refused(data):
    with pytest.raises(SettingError, match="leave_out"):
        luce.scorers.get("nadaraya_watson", leave_out="all")
    with pytest.raises(SettingError, match="references"):
        luce.scorers.get("nadaraya_watson", references=1)
    with pytest.raises(SettingError, match="precision"):
        luce.scorers.get("nadaraya_watson", precision="half")
    with pytest.raises(DataError, match="only one"):
        luce.Ranker(scorer="nadaraya_watson").fit(data.take([0]))
    X, y = np.zeros((3, 2), dtype=np.float32), np.arange(3.0)
    with pytest.raises(ModelFormatError, match="negative"):
        FittedNadarayaWatson.from_state({}, {"a": np.array([1.0, -1.0]), "references": X, "grades": y})
    with pytest.raises(ModelFormatError, match="precision is"):
        FittedNadarayaWatson.from_state({"precision": "half"}, {"a": np.ones(2), "references": X, "grades": y})
    with pytest.raises(ModelFormatError, match="shape 3 as 'grades'"):
        FittedNadarayaWatson.from_state({}, {"a": np.ones(2), "references": X, "grades": y[:2]})
