"""Parts of a user that are wrong in ways that a first try is: each is refused in one sentence, or named."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, LuceError, LuceWarning, OwnPartError, SettingError


@pytest.fixture(scope="module")
def data():
    return simulate(queries=12, features=3, seed=0)


def scorer(**methods):
    """A scorer that works, with some methods replaced."""
    usual = {
        "name": "mine",
        "size": lambda self, n: n,
        "scores": lambda self, p, Z: Z @ p,
        "gradient": lambda self, p, Z, g: Z.T @ g,
    }
    return type("Mine", (luce.scorers.Scorer,), usual | methods)()


class Fitted:
    """What a trainer gives, without any name."""

    def __init__(self, score):
        self._score = score

    def score(self, *given):
        return self._score(*given)


def trainer(train, **more):
    return type("Mine", (), {"train": lambda self, task: train(task), **more})()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scorer": scorer(initial=lambda self, rng: None)}, r"initial of the scorer 'mine' gave shape \(\)"),
        ({"scorer": scorer(initial=lambda self, rng: np.zeros(1))}, r"initial of the scorer 'mine' gave shape \(1,\)"),
        ({"scorer": scorer(initial=lambda self, rng: 1 / 0)}, "initial of the scorer 'mine' raised ZeroDivisionError"),
        ({"scorer": "pmop"}, "'pmop' is a loss, not a scorer; give it as the loss"),
        ({"loss": "linear"}, "'linear' is a scorer, not a loss; give it as the scorer"),
        ({"loss": "rankboost"}, "'rankboost' is a trainer, not a loss"),
        ({"trainer": "trees"}, "'trees' is a scorer, not a trainer"),
        ({"trainer": False}, "The trainer is False; give a name or an object with a method train"),
        ({"trainer": ""}, "Unknown trainer ''"),
        ({"trainer": trainer(lambda task: dict)}, "gave type; it must give a fitted scorer"),
        ({"trainer": trainer(lambda task: Fitted(lambda X, o: None))}, r"has shape \(\) for"),
        ({"trainer": trainer(lambda task: Fitted(lambda X, o: X[:2, 0]))}, r"has shape \(2,\) for"),
        (
            {"trainer": trainer(lambda task: Fitted(lambda: 1))},
            "score of what the trainer 'Mine' gave raised TypeError",
        ),
        ({"trainer": trainer(lambda task: 1, check=lambda self: 1)}, "check of the trainer 'Mine' raised TypeError"),
    ],
    ids=lambda given: given if isinstance(given, str) else next(iter(given)),
)
def test_wrong_parts_are_refused_in_one_sentence(data, settings, message):
    with pytest.raises(LuceError, match=message) as caught:
        luce.Ranker(**settings).fit(data)
    assert "\n" not in str(caught.value)


def test_a_metric_that_counts_no_query_cannot_choose(data):
    train, valid = data.take(np.arange(8)), data.take(np.arange(8, 12))
    for settings in ({}, {"scorer": "trees"}, {"trainer": "rankboost"}):
        with pytest.raises(DataError, match="is NaN for each of the 4 validation queries"):
            luce.Ranker(metric=lambda scores, labels: np.nan, max_iter=3, **settings).fit(train, valid=valid)


@pytest.mark.parametrize(
    "settings", [{}, {"trainer": "sgd"}, {"trainer": "adarank"}, {"trainer": "random_forest"}], ids=str
)
def test_a_model_that_ranks_nothing_is_named(data, settings):
    flat = luce.from_arrays(np.ones_like(data.X), data.y, qid=data.qid)
    with pytest.warns(LuceWarning, match="gives all documents the same score, so that it ranks nothing"):
        luce.Ranker(random_state=0, **settings).fit(flat)
    with pytest.warns(LuceWarning, match="ranks nothing"):
        luce.Ranker(lambda scores, labels: (1.0, np.zeros(len(scores)))).fit(data)


def test_a_trainer_of_any_class_works_by_name(data, monkeypatch, tmp_path):
    class Simple:
        name = "simple"

        def train(self, task):
            return task.scorer.bind(task.data).fitted(np.ones(3))

    for attribute in ("_table", "_spelling"):
        monkeypatch.setattr(luce.training.registry, attribute, dict(getattr(luce.training.registry, attribute)))
    luce.training.register(Simple)
    model = luce.Ranker(trainer="simple").fit(data)
    model.save(tmp_path / "m.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "m.luce").predict(data), model.predict(data))
    luce.training.register(int, name="number")
    with pytest.raises(SettingError, match="The trainer is 'number'"):
        luce.Ranker(trainer="number").fit(data)


def test_what_no_file_can_hold_says_what_to_do(data, tmp_path):
    plain = luce.Ranker(scorer=scorer(), max_iter=2).fit(data)
    with pytest.raises(SettingError, match=r"The scorer 'mine' is not registered.*luce\.scorers\.register first"):
        plain.save(tmp_path / "m.luce")
    model = luce.Ranker(trainer=trainer(lambda task: Fitted(lambda X, offsets: X[:, 0].astype(float)))).fit(data)
    assert model.predict(data).shape == (data.n_rows,)
    with pytest.raises(SettingError, match=r"'Fitted' has no method state .* or keep the model by pickle"):
        model.save(tmp_path / "m.luce")
    with pytest.raises(SettingError, match="has no method importance"):
        model.importance()
    assert "rounds" in model._repr_html_()
    assert not list(tmp_path.iterdir())


def test_a_class_without_defaults_is_given_as_an_object(data, monkeypatch):
    class Needs:
        name = "needs"

        def __init__(self, factor):
            self.factor = factor

        def __call__(self, scores, labels):
            return float(((scores - labels) ** 2).sum()), 2 * (scores - labels)

    for attribute in ("_table", "_spelling"):
        monkeypatch.setattr(luce.losses.registry, attribute, dict(getattr(luce.losses.registry, attribute)))
    luce.losses.register(Needs)
    with pytest.raises(SettingError, match=r"cannot be made of its defaults: .*; give an object\."):
        luce.Ranker("needs").fit(data)
    luce.Ranker(Needs(2.0), max_iter=2).fit(data)


def test_an_error_of_a_part_keeps_its_cause(data):
    with pytest.raises(OwnPartError) as caught:
        luce.Ranker(trainer=trainer(lambda task: {}["x"])).fit(data)
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_is_no_path_is_named(data):
    model = luce.Ranker(max_iter=2).fit(data)
    for call in (luce.read, luce.load, model.save):
        for given in (None, 3, data):
            with pytest.raises(SettingError, match="; give the path of a file"):
                call(given)


def test_a_sparse_matrix_is_refused_as_data(data):
    from scipy import sparse

    with pytest.raises(DataError, match="Sparse data was passed"):
        luce.Ranker().fit(sparse.csr_matrix(data.X), data.y, qid=data.qid)
    luce.Ranker(max_iter=2).fit(luce.from_arrays(sparse.csr_matrix(data.X), data.y, qid=data.qid))
