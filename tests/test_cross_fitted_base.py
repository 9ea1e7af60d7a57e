"""A base that is fitted with the model on top of it: whose scores the training documents have, and what is kept."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.base import cross_fitted
from luce.data.simulate import simulate, simulate_duplicates
from luce.errors import DataError, SettingError


@pytest.fixture(scope="module")
def parts() -> tuple[luce.Groups, luce.Groups]:
    data = simulate(queries=60, features=6, seed=0)
    return data.take(np.arange(40)), data.take(np.arange(40, 60))


def forest(**settings) -> luce.Ranker:
    small = {"trainer__trees": 10, "trainer__min_samples_leaf": 5}
    return luce.model("random_forest", **small, random_state=0, **settings)


def test_scores_come_from_fits_without_their_query(parts):
    """Labels without anything to learn: own training scores look good, cross-fitted ones do not."""
    rng = np.random.default_rng(0)
    train = luce.from_arrays(rng.normal(size=(600, 5)), rng.integers(0, 3, 600), group=[10] * 60)
    base, scores = cross_fitted(forest(), train, None, 5, 0)
    own = luce.evaluate(base.ranker.predict(train), train, "ndcg@5").means["ndcg@5"]
    crossed = luce.evaluate(scores, train, "ndcg@5").means["ndcg@5"]
    chance = luce.evaluate(np.zeros(600), train, "ndcg@5").means["ndcg@5"]
    assert own > chance + 0.2
    assert crossed == pytest.approx(chance, abs=0.06)
    # Each fold by itself: the scores of its queries are those of the fit on all the others.
    from luce.auto.crossfit import deal

    fold = deal(train, 5, np.random.default_rng(0))
    seeded = forest().set_params(random_state=int(np.random.default_rng([0, 2]).integers(2**31)))
    alone = seeded.fit(train.take(fold != 2)).predict(train.take(fold == 2))
    np.testing.assert_array_equal(scores[np.repeat(fold == 2, train.sizes)], alone)


def test_reranker_sees_cross_fitted_scores(parts):
    """Noise as labels: on its own scores the base seems trustworthy, so that what is on top of it moves less."""
    train, valid = parts
    given = luce.Ranker("listnet", "listwise", base=forest(), random_state=0).fit(train, valid=valid)
    _, scores = cross_fitted(forest(), train, valid, 5, int(np.random.default_rng(0).integers(2**31)))
    fitted = forest().fit(train, valid=valid)
    by_hand = luce.Ranker("listnet", "listwise").fit(
        train, valid=valid, base_scores=scores, valid_base_scores=fitted.predict(valid)
    )
    np.testing.assert_array_equal(given.scorer_.weights, by_hand.scorer_.weights)
    np.testing.assert_array_equal(given.base_.ranker.predict(valid), fitted.predict(valid))
    np.testing.assert_array_equal(given.predict(valid), by_hand.predict(valid, base_scores=fitted.predict(valid)))


@pytest.mark.parametrize("scorer", ["listwise", "trees"])
def test_fitted_base_and_path_are_cross_fitted_on_demand(parts, scorer, tmp_path):
    train, valid = parts
    base = forest().fit(train)
    base.save(tmp_path / "base.luce")
    settings = {"max_iter": 5} if scorer == "trees" else {}
    plain = luce.Ranker("listnet", scorer, base=base, random_state=0, **settings).fit(train)
    crossed = [
        luce.Ranker("listnet", scorer, base=b, base_folds=4, random_state=0, **settings).fit(train)
        for b in (base, tmp_path / "base.luce")
    ]
    np.testing.assert_array_equal(crossed[0].predict(valid), crossed[1].predict(valid))
    assert not np.array_equal(crossed[0].predict(valid), plain.predict(valid))
    assert crossed[0].base_.ranker is base
    crossed[1].save(tmp_path / "top.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "top.luce").predict(valid), crossed[1].predict(valid))


def test_linear_base_of_the_reranker_and_greedy(parts):
    train, valid = parts
    model = luce.Ranker("ndcg_square", "listwise", base_folds=3, random_state=0).fit(train, valid=valid)
    assert model.base_.ranker.loss == "listnet"
    duplicates = simulate_duplicates(12, seed=1)
    greedy = luce.Ranker(trainer="greedy", base=luce.Ranker("listnet"), base_folds=3, random_state=0).fit(duplicates)
    assert np.isfinite(greedy.predict(duplicates)).all()


def test_clones_are_not_fitted(parts):
    from sklearn.base import clone

    ranker = luce.Ranker("listnet", "listwise", base=forest(), base_folds=3)
    copy = clone(ranker)
    assert copy.base is not ranker.base
    assert copy.base_folds == 3
    copy.fit(parts[0])
    assert not hasattr(ranker.base, "scorer_")
    assert not hasattr(copy.base, "scorer_")


def test_what_cannot_be_cross_fitted_is_said(parts):
    train, _ = parts
    with pytest.raises(SettingError, match="no ranker that could be fitted on folds"):
        luce.Ranker("listnet", "trees", base="column:1", base_folds=3).fit(train)
    with pytest.raises(SettingError, match="no ranker that could be fitted on folds"):
        luce.Ranker("listnet", base_folds=3).fit(train)
    with pytest.raises(SettingError, match="base_scores are taken as they are"):
        luce.Ranker("listnet", "listwise", base_folds=3).fit(train, base_scores=np.zeros(train.n_rows))
    with pytest.raises(SettingError, match="base_folds"):
        luce.Ranker("listnet", "listwise", base=forest(), base_folds=1).fit(train)
    with pytest.raises(DataError, match="need as many queries"):
        luce.Ranker("listnet", "listwise", base=forest(), base_folds=50).fit(train)
    on_top = luce.Ranker("listnet", "listwise", base=forest().fit(train))
    with pytest.raises(SettingError, match="stands on a base itself"):
        luce.Ranker("listnet", "listwise", base=on_top).fit(train)
