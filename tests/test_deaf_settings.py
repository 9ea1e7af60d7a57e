"""A setting that changes no bit in the company it is in is refused, and the part that would hear it is named."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import luce
from luce import losses, scorers, training
from luce.data.simulate import simulate
from luce.errors import LuceWarning, SettingError
from luce.ranker.parts import choose


@pytest.fixture(scope="module")
def data():
    return simulate(queries=20, features=3, seed=0)


DEAF = [
    (lambda **more: losses.get("plackett_luce", seed=3, **more), "seed=3 has no effect", {"ties": "random"}),
    (lambda **more: losses.get("pmop", seed=3, **more), "seed=3 has no effect", {"cut": 5}),
    (lambda **more: losses.get("pmop_exact", seed=3, **more), "seed=3 has no effect", {"cut": 5}),
    (lambda **more: losses.get("topk_listmle", seed=3, **more), "seed=3", {"inside": "random", "ties": "extend"}),
    (lambda **more: losses.get("hom_oo", seed=3, **more), "seed=3 has no effect", {"ties": "average"}),
    (lambda **more: losses.get("cdn", seed=3, **more), "seed=3 has no effect", {"topology": "random"}),
    (lambda **more: losses.get("cdn", networks=2, **more), "networks=2 has no effect", {"topology": "random"}),
    (lambda **more: losses.get("cdn", pairs=2, **more), "pairs=2 has no effect", {"topology": "random"}),
    (lambda **more: losses.get("ndcg_mix", search="grid", **more), "search='grid' has no effect", {"alpha": None}),
    (lambda **more: losses.get("ranksvm", epsilon=0.1, **more), "epsilon=0.1 has no effect", {"ties": True}),
    (lambda **more: scorers.get("listwise", term_base="same", **more), "term_base='same'", {"terms": 2}),
    (lambda **more: scorers.get("nadaraya_watson", seed=3, **more), "seed=3 has no effect", {"references": 9}),
    (
        lambda **more: scorers.get("trees", **{"curvature_floor": 0.5, "objective": "lambdarank", **more}),
        "curvature_floor=0.5 has no effect in 'trees' without a loss of luce",
        {"objective": None},
    ),
    (
        lambda **more: choose({"scorer": scorers.get("trees", reestimate=3), "loss": "pmop", **more}, {}),
        "reestimate=3 has no effect in 'trees' without a loss with a tie parameter",
        {"loss": "rao_kupper"},
    ),
    (
        lambda **more: training.get("retargeting", l2=3.0, **more),
        "l2=3.0 has no effect",
        {"regressor": "linear_regression"},
    ),
]


@pytest.mark.parametrize(("make", "message", "company"), DEAF, ids=[message for _, message, _ in DEAF])
def test_refused_alone_and_taken_in_company(make, message, company):
    with pytest.raises(SettingError, match=message.replace(".", r"\.")):
        make()
    make(**company)


def test_starts_that_are_all_the_same_are_refused(data):
    with pytest.raises(
        SettingError, match="starts=2 has no effect in 'projected_lbfgs' without a scorer or loss whose"
    ):
        luce.Ranker(trainer="projected_lbfgs", trainer__starts=2).fit(data)
    for parts in ({"trainer": "projected"}, {"trainer": "projected_lbfgs", "scorer": "mlp"}, {"loss": "cdn"}):

        def scores(starts, seed, parts=parts):
            settings = {"trainer": "projected_lbfgs", **parts, "trainer__starts": starts, "random_state": seed}
            return luce.Ranker(**settings).fit(data).predict(data)

        # The first start may happen to be the best of four, on this processor or that one.
        assert any(not np.array_equal(scores(1, seed), scores(4, seed)) for seed in range(1, 9))


def test_a_way_to_stay_inside_of_everything_is_refused(data):
    with pytest.raises(SettingError, match="inside='shrinking' has no effect in 'projected' without radius"):
        luce.Ranker(trainer="projected", trainer__inside="shrinking").fit(data)
    for settings in ({"trainer__radius": 0.3}, {"trainer__nonnegative": True}):
        luce.Ranker(trainer="projected", trainer__inside="shrinking", **settings).fit(data)


def test_descent_hears_steps_and_passes(data):
    def steps(**settings):
        return len(luce.Ranker(trainer="sgd", batch_queries=5, **settings).fit(data).history_["objective"])

    assert steps() == 100
    assert steps(max_iter=7) == 7
    assert steps(max_epochs=3) == 12
    assert steps(max_epochs=30) == 120
    assert steps(max_epochs=3, max_iter=7) == 7
    assert steps(max_epochs=1, max_iter=7) == 4


def test_a_penalty_that_validation_chooses_is_named(data):
    train, valid = data.take(np.arange(12)), data.take(np.arange(12, 20))
    with pytest.warns(LuceWarning, match="l2=3.0 of 'reranking' had no effect: validation data choose the penalty"):
        luce.Ranker("listnet", "listwise", base="column:1", l2=3.0).fit(train, valid=valid)
    with pytest.warns(LuceWarning, match=r"l2_grid=\(1.0,\) of 'listwise' had no effect"):
        luce.Ranker("listnet", "listwise", scorer__l2_grid=[1.0], base="column:1").fit(train)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "No iterate is better")
        luce.Ranker("listnet", "listwise", base="column:1", l2=3.0).fit(train)
        luce.Ranker("listnet", "listwise", scorer__l2_grid=[1.0], base="column:1").fit(train, valid=valid)


@pytest.mark.parametrize("setting", [{"engine": "fast"}, {"engine": 3}, {"monotone": 1}, {"categorical": 0.5}], ids=str)
def test_settings_of_trees_have_a_kind(setting):
    with pytest.raises(SettingError, match=f"{next(iter(setting))} is .*; it must be"):
        scorers.get("trees", **setting)
