"""What needs no cluster: how files are cut, what is refused, and losses that do not mind where they are cut."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import luce
from luce.cli.app import app
from luce.data import blocks
from luce.data.outline import Outline
from luce.data.schema import Column, Schema
from luce.data.simulate import simulate
from luce.distributed.cluster import connect
from luce.distributed.files import find_files
from luce.distributed.fit import check_fit
from luce.distributed.plan import FileOutline, join_files
from luce.errors import DataError, LuceError, MissingExtraError, SettingError
from luce.numerics.segments import join_chunks
from luce.scorers.linear import LinearScorer
from luce.training.objective import Objective


def file(name: str, ids: list[str], sizes: list[int], format: str = "parquet", weight: Any = None) -> FileOutline:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return FileOutline(
        name, format, Outline(np.arange(offsets[-1], dtype=float), offsets, np.array(ids), None, weight, ("f",), None)
    )


def test_partitions_hold_whole_queries_and_every_row_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4)
    rng = np.random.default_rng(0)
    sizes = [rng.integers(1, 60, 40).tolist() for _ in range(3)]
    names = [[f"{k}.{i}" for i in range(40)] for k in range(3)]
    names[1][0] = names[0][-1]
    whole = join_files([file("a", names[0], sizes[0]), file("b", names[1], sizes[1]), file("c", names[2], sizes[2])])
    assert whole.repaired == [names[0][-1]]
    cut = blocks.cut_blocks(whole.outline.offsets, 1)
    for unit in (1, 3, 8):
        partitions = whole.partitions(unit, 50)
        assert [p.queries[0] for p in partitions] == [0, *[p.queries[1] for p in partitions[:-1]]]
        assert {p.queries[0] for p in partitions} <= {a for a, _ in join_chunks(cut, unit)}
        rows = [np.arange(p.first, p.last) + whole.starts["abc".index(p.name)] for q in partitions for p in q.pieces]
        np.testing.assert_array_equal(np.concatenate(rows), np.arange(whole.outline.n_rows))
        for p in partitions:
            assert sum(piece.last - piece.first for piece in p.pieces) == p.offsets[-1] == len(p.y)


def test_rows_out_of_order_are_found_where_a_partition_starts_inside_a_file(monkeypatch: pytest.MonkeyPatch):
    """The query that goes on into the second file belongs to the first partition; the next one starts after it."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4)
    second = file("b", ["q", "r"], [64, 64], "letor")
    order = np.random.default_rng(0).permutation(128)
    second = second._replace(outline=second.outline._replace(row_order=order))
    whole = join_files([file("a", ["p", "q"], [64, 64], "letor"), second])
    pieces = [piece for partition in whole.partitions(1, 4) for piece in partition.pieces if piece.name == "b"]
    assert [piece.first for piece in pieces] == [0, 64]
    for piece in pieces:
        np.testing.assert_array_equal(piece.order, order[piece.first : piece.last])


def test_binary_files_are_cut_finer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4)
    ids, sizes = [str(i) for i in range(100)], [64] * 100
    assert len(join_files([file("a", ids, sizes, "lucedata")]).partitions(2, 10)) == 10
    assert len(join_files([file("a", ids, sizes, "letor")]).partitions(2, 10)) == 1


def test_a_query_may_fill_files():
    whole = join_files([file("a", ["p", "q"], [2, 1]), file("b", ["q"], [3]), file("c", ["q", "r"], [1, 1])])
    assert whole.outline.query_ids.tolist() == ["p", "q", "r"]
    assert whole.outline.offsets.tolist() == [0, 2, 7, 8]
    assert whole.repaired == ["q"]


def test_the_columns_of_a_table_stay_known():
    """A model that a cluster trained reads the next table without being told its columns."""
    schema = Schema((Column("search", "qid", "text"), Column("f", "feature", "number")))
    tables = [
        each._replace(outline=each.outline._replace(schema=schema))
        for each in (file("a", ["q"], [2]), file("b", ["r"], [1]))
    ]
    assert join_files(tables).outline.schema == schema
    assert schema.roles == {"qid": "search"}


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(DataError, match="no query weights"):
        join_files([file("a", ["p"], [2], weight=np.ones(1)), file("b", ["q"], [2])])
    other = file("b", ["q"], [2])
    with pytest.raises(DataError, match="other features"):
        join_files([file("a", ["p"], [2]), other._replace(outline=other.outline._replace(feature_names=("g",)))])


