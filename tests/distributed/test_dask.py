"""Training on a cluster of two processes: the model of one machine, and workers that are killed on the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import luce
from luce import distributed
from luce.cli.app import app
from luce.data.groups import Groups
from luce.data.mapped import write_data
from luce.distributed import spread, trees
from luce.distributed.spread import ClusterError, cluster_errors
from luce.errors import DataError
from luce.metrics.catalog import get
from luce.objectives.engines import LightGBMObjective


def one_worker(client: Any) -> int:
    """The process number of a worker."""
    return int(next(iter(client.run(os.getpid).values())))


def assert_same_model(a: luce.Ranker, b: luce.Ranker) -> None:
    left, right = a.scorer_.state(), b.scorer_.state()
    assert left[0] == right[0]
    for name, array in left[1].items():
        np.testing.assert_array_equal(array, right[1][name])
    np.testing.assert_array_equal(a.loss_.parameters, b.loss_.parameters)
    assert a.history_ == b.history_


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "pmop"},
        {"loss": "rao_kupper", "query_norm": "zscore"},
        {"loss": "listnet", "scorer": "second_order", "scorer__count": 8},
        {"loss": "ranksvm", "scorer": "mlp", "scorer__hidden": (4,), "random_state": 3},
    ],
    ids=["fused", "tie-parameter", "products", "network"],
)
def test_model_is_that_of_one_machine(client: Any, whole: Groups, folder: Path, settings: dict[str, Any]):
    dataset = distributed.open_dataset(client, [folder])
    assert len(dataset.layout.repaired) == 2
    assert len(dataset.layout.partitions(8, 4)) == 4
    there = distributed.fit(luce.Ranker(max_iter=12, **settings), dataset, valid=whole)
    assert_same_model(there, luce.Ranker(max_iter=12, **settings).fit(whole, valid=whole))
    metrics = [get("ndcg@5"), get("err"), *([get("log_likelihood")] if settings["loss"] == "pmop" else [])]
    found = distributed.evaluate(there, dataset, metrics)
    expected = luce.evaluate(there, whole, metrics)
    assert found.query_ids.tolist() == expected.query_ids.tolist()
    for name, values in expected.values.items():
        np.testing.assert_array_equal(found.values[name], values)


def test_other_formats_and_addresses(client: Any, whole: Groups, tmp_path: Path):
    """Text with rows out of order, the binary form and a table, one of them behind an address; a checkpoint too."""
    thirds = [whole.take(np.arange(a, a + 40)) for a in (0, 40, 80)]
    texts = [luce.from_arrays(t.X, t.y, qid=t.qid) for t in thirds]
    luce.write_letor(texts[0], tmp_path / "a.txt")
    lines = (tmp_path / "a.txt").read_text().splitlines()
    (tmp_path / "a.txt").write_text("\n".join(lines[::2] + lines[1::2]) + "\n")
    write_data(texts[1], tmp_path / "b.lucedata")
    luce.write_parquet(texts[2], tmp_path / "c.parquet")
    together = [luce.read(tmp_path / name) for name in ("a.txt", "b.lucedata", "c.parquet")]
    joined = luce.from_arrays(
        np.concatenate([t.X for t in together]),
        np.concatenate([t.y for t in together]),
        qid=np.concatenate([t.qid.astype(str) for t in together]),
    )
    given = [tmp_path / "a.txt", tmp_path / "b.lucedata", f"file://{tmp_path}/c.*"]
    dataset = distributed.open_dataset(client, given)
    settings = {"loss": "ranknet", "max_iter": 6, "checkpoint": str(tmp_path / "kept")}
    there = distributed.fit(luce.Ranker(**settings), dataset)
    expected = luce.Ranker(loss="ranknet", max_iter=6).fit(joined)
    assert_same_model(there, expected)
    # The checkpoint of the cluster is good for one machine.
    again = luce.Ranker(**settings).fit(joined)
    np.testing.assert_array_equal(again.scorer_.weights, expected.scorer_.weights)


class Noted(LightGBMObjective):
    """Leaves a note of the process that it is called in, and of how many documents it is shown."""

    def __init__(self, folder: Path) -> None:
        super().__init__("pmop")
        self.folder = folder

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> tuple[Any, Any]:
        (self.folder / str(os.getpid())).write_text(str(len(second)))
        return super().__call__(first, second, weight, group)


def test_objective_inside_lightgbms_own_estimator(client: Any, whole: Groups, tmp_path: Path):
    """`luce.objectives.lightgbm` in `DaskLGBMRanker` on two workers, each of which sees whole queries."""
    import dask.array as da
    import lightgbm
    from dask import delayed

    client.wait_for_workers(2, timeout=60)
    cut = int(whole.offsets[60])

    def spread(array: Any, place: int) -> Any:
        parts = zip((array[:place], array[place:]), sorted(client.ncores()), strict=True)
        there = [(part, client.submit(np.array, part, workers=[worker])) for part, worker in parts]
        return da.concatenate([da.from_delayed(delayed(f), part.shape, dtype=part.dtype) for part, f in there])

    assert isinstance(luce.objectives.lightgbm("pmop"), LightGBMObjective)
    settings = {"n_estimators": 10, "num_leaves": 8, "verbosity": -1}
    there = lightgbm.DaskLGBMRanker(objective=Noted(tmp_path), client=client, **settings)
    with trees._quiet_engine():
        there.fit(spread(whole.X, cut), spread(whole.y, cut), group=spread(whole.sizes, 60))
    assert sorted(int(note.read_text()) for note in tmp_path.iterdir()) == sorted([cut, whole.n_rows - cut])
    here = lightgbm.LGBMRanker(objective=luce.objectives.lightgbm("pmop"), **settings)
    here.fit(whole.X, whole.y, group=whole.sizes)
    found, expected = (luce.evaluate(m.booster_.predict(whole.X), whole).means["ndcg@10"] for m in (there, here))
    untrained = luce.evaluate(np.zeros(whole.n_rows), whole).means["ndcg@10"]
    assert found > untrained + 0.5 * (expected - untrained) > untrained


def test_commands(client: Any, whole: Groups, folder: Path, tmp_path: Path):
    address, model = client.scheduler.address, tmp_path / "m.luce"
    run = CliRunner().invoke
    options = ["--dask", address, "--loss", "listmle", "--max-iter", "5"]
    done = run(app, ["train", f"{folder}/*.parquet", "--out", str(model), *options])
    assert done.exit_code == 0, done.output
    assert "2 queries go from one file into the next" in done.stderr
    assert_same_model(luce.load(model), luce.Ranker(loss="listmle", max_iter=5, random_state=0).fit(whole))
    there = run(app, ["evaluate", str(folder), "--model", str(model), "--dask", address, "--json"])
    here = run(app, ["evaluate", str(folder.parent / "whole.parquet"), "--model", str(model), "--json"])
    assert there.exit_code == 0
    assert there.stdout == here.stdout


def test_query_in_files_that_are_apart_is_refused(client: Any, whole: Groups, tmp_path: Path):
    for name, queries in (("a", [0, 1, 2]), ("b", [3]), ("c", [1])):
        luce.write_parquet(whole.take(queries), tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match=r"Query .* is in .*a.parquet and again in .*c.parquet"):
        distributed.open_dataset(client, [tmp_path])


def test_cluster_that_gives_up_is_told(client: Any):
    lost = client.submit(int, workers=["tcp://127.0.0.1:1"], pure=False)
    lost.cancel()
    with pytest.raises(ClusterError, match="The cluster cannot go on"), cluster_errors():
        lost.result(timeout=60)


def test_a_cluster_without_workers_is_not_waited_for(client: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spread, "WORKERLESS_SECONDS", 0.6)
    monkeypatch.setattr(client, "ncores", dict)
    never = client.submit(int, workers=["tcp://127.0.0.1:1"], pure=False)
    told: list[int] = []
    with pytest.raises(ClusterError, match=r"The cluster has had no worker for 0\.6 s"):
        spread.answers(client, [never], lambda: told.append(1))
    assert told


def test_gaps_are_for_trees(client: Any, whole: Groups, tmp_path: Path):
    X = np.array(whole.X)
    X[::7, 1] = np.nan
    holes = luce.from_arrays(X, whole.y, qid=np.repeat(np.arange(whole.n_queries), whole.sizes), allow_nan=True)
    luce.write_parquet(holes, tmp_path / "a.parquet")
    dataset = distributed.open_dataset(client, [tmp_path])
    with pytest.raises(DataError, match=r"a\.parquet: the feature '2' has gaps, and a cluster does not learn"):
        distributed.fit(luce.Ranker(loss="pmop"), dataset)
    model = distributed.fit(luce.Ranker(loss="pmop", scorer="trees", max_iter=3), dataset)
    assert np.isfinite(model.predict(holes)).all()


def test_damaged_file_says_where(client: Any, tmp_path: Path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:0.5\n0 qid:1 x:0.5\n")
    with pytest.raises(DataError, match=r"a\.txt, line 2"):
        distributed.open_dataset(client, [tmp_path])


def test_linear_goes_on_when_a_worker_is_killed(client: Any, whole: Groups, folder: Path):
    killed: list[int] = []

    def kill(step: int, total: int | None, info: Any) -> None:
        if step == 3 and not killed:
            killed.append(one_worker(client))
            os.kill(killed[0], signal.SIGKILL)

    dataset = distributed.open_dataset(client, [folder])
    there = distributed.fit(luce.Ranker(max_iter=12), dataset, progress=kill)
    assert len(killed) == 1
    assert_same_model(there, luce.Ranker(max_iter=12).fit(whole))


class Deadly(trees._SerialObjective):
    """Kills the worker that first calls it while a certain file is there: in the middle of LightGBM's training."""

    signal_file: Path

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> tuple[Any, Any]:
        try:
            self.signal_file.unlink()
        except FileNotFoundError:
            return super().__call__(first, second, weight, group)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("A killed process goes on.")


