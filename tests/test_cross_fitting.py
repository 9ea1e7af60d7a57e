"""Cross-fitting of single systems: the mean of folds, or one fit more, and what to expect."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.auto.folds import deal
from luce.data.simulate import simulate
from luce.errors import DataError, LuceWarning, SettingError


@pytest.fixture(scope="module")
def data():
    return simulate(queries=60, features=5, seed=0)


@pytest.mark.parametrize(
    "ranker",
    [
        luce.Ranker("pmop", "trees", max_iter=15, random_state=0),
        luce.Ranker("rao_kupper", random_state=0),
        luce.model("mart", max_iter=12, random_state=0),
    ],
    ids=["trees", "linear", "mart"],
)
@pytest.mark.filterwarnings("ignore:.*the most that were allowed")
def test_it_is_the_mean_of_fits_that_each_leave_a_fold_out(data, ranker, tmp_path):
    found = luce.cross_fit(ranker, data, folds=3)
    seed = int(np.random.default_rng(0).integers(2**31))
    fold = deal(data, 3, np.random.default_rng([seed, 0]))
    fits, out = [], np.empty(data.n_rows)
    for k in range(3):
        own = int(np.random.default_rng([seed, 0, k]).integers(2**31))
        held = data.take(fold == k)
        one = luce.Ranker(**ranker.get_params(deep=False)).set_params(random_state=own)
        fits.append(one.fit(data.take(fold != k), valid=held))
        out[np.repeat(fold == k, data.sizes)] = fits[-1].predict(held)
    np.testing.assert_allclose(found.predict(data), np.mean([one.predict(data) for one in fits], axis=0), rtol=1e-9)
    record = found.history_["cross_fit"]
    assert record["how"] == "mean"
    assert np.isclose(record["value"], luce.evaluate(out, data, ["ndcg@10"]).means["ndcg@10"])
    assert record["low"] < record["value"] < record["high"]
    found.save(tmp_path / "cross.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "cross.luce").predict(data), found.predict(data))


def test_other_scorers_are_fitted_once_more_on_all_queries(data):
    ranker = luce.model("rankboost", max_iter=12, random_state=0)
    found = luce.cross_fit(ranker, data, folds=3)
    record = found.history_["cross_fit"]
    assert record["how"] == "refit"
    expected = max(1, round(np.mean(record["iterations"])))
    seed = int(np.random.default_rng(0).integers(2**31))
    again = luce.model("rankboost", max_iter=expected, random_state=seed).fit(data)
    np.testing.assert_array_equal(found.predict(data), again.predict(data))


def test_several_draws_of_folds(data):
    found = luce.cross_fit(luce.Ranker("pmop", random_state=0), data, folds=2, seeds=2)
    assert len(found.history_["cross_fit"]["iterations"]) == 4


def test_the_limit_of_rounds_is_said(data):
    ranker = luce.Ranker("pmop", "trees", max_iter=2, learning_rate=0.01, random_state=0)
    with pytest.warns(LuceWarning, match="the most that were allowed; raise max_iter"):
        luce.cross_fit(ranker, data, folds=2)


def test_what_cannot_be_cross_fitted(data, tmp_path):
    with pytest.raises(DataError, match="100 folds need as many queries"):
        luce.cross_fit(luce.Ranker(), data, folds=100)
    with pytest.raises(SettingError, match="folds"):
        luce.cross_fit(luce.Ranker(), data, folds=1)
    with pytest.raises(SettingError, match="checkpoint is for one fit"):
        luce.cross_fit(luce.Ranker(checkpoint=tmp_path), data)
