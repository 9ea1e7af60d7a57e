"""Parts that a user wrote, at the border: what they raise, what they give, and what they are called."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, LuceWarning, OwnPartError, SettingError
from luce.losses.base import Likelihood
from luce.registry import Registry


@pytest.fixture(scope="module")
def data():
    return simulate(queries=12, features=3, seed=0)


def square(scores, labels):
    return ((scores - labels) ** 2).sum(), 2 * (scores - labels)


class Linear(luce.scorers.Scorer):
    name = "own_linear"

    def size(self, n_features):
        return n_features

    def scores(self, parameters, Z):
        return Z @ parameters

    def gradient(self, parameters, Z, d_scores):
        return Z.T @ d_scores


@pytest.mark.parametrize("scorer", ["linear", "trees"])
def test_what_a_loss_raises_is_said_to_be_its_own(data, scorer):
    def broken(scores, labels):
        raise KeyError("mine")

    with pytest.raises(OwnPartError, match="The loss 'broken' raised KeyError: 'mine'") as caught:
        luce.Ranker(broken, scorer, max_iter=2).fit(data)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("wrong", [lambda g: -g, lambda g: np.ones_like(g), lambda g: g / len(g)])
def test_a_gradient_that_is_none_is_named(data, wrong):
    def mistaken(scores, labels):
        value, gradient = square(scores, labels)
        return value, wrong(gradient)

    with pytest.warns(LuceWarning, match="The gradient of the loss 'mistaken' is not that of its value"):
        luce.Ranker(mistaken, trainer="sgd", max_iter=2, learning_rate=1e-3).fit(data)
    mistaken.smooth = False
    with warnings.catch_warnings(record=True) as said:  # meant so
        luce.Ranker(mistaken, trainer="sgd", max_iter=2, learning_rate=1e-3).fit(data)
    assert not any("of its value: along" in str(each.message) for each in said)


def test_a_loss_in_float32_is_a_loss(data):
    def single(scores, labels):
        value, gradient = square(scores, labels)
        return np.float32(value), gradient.astype(np.float32)

    exact, rounded = (luce.Ranker(loss, max_iter=2).fit(data).predict(data) for loss in (square, single))
    np.testing.assert_allclose(rounded, exact, rtol=1e-4, atol=1e-5)


def test_a_likelihood_without_draws_says_so():
    class Silent(Likelihood):
        name = "silent"

        def prepare(self, target, offsets):
            return target

        def fill(self, prepared, scores, out):
            pass

        def log_prob(self, scores, target):
            return 0.0

    for draw in (lambda loss: loss.sample(np.zeros(2), None), lambda loss: loss.sample_many(np.zeros(2), None, 1)):
        with pytest.raises(SettingError, match="'silent' draws nothing; give it a sample or a sample_many"):
            draw(Silent())


def test_a_complex_gradient_is_refused(data):
    with pytest.raises(SettingError, match="complex numbers"):
        luce.Ranker(lambda s, y: (1.0, s * 1j)).fit(data)


def test_a_scorer_with_a_wrong_gradient_is_named(data):
    class Turned(Linear):
        def gradient(self, parameters, Z, d_scores):
            return -(Z.T @ d_scores)

    with pytest.warns(LuceWarning, match="does not fall along its own gradient"):
        model = luce.Ranker(scorer=Turned()).fit(data)
    assert not model.history_["converged"]


def test_what_a_scorer_raises_or_says_of_its_size(data):
    class Broken(Linear):
        def scores(self, parameters, Z):
            raise IndexError("mine")

    class Endless(Linear):
        def size(self, n_features):
            return "many"

    with pytest.raises(OwnPartError, match="scores of the scorer 'own_linear' raised IndexError: mine"):
        luce.Ranker(scorer=Broken()).fit(data)
    with pytest.raises(SettingError, match="size of the scorer 'own_linear' is 'many'"):
        luce.Ranker(scorer=Endless()).fit(data)


class Plain:
    """A trainer with nothing but `train`."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def train(self, task):
        bound = task.scorer.bind(task.data)
        return bound.fitted(np.full(task.data.n_features, self.factor))


