"""Cross-fitting of single systems: the mean of folds, or one fit more, and what to expect."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce import cross_fitting
from luce.auto.crossfit import deal
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
    assert np.isclose(record["value"], _honest(fits, np.bincount(fold)))
    assert record["value"] <= luce.evaluate(out, data, ["ndcg@10"]).means["ndcg@10"]
    assert record["low"] < record["value"] < record["high"]
    found.save(tmp_path / "cross.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "cross.luce").predict(data), found.predict(data))


def _honest(fits, sizes):
    """Every fold after the iterations that are best for the others, the slow way."""
    curves = [one.history_["validation"] for one in fits]

    def at(k, step):
        return sizes[k] * curves[k][min(step, len(curves[k]) - 1)]

    total = 0.0
    for k in range(len(fits)):
        others = [sum(at(j, step) for j in range(len(fits)) if j != k) for step in range(max(map(len, curves)))]
        total += at(k, int(np.argmax(others)))
    return total / sum(sizes)


@pytest.mark.filterwarnings("ignore:.*the most that were allowed")
def test_iterations_that_were_chosen_on_noise_do_not_flatter(data, monkeypatch):
    """Features that say nothing: the best round of every fold looks good on it, and the estimate does not."""
    best, original = [], cross_fitting._value

    def spy(curves, sizes, rising):
        best.append(np.average([max(curve) for curve in curves], weights=sizes.ravel()))
        return original(curves, sizes, rising)

    monkeypatch.setattr(cross_fitting, "_value", spy)
    errors, flattered = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        noise = luce.from_arrays(rng.normal(size=data.X.shape), data.y, qid=data.qid)
        ranker = luce.Ranker(None, "trees", scorer__objective="regression", max_iter=30, early_stopping=None)
        found = luce.cross_fit(ranker.set_params(random_state=seed), noise, folds=3)
        draws = [luce.evaluate(rng.random(data.n_rows), data, ["ndcg@10"]).means["ndcg@10"] for _ in range(30)]
        errors.append(found.history_["cross_fit"]["value"] - np.mean(draws))
        flattered.append(best[-1] - np.mean(draws))
    for found, optimistic in ((errors, False), (flattered, True)):
        assert (np.mean(found) > 2.5 * np.std(found, ddof=1) / np.sqrt(len(found))) == optimistic


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
