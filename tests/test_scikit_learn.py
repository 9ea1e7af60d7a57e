"""A ranker in scikit-learn's hands: query ids that cannot be lost, frames by their columns, weights of queries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, LuceWarning

FOLDS = GroupKFold(3)
GRID = {"l2": [0.01, 100.0]}


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=45, features=5, seed=1)


@pytest.fixture(scope="module")
def frame(data) -> pd.DataFrame:
    table = pd.DataFrame(data.X, columns=list("abcde"), index=np.random.default_rng(0).permutation(data.n_rows))
    return table.assign(
        search=[f"s{q}" for q in data.qid],
        brand=np.where(data.X[:, 0] + np.arange(data.n_rows) % 2 > 0.5, "acme", "zeta"),
        grade=data.y,
    )


def by_hand(data: luce.Groups, l2: float) -> list[float]:
    """The score of every fold, each fitted and scored with its own query ids."""
    X, y, qid = data.X, data.y, data.qid
    return [
        luce.Ranker(l2=l2).fit(X[fit], y[fit], qid=qid[fit]).score(X[test], y[test], qid=qid[test])
        for fit, test in FOLDS.split(X, y, qid)
    ]


def test_routed_searches_are_right(data):
    truth = {l2: np.mean(by_hand(data, l2)) for l2 in GRID["l2"]}
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(luce.Ranker(), GRID, cv=FOLDS).fit(data.X, data.y, groups=data.qid, qid=data.qid)
        assert search.best_score_ == pytest.approx(max(truth.values()), abs=1e-12)
        assert truth[search.best_params_["l2"]] == max(truth.values())
        pipeline = make_pipeline(StandardScaler(), luce.Ranker())
        grid = {f"ranker__{name}": values for name, values in GRID.items()}
        search = GridSearchCV(pipeline, grid, cv=FOLDS).fit(data.X, data.y, groups=data.qid, qid=data.qid)
        # standardised twice is standardised once, to the last bits of float32
        assert search.best_score_ == pytest.approx(max(truth.values()), abs=1e-3)


@pytest.mark.parametrize("routes", [False, True])
def test_searches_that_lose_the_queries_are_refused(data, routes):
    """Without routing, `score` would see all test rows as one query: a wrong number without a word."""
    X, y, qid = data.X, data.y, data.qid
    if routes:
        with config_context(enable_metadata_routing=True):
            search = GridSearchCV(luce.Ranker().set_score_request(qid=None), GRID, cv=FOLDS)
            with pytest.raises(ValueError, match="qid"):
                search.fit(X, y, groups=qid, qid=qid)
        return
    calls = [
        lambda: GridSearchCV(luce.Ranker(), GRID, cv=FOLDS).fit(X, y, groups=qid, qid=qid),
        lambda: cross_val_score(luce.Ranker(), X, y, groups=qid, cv=FOLDS, params={"qid": qid}),
        lambda: cross_validate(
            make_pipeline(StandardScaler(), luce.Ranker()), X, y, groups=qid, cv=FOLDS, params={"ranker__qid": qid}
        ),
        lambda: cross_val_score(luce.Ranker(), X, y, groups=qid, cv=FOLDS, params={"group": data.sizes}),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"set_config.enable_metadata_routing=True"):
            call()


def test_a_scorer_of_ones_own_may_be_given(data):
    scores = cross_val_score(
        luce.Ranker(),
        data.X,
        data.y,
        groups=data.qid,
        cv=FOLDS,
        params={"qid": data.qid},
        scoring=lambda model, X, y: float(np.corrcoef(model.predict(X), y)[0, 1]),
    )
    assert np.isfinite(scores).all()


def test_scores_need_what_they_judge_by(data, tmp_path):
    model = luce.Ranker().fit(data.X, data.y, qid=data.qid)
    model.save(tmp_path / "m.luce")
    for ranker in (model, luce.Ranker().fit(data), luce.load(tmp_path / "m.luce")):
        with pytest.raises(DataError, match=r"(?s)fitted with qid.*set_config.*search.fit.X, y, groups=qid, qid=qid."):
            ranker.score(data.X, data.y)
        with pytest.raises(DataError, match="no labels"):
            ranker.log_likelihood(data.X, qid=data.qid)
        with pytest.raises(DataError, match="no labels"):
            ranker.score(data.X, qid=data.qid)
        expected = ranker.score(data)
        assert ranker.score(data.X, data.y, qid=data.qid) == ranker.score(data.X, data.y, group=data.sizes) == expected
    alone = data.take([0])
    one = luce.Ranker().fit(alone.X, alone.y)
    one.save(tmp_path / "one.luce")
    assert luce.load(tmp_path / "one.luce").score(alone.X, alone.y) == one.score(alone.X, alone.y)


def test_many_rows_without_query_ids_are_said(data):
    assert data.n_rows < 1000
    twice = np.tile(data.X, (2, 1)), np.tile(data.y, 2)
    with pytest.warns(LuceWarning, match="all .* rows are the documents of one query"):
        luce.Ranker(max_iter=1).fit(*twice)


def test_weights_of_rows_are_those_of_their_queries(data):
    model = luce.Ranker().fit(data)
    weight = np.random.default_rng(0).random(data.n_queries)
    values = luce.evaluate(model, data, ["ndcg@10"]).values["ndcg@10"]
    rows = np.repeat(weight, data.sizes)
    expected = np.sum(weight * values) / weight.sum()
    assert model.score(data, sample_weight=rows) == pytest.approx(expected, rel=1e-12)
    mix = np.random.default_rng(1).permutation(data.n_rows)
    found = model.score(data.X[mix], data.y[mix], qid=data.qid[mix], sample_weight=rows[mix])
    assert found == pytest.approx(expected, rel=1e-12)
    for bad in (np.arange(1.0, data.n_rows + 1), rows[:-1], -rows, 0 * rows):
        with pytest.raises(DataError, match="sample_weight"):
            model.score(data, sample_weight=bad)


def test_sizes_of_queries(data):
    by_size = luce.Ranker().fit(data.X, data.y, group=data.sizes)
    np.testing.assert_array_equal(by_size.predict(data.X), luce.Ranker().fit(data).predict(data))
    cases = (data.sizes[:-1], data.qid, [0, data.n_rows], [[data.n_rows]], [0.5, data.n_rows - 0.5])
    for bad in cases:
        with pytest.raises(DataError, match="group"):
            luce.Ranker().fit(data.X, data.y, group=bad)
    with pytest.raises(DataError, match="Both qid and group"):
        luce.Ranker().fit(data.X, data.y, group=data.sizes, qid=data.qid)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_by_their_columns(frame, kind):
    def made(table: pd.DataFrame):
        plain = pl.from_pandas(table)
        return {"pandas": table, "polars": plain, "pyarrow": plain.to_arrow()}[kind]

    model = luce.Ranker().fit(made(frame), "grade", qid="search")
    truth = luce.Ranker().fit(luce.from_frame(frame, qid="search", label="grade"))
    assert list(model.feature_names_in_) == [*"abcde", "brand"]
    expected = truth.predict(luce.from_frame(frame, schema=truth.schema_))
    np.testing.assert_array_equal(model.predict(made(frame)), expected)
    other = frame[frame.columns[::-1]].assign(extra="more")
    np.testing.assert_array_equal(model.predict(made(other)), expected)
    np.testing.assert_array_equal(model.predict(made(other.drop(columns=["search", "grade"]))), expected)
    assert model.score(made(other)) == model.score(made(frame), frame.grade.to_numpy(), qid=frame.search.to_numpy())
    beside = luce.Ranker().fit(made(frame.drop(columns="grade")), frame.grade, qid="search")
    np.testing.assert_array_equal(beside.predict(made(other)), expected)
    judged = luce.Ranker(early_stopping=3).fit(made(frame), "grade", qid="search", valid=made(other))
    assert judged.history_["validation"]


def test_a_search_over_a_frame_needs_no_routing(frame):
    X = frame.drop(columns="grade")
    search = GridSearchCV(luce.Ranker(), GRID, cv=FOLDS).fit(X, frame.grade, groups=frame.search, qid="search")
    folds = FOLDS.split(X, frame.grade, frame.search)
    truth = [
        luce.Ranker(**search.best_params_).fit(frame.iloc[fit], "grade", qid="search").score(frame.iloc[test])
        for fit, test in folds
    ]
    assert search.best_score_ == pytest.approx(np.mean(truth), abs=1e-12)


def test_series_that_are_columns_too_are_no_features(frame):
    model = luce.Ranker().fit(frame, frame.grade, qid=frame.search)
    assert list(model.feature_names_in_) == [*"abcde", "brand"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, f: m.score(f.drop(columns="search")), "fitted with qid"),
        (lambda m, f: m.score(f.drop(columns="grade")), "no labels"),
        (lambda m, f: m.predict(f[list("abcde")].to_numpy()), "names in the column 'brand'"),
        (lambda m, f: m.predict(f.drop(columns="a")), "no column 'a'"),
        (lambda m, f: m.predict(f.assign(a="text")), "'a' holds text here and held numbers before"),
        (lambda m, f: m.fit(f, "grade", qid="serch"), "no column 'serch'"),
        (lambda m, f: m.fit(f.assign(qid=1), "grade", qid=np.arange(len(f))), "which would be a feature"),
        (lambda m, f: m.fit(f, f.grade + 1, qid="search"), "a column 'grade' with other values"),
        (lambda m, f: m.fit(f.drop(columns="grade"), qid="search"), "no column 'label'"),
        (lambda m, f: m.fit(f, np.where(f.grade > 0, "good", "bad"), qid="search"), "'good': 1, 'bad': 0"),
        (lambda m, f: m.fit(f[["a"]].to_numpy(), np.where(f.grade > 0, "good", "bad")), "'good': 1, 'bad': 0"),
        (lambda m, f: m.fit(f[["a"]].to_numpy(), f.grade, qid="search"), "X is no data frame"),
        (lambda m, f: m.fit(f[["a"]], f.grade, qid=np.arange(3)), "as many entries of qid"),
        (lambda m, f: m.fit(f[["a"]].to_numpy(), f.grade, qid=[np.nan] * len(f)), "id of row 0 is missing"),
        (lambda m, f: m.fit(f[["a"]].to_numpy(), f.grade, qid=[*f.search[:-1], None]), "id of row .* is missing"),
        (lambda m, f: m.fit(f.assign(search=None), "grade", qid="search"), "Row 0: search is empty"),
        (lambda m, f: m.fit(f[[*f.columns, "a"]], "grade", qid="search"), "name of its own|unique"),
        (lambda m, f: m.fit(f.iloc[:0], "grade", qid="search"), "no rows"),
        (lambda m, f: m.fit(f, "grade", qid="search", valid=(f, "grade")), "valid must be"),
        (lambda m, f: m.fit(f[["a"]].to_numpy(), f.grade).predict(np.zeros((3, 9))), "X has 9 features, but Ranker"),
        (lambda m, f: m.predict(None), "X is None; give a matrix"),
        (lambda m, f: m.fit(3, f.grade, group=[2]), "X is 3; give a matrix"),
    ],
)
def test_bad_frames_in_one_sentence(frame, call, said):
    model = luce.Ranker(max_iter=3).fit(frame, "grade", qid="search")
    with pytest.raises(DataError, match=said):
        call(model, frame)


def test_columns_that_are_left_out_are_said(frame):
    with pytest.warns(LuceWarning, match="left out: title .a text that is different in every row.*title; compare"):
        luce.Ranker(max_iter=1).fit(frame.assign(title=[f"t{i}" for i in range(len(frame))]), "grade", qid="search")


def test_a_frame_without_query_ids_names_the_likely_column(frame):
    with pytest.warns(LuceWarning, match="rows are the documents of one query; 'search' may be .* qid='search'"):
        luce.Ranker(max_iter=1).fit(frame, "grade")


def test_names_survive_a_pipeline(frame):
    X = frame[list("abcde")]
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), luce.Ranker()).set_output(transform="pandas")
        pipeline.fit(X, frame.grade, qid=frame.search)
        assert list(pipeline[-1].feature_names_in_) == list("abcde")
        assert 0 < pipeline.score(X, frame.grade, qid=frame.search) < 1
