"""Estimators of others in a comparison: how each gets its queries, and what happens where one misbehaves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, LuceError, LuceWarning, OwnPartError, SettingError
from luce.experiments.estimators import fit_estimator, from_file, predict_scores


@pytest.fixture(scope="module")
def data():
    return simulate(queries=12, features=3, seed=0)


class Seen(BaseEstimator):
    """Remembers what `fit` was given."""

    def fit(self, X, y, group_id=None):
        self.seen_ = group_id
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_queries_reach_the_last_step_of_a_pipeline(data):
    piped = fit_estimator(make_pipeline(StandardScaler(), luce.Ranker("ranknet")), data, data)
    assert not piped[-1].one_query_
    seen = fit_estimator(make_pipeline(Seen()), data, data)[-1].seen_
    np.testing.assert_array_equal(seen, np.repeat(np.arange(data.n_queries), data.sizes))


class Spoils(Seen):
    def fit(self, X, y):
        X *= 0
        y *= 0
        return self

    def predict(self, X):
        X *= 0
        return X[:, 0]


def test_an_estimator_that_changes_its_data_changes_them_for_itself_alone(data):
    X, y = data.X.copy(), data.y.copy()
    predict_scores(fit_estimator(Spoils(), data, data), data)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)


class Fails(Seen):
    def __init__(self, where="fit"):
        self.where = where

    def fit(self, X, y):
        return {}["mine"] if self.where == "fit" else self

    def predict(self, X):
        return ["text"] * len(X) if self.where == "text" else [].mine


@pytest.mark.parametrize("where", ["fit", "predict", "text"])
def test_one_that_fails_is_named_and_the_others_go_on(data, where):
    with pytest.warns(LuceWarning, match="The model 'fails' failed and is left out"):
        result = luce.compare(data, {"fails": Fails(where), "ridge": Ridge()}, ["ndcg@10"], folds=3)
    assert result.models == ["ridge"]
    assert "raised" in result.failed["fails"]


@pytest.mark.parametrize(
    ("models", "message"),
    [("pmop-fd", "give a list of names"), (3, "give a list of names"), (["pmopfd"], "Did you mean 'pmop-fd'")],
)
def test_what_are_no_models(data, models, message):
    with pytest.raises(SettingError, match=message):
        luce.compare(data, models, folds=3)


def test_data_and_folds_of_the_wrong_kind(data):
    import pandas as pd

    with pytest.raises(DataError, match=r"give Groups: luce\.from_frame"):
        luce.compare(pd.DataFrame(data.X), {"ridge": Ridge()})
    with pytest.raises(SettingError, match="give at least 3"):
        luce.compare(data, {"ridge": Ridge()}, folds="3")
    with pytest.raises(LuceError, match="give a name, such as"):
        luce.compare(data, {"ridge": Ridge()}, [lambda s, y: 1.0], folds=3)


@pytest.mark.parametrize(
    ("text", "message"), [("def (:", "SyntaxError"), ("import nowhere_to_be_found", "ModuleNotFound")]
)
def test_a_file_that_cannot_be_imported(tmp_path, text, message):
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(OwnPartError, match=f"broken.py raised {message}"):
        from_file(f"{tmp_path / 'broken.py'}:Model")
