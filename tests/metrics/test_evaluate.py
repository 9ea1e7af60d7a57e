from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import luce
from luce.data.groups import Groups
from luce.errors import DataError, SettingError, UnknownNameError
from luce.metrics import evaluate_arrays, get, names
from luce.metrics.evaluate import means_by

ALL = [name for name in names() if name not in ("log_likelihood", "alpha_ndcg")]


def simulated(queries: int = 300, seed: int = 0) -> tuple[Groups, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 120, queries)
    n = int(sizes.sum())
    data = luce.from_arrays(np.zeros((n, 1)), rng.integers(0, 4, n), group=sizes, document_ids=np.arange(n))
    return data, rng.integers(0, 30, n) / 7.0


class Model:
    max_grade_ = 4.0

    def predict(self, data: Groups) -> np.ndarray:
        return data.X[:, 0].astype(float)

    def log_likelihood(self, data: Groups) -> np.ndarray:
        return -np.arange(1.0, data.n_queries + 1)


@pytest.fixture
def small() -> Groups:
    return luce.from_arrays([[3.0], [2.0], [1.0], [0.0]], [0, 2, 1, 0], qid=["a", "a", "b", "b"])


def test_result_holds_means_rows_and_values(small: Groups) -> None:
    result = luce.evaluate(Model(), small, ["mrr", "log_likelihood"])
    assert list(result.rows) == [
        ("a", "mrr", 0.5),
        ("b", "mrr", 1.0),
        ("a", "log_likelihood", -1.0),
        ("b", "log_likelihood", -2.0),
    ]
    assert result.means == {"mrr": 0.75, "log_likelihood": -1.5}
    assert result.values["mrr"].tolist() == [0.5, 1.0]
    assert repr(result) == "Evaluation(2 queries: mrr 0.7500, log_likelihood -1.5000)"
    frame = result.to_frame()
    assert frame.column_names == ["query", "metric", "value"]
    assert frame.num_rows == 4


def test_one_metric_as_a_string_and_the_default(small: Groups) -> None:
    assert list(luce.evaluate([4, 3, 2, 1], small, "p@1").means) == ["p@1"]
    assert list(luce.evaluate([4, 3, 2, 1], small).means) == ["ndcg@10", "map", "mrr"]


def test_metrics_keep_their_own_conventions(small: Groups) -> None:
    result = luce.evaluate(Model(), small, [get("ndcg", gain="linear"), "dcg"])
    assert result.values["dcg"][0] == pytest.approx(3 / math.log2(3))
    assert result.values["ndcg"][0] == pytest.approx(1 / math.log2(3))
    with pytest.raises(SettingError, match="'dcg' was asked for twice"):
        luce.evaluate(Model(), small, [get("dcg", gain="linear"), "dcg"])


def test_rmax_comes_from_the_user_then_the_model_then_the_data(small: Groups) -> None:
    def first(model: Any, **settings: Any) -> float:
        return float(luce.evaluate(model, small, "err", **settings).values["err"][0])

    assert first(Model(), rmax=3) == pytest.approx(0.5 * 3 / 2**3)
    assert first(Model()) == pytest.approx(0.5 * 3 / 2**4)
    assert first(small.X[:, 0]) == pytest.approx(0.5 * 3 / 2**2)
    with pytest.raises(SettingError, match="rmax is 1, and the data have a label of 2"):
        first(Model(), rmax=1)