def test_files(tmp_path: Path):
    for name in ("b.csv", "a.csv", ".hidden", "_SUCCESS", "c.txt"):
        (tmp_path / name).write_text("x")
    named = [str(tmp_path / name) for name in ("a.csv", "b.csv", "c.txt")]
    assert find_files([tmp_path]) == named
    assert find_files([f"{tmp_path}/*.csv"]) == named[:2]
    assert find_files([f"file://{tmp_path}/*.csv"]) == [f"file://{name}" for name in named[:2]]
    assert find_files([f"file://{tmp_path}/c.txt"]) == [f"file://{named[2]}"]
    for wrong, why in (("none.csv", "does not exist"), ("*.parquet", "matches no file")):
        with pytest.raises(DataError, match=why):
            find_files([tmp_path / wrong])
    with pytest.raises(DataError, match="twice"):
        find_files([named[0], tmp_path])
    with pytest.raises(DataError, match=r"matches no file|does not exist"):
        find_files([f"file://{tmp_path}/none/*.csv"])


@pytest.mark.parametrize(("name", "n_values"), [(name, 0) for name in luce.losses.names()] + [("pmop", 1 << 30)])
def test_objective_is_made_of_that_of_parts(name: str, n_values: int, monkeypatch: pytest.MonkeyPatch):
    """Sums of chunks have the same bits where the chunks are a data set of their own."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4)
    loss = luce.losses.get(name)
    if loss.stochastic:
        pytest.skip("its gradient is sampled: one machine trains it")
    data = simulate(queries=40, features=5, seed=2)
    scorer = LinearScorer().bind(data)
    rng = np.random.default_rng(1)
    whole = Objective(data, scorer, loss, 0.0, n_values=n_values)
    vector = np.concatenate([rng.normal(size=scorer.n_parameters), loss.parameters])
    expected, found = whole.parts(vector), []
    middle = whole.chunks[len(whole.chunks) // 2][0]
    for queries in (np.arange(middle), np.arange(middle, data.n_queries)):
        found += Objective(data.take(queries), scorer, loss, 0.0, n_values=n_values).parts(vector)
    assert len(found) == len(expected) > 1
    for (value, grad), (value_there, grad_there) in zip(expected, found, strict=True):
        assert value == value_there
        np.testing.assert_array_equal(grad, grad_there)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"trainer": "adarank"}, "A cluster trains the scorers"),
        ({"loss": "pmop_gibbs"}, "pmop_gibbs"),
        ({"trainer": "sgd"}, "the trainer 'sgd' needs one machine"),
        ({"trainer": "projected"}, "the trainer 'projected' needs one machine"),
        ({"loss": "listmle", "loss__ties": "random"}, "random"),
        ({"loss": "pmop", "loss__cut": 12}, "draws over the whole data set"),
        ({"scorer": "trees", "base": "column:1"}, "base"),
    ],
)
def test_what_a_cluster_cannot_train_is_refused(settings: dict[str, Any], why: str):
    with pytest.raises(SettingError, match=why):
        check_fit(luce.Ranker(**settings))


def test_address_that_does_not_answer():
    """Nothing listens, something else listens that says nothing, and no address at all: one sentence in time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in (
            f"tcp://127.0.0.1:{silent.getsockname()[1]}",
            "tcp://127.0.0.1:1",
            "nonsense",
            "tcp://[::1",
            "",
        ):
            with pytest.raises(SettingError, match="No Dask scheduler answers"), connect(address):
                pass


def test_missing_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'luce\[dask\]'"), connect("local"):
        pass


def test_commands_refuse(tmp_path: Path):
    data = simulate(queries=5, features=3, seed=0)
    luce.write_parquet(data, tmp_path / "a.parquet")
    out, run = ["--out", str(tmp_path / "m.luce")], CliRunner().invoke
    file = str(tmp_path / "a.parquet")
    for arguments, why in (
        (["train", file, file, *out], "2 files were given"),
        (["train", file, "--dask", "local", "--clicks", file, *out], "--clicks goes with one machine"),
        (["train", file, "--dask", "local", "--trainer", "frank", *out], "A cluster trains the scorers"),
        (["train", file, "--dask", "tcp://127.0.0.1:1", *out], "No Dask scheduler answers"),
        (["evaluate", file, "--scores", file, "--dask", "local"], "give --model and DATA"),
    ):
        result = run(app, arguments)
        assert isinstance(result.exception, LuceError)
        assert why in str(result.exception)


def test_members_are_refused_on_a_cluster():
    from luce.distributed.spread import Wanted
    from luce.distributed.trees import boost

    parts = luce.Ranker(scorer="trees", scorer__feature_fraction=0.5, scorer__members=3).parts()
    with pytest.raises(SettingError, match="one forest"):
        boost(Wanted(parts, parts.loss, None, None, {}, None))
