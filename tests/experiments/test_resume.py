"""Finished work is kept, used again and never trusted blindly; failures and interruptions leave the rest whole."""

from __future__ import annotations

import json
import os
from functools import partial

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, SettingError
from luce.experiments import Candidate, Fold, compare, grouped_folds, read_run, write_run
from luce.experiments import pool as pool_module
from luce.experiments import work as work_module
from luce.experiments.compare import _Entry
from luce.experiments.pool import Pool
from luce.experiments.work import Bench, Failed, Fit, Setup, Trial
from luce.storage import container_kind, read_container, write_container

CANDIDATES = [Candidate("pmop-fd", {"l2": [0.01, 1.0]}), Candidate("listnet", {"l2": [0.1, 10.0]})]
METRICS = ["ndcg@5", "map"]


@pytest.fixture(scope="module")
def folds():
    return grouped_folds(simulate(queries=36, features=5, seed=3), 3)


@pytest.fixture(scope="module")
def whole(folds):
    return compare(folds, CANDIDATES, METRICS, seed=1)


def same(a, b):
    assert [(o.fold, o.model, o.chosen) for o in a.outcomes] == [(o.fold, o.model, o.chosen) for o in b.outcomes]
    for one, other in zip(a.outcomes, b.outcomes, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
        for metric in a.metrics:
            np.testing.assert_array_equal(one.values[metric], other.values[metric])


class Stopping:
    """Interrupts after so many fits; remembers how many were done and how many were kept."""

    def __init__(self, after=None):
        self.after, self.fits, self.kept = after, 0, 0

    def __call__(self, tally, model, fold, result):
        self.kept = sum(row.kept for row in tally.models.values())
        self.fits = sum(row.done for row in tally.models.values())
        if self.after is not None and self.fits >= self.after:
            raise KeyboardInterrupt


def test_an_interrupted_run_goes_on(folds, whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        compare(folds, CANDIDATES, METRICS, seed=1, out=tmp_path, watch=Stopping(5))
    with pytest.raises(DataError, match="unfinished"):
        read_run(tmp_path)
    rest = Stopping()
    same(compare(folds, CANDIDATES, METRICS, seed=1, out=tmp_path, watch=rest), whole)
    assert (rest.kept, rest.fits) == (5, 12 - 5)
    again = Stopping()
    same(compare(folds, CANDIDATES, METRICS, seed=1, out=tmp_path, watch=again), whole)
    assert (again.kept, again.fits) == (12, 0)


def test_torn_and_foreign_records_are_done_again(folds, whole, tmp_path):
    compare(folds, CANDIDATES, METRICS, seed=1, out=tmp_path)
    records = sorted((tmp_path / "state").glob("*.luce"))
    assert len(records) == 12 + 6  # fits and verdicts
    records[0].write_bytes(records[0].read_bytes()[:-20])
    records[4].write_bytes(b"")
    records[9].write_bytes(records[10].read_bytes())
    again = Stopping()
    same(compare(folds, CANDIDATES, METRICS, seed=1, out=tmp_path, watch=again), whole)
    assert 0 < again.fits <= 3


def test_a_folder_of_another_problem_is_refused(folds, tmp_path):
    compare(folds, CANDIDATES[:1], METRICS, seed=1, out=tmp_path)
    with pytest.raises(SettingError, match="differs in seed"):
        compare(folds, CANDIDATES, METRICS, seed=2, out=tmp_path)
    with pytest.raises(SettingError, match="differs in conventions"):
        compare(folds, CANDIDATES, METRICS, seed=1, out=tmp_path, ties="stable")
    other = grouped_folds(simulate(queries=36, features=5, seed=4), 3)
    with pytest.raises(SettingError, match="differs in data"):
        compare(other, CANDIDATES, METRICS, seed=1, out=tmp_path)
    more = Stopping()
    result = compare(folds, CANDIDATES, ["err", *METRICS], seed=1, out=tmp_path, watch=more)
    assert result.models == ["pmop-fd", "listnet"]
    assert (more.kept, more.fits) == (6, 6)


def test_failures_are_kept_and_the_rest_goes_on(folds, tmp_path):
    candidates = [
        Candidate("adarank", {"max_iter": [2, 3]}),  # adarank wants a metric between -1 and 1
        Candidate("pmop-fd", {"l2": [-1.0, 0.1]}),  # a penalty must not be negative
        CANDIDATES[1],
    ]
    told = []
    watch = lambda tally, model, fold, result: told.append((model, type(result).__name__))  # noqa: E731
    result = compare(folds, candidates, ["dcg@5"], tune_on="dcg@5", watch=watch)
    assert result.models == ["pmop-fd", "listnet"]
    assert list(result.failed) == ["adarank"]
    assert "between -1 and 1" in result.failed["adarank"]
    assert [f.settings for f in result.failures if f.model == "pmop-fd"] == [{"l2": -1.0}] * 3
    assert all(o.chosen == {"l2": 0.1} for o in result.outcomes if o.model == "pmop-fd")
    assert ("adarank", "Failed") in told
    write_run(result, tmp_path)
    record = read_run(tmp_path).results
    assert record["failed_models"].keys() == {"adarank"}
    assert len(record["failures"]) == 6 + 3
    with pytest.raises(SettingError, match="not among the models"):
        result.statistics("adarank")


def test_a_setting_that_a_model_does_not_take_is_its_failure(folds):
    result = compare(folds, [Candidate("pmop-fd", {"no_such_setting": [1]}), CANDIDATES[1]], METRICS, jobs=1)
    assert [failure.split(";")[0] for failure in result.failed.values()] == [
        "A ranker does not take these parameters: no_such_setting"
    ]


def test_a_defect_is_not_hidden(folds, monkeypatch):
    monkeypatch.setattr(work_module, "complete", lambda *given, **settings: None)
    with pytest.raises(AttributeError, match="fit"):
        compare(folds, CANDIDATES[:1], METRICS, jobs=1)


def test_workers_give_the_same_numbers(folds, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(pool_module, "n_threads", lambda: 2)
    monkeypatch.setattr(pool_module, "_WORTH_WORKERS", 0.0)
    seen = []
    watch = lambda tally, *what: seen.append(tally.jobs)  # noqa: E731
    same(compare(folds, CANDIDATES, METRICS, seed=1, jobs=None, out=tmp_path, watch=watch), whole)
    assert seen[0] == 1  # the first fits here
    assert seen[-1] == 2  # the rest by workers


def test_a_worker_that_dies_takes_only_its_work_along(folds):
    setup = Setup((Fold("crash", partial(os._exit, 3)), folds[0]), ("map",), "map", 0)
    with Pool(Bench(setup), 2) as pool:
        for fold in range(2):
            pool.submit(fold, Fit(fold, "pmop-fd", {"max_iter": 2}))
        results = dict(pool.results(lambda key: None))
    assert isinstance(results[0], Failed)
    assert "worker process ended" in results[0].error
    assert isinstance(results[1], Trial)


def test_a_worker_tells_of_its_defect(folds):
    setup = Setup((Fold("defect", partial(int, "x")), folds[0]), ("map",), "map", 0)
    with Pool(Bench(setup), 2) as pool:
        for fold in range(2):
            pool.submit(fold, Fit(fold, "pmop-fd", {"max_iter": 2}))
        results = dict(pool.results(lambda key: None))
    assert results[0] == Failed("ValueError: invalid literal for int() with base 10: 'x'")
    assert isinstance(results[1], Trial)


def test_bad_requests(folds, monkeypatch):
    local = [Fold(fold.name, lambda fold=fold: fold.load()) for fold in folds]
    with pytest.raises(SettingError, match="take jobs=1"):
        compare(local, CANDIDATES, METRICS, jobs=2)
    monkeypatch.setattr(pool_module, "n_threads", lambda: 2)
    monkeypatch.setattr(pool_module, "_WORTH_WORKERS", 0.0)
    assert compare(local, CANDIDATES, METRICS, jobs=None).models == ["pmop-fd", "listnet"]  # stays in this process
    with pytest.raises(SettingError, match="jobs is 0"):
        compare(folds, CANDIDATES, METRICS, jobs=0)
    with pytest.raises(SettingError, match="named twice"):
        compare(folds, [CANDIDATES[0], CANDIDATES[0]], METRICS)
    with pytest.raises(SettingError, match="at least one metric"):
        compare(folds, CANDIDATES, [])
    with pytest.raises(DataError, match="test query of both Fold1 and again"):
        compare([folds[0], Fold("again", folds[0].load)], CANDIDATES, METRICS)
    with pytest.raises(DataError, match="Two folds are named"):
        compare([folds[0], folds[0]], CANDIDATES, METRICS)


def test_of_equals_the_first_of_the_grid_is_chosen_whichever_ends_first():
    def trial(value):
        return Trial(value, 0.0, {}, ({}, {}))

    def chosen(values, order):
        entry = _Entry(0, CANDIDATES[0], [{"l2": rank} for rank in range(len(values))])
        for rank in order:
            entry.trials[rank] = trial(values[rank])
        entry.choose("map")
        return entry.chosen

    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        assert chosen([0.5, 0.7, 0.7], order) == {"l2": 1}
    assert chosen([np.nan, 0.1], [0, 1]) == {"l2": 1}


def test_distances_are_minimised(folds):
    candidates = [Candidate("pmop-fd", {"l2": [1e5, 0.01]}), Candidate("listnet", {"l2": [1e6]})]
    result = compare(folds, candidates, ["spearman_footrule"], tune_on="spearman_footrule")
    assert any(o.chosen == {"l2": 0.01} for o in result.outcomes if o.model == "pmop-fd")
    board = result.leaderboard()
    assert board[0]["spearman_footrule"] <= board[1]["spearman_footrule"]
    (row,) = result.statistics()
    difference = result.per_query(row["model"], row["metric"]) - result.per_query(row["against"], row["metric"])
    assert row["losses"] == np.count_nonzero(difference > 1e-9)  # a larger distance is worse


def test_a_metric_that_skips_every_query(folds, tmp_path):
    result = compare(folds, CANDIDATES, ["map"], relevance=99.0, empty="skip")
    write_run(result, tmp_path)
    board = read_run(tmp_path).results["leaderboard"]
    assert [row["map"] for row in board] == [None, None]


def test_run_folder(folds, whole, tmp_path):
    write_run(whole, tmp_path, baseline="listnet")
    run = read_run(tmp_path)
    assert run.metrics == METRICS
    assert run.models == [row["model"] for row in whole.leaderboard()]
    assert run.results["baseline"]["model"] == "listnet"
    assert run.results["data"]["overall"]["queries"] == 36
    test = folds[1].load()[2]
    for name in run.models:
        model = run.model(name, "Fold2")
        rows = [r for r in run.scores.to_pylist() if (r["model"], r["fold"]) == (name, "Fold2")]
        np.testing.assert_array_equal([row["score"] for row in rows], model.predict(test))
        np.testing.assert_array_equal([row["grade"] for row in rows], test.y)
        assert [row["query"] for row in rows] == [str(q) for q in test.qid]
        values = [r for r in run.rows.to_pylist() if (r["model"], r["fold"], r["metric"]) == (name, "Fold2", "map")]
        expected = luce.evaluate(model, test, ["map"]).values["map"]
        np.testing.assert_array_equal([row["value"] for row in values], expected)
        curves = [r for r in run.curves.to_pylist() if (r["model"], r["fold"]) == (name, "Fold2")]
        assert [r["value"] for r in curves if r["part"] == "train"] == model.history_["objective"]
        valid = {r["round"]: r["value"] for r in curves if r["part"] == "valid"}
        assert valid[model.history_["best_iteration"]] == max(valid.values())
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="damaged"):
        _ = read_run(tmp_path).rows
    (tmp_path / "results.json").write_text(json.dumps({"settings": 1}))
    with pytest.raises(DataError, match="not of a run"):
        read_run(tmp_path)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        read_run(tmp_path)
    with pytest.raises(DataError, match=r"no results\.json"):
        read_run(tmp_path / "nothing")


def rewritten(path, kind, change):
    """Put a whole record with changed content in the place of a right one."""
    settings, arrays = read_container(path, kind)[1:]
    change(settings, arrays)
    write_container(path, kind, settings, arrays)


def record_of(folder, kind):
    return next(path for path in sorted((folder / "state").glob("*.luce")) if container_kind(path) == kind)


@pytest.fixture
def finished(folds, tmp_path):
    compare(folds, CANDIDATES[1:], METRICS, seed=1, out=tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        ("trial", lambda s, a: s.update(validation="0.5"), "'validation' is neither"),
        ("trial", lambda s, a: s.pop("validation"), "'validation' is neither"),
        ("trial", lambda s, a: s.update(validation=True), "'validation' is neither"),
        ("trial", lambda s, a: s.update(seconds=None), "'seconds' is not"),
        ("trial", lambda s, a: s.update(seconds=-1.0), "'seconds' is not"),
        ("trial", lambda s, a: s.update(history=[1.0]), "'history' is not"),
        ("trial", lambda s, a: s.update(history={"objective": "low"}), "'objective' of its history"),
        ("trial", lambda s, a: s.update(history={"validation": [0.1, None]}), "'validation' of its history"),
        ("trial", lambda s, a: s.update(model="linear"), "'model' is not"),
        ("verdict", lambda s, a: s.update(metrics=3), "'metrics' is not"),
        ("verdict", lambda s, a: s.update(metrics=[]), "'metrics' is not"),
        ("verdict", lambda s, a: s.update(metrics=[["map"]]), "'metrics' is not"),
        ("verdict", lambda s, a: a.pop("values.map"), "no vector of numbers 'values.map'"),
        ("verdict", lambda s, a: a.update(scores=a["scores"][:, None]), "no vector of numbers 'scores'"),
        ("verdict", lambda s, a: a.update(scores=a["scores"] > 0), "no vector of numbers 'scores'"),
        ("verdict", lambda s, a: a.update({"values.map": a["values.map"][1:]}), "different numbers of queries"),
        ("verdict", lambda s, a: a.update({n: x[1:] for n, x in a.items()}), "other test queries or metrics"),
        ("verdict", lambda s, a: s.update(metrics=["map"]), "other test queries or metrics"),
    ],
)
def test_a_whole_record_with_wrong_content_is_named(folds, finished, kind, change, why):
    path = record_of(finished, kind)
    rewritten(path, kind, change)
    with pytest.raises(DataError) as told:
        compare(folds, CANDIDATES[1:], METRICS, seed=1, out=finished)
    assert str(told.value).startswith(f"{path} is no record that luce wrote: ")
    assert why in str(told.value)
    assert "delete this file" in str(told.value)
    path.unlink()
    rest = Stopping()
    compare(folds, CANDIDATES[1:], METRICS, seed=1, out=finished, watch=rest)
    assert rest.fits == (1 if kind == "trial" else 0)


def test_a_record_without_identity_is_done_again(folds, finished):
    rewritten(record_of(finished, "trial"), "trial", lambda settings, arrays: settings.pop("identity"))
    rest = Stopping()
    compare(folds, CANDIDATES[1:], METRICS, seed=1, out=finished, watch=rest)
    assert rest.fits == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.update(settings=[]),
        lambda r: r["settings"].update(metrics="map"),
        lambda r: r["settings"].update(folds=[1]),
        lambda r: r.update(leaderboard=[3]),
        lambda r: r.update(leaderboard={"model": "listnet"}),
        lambda r: r.update(folds=[{"model": "listnet"}]),
        lambda r: r.update(data=None),
        lambda r: r.pop("data"),
    ],
)
def test_results_of_another_form_are_refused(whole, tmp_path, change):
    write_run(whole, tmp_path)
    path = tmp_path / "results.json"
    results = json.loads(path.read_text())
    read_run(tmp_path)
    change(results)
    path.write_text(json.dumps(results))
    with pytest.raises(DataError, match=r"results.json is not of a run"):
        read_run(tmp_path)
