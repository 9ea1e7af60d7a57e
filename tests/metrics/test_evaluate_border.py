"""What a person hands to `luce.evaluate`: scores in another order, labels of another scale, metrics of one name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import luce
from luce.data.trec import Qrels, TrecRun, join_run
from luce.errors import DataError, LuceWarning, OwnPartError, SettingError


@pytest.fixture
def apart():
    """Rows of queries that stand apart, with a model that was fitted on them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"qid": np.tile(["x", "y", "z"], 20), "label": rng.integers(0, 3, 60), "a": rng.normal(size=60)}
    )
    return frame, luce.Ranker().fit(frame, "label", qid="qid")


def test_scores_have_an_order(apart):
    frame, model = apart
    data = luce.from_frame(frame)
    right = luce.evaluate(model, data, "ndcg").means
    of_input, of_data = model.predict(frame), model.predict(data)
    assert not np.array_equal(of_input, of_data)
    assert luce.evaluate(of_input, data, "ndcg", order="input").means == right
    assert luce.evaluate(of_data, data, "ndcg", order="data").means == right
    with pytest.warns(LuceWarning, match="two orders of rows"):
        luce.evaluate(of_data, data, "ndcg")
    with pytest.raises(SettingError, match="order is 'rows'"):
        luce.evaluate(of_data, data, "ndcg", order="rows")


@pytest.mark.parametrize(("shift", "what"), [(1.0, "every document is"), (-2.5, "no document is")])
def test_labels_of_another_scale_are_named(apart, shift, what):
    data = luce.from_frame(apart[0].assign(label=apart[0].label + shift))
    with pytest.warns(LuceWarning, match=f"{what} relevant to map, mrr"):
        luce.evaluate(apart[1], data, ["ndcg", "map", "mrr"])
    luce.evaluate(apart[1], data, ["map", "mrr"], relevance=1 + shift)  # no remark


def test_metrics_of_one_name_are_refused(apart):
    def ndcg(scores, labels):
        return 0.5

    data = luce.from_frame(apart[0])
    for metrics in (["ndcg", ndcg], [lambda s, y: 1.0, lambda s, y: 2.0]):
        with pytest.raises(SettingError, match="Two metrics are named"):
            luce.evaluate(apart[1], data, metrics)
    assert luce.evaluate(apart[1], data, [ndcg, ndcg]).means == {"ndcg": 0.5}


def test_a_metric_that_cannot_be_called_or_raises(apart):
    def broken(scores, labels):
        return {}["mine"]

    data = luce.from_frame(apart[0])
    with pytest.raises(SettingError, match=r"takes \(s\); a metric is a function \(scores, labels\)"):
        luce.evaluate(apart[1], data, lambda s: 1.0)
    with pytest.raises(OwnPartError, match="The metric 'broken' raised KeyError: 'mine'") as caught:
        luce.evaluate(apart[1], data, broken)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_run_without_a_judged_document_is_refused():
    run = TrecRun(np.array(["1", "1"]), np.array(["a", "b"]), np.array([2.0, 1.0]))
    with pytest.raises(DataError, match="None of the documents of the run is judged"):
        join_run(run, Qrels(np.array(["1"]), np.array(["A"]), np.array([1.0])))