def test_empty_queries() -> None:
    data = luce.from_arrays(np.zeros((4, 1)), [0, 0, 1, 0], group=[2, 2])
    wanted = ["ndcg", "map", "recall", "mean_ndcg", "p", "mrr", "err", "rbp", "dcg"]
    scores = [2.0, 1.0, 2.0, 1.0]
    zero = luce.evaluate(scores, data, wanted)
    one = luce.evaluate(scores, data, wanted, empty=1)
    skip = luce.evaluate(scores, data, wanted, empty="skip")
    for name in wanted:
        assert zero.values[name][0] == 0.0
        assert one.values[name][0] == (1.0 if name in {"ndcg", "map", "recall", "mean_ndcg"} else 0.0)
        assert math.isnan(skip.values[name][0])
        assert skip.means[name] == skip.values[name][1] > 0
    assert len(list(skip.rows)) == len(wanted)
    all_empty = luce.evaluate([1.0], luce.from_arrays([[0.0]], [0]), "map", empty="skip")
    assert math.isnan(all_empty.means["map"])


def test_threads_give_the_same_bits() -> None:
    data, scores = simulated()
    found = []
    try:
        for threads in (1, 2):
            luce.set_threads(threads)
            found.append(luce.evaluate(scores, data, ALL).values)
    finally:
        luce.set_threads(None)
    for name in ALL:
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_order_of_documents_does_not_matter() -> None:
    """`average`, `best` and `worst` never look at the order of the input."""
    data, scores = simulated(60, seed=1)
    rng = np.random.default_rng(2)
    shuffled = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in itertools.pairwise(data.offsets)])
    for ties in ("average", "best", "worst"):
        wanted = [get(name, ties=ties) for name in ALL]
        before = evaluate_arrays(scores, data.y, data.offsets, wanted)
        after = evaluate_arrays(scores[shuffled], data.y[shuffled], data.offsets, wanted)
        for name in ALL:
            np.testing.assert_allclose(before[name], after[name], atol=1e-12, err_msg=f"{ties} {name}")


def test_only_the_order_of_the_scores_matters() -> None:
    data, scores = simulated(60, seed=3)
    wide = np.exp(scores) * 1e300
    for name, values in luce.evaluate(scores, data, ALL).values.items():
        np.testing.assert_array_equal(luce.evaluate(wide, data, [name]).values[name], values)


def test_docid_breaks_ties_by_the_larger_id() -> None:
    data = luce.from_arrays(np.zeros((3, 1)), [0, 1, 0], document_ids=["b", "c", "a"])
    assert luce.evaluate([1.0, 1.0, 1.0], data, "mrr", ties="docid").means["mrr"] == 1.0
    assert luce.evaluate([1.0, 1.0, 1.0], data, "mrr", ties="stable").means["mrr"] == 0.5
    with pytest.raises(DataError, match="needs document ids"):
        luce.evaluate([1.0], luce.from_arrays([[0.0]], [1]), "mrr", ties="docid")


def test_kappa_metrics_follow_their_definition() -> None:
    """Labels k + 1 - position in the top k of a full order, V = (2^y - 1) / 2^k."""
    order = np.array([40.0, 10, 30, 20, 50])  # true positions 2, 5, 3, 4, 1
    scores = np.array([5.0, 4, 3, 2, 1])
    y = np.array([2.0, 0, 1, 0, 3])
    data = luce.from_arrays(np.zeros((5, 1)), order)
    result = luce.evaluate(scores, data, ["kappa_ndcg@2", "kappa_ndcg", "kappa_err"], top_k=3).means
    discount = 1 / np.log2(np.arange(2, 7))
    gain, ideal = 2**y - 1, np.sort(2**y - 1)[::-1]
    assert result["kappa_ndcg@2"] == pytest.approx(gain[:2] @ discount[:2] / (ideal[:2] @ discount[:2]))
    assert result["kappa_ndcg"] == pytest.approx(gain @ discount / (ideal @ discount))
    v = gain / 2**3
    passed = np.concatenate([[1.0], np.cumprod(1 - v)[:-1]])
    assert result["kappa_err"] == pytest.approx(np.sum(v * passed / np.arange(1, 6)))


