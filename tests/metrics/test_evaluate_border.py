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
        luce.evaluate(apart[1], data, ["kendall_tau", "map", "mrr"])
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


OTHERWISE = {
    "gain": ["linear"],
    "discount": ["letor"],
    "empty": [1, "skip"],
    "empty_map": [1],
    "ties": ["stable", "best", "worst"],
    "relevance": [2.0],
    "rmax": [5.0],
    "err_probability": ["label"],
    "persistence": [0.5],
    "rbp_gain": ["grade"],
    "shortfall": ["zero"],
    "map_denominator": ["cutoff"],
    "map_ties": ["threshold"],
    "precision_denominator": ["retrieved"],
    "score_precision": ["single"],
    "top_k": [3],
    "label_ties": ["stable"],
    "tie_margin": [0.3],
    "alpha": [0.1],
}


@pytest.mark.parametrize("name", [n for n in luce.metrics.names() if luce.metrics.get(n).formula.of_labels])
def test_a_metric_hears_what_it_says_and_nothing_else(name):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 16, 60)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, 4, offsets[-1]) / (3.0 if name == "err" else 1.0)
    for q in range(0, 60, 7):
        labels[offsets[q] : offsets[q + 1]] = 0
    scores = np.round(rng.normal(size=offsets[-1]), 1)
    scores += 1e-9 * rng.integers(0, 2, len(scores))
    takes = luce.metrics.get(name).formula.takes_cutoff
    heard = set()
    for full in [name, *([f"{name}@5", f"{name}@12"] if takes else [])]:
        for setting, values in OTHERWISE.items():
            for value in values:
                one, other = (
                    luce.metrics.evaluate_arrays(scores, labels, offsets, [luce.metrics.get(full, **s)])[full]
                    for s in ({}, {setting: value})
                )
                if not np.array_equal(one, other, equal_nan=True):
                    heard.add(setting)
    said = set(luce.metrics.get(name).settings)
    assert heard - said == set()
    assert said - heard <= {"score_precision", "ties"}  # rounding and ties may leave a value as it was


def test_conventions_in_vain_are_refused(apart):
    with pytest.raises(SettingError, match="does not take these parameters: persistence; it takes gain"):
        luce.Ranker(metric="ndcg@10", metric__persistence=0.3)
    assert luce.Ranker(metric="rbp", metric__persistence=0.3).parts().metric.conventions.persistence == 0.3
    with pytest.raises(SettingError, match=r"persistence=0\.3 makes no difference to ndcg, map; leave it out"):
        luce.evaluate(apart[1], luce.from_frame(apart[0]), ["ndcg", "map"], persistence=0.3)


def test_a_run_without_a_judged_document_is_refused():
    run = TrecRun(np.array(["1", "1"]), np.array(["a", "b"]), np.array([2.0, 1.0]))
    with pytest.raises(DataError, match="None of the documents of the run is judged"):
        join_run(run, Qrels(np.array(["1"]), np.array(["A"]), np.array([1.0])))


def test_top_k_names_the_metrics_that_do_not_hear_it(apart):
    data = luce.from_frame(apart[0])
    with pytest.warns(LuceWarning, match=r"top_k=3, .* no difference to ndcg@5, mrr; .* as in ndcg@3\."):
        luce.evaluate(apart[1], data, ["ndcg@5", "mrr", "kappa_err"], top_k=3)
    luce.evaluate(apart[1], data, ["kappa_ndcg@5", "kappa_err"], top_k=3)  # no remark
    with pytest.raises(SettingError, match="top_k=3 makes no difference"):
        luce.compare(luce.data.simulate.simulate(queries=9, seed=0), ["ranknet"], ["map"], top_k=3)


def test_labels_that_say_nothing_of_a_ranking_are_named(apart):
    frame, model = apart
    with pytest.warns(LuceWarning, match="No query has two documents of different labels, so that every ranking"):
        luce.evaluate(model, luce.from_frame(frame.assign(label=2)), ["ndcg", "map"])
    with pytest.warns(LuceWarning, match="different labels"):
        luce.evaluate(model, luce.from_frame(frame.assign(qid=np.arange(60))), "ndcg")
    with pytest.warns(LuceWarning, match=r"Labels below 0 \(the lowest is -1\) gain nothing in ndcg, as 0 does"):
        luce.evaluate(model, luce.from_frame(frame.assign(label=frame.label - 1)), ["ndcg", "kendall_tau"])


def test_gaps_that_training_did_not_have_are_named(apart):
    frame, model = apart
    gaps = frame.assign(a=frame.a.where(frame.index != 7))
    with pytest.warns(LuceWarning, match="The feature 'a' has gaps, and had none in training; the median"):
        scores = model.predict(gaps)
    assert np.isfinite(scores).all()
    other = luce.Ranker().fit(gaps, "label", qid="qid")
    other.predict(gaps)  # no remark
