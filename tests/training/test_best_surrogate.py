"""The best surrogate: the search itself, what it visits, and the model that comes of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, SettingError
from luce.ranker.parts import inner
from luce.systems import settings_grid
from luce.training import best_surrogate
from luce.training.best_surrogate import even_grid, pattern_search, starts
from luce.training.listwise_boosting import ListwiseBoosting
from luce.training.task import Task


@pytest.fixture(scope="module")
def parts() -> tuple[luce.Groups, luce.Groups]:
    data = simulate(queries=90, features=5, seed=4)
    return data.take(np.arange(60)), data.take(np.arange(60, 90))


def searched(**settings) -> luce.Ranker:
    chosen = {"max_iter": 200, "random_state": 0, "loss__evaluations": 12, **settings}
    return luce.model("best-surrogate", **chosen)


@pytest.mark.parametrize("best", [(0.3, 0.0, 2.0), (0.0, 1.0, 0.0), (1.5, 1.5, 1.5)])
def test_pattern_search_finds_the_top_of_a_hill(best):
    visited = []

    def value(alpha):
        visited.append(alpha)
        return -float(np.sum((alpha - best) ** 2))

    found = pattern_search(value, starts(3, np.random.default_rng(0)), np.ones(3))
    np.testing.assert_allclose(found, best, atol=5e-3)
    assert all((alpha >= 0).all() and alpha.any() for alpha in visited)


def test_pattern_search_copes_with_functions_of_different_scale():
    best, unit = np.array([50.0, 0.3]), np.array([0.01, 1.0])
    found = pattern_search(
        lambda a: -float(np.sum(((a - best) * unit) ** 2)), starts(2, np.random.default_rng(0)), unit
    )
    np.testing.assert_allclose(found * unit, best * unit, atol=5e-3)


def test_search_that_may_ask_no_more_ends():
    asked = []

    def value(alpha):
        asked.append(alpha)
        return None if len(asked) > 4 else float(len(asked))

    found = pattern_search(value, starts(2, np.random.default_rng(0)), np.ones(2))
    assert found.any()


@pytest.mark.parametrize("fits", ["converged", "stopped"])
@pytest.mark.parametrize("with_valid", [True, False])
def test_chosen_weights_are_the_best_that_were_visited(parts, with_valid, fits):
    train, valid = parts
    model = searched(loss__fits=fits).fit(train, valid=valid if with_valid else None)
    surface = model.history_["surface"]
    assert len(surface) <= 12
    assert len({tuple(visit["alpha"]) for visit in surface}) == len(surface)
    best = max(visit["value"] for visit in surface)
    chosen = next(visit for visit in surface if visit["alpha"] == pytest.approx(model.loss_.alpha.tolist(), rel=1e-9))
    assert chosen["value"] == best
    if with_valid:
        assert luce.evaluate(model, valid, ["ndcg@10"]).means["ndcg@10"] == pytest.approx(best, abs=1e-6)
    elif fits == "stopped":
        assert len(model.history_["objective"]) == max(1, chosen["iterations"])
    again = searched(loss__fits=fits).fit(train, valid=valid if with_valid else None)
    assert again.history_["surface"] == surface
    np.testing.assert_array_equal(again.predict(train), model.predict(train))


def test_queries_that_judge_have_no_part_in_a_fit(parts):
    """Eq. 3.26: each visit is the fit on the training queries alone, to its end; validation judges it once."""
    train, valid = parts
    model = searched(loss__evaluations=5).fit(train, valid=valid)
    for visit in model.history_["surface"]:
        alone = luce.Ranker(
            "ndcg_mix",
            "single_feature",
            loss__alpha=visit["alpha"],
            max_iter=200,
            trainer__tol=best_surrogate.CONVERGED,
        ).fit(train)
        assert len(alone.history_["objective"]) == visit["iterations"]
        assert visit["converged"]
        assert luce.evaluate(alone, valid, "ndcg@10").means["ndcg@10"] == pytest.approx(visit["value"], abs=1e-12)
    assert model.history_["best_iteration"] is None
    with pytest.warns(luce.errors.LuceWarning, match="before they converged"):
        searched(loss__evaluations=2, max_iter=3).fit(train, valid=valid)


@pytest.mark.parametrize(
    ("n", "most", "directions", "count"),
    [(3, 7, True, 7), (3, 19, True, 19), (3, 25, True, 19), (2, 8, False, 8), (2, 9, False, 8), (3, 2, True, 2)],
)
def test_grid_is_even_and_as_fine_as_it_may_be(n, most, directions, count):
    points = even_grid(n, most, directions)
    assert len(points) == count
    assert all((p >= 0).all() and (p <= 1).all() and p.any() for p in points)
    if directions:
        assert len({tuple((p / p.sum()).round(9)) for p in points}) == count
    if most == 2:
        assert [p.tolist() for p in points] == [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]


def test_search_on_a_grid(parts):
    train, valid = parts
    model = searched(loss__search="grid", loss__evaluations=7).fit(train, valid=valid)
    visited = [tuple(visit["alpha"]) for visit in model.history_["surface"]]
    assert sorted(visited) == sorted(itertools.product((0.0, 100.0), (0.0, 1.0), (0.0, 1.0)))[1:]
    best = max(model.history_["surface"], key=lambda visit: visit["value"])
    assert model.loss_.alpha.tolist() == best["alpha"]
    for name in ("search", "fits"):
        with pytest.raises(SettingError, match=f"{name} is 'best'"):
            searched(**{f"loss__{name}": "best"}).parts()


def test_model_file_keeps_weights_and_surface(parts, tmp_path):
    train, valid = parts
    model = searched().fit(train, valid=valid)
    model.save(tmp_path / "model.luce")
    loaded = luce.load(tmp_path / "model.luce")
    assert loaded.loss_.settings == model.loss_.settings
    assert loaded.history_["surface"] == model.history_["surface"]
    np.testing.assert_array_equal(loaded.predict(valid), model.predict(valid))


def test_search_that_is_taken_up_again_fits_nothing_twice(parts, tmp_path, monkeypatch):
    train, valid = parts
    first = searched(checkpoint=tmp_path).fit(train, valid=valid)
    fits = []
    original = ListwiseBoosting.train

    def counted(*given):
        fits.append(given)
        return original(*given)

    monkeypatch.setattr(ListwiseBoosting, "train", counted)
    again = searched(checkpoint=tmp_path).fit(train, valid=valid)
    assert len(fits) == 1  # the last fit, of the weights that were chosen
    assert again.history_["surface"] == first.history_["surface"]
    np.testing.assert_array_equal(again.predict(train), first.predict(train))


@pytest.mark.parametrize("changed", ["base", "valid_base", "patience"])
def test_search_with_another_base_or_patience_is_refused(parts, changed, tmp_path):
    train, valid = parts
    given = {"base": np.zeros(train.n_rows), "valid_base": np.zeros(valid.n_rows), "patience": 5}

    def fitted(patience, **base):
        parts = (luce.scorers.get("single_feature"), luce.losses.get("ndcg_mix", alpha=None, evaluations=2))
        trainer = ListwiseBoosting(max_iter=200, early_stopping=patience)
        return best_surrogate.train_best(trainer, Task(train, *parts, valid, checkpoint=tmp_path, **base))

    fitted(**given)
    fitted(**given)
    with pytest.raises(SettingError, match="another training"):
        fitted(**{**given, changed: given[changed] + 1})


def test_boosting_does_not_see_the_scale_of_alpha(parts):
    train, valid = parts
    models = [
        luce.Ranker("ndcg_mix", "single_feature", loss__alpha=alpha, max_iter=20).fit(train, valid=valid)
        for alpha in ((30.0, 1.0, 0.5), (60.0, 2.0, 1.0))
    ]
    one, two = (model.predict(valid) for model in models)
    np.testing.assert_allclose(two, 2 * one, rtol=1e-4, atol=1e-6)


def test_dictionary_of_ones_own_and_another_scorer(parts):
    train, valid = parts

    def fourth(x):
        return x**2 + x**4, 2 * x + 4 * x**3, 2 + 12 * x**2

    settings = {"alpha": None, "evaluations": 6, "dictionary": ("square", fourth)}
    model = luce.Ranker("ndcg_mix", "linear", **inner("loss", settings), max_iter=5).fit(train, valid=valid)
    assert model.loss_.names == ["square", "fourth"]
    assert len(model.history_["surface"]) <= 6


def test_base_scores_are_split_with_the_queries(parts):
    train, _ = parts
    base = np.random.default_rng(0).normal(0, 0.1, train.n_rows)
    model = searched().fit(train, base_scores=base)
    assert np.isfinite(model.predict(train, base_scores=base)).all()


def test_one_query_cannot_be_split():
    with pytest.raises(DataError, match="cannot be split"):
        searched().fit(np.eye(3), [0, 1, 2])


@pytest.mark.parametrize("name", ["best-surrogate", "ndcg-boost-linear", "ndcg-boost-trees"])
def test_settings_grids_fit_their_systems(name, parts):
    train, valid = parts
    grid = settings_grid(name)
    for chosen in grid[:1] + grid[-1:]:
        settings = {**chosen, "max_iter": 200 if name == "best-surrogate" else 2, "random_state": 0}
        if name == "best-surrogate":
            settings["loss__evaluations"] = 2
        assert luce.model(name, **settings).fit(train, valid=valid).predict(valid).shape == (valid.n_rows,)
