"""Blends: the mean of scores on a common scale, as one ranker."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, SettingError
from luce.export import export_model


@pytest.fixture(scope="module")
def parts() -> tuple[luce.Groups, luce.Groups]:
    data = simulate(queries=90, features=6, seed=1)
    return data.take(np.arange(60)), data.take(np.arange(60, 90))


@pytest.fixture(scope="module")
def models(parts) -> list[luce.Ranker]:
    trees = {"scorer": "trees", "max_iter": 8}
    linear = [luce.Ranker(loss=loss) for loss in ("pmop", "ranknet")]
    return [
        ranker.fit(parts[0]) for ranker in (*linear, *(luce.Ranker(loss=name, **trees) for name in ("pmop", "ranknet")))
    ]


def spread(scores, data):
    parts = [scores[a:b] - scores[a:b].mean() for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)]
    return np.concatenate(parts).std()


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [3, 0], [2, 3], [0, 1]])
def test_a_blend_is_the_mean_on_a_common_scale(parts, models, chosen, tmp_path):
    train, valid = parts
    members = [models[k] for k in chosen]
    both = luce.blend(members, train, weights="equal")
    expected = np.mean([m.predict(valid) / spread(m.predict(train), train) for m in members], axis=0)
    found = both.predict(valid)
    scale = found @ expected / (expected @ expected)
    np.testing.assert_allclose(found, scale * expected, rtol=1e-6, atol=1e-9)
    both.save(tmp_path / "blend.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "blend.luce").predict(valid), found)


def test_weights_are_learned_by_the_metric(parts, models):
    """A model that ranks backwards gets next to nothing."""
    train, valid = parts
    backwards = luce.Ranker(loss="pmop").fit(train)
    backwards.scorer_ = replace(backwards.scorer_, weights=-backwards.scorer_.weights)
    alone, both = luce.blend(models[:1], valid), luce.blend([models[0], backwards], valid)
    assert np.corrcoef(alone.predict(valid), both.predict(valid))[0, 1] > 0.99
    np.testing.assert_array_equal(both.predict(valid), luce.blend([models[0], backwards], valid).predict(valid))


def test_its_scale_has_the_least_loss(parts, models):
    train, _ = parts
    both = luce.blend(models, train)
    scores, loss = both.predict(train), both.loss_
    value, grad = loss.value_and_grad(scores, train.y, train.offsets)
    assert abs(grad @ scores) < 1e-3 * value
    assert np.isfinite(both.log_likelihood(train)).all()


def test_a_learned_tie_parameter_is_fitted_to_the_blend(parts):
    train, valid = parts
    linear = luce.Ranker(loss="rao_kupper").fit(train)
    both = luce.blend([linear, luce.Ranker(loss="ranknet").fit(train)], valid)
    _, _, slope = both.loss_.value_and_grads(both.predict(valid), valid.y, valid.offsets)
    assert both.loss_.parameters != linear.loss_.parameters
    assert abs(slope[0]) < 1e-2 * valid.n_queries


def test_what_cannot_be_blended(parts, models):
    train, _ = parts
    with pytest.raises(SettingError, match="'learned' or 'equal'"):
        luce.blend(models, train, weights="best")
    with pytest.raises(SettingError, match="at least one"):
        luce.blend([], train)
    with pytest.raises(SettingError, match="is none"):
        luce.blend([models[0], luce.model("rankboost", max_iter=2).fit(train)], train)
    with pytest.raises(SettingError, match="is none"):
        luce.blend([luce.Ranker()], train)
    with pytest.raises(SettingError, match="without base"):
        luce.blend([luce.Ranker(scorer="trees", max_iter=2, base="column:1").fit(train)], train)
    other = luce.from_arrays(train.X[:, :4], train.y, qid=train.qid)
    with pytest.raises(DataError, match="same features"):
        luce.blend([models[0], luce.Ranker().fit(other)], train)


def test_models_and_data_of_the_wrong_kind(parts, models):
    with pytest.raises(SettingError, match="are dict; give a list of fitted models"):
        luce.blend(dict(enumerate(models)), parts[1])
    with pytest.raises(SettingError, match="are Ranker; give a list"):
        luce.blend(models[0], parts[1])
    with pytest.raises(SettingError, match="are ndarray; give Groups"):
        luce.blend(list(models), parts[1].X)


def _table(rows: int, seed: int, gaps: float) -> luce.Groups:
    rng = np.random.default_rng(seed)
    a, b = rng.random(rows), rng.normal(size=rows) * 5
    brand = rng.choice(["acme", "zed", "none"], rows)
    label = (a > 0.6) * 1 + (brand == "acme")
    a[rng.random(rows) < gaps] = np.nan
    table = {"qid": np.arange(rows) // 10, "a": a, "b": b, "brand": brand, "label": label}
    return luce.from_frame(pd.DataFrame(table), allow_nan=True)


@pytest.mark.filterwarnings("ignore:The feature 'a' has gaps, and had none in training")
@pytest.mark.parametrize("kinds", [("linear", "linear"), ("linear", "trees", "linear"), ("trees", "trees")])
def test_models_of_tables_with_gaps_and_categories_are_blended(kinds, tmp_path):
    """Each has medians of its own, and only some have seen gaps of a column: the sum is that of their scores."""
    sets = [_table(300, 0, 0.3), _table(300, 1, 0.0), _table(300, 2, 0.2)]
    members = [
        luce.Ranker(scorer=kind, max_iter=6, random_state=0).fit(data) for kind, data in zip(kinds, sets, strict=False)
    ]
    both = luce.blend(members, sets[0], weights="equal")
    later = _table(200, 3, 0.4)
    spreads = [spread(member.predict(sets[0]), sets[0]) for member in members]
    expected = np.mean([m.predict(later) / s for m, s in zip(members, spreads, strict=True)], axis=0)
    found = both.predict(later)
    scale = found @ expected / (expected @ expected)
    np.testing.assert_allclose(found, scale * expected, rtol=1e-6, atol=1e-9)
    both.save(tmp_path / "blend.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "blend.luce").predict(later), found)
    assert export_model(both, "python", check=later).comparison.largest < 1e-10


def test_models_of_other_categories_are_refused():
    one, other = _table(100, 0, 0.0), _table(100, 1, 0.0)
    assert dict(one.schema.categories) == {2: ("acme", "none", "zed")}
    renamed = pd.DataFrame({"qid": one.qid, "a": one.X[:, 0], "b": one.X[:, 1], "label": one.y})
    renamed["brand"] = np.where(one.X[:, 2] == 0, "bolt", "nut")
    members = [
        luce.Ranker(max_iter=3).fit(data)
        for data in (one, luce.from_frame(renamed[["qid", "a", "b", "brand", "label"]]))
    ]
    with pytest.raises(DataError, match="same categories"):
        luce.blend(members, other)
