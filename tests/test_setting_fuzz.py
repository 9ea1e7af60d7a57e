"""Every setting of every part, with absurd values: heard, or refused in one sentence; never a traceback, never deaf."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce import losses, scorers, training
from luce.data.simulate import simulate
from luce.errors import LuceError, SettingError
from luce.registry import all_settings_of

ABSURD = (-1, 0, 0.5, float("nan"), float("inf"), 1e300, 10**30, "nonsense", "", True, None, [], {}, (1, 2), b"x", 1j)
PARTS = [
    (kind, name)
    for kind, family in (("loss", losses), ("scorer", scorers), ("trainer", training))
    for name in family.names()
]


def part_of(kind, name):
    return {"loss": losses, "scorer": scorers, "trainer": training}[kind].get(name)


def with_setting(kind, name, setting, value):
    return luce.registry.with_settings(kind, part_of(kind, name), {setting: value})


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_absurd_values_are_taken_or_refused_in_one_sentence(kind, name):
    said = []
    for setting in all_settings_of(part_of(kind, name)):
        for value in ABSURD:
            try:
                with_setting(kind, name, setting, value)
            except LuceError as error:
                said.append(str(error))
    assert all("\n" not in each and len(each) > 20 for each in said)


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_a_switch_is_true_or_false(kind, name):
    switches = [key for key, value in all_settings_of(part_of(kind, name)).items() if isinstance(value, bool)]
    for setting in switches:
        for value in ("no", "flase", 2, float("nan")):
            with pytest.raises(SettingError, match=setting):
                with_setting(kind, name, setting, value)


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_a_misspelt_setting_is_refused(kind, name):
    for setting in all_settings_of(part_of(kind, name)):
        with pytest.raises(SettingError, match="does not take these parameters"):
            with_setting(kind, name, setting + "x", 1)


@pytest.fixture(scope="module")
def data():
    return simulate(queries=10, features=3, seed=0)


@pytest.mark.filterwarnings("ignore::luce.errors.LuceWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["lbfgs", "sgd", "projected", "linear_regression"])
def test_what_is_taken_trains_or_is_refused(data, name):
    """An accepted value gives finite scores, or a sentence when the data are seen."""
    few = {"max_iter": 3, "max_epochs": 2}
    own = all_settings_of(training.get(name))
    for setting in own:
        for value in (0, 0.5, 1e300, True, None, "map"):
            try:
                trainer = luce.registry.with_settings(
                    "trainer", training.get(name), {**{k: few[k] for k in few if k in own}, setting: value}
                )
                scores = luce.Ranker(trainer=trainer, random_state=0).fit(data).predict(data)
            except LuceError:
                continue
            assert np.isfinite(scores).all(), (setting, value)


def test_the_long_form_is_heard_after_the_short_one(data):
    ranker = luce.Ranker("ranknet", l2=0.01, random_state=0)
    ranker.set_params(trainer__l2=50.0)
    assert ranker.parts().trainer.l2 == 50.0
    there = luce.Ranker("ranknet", l2=50.0, random_state=0).fit(data).predict(data)
    np.testing.assert_array_equal(ranker.fit(data).predict(data), there)
    assert ranker.set_params(l2=1.0).parts().trainer.l2 == 1.0
    stopping = luce.Ranker(early_stopping=3).set_params(trainer__early_stopping=7)
    assert stopping.parts().trainer.early_stopping == 7


@pytest.mark.parametrize("name", ["lambdamart", "pmop-gibbs", "structrank", "rankboost"])
def test_a_long_form_replaces_what_a_complete_system_says_in_short(name):
    assert luce.model(name, trainer__early_stopping=7).parts().trainer.early_stopping == 7
    if name != "structrank":
        assert luce.model(name, trainer__max_iter=9).parts().trainer.max_iter == 9


@pytest.mark.parametrize(
    "give",
    [
        lambda: luce.Ranker(l2=3.0, trainer__l2=5.0),
        lambda: luce.Ranker(early_stopping=None, trainer__early_stopping=5),
        lambda: luce.Ranker().set_params(l2=3.0, trainer__l2=5.0),
        lambda: luce.model("pmop-fd", max_iter=3, trainer__max_iter=4),
    ],
)
def test_both_forms_at_once_are_refused(give):
    with pytest.raises(SettingError, match="are the same setting; give one of them"):
        give()
