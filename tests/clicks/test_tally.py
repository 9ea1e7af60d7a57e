"""Logs of any length: what is merged, kept in a file or read in parts is what one table in memory gives."""

from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from luce.clicks import aggregate, read
from luce.clicks import log as log_module
from luce.clicks.aggregate import MetSessions, Tally, added_up
from luce.data.table import Table


@pytest.mark.parametrize("merge_rows", [1, 40, 10_000])
def test_tally_adds_up_as_one_table_does(monkeypatch, merge_rows):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(aggregate, "_MERGE_ROWS", merge_rows)
    keys, sums = rng.integers(9, size=(500, 3)), rng.random((500, 2))
    found = Tally(width=3)
    for part in np.array_split(np.arange(500), 25):
        found.add(keys[part], sums[part])
    expected = added_up(keys, sums)
    assert np.array_equal(found.table()[:, :3], expected[:, :3])
    assert np.allclose(found.table()[:, 3:], expected[:, 3:], rtol=1e-12)


def test_a_tally_holds_no_more_than_the_keys_and_as_many_waiting_rows(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(aggregate, "_MERGE_ROWS", 100)
    found = Tally(width=1)
    for _ in range(200):
        found.add(rng.integers(50, size=(60, 1)), np.ones((60, 1)))
        assert sum(map(len, found._waiting)) <= 100
    assert len(found.table()) == 50
    assert found.table()[:, 1].sum() == 200 * 60


@pytest.mark.parametrize("block", [3, 16, 1000])
@pytest.mark.parametrize("repeated", [False, True])
def test_a_session_met_again_is_found_in_blocks_of_any_size(monkeypatch, block, repeated):
    monkeypatch.setattr(aggregate, "_BLOCK", block)
    rng = np.random.default_rng(0)
    sessions = rng.permutation(np.unique(rng.integers(2**63, size=120, dtype=np.uint64)) * np.uint64(2))
    if repeated:
        sessions = np.append(sessions, sessions[0])
    with closing(MetSessions()) as met:
        for part in np.array_split(sessions, 7):
            met.add(part)
        assert met.met_again() == repeated


def test_the_greatest_numbers_of_sessions_are_compared():
    with closing(MetSessions()) as met:
        met.add(np.array([2**64 - 1, 0, 5, 2**64 - 1], dtype=np.uint64))
        assert met.met_again()


@pytest.mark.parametrize("text_sessions", [False, True])
def test_rows_apart_are_counted_in_parts_as_at_once(monkeypatch, text_sessions):
    rng = np.random.default_rng(0)
    sessions, shown = 60, 4
    session = np.repeat(np.arange(sessions), shown)
    order = rng.permutation(len(session))
    documents = np.concatenate([rng.permutation(6)[:shown] for _ in range(sessions)])
    rows = {
        "session": session.astype(str) if text_sessions else session,
        "query": session % 3,
        "document": documents,
        "position": np.tile(np.arange(1, shown + 1), sessions),
        "clicked": rng.integers(2, size=len(session)),
    }
    apart = {name: values[order] for name, values in rows.items()}
    sorted_at_once = read(apart, pairs=True)
    monkeypatch.setattr(log_module, "_SORTED_ROWS", 50)
    in_parts = read(apart, pairs=True)
    assert "read 5 times more" in in_parts.notes[0]
    assert "in memory" in sorted_at_once.notes[0]

    def cells(counts):
        keys = counts.query_ids[counts.document_query[counts.document]], counts.document_ids[counts.document]
        return sorted(zip(*keys, counts.position, counts.after, counts.shown, counts.clicked, strict=True))

    assert cells(in_parts) == cells(sorted_at_once) == cells(read(rows))
    assert in_parts.pairs.both.sum() == sorted_at_once.pairs.both.sum() == read(rows, pairs=True).pairs.both.sum()


def test_row_groups_of_any_size_are_read_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(Table, "piece_rows", 10)
    table = pa.table({"a": np.arange(101), "b": np.arange(101) % 7})
    for size in (1, 4, 10, 33, 200):
        parquet.write_table(table, tmp_path / "t.parquet", row_group_size=size)
        file = Table.open(tmp_path / "t.parquet")
        parts = list(file.pieces(["a"]))
        assert max(map(len, parts)) <= 10
        assert np.array_equal(np.concatenate([part["a"].number() for part in parts]), np.arange(101))
        assert file.names == ["a", "b"]
    parquet.write_table(table.slice(0, 0), tmp_path / "t.parquet")
    assert list(Table.open(tmp_path / "t.parquet").pieces(["a"])) == []


def test_a_propensity_that_nobody_named_is_told():
    rows = {"session": [1, 1, 2, 2], "query": [7] * 4, "document": list("abba"), "position": [1, 2, 1, 2]}
    log = pd.DataFrame({**rows, "clicked": [1, 0, 0, 1], "propensity": [0.5] * 4})
    assert any("'propensity' was not used" in note for note in read(log).notes)
    assert not any("propensity" in note for note in read(log, propensity="propensity").notes)