def test_trees_restart_a_segment_when_a_worker_is_killed(
    client: Any, whole: Groups, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    client.wait_for_workers(1, timeout=60)
    monkeypatch.setattr(trees, "SEGMENT", 8)
    now = tmp_path / "now"

    def deadly(*given: Any, **settings: Any) -> Deadly:
        objective = Deadly(*given, **settings)
        objective.signal_file = now
        return objective

    monkeypatch.setattr(trees, "_SerialObjective", deadly)
    told: list[int] = []

    def watch(step: int, total: int | None, info: Any) -> None:
        if step == 8 and not told:
            told.append(step)
            now.touch()

    dataset = distributed.open_dataset(client, [folder])
    settings = {"scorer": "trees", "loss": "rao_kupper", "max_iter": 16, "random_state": 0}
    there = distributed.fit(
        luce.Ranker(**settings, checkpoint=str(tmp_path / "kept")), dataset, valid=whole, progress=watch
    )
    assert told == [8]
    assert not now.exists()
    assert there.scorer_.forest.n_trees == there.history_["best_iteration"]
    assert len(there.history_["objective"]) == 16
    here = luce.Ranker(**settings).fit(whole, valid=whole)
    # Workers bin features by their own rows: other trees, as good.
    np.testing.assert_allclose(there.history_["objective"][-1], here.history_["objective"][-1], rtol=0.05)
    assert there.history_["objective"][0] == pytest.approx(here.history_["objective"][0], rel=1e-12)
    assert abs(there.score(whole) - here.score(whole)) < 0.05
    # Everything is in the checkpoint: a training that is started again has nothing left to grow.
    monkeypatch.setattr(trees, "_TRIES", 0)
    again = distributed.fit(luce.Ranker(**settings, checkpoint=str(tmp_path / "kept")), dataset, valid=whole)
    np.testing.assert_array_equal(again.predict(whole), there.predict(whole))