def test_a_trainer_needs_no_more_than_train(data):
    one = luce.Ranker(trainer=Plain()).fit(data).predict(data)
    three = luce.Ranker(trainer=Plain()).set_params(trainer__factor=3.0).fit(data).predict(data)
    np.testing.assert_allclose(three - three.mean(), 3 * (one - one.mean()), atol=1e-9)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda self, task: None, "gave NoneType; it must give a fitted scorer"),
        (lambda self: None, "raised TypeError"),
        (lambda self, task: {}["mine"], "raised KeyError: 'mine'"),
    ],
)
def test_a_trainer_that_does_not_train(data, train, message):
    with pytest.raises((SettingError, OwnPartError), match=message):
        luce.Ranker(trainer=type("Idle", (), {"train": train})()).fit(data)


@pytest.mark.parametrize("name", ["", 3, "m@3", "a,b", "a b", None])
def test_names_that_nobody_could_write(name):
    with pytest.raises(SettingError, match="must be of letters, digits"):
        Registry("metric", {}).register(lambda s, y: 1.0, name=name)


def test_a_part_registered_as_another_kind(data, monkeypatch):
    for registry in (luce.losses.registry, luce.scorers.registry):
        monkeypatch.setattr(registry, "_table", dict(registry._table))
        monkeypatch.setattr(registry, "_spelling", dict(registry._spelling))
    luce.losses.register(Linear, name="no_loss")
    luce.scorers.register(square, name="no_scorer")
    with pytest.raises(SettingError, match="'no_loss' is registered as Linear, whose objects are no losses"):
        luce.Ranker("no_loss").fit(data)
    with pytest.raises(SettingError, match="'no_scorer' cannot be made"):
        luce.Ranker(scorer="no_scorer").fit(data)


class Context(luce.scorers.Scorer):
    """Looks at the mean document of the query: a listwise scorer in a few lines."""

    name = "context_of_a_test"

    def size(self, n_features):
        return 2 * n_features

    def means(self, Z, offsets):
        sizes = np.diff(offsets)
        return np.repeat(np.add.reduceat(Z, offsets[:-1]) / sizes[:, None], sizes, axis=0)

    def scores(self, parameters, Z, offsets):
        own, context = np.split(parameters, 2)
        return Z @ own + np.tanh(self.means(Z, offsets) @ context) * Z[:, 0]

    def gradient(self, parameters, Z, offsets, d_scores):
        means = self.means(Z, offsets)
        bend = d_scores * Z[:, 0] / np.cosh(means @ np.split(parameters, 2)[1]) ** 2
        return np.concatenate([d_scores @ Z, bend @ means])


class Careless(Context):
    """Takes the mean over whatever rows it is given."""

    name = "careless_of_a_test"

    def scores(self, parameters, Z):
        own, context = np.split(parameters, 2)
        return Z @ own + np.tanh(Z.mean(axis=0) @ context) * Z[:, 0]

    def gradient(self, parameters, Z, d_scores):
        mean = Z.mean(axis=0)
        bend = (d_scores @ Z[:, 0]) / np.cosh(mean @ np.split(parameters, 2)[1]) ** 2
        return np.concatenate([d_scores @ Z, bend * mean])


class Placed(Context):
    """Looks at where a row stands."""

    name = "placed_of_a_test"

    def scores(self, parameters, Z, offsets):
        place = np.arange(len(Z)) - np.repeat(offsets[:-1], np.diff(offsets))
        return super().scores(parameters, Z, offsets) + 0.1 * place


def test_a_listwise_scorer_trains_saves_and_serves(tmp_path, monkeypatch):
    assert luce.testing.check_scorer(Context()).passed
    with pytest.raises(SettingError, match="rows touch each other"):
        luce.testing.check_scorer(Careless())
    with pytest.raises(SettingError, match="scores of moved rows"):
        luce.testing.check_scorer(Placed())
    for table in ("_table", "_spelling"):
        monkeypatch.setattr(luce.scorers.registry, table, dict(getattr(luce.scorers.registry, table)))
    luce.scorers.register(Context)
    data = simulate(queries=20, seed=3)
    model = luce.Ranker("pmop", "context_of_a_test", max_iter=30).fit(data)
    assert model.needs_queries
    model.save(tmp_path / "m.luce")
    again = luce.load(tmp_path / "m.luce")
    scores = model.predict(data)
    for q, (a, b) in enumerate(itertools.pairwise(data.offsets.tolist())):
        np.testing.assert_allclose(again.predict(data.take([q])), scores[a:b], rtol=1e-12)
    with pytest.raises(DataError, match="scores documents within their query; give qid"):
        model.predict(data.X)