def test_kappa_metrics_with_equal_labels() -> None:
    data = luce.from_arrays(np.zeros((3, 1)), [1, 2, 1])
    scores = [3.0, 2.0, 1.0]

    def value(rule: str, top_k: int = 2) -> float:
        return luce.evaluate(scores, data, "kappa_ndcg", top_k=top_k, label_ties=rule).means["kappa_ndcg"]

    half = 1 / math.log2(3)
    assert value("stable") == pytest.approx((1 + 3 * half) / (3 + half))
    assert value("extend") == pytest.approx((1 + 3 * half + 0.5) / (3 + half + 0.5))
    assert value("error", top_k=1) == pytest.approx(half)  # the tie lies below the cut
    with pytest.raises(DataError, match="Equal labels among the first 2"):
        value("error")


@pytest.mark.parametrize("rule", ["extend", "stable", "error"])
def test_kappa_metrics_on_grades_count_relevant_documents_alone(rule: str) -> None:
    """Grade 0 has no position: the query without a relevant document is empty, the other one has a single label 10."""
    data = luce.from_arrays(np.zeros((6, 1)), [0, 0, 0, 0, 1, 0], qid=[1, 1, 1, 2, 2, 2])
    scores = np.array([3.0, 2, 1, 3, 2, 1])

    def values(empty: Any) -> list[float]:
        found = luce.evaluate(scores, data, ["kappa_ndcg", "kappa_err"], label_ties=rule, empty=empty).values
        return [*found["kappa_ndcg"], *found["kappa_err"]]

    second = [1 / math.log2(3), (2**10 - 1) / 2**10 / 2]
    assert values(0) == pytest.approx([0, second[0], 0, second[1]])
    assert values(1) == pytest.approx([1, second[0], 0, second[1]])
    assert values("skip") == pytest.approx([math.nan, second[0], math.nan, second[1]], nan_ok=True)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0, 2.0], "4 documents, and the scores have shape"),
        ([1, 2, math.nan, 4], "score of row 2 is NaN"),
        ("x", "Scores must"),
    ],
)
def test_bad_scores(small: Groups, scores: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        luce.evaluate(scores, small)


def test_bad_requests(small: Groups) -> None:
    with pytest.raises(SettingError, match="No metric was named"):
        luce.evaluate([1, 2, 3, 4], small, [])
    with pytest.raises(SettingError, match="needs a model with a method log_likelihood"):
        luce.evaluate([1, 2, 3, 4], small, "log-likelihood")
    with pytest.raises(UnknownNameError, match="Unknown preset"):
        luce.evaluate([1, 2, 3, 4], small, preset="x")
    with pytest.raises(DataError, match="too large for the gain"):
        luce.evaluate([1.0, 2.0], luce.from_arrays([[0.0], [0.0]], [1, 900]), "ndcg")
    with pytest.raises(DataError, match=r"labels must be in \[0, 1\]"):
        luce.evaluate([1, 2, 3, 4], small, "err", preset="catboost")


def test_a_model_of_the_wrong_shape(small: Groups) -> None:
    class Wrong(Model):
        def log_likelihood(self, data: Groups) -> np.ndarray:
            return np.zeros(7)

    with pytest.raises(DataError, match="one value for each of 2 queries"):
        luce.evaluate(Wrong(), small, "log_likelihood")


def test_a_metric_that_counts_no_query_says_so() -> None:
    data = luce.from_arrays([[0.0]] * 3, [1, 1, 1], qid=[1, 1, 2])
    found = luce.evaluate([0.3, 0.2, 0.1], data, ["kendall_tau", "map"])
    assert found.lines == ["No query counts for kendall_tau, so that there is no mean."]
    assert luce.evaluate([0.3, 0.2, 0.1], data, ["map"]).lines == []


def test_means_by_place_keep_what_is_infinite():
    place, values = np.array([0, 0, 1, 1, 2]), np.array([-np.inf, -1.0, np.nan, 3.0, np.nan])
    found = means_by(place, values, np.array([1.0, 1.0, 1.0, 0.5, 1.0]), 3)
    np.testing.assert_array_equal(found, [-np.inf, 3.0, np.nan])
