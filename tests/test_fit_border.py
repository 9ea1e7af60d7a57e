"""What a person gives to `fit` is heard, refused, or named: settings of early stopping, validation data, callbacks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import luce
from luce import training
from luce.data.groups import from_arrays
from luce.data.simulate import simulate
from luce.errors import LuceWarning, SettingError
from luce.registry import settings_of
from luce.systems import ranker_names

VAIN = "had no effect, since there are no validation data"


@pytest.fixture(scope="module")
def data():
    return simulate(queries=24, features=3, seed=0)


@pytest.mark.parametrize(
    "settings",
    [
        {"early_stopping": 3},
        {"early_stopping": 20},  # said, although it is the usual one
        {"trainer__early_stopping": 3},
        {"trainer": training.get("sgd", early_stopping=3)},
        {"scorer": "trees", "early_stopping": 3, "max_iter": 2},
        {"trainer": "projected", "trainer__keep": "last"},
    ],
    ids=str,
)
def test_early_stopping_without_validation_data_is_named(data, settings):
    with pytest.warns(LuceWarning, match=VAIN):
        luce.Ranker(random_state=0, **settings).fit(data)


@pytest.mark.parametrize("name", ["adarank", "rankboost", "ndcg-boost-linear", "lambdamart"])
def test_the_patience_of_a_system_is_named_only_where_someone_said_it(data, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(luce.model(name, random_state=0, max_iter=2)).fit(data)
        luce.model(name, random_state=0, max_iter=2, early_stopping=None).fit(data)
    for said in (
        luce.model(name, max_iter=2, early_stopping=7),
        luce.model(name, max_iter=2).set_params(early_stopping=7),
        luce.model(name, max_iter=2).set_params(trainer__early_stopping=7),
    ):
        with pytest.warns(LuceWarning, match=VAIN):
            said.fit(data)


def test_every_patience_waits_for_validation_data(data):
    """The remark is true of each trainer: with and without patience the same bits."""
    names = {luce.model(name).parts().trainer.name: name for name in ranker_names()}
    for trainer, name in names.items():
        if "early_stopping" not in settings_of(training.get(trainer)) or trainer == "reranking":
            continue
        found = []
        for patience in (1, None):
            model = luce.model(name, random_state=0, early_stopping=patience)
            few = {"max_iter", "max_epochs"} & set(settings_of(model.parts().trainer))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(model.set_params(**dict.fromkeys(few, 4)).fit(data).predict(data))
        np.testing.assert_array_equal(*found, err_msg=name)


def test_folds_hear_early_stopping(data):
    found = []
    for patience in (1, None):
        ranker = luce.Ranker(scorer="mlp", max_iter=25, early_stopping=patience, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "No iterate is better|The .* was best after")
            found.append(luce.cross_fit(ranker, data, folds=2))
    assert not np.array_equal(*(model.predict(data) for model in found))


def _arrays(data, rows, prefix):
    return data.X[rows], data.y[rows], [f"{prefix}{q}" for q in data.qid[rows]]


@pytest.mark.parametrize(
    ("give", "count"),
    [
        (lambda data: (data, data), "24 of 24"),
        (lambda data: (data.take(np.arange(15)), data.take(np.arange(12, 24))), "3 of 12"),
        (
            lambda data: (from_arrays(data.X, data.y), from_arrays(data.X, data.y)),
            "1 of 1",
        ),
    ],
)
def test_validation_queries_of_the_training_are_named(data, give, count):
    train, valid = give(data)
    with pytest.warns(LuceWarning, match=f"{count} validation queries are in the training data, too"):
        luce.Ranker(max_iter=2).fit(train, valid=valid)


def test_queries_cut_in_two_are_named_and_numbers_of_queries_are_no_names(data):
    even, odd = np.arange(0, data.n_rows, 2), np.arange(1, data.n_rows, 2)
    X, y, qid = _arrays(data, even, "q")
    with pytest.warns(LuceWarning, match="24 of 24 validation queries"):
        luce.Ranker(max_iter=2).fit(X, y, qid=qid, valid=_arrays(data, odd, "q"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "No iterate is better|The .* was best after")
        luce.Ranker(max_iter=2).fit(X, y, qid=qid, valid=_arrays(data, odd, "other "))
        luce.Ranker(max_iter=2).fit(data, valid=simulate(queries=9, features=3, seed=1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"comparison_weight": 3.0}, "comparison_weight goes with comparisons, which was not given"),
        ({"clicks_weight": 3.0}, "clicks_weight goes with clicks"),
        ({"valid_base_scores": [1.0]}, "valid_base_scores goes with valid"),
        ({"callbacks": [3]}, "give a list of functions"),
        ({"callbacks": print}, "give a list of functions"),
        ({"progress": "yes"}, "give a list of functions"),
    ],
    ids=lambda given: given if isinstance(given, str) else next(iter(given)),
)
def test_what_fit_would_not_use_is_refused(data, given, message):
    with pytest.raises(SettingError, match=message):
        luce.Ranker(max_iter=2).fit(data, **given)


@pytest.mark.parametrize("settings", [{"warm_start": "no"}, {"checkpoint": 3}])
def test_settings_of_the_ranker_itself_are_checked(data, settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        luce.Ranker(**settings).fit(data)


def test_a_training_that_runs_away_is_refused():
    """Steps of a gradient that l2 makes a million times as long."""
    data = simulate(queries=20, features=3, seed=0)
    with pytest.raises(SettingError, match="ran out of the finite numbers; lower l2"):
        luce.Ranker("pmop", trainer="sgd", l2=1e6, random_state=0).fit(data)
