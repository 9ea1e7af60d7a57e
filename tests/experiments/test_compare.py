"""Folds and comparisons: the parts stay apart, validation chooses, numbers can be had again."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, OutputError, SettingError, UnknownNameError
from luce.experiments import Candidate, compare, find_folds, grouped_folds
from luce.experiments.run_folder import write_results


@pytest.fixture(scope="module")
def data():
    return simulate(queries=60, features=6, seed=2)


def test_grouped_folds_cover_every_query_once(data):
    folds = [fold.load() for fold in grouped_folds(data, 5, seed=1)]
    tests = np.concatenate([test.query_ids for _, _, test in folds])
    assert sorted(tests) == sorted(data.query_ids)
    for train, valid, test in folds:
        ids = [set(part.query_ids) for part in (train, valid, test)]
        assert len(set.union(*ids)) == sum(map(len, ids)) == data.n_queries
    again = grouped_folds(data, 5, seed=1)[0].load()[2]
    np.testing.assert_array_equal(again.query_ids, folds[0][2].query_ids)
    with pytest.raises(SettingError, match="folds"):
        grouped_folds(data, 2)


def write_parts(folder, data, cuts, names=("train", "vali", "test")):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (first, last) in zip(names, cuts, strict=True):
        luce.write_letor(data.take(np.arange(first, last)), folder / f"{name}.txt")


def test_letor_folds_are_found(data, tmp_path):
    for k in (1, 2):
        write_parts(tmp_path / f"Fold{k}", data, [(0, 30), (30, 45), (45, 60)])
    folds = find_folds(tmp_path)
    assert [fold.name for fold in folds] == ["Fold1", "Fold2"]
    train, valid, test = folds[0].load()
    assert (train.n_queries, valid.n_queries, test.n_queries) == (30, 15, 15)
    assert find_folds(tmp_path / "Fold1")[0].load()[2].n_queries == 15


def test_no_validation_part(data, tmp_path):
    write_parts(tmp_path, data, [(0, 40), (40, 60)], names=("train", "test"))
    (fold,) = find_folds(tmp_path)
    assert "held out" in fold.note
    train, valid, _ = fold.load()
    assert train.n_queries + valid.n_queries == 40
    assert not set(train.query_ids) & set(valid.query_ids)


def test_bad_folders(data, tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        find_folds(tmp_path / "nothing")
    with pytest.raises(DataError, match="no train and test"):
        find_folds(tmp_path)
    write_parts(tmp_path / "Fold1", data, [(0, 30), (30, 45), (40, 60)])
    with pytest.raises(DataError, match="must not share queries"):
        find_folds(tmp_path)[0].load()


def test_comparison(data, tmp_path):
    candidates = [Candidate("pmop-fd", {"l2": [0.01, 1e4]}), Candidate("listnet", {"l2": [0.1]})]
    metrics = ["ndcg@10", "map"]
    result = compare(grouped_folds(data, 3), candidates, metrics, seed=5)
    # A penalty of 1e4 leaves no ranking function worth the name: validation must not choose it everywhere.
    assert any(o.chosen == {"l2": 0.01} for o in result.outcomes if o.model == "pmop-fd")
    assert len(result.per_query("listnet", "map")) == data.n_queries
    board = result.leaderboard()
    assert [row["model"] for row in board] == sorted(result.models, key=lambda m: -result.mean(m, "ndcg@10"))
    assert board[0]["p"] is None
    assert 0 < board[1]["p"] <= board[1]["p_holm"] <= 1
    assert all(row["low"] < row["ndcg@10"] < row["high"] for row in board)

    again = compare(grouped_folds(data, 3), candidates, metrics, seed=5)
    assert [o.chosen for o in again.outcomes] == [o.chosen for o in result.outcomes]
    np.testing.assert_array_equal(again.per_query("pmop-fd", "map"), result.per_query("pmop-fd", "map"))

    write_results(result, tmp_path / "run")
    rows = pq.read_table(tmp_path / "run" / "rows.parquet")
    assert rows.num_rows == data.n_queries * 2 * 2
    assert rows.column_names == ["model", "fold", "query", "metric", "value"]
    record = json.loads((tmp_path / "run" / "results.json").read_text())
    assert record["settings"]["seed"] == 5
    assert record["settings"]["grids"]["listnet"] == [{"l2": 0.1}]
    with pytest.raises(OutputError, match="file"):
        write_results(result, tmp_path / "run" / "rows.parquet")


def test_the_harness_evaluates_what_the_ranker_predicts(data):
    (fold, *_) = grouped_folds(data, 4, seed=0)
    result = compare([fold], [Candidate("pmop-fd", {"l2": [0.1]})], ["ndcg@5"], ties="stable")
    train, valid, test = fold.load()
    model = luce.model("pmop-fd", l2=0.1, random_state=0).fit(train, valid=valid)
    expected = luce.evaluate(model, test, ["ndcg@5"], ties="stable").means["ndcg@5"]
    assert result.mean("pmop-fd", "ndcg@5") == pytest.approx(expected, abs=1e-12)


def test_unknown_model():
    with pytest.raises(UnknownNameError, match="Available"):
        Candidate.named("pmop-df")


@pytest.mark.real
def test_linear_pmop_on_mq2008(real_data):
    """Five folds, L2 chosen on validation NDCG@10, empty query = 0, stable ties."""
    grid = {"l2": [1e-4, 1e-3, 1e-2, 1e-1, 1.0]}
    candidate = Candidate("pmop-fd", grid, {"tol": 1e-6, "max_iter": 200, "early_stopping": None})
    result = compare(find_folds(real_data("MQ2008")), [candidate], ["ndcg@1", "ndcg@10", "map"], ties="stable", empty=0)
    assert result.mean("pmop-fd", "ndcg@1") >= 0.375
    assert result.mean("pmop-fd", "ndcg@10") >= 0.503
    assert result.mean("pmop-fd", "map") >= 0.476


def test_a_comparison_of_nothing_but_failures():
    class Broken:
        def fit(self, X, y):
            raise ValueError("no")

        def predict(self, X):
            return X[:, 0]

    data = simulate(queries=6, features=2, seed=0)
    with pytest.warns(luce.errors.LuceWarning, match="failed and is left out"):
        found = luce.compare(data, {"a": Broken(), "b": Broken()}, ["map"], folds=3)
    assert found.as_dict()["statistics"] == found.as_dict()["leaderboard"] == []
    assert found.lines == ["2 of 2 models failed; there is nothing to compare."]
