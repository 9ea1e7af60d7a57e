"""`auto` as a whole: what it is made of, what it keeps to, and what it refuses."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import luce
from luce.auto import crossfit, plan
from luce.auto.crossfit import MEMBERS, CrossFit, Member, informative, suited
from luce.auto.plan import as_rows, make_plan, tried
from luce.data.simulate import simulate
from luce.errors import DataError, LuceWarning, SettingError
from luce.export import export_model
from luce.scorers.forest import Forest

TWO = ["luce-linear", "regression"]


def auto(**settings):
    return luce.model("auto", **{"members": TWO, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def model(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("luce.auto.plan._FINE", 0.3)
        return auto(members=["luce-linear", "regression", "luce-gains"]).fit(data)


def test_it_is_saved_loaded_and_the_same_for_every_row(model, unseen, tmp_path):
    scores = model.predict(unseen)
    model.save(tmp_path / "auto.luce")
    loaded = luce.load(tmp_path / "auto.luce")
    np.testing.assert_array_equal(loaded.predict(unseen), scores)
    assert loaded.history_["blend"] == model.history_["blend"]
    assert tried(loaded) == tried(model)
    alone = [model.predict(unseen.X[i : i + 1])[0] for i in range(20)]
    np.testing.assert_allclose(alone, scores[:20], rtol=1e-12)


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(data, unseen):
    found = []
    for threads in (1, 2):
        luce.set_threads(threads)
        try:
            found.append(auto().fit(data).predict(unseen))
        finally:
            luce.set_threads(None)
    np.testing.assert_array_equal(*found)
    assert np.any(auto(random_state=1).fit(data).predict(unseen) != found[0])


def test_weights_sum_to_one_and_the_estimate_has_an_interval(model):
    rows = tried(model)
    assert np.isclose(sum(row["weight"] for row in rows), 1.0)
    assert [row["weight"] for row in rows] == sorted((row["weight"] for row in rows), reverse=True)
    record = model.history_["blend"]
    assert record["estimate"]["low"] < record["estimate"]["value"] < record["estimate"]["high"]
    assert record["estimate"]["value"] > min(row["alone"] for row in rows)


def test_out_of_fold_scores_come_from_models_that_did_not_see_the_query(data, monkeypatch):
    """The slow form: every fold anew, without the queries that it scores."""
    seen = {}
    original = CrossFit.fitted

    def spy(self, job, walked):
        seen[job.member] = (self, original(self, job, walked))
        return seen[job.member][1]

    monkeypatch.setattr(CrossFit, "fitted", spy)
    auto().fit(data)
    from luce.auto.crossfit import deal, start
    from luce.training.task import Task

    crossfit, fitted = seen["regression"]
    fold = deal(data, crossfit.folds, np.random.default_rng([crossfit.seed, 0]))
    forests = []
    for k in range(crossfit.folds):
        held = fold == k
        seed = int(np.random.default_rng([crossfit.seed, 0, list(MEMBERS).index("regression"), k]).integers(2**31))
        task = Task(data.take(~held), valid=data.take(held), metric=crossfit.metric, seed=seed)
        walk = start(MEMBERS["regression"], task, crossfit.pace, None)
        while (len(walk.curve) - 1) * crossfit.pace.stride < fitted.step:
            walk.advance()
        forests.append(walk.path().first(fitted.step))
        np.testing.assert_allclose(fitted.scores[np.repeat(held, data.sizes)], forests[-1].score(data.take(held).X))
    np.testing.assert_allclose(fitted.model.score(data.X), np.mean([f.score(data.X) for f in forests], axis=0))


def test_bins_that_members_share_change_nothing(data, unseen, monkeypatch):
    members = ["regression", "luce-gains", "lambdarank"]
    shared = auto(members=members).fit(data).predict(unseen)
    monkeypatch.setattr(crossfit._Bins, "pop", lambda self, key, default=None: default)
    np.testing.assert_array_equal(auto(members=members).fit(data).predict(unseen), shared)
    assert pickle.loads(pickle.dumps(crossfit._Bins({(0, 0): lambda: None}))) == {}  # bins stay where they were made


def test_many_documents_have_long_steps_wide_bins_and_counted_trees(data, monkeypatch):
    few = make_plan("fast", None, None, None, data).pace
    monkeypatch.setattr(plan, "_MANY_ROWS", data.n_rows)
    many, fewer_folds = (make_plan("fast", folds, None, None, data).pace for folds in (None, 3))
    assert (many.step, many.bins, few.bins) == (0.1, 63, 255)
    assert many.rounds * 5 <= plan._MOST_TREES < (many.rounds + 1) * 5
    assert fewer_folds.rounds > many.rounds
    assert make_plan("best", None, None, None, data).pace == few
    assert auto(members=["regression"]).fit(data).history_["blend"]["step"] == 0.1


def test_what_was_carried_out_in_some_seconds_can_be_carried_out_again(data, unseen):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LuceWarning)
        timed = auto(budget=2.0, members=None).fit(data)
    jobs = timed.history_["blend"]["plan"]
    again = auto(members=None, plan=jobs).fit(data)
    np.testing.assert_array_equal(again.predict(unseen), timed.predict(unseen))
    repeated = auto(plan=["regression", "regression#2"]).fit(data)
    assert [len(row["steps"]) for row in tried(repeated)] == [2]


def test_a_budget_too_small_for_one_member_fits_one_and_says_so(data):
    with pytest.warns(LuceWarning, match="budget of 0.001 s was enough for one member alone"):
        model = auto(budget=0.001).fit(data)
    assert model.history_["blend"]["plan"] == ["luce-linear"]


def test_it_goes_on_after_a_kill_without_fitting_anything_twice(data, unseen, tmp_path, monkeypatch):
    whole = auto().fit(data).predict(unseen)

    def stop(step, total, info):
        if step >= 75:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        auto(checkpoint=tmp_path).fit(data, progress=stop)
    assert [path.parent.name for path in tmp_path.glob("*/*.luce")] == ["luce-linear"]
    walked = []
    original = CrossFit.walk
    monkeypatch.setattr(CrossFit, "walk", lambda self, job, tell: walked.append(job.name) or original(self, job, tell))
    np.testing.assert_array_equal(auto(checkpoint=tmp_path).fit(data).predict(unseen), whole)
    assert walked == ["regression"]
    with pytest.raises(SettingError, match="another training"):
        auto(checkpoint=tmp_path, random_state=1).fit(data)


def test_progress_rises_to_the_end_and_says_what_is_left(data):
    told = []
    auto().fit(data, progress=lambda step, total, info: told.append((step, total, info["seconds left"])))
    steps = [step for step, _, _ in told]
    assert steps[-1] == 100
    assert max(steps) == 100
    assert told[-1][2] == 0


def test_who_watches_may_end_it_and_keep_what_there_is(data):
    with pytest.warns(LuceWarning, match="ended before its time, after luce-linear"):
        model = auto().fit(data, progress=lambda step, total, info: True)
    assert model.history_["blend"]["plan"] == ["luce-linear"]


def test_a_member_that_fails_is_left_out_and_named(data, monkeypatch):
    monkeypatch.setitem(MEMBERS, "luce", Member("one that fails", loss="plackett_luce", gains=True))
    high = replace(data, y=data.y * 1000.0)
    with pytest.warns(LuceWarning, match="'luce' of the blend was left out: .*too high for gains"):
        model = auto(members=["luce", "regression"], metric="map").fit(high)
    assert [(row["member"], row["weight"], row["note"][:8]) for row in tried(model)] == [
        ("regression", 1.0, "100% of "),
        ("luce", 0.0, "plackett"),
    ]
    with pytest.raises(DataError, match="No member of the blend could be fitted: luce:"):
        auto(members=["luce"], metric="map").fit(high)


def test_gains_are_members_only_where_they_differ_from_grades(data):
    binary = replace(data, y=(data.y > 1).astype(float))
    model = auto(members=None, folds=2).fit(binary)
    assert not {"gains", "luce-gains"} & {row["member"] for row in tried(model)}


@pytest.mark.parametrize("queries", [1, 2, 5])
def test_a_handful_of_queries_still_gives_a_model(data, queries):
    few = data.take(informative(data)[:queries])
    with pytest.warns(LuceWarning, match="too few to learn weights|one query"):
        model = auto().fit(few)
    assert np.isfinite(model.predict(few)).all()
    assert "estimate" not in model.history_["blend"]
    assert np.ptp([row["weight"] for row in tried(model)]) == 0


def test_labels_without_order_are_refused(data):
    with pytest.raises(DataError, match="All labels of every query are equal"):
        auto().fit(replace(data, y=np.ones(data.n_rows)))


def test_features_without_order_are_refused(data):
    with pytest.raises(DataError, match="No member"):
        auto().fit(replace(data, X=np.ones_like(data.X)))


def test_more_features_than_rows(data):
    rng = np.random.default_rng(0)
    few = data.take(informative(data)[:12])
    wide = np.concatenate([few.X, rng.normal(size=(few.n_rows, 2 * few.n_rows)).astype(np.float32)], axis=1)
    with pytest.warns(LuceWarning, match="features of .* documents can fit anything"):
        model = auto(folds=2).fit(wide, few.y, qid=few.qid)
    assert np.isfinite(model.predict(wide)).all()


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"budget": "quick"}, "'fast', 'best', or seconds"),
        ({"budget": 0}, "'fast', 'best', or seconds"),
        ({"budget": float("inf")}, "'fast', 'best', or seconds"),
        ({"folds": 1}, "folds"),
        ({"use_valid": "no"}, "one of more, yardstick"),
    ],
)
def test_settings_that_are_none(settings, what):
    with pytest.raises(SettingError, match=what):
        auto(**settings)


@pytest.mark.parametrize(("settings", "what"), [({"members": ["lucy"]}, "luce"), ({"plan": ["ties#0"]}, "ties#2")])
def test_members_that_are_none(data, settings, what):
    with pytest.raises(SettingError, match=what):
        auto(**settings).fit(data)


def test_grades_beside_comparisons_bases_and_warm_starts_are_refused(data):
    with pytest.raises(SettingError, match="leave the grades out"):
        auto().fit(data, comparisons=luce.Comparisons.from_pairs([(0, 1)]))
    with pytest.raises(SettingError, match="base"):
        auto(base="column:1").fit(data)
    again = auto(warm_start=True).fit(data)
    with pytest.raises(SettingError, match="go on"):
        again.fit(data)


def test_validation_queries_are_more_data_or_a_yardstick(data, unseen):
    more = auto().fit(data, valid=unseen)
    yardstick = auto(use_valid="yardstick").fit(data, valid=unseen)
    assert more.history_["blend"]["queries"] == data.n_queries + unseen.n_queries
    assert yardstick.history_["blend"]["queries"] == data.n_queries
    expected = luce.evaluate(yardstick, unseen, ["ndcg@10"]).means["ndcg@10"]
    assert np.isclose(yardstick.history_["blend"]["yardstick"], expected)
    np.testing.assert_array_equal(yardstick.predict(unseen), auto().fit(data).predict(unseen))


def test_gaps_and_categories(tmp_path):
    rng = np.random.default_rng(0)
    n = 600
    shop, price = rng.integers(0, 3, n), rng.normal(size=n)
    grade = np.clip(np.round((shop == 1) + price + 0.3 * rng.normal(size=n)), 0, 3)
    frame = pa.table(
        {
            "qid": np.repeat(np.arange(30), 20),
            "label": grade,
            "price": pa.array(price, mask=rng.random(n) < 0.2),
            "shop": np.array(["north", "south", "west"])[shop],
        }
    )
    data = luce.from_frame(frame, allow_nan=True)
    model = auto(folds=3).fit(data)
    assert model.score(data) > 0.7
    model.save(tmp_path / "shop.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "shop.luce").predict(data), model.predict(data))
    assert len(model.scorer_.importance()) == data.n_features
    assert np.isclose(model.scorer_.importance().sum(), 1.0)
    assert export_model(model, "python", check=data).comparison.largest < 1e-10
    trees = auto(members=["luce"], folds=2).fit(data)
    assert export_model(trees, "lightgbm", check=data).comparison.largest < 1e-12


@pytest.mark.parametrize("target", ["python", "onnx"])
def test_a_blend_is_exported(model, unseen, target):
    if target == "onnx":
        pytest.importorskip("onnxruntime")
    assert export_model(model, target, check=unseen).comparison.reordered == 0


def test_trees_alone_are_one_model_of_lightgbm(data, unseen):
    lightgbm = pytest.importorskip("lightgbm")
    trees = auto(members=["regression", "luce"]).fit(data)
    text = export_model(trees, "lightgbm").content
    np.testing.assert_allclose(lightgbm.Booster(model_str=text).predict(unseen.X), trees.predict(unseen), rtol=1e-12)
    with pytest.raises(SettingError, match="without its linear member"):
        export_model(auto().fit(data), "lightgbm")


def test_a_distance_is_made_small(data):
    model = auto(metric="spearman_footrule").fit(data)
    best = min(row["alone"] for row in tried(model))
    assert model.history_["blend"]["estimate"]["value"] < 1.2 * best


def test_rows_of_a_record_name_what_failed():
    rows = as_rows({"members": [{"member": "a", "weight": 1.0}], "failed": {"b": "why"}})
    assert [(row["member"], row["note"]) for row in rows] == [("a", ""), ("b", "why")]
    with pytest.raises(SettingError, match="no blend"):
        tried(luce.Ranker())


def test_an_empty_forest_scores_nothing(data):
    model = auto(members=["luce-linear"]).fit(data)
    assert model.scorer_.forest.n_trees == Forest.empty().n_trees
    assert model.scorer_.linear_share == 1.0


def test_folds_never_split_a_query_and_share_what_speaks():
    from luce.auto.crossfit import deal

    data = simulate(queries=50, features=3, seed=3)
    silent = data.y.copy()
    silent[: data.offsets[10]] = 0.0
    data = replace(data, y=silent)
    fold = deal(data, 5, np.random.default_rng(0))
    assert fold.shape == (data.n_queries,)
    assert np.ptp(np.bincount(fold)) <= 1
    assert np.ptp(np.bincount(fold[informative(data)])) <= 1


def test_a_gap_that_training_never_saw_has_a_score(data, unseen):
    """The model says that it takes gaps, so its linear members need a value for them: the median."""
    model = luce.model("auto", members=["luce-linear", "regression"], random_state=0).fit(data)
    X, filled = unseen.X.copy(), unseen.X.copy()
    X[::3, 2], filled[::3, 2] = np.nan, np.median(data.X[:, 2])
    assert model.takes_missing
    linear = model.scorer_.linear.score(filled, unseen.offsets)
    np.testing.assert_allclose(model.predict(X), linear + model.scorer_.forest.score(X), rtol=1e-12)


def test_lightgbm_is_silent_on_threads_that_made_no_booster(capfd):
    """Two queries of few documents leave trees nothing to split, which LightGBM would say on such a thread."""
    data = simulate(queries=2, features=5, seed=0)
    for seed in range(3):
        with pytest.warns(LuceWarning, match="too few"):
            auto(members=["regression", "luce-linear"], random_state=seed).fit(data)
    assert "LightGBM" not in "".join(capfd.readouterr())


def test_one_reason_of_all_members_is_said_once(data):
    with pytest.raises(DataError, match=r"fitted: luce-linear, regression: The highest label is [^:]*\.$"):
        auto(members=["luce-linear", "regression"]).fit(data.X, 1000 * data.y, qid=data.qid)


def test_a_member_by_name_is_no_member_by_default(data):
    named = [name for name, member in MEMBERS.items() if member.by_name]
    assert named
    assert not set(named) & set(suited(None, data))
    model = auto(members=["luce-linear", *named], folds=2).fit(data)
    assert {row["member"] for row in tried(model)} == {"luce-linear", *named}
    assert MEMBERS["luce-sizes"].make_loss().name == "order_and_size"
