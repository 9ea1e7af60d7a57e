"""Round trips, the memory-mapped form, and what damage does to it."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import luce
from luce.data import mapped
from luce.data.groups import Groups
from luce.data.mapped import read_data, stream_data, write_data
from luce.data.readers import letor
from luce.data.readers.detect import open_source
from luce.data.writers import write
from luce.errors import DataError, ModelFormatError
from luce.storage import container_kind, read_container, stream_container, write_container


def assert_same(a: Groups, b: Groups) -> None:
    np.testing.assert_array_equal(a.X.view(np.uint32), b.X.view(np.uint32))
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.offsets, b.offsets)
    assert list(map(str, a.query_ids)) == list(map(str, b.query_ids))
    assert (a.document_ids is None) == (b.document_ids is None)
    if a.document_ids is not None:
        assert a.document_ids.tolist() == b.document_ids.tolist()


matrices = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 4)),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@settings(max_examples=60, deadline=None)
@given(X=matrices, data=st.data(), suffix=st.sampled_from(["txt", "txt.gz", "parquet", "lucedata"]))
def test_every_format_gives_back_every_bit(tmp_path_factory, X, data, suffix) -> None:
    rows = len(X)
    y = data.draw(hnp.arrays(np.float64, rows, elements=st.floats(-1e300, 1e300)))
    qid = sorted(data.draw(st.lists(st.sampled_from(["1", "q2", "ä"]), min_size=rows, max_size=rows)))
    documents = data.draw(st.none() | st.just([f"d {i} é" for i in range(rows)]))
    groups = luce.from_arrays(X, y, qid=qid, document_ids=documents)
    path = tmp_path_factory.getbasetemp() / f"round.{suffix}"
    write(groups, path)
    assert_same(luce.read(path), groups)


def full_groups() -> Groups:
    relation = sparse.csr_array(np.array([[0, 1.0, 0], [1, 0, 0], [0, 0, 0]]))
    return luce.from_arrays(
        [[1.0, np.nan], [2, 3], [4, 5]],
        [0, 1, 2],
        qid=[4, 4, 9],
        document_ids=np.array(["a", "x" * 50, ""], dtype=object),
        query_weight=[1, 2],
        feature_names=["bm25", "größe"],
        relations={"links": relation},
        allow_nan=True,
    )


@pytest.mark.parametrize("small", [0, 1 << 30])
def test_the_binary_form_keeps_everything(tmp_path, monkeypatch, small) -> None:
    monkeypatch.setattr(mapped, "SMALL", small)
    groups, path = full_groups(), tmp_path / "a.lucedata"
    write_data(groups, path)
    data = read_data(path, verify=True)
    assert_same(data, groups)
    assert data.query_ids.dtype == np.int64
    assert data.feature_names == ("bm25", "größe")
    assert data.query_weight.tolist() == [1, 2]
    assert (data.relations["links"] != groups.relations["links"]).nnz == 0
    assert isinstance(data.X, np.memmap) == (small == 0)
    assert container_kind(path) == "data"


def test_streaming_regroups_rows_on_disk(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(letor, "_FIRST", 64)
    monkeypatch.setattr(letor, "_BLOCK", 64)
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{i % 3} qid:{i % 4} {1 + i % 5}:{i}  # d{i}\n\n" for i in range(200)))
    stream_data(open_source(path), tmp_path / "a.lucedata")
    data, expected = read_data(tmp_path / "a.lucedata", verify=True), luce.read_letor(path)
    assert_same(data, expected)
    assert data.row_order.tolist() == expected.row_order.tolist()
    assert all(array.flags.aligned for array in (data.X, data.y, data.offsets))


def test_a_batch_of_comments_alone_has_no_rows_to_regroup(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(letor, "_FIRST", 64)
    monkeypatch.setattr(letor, "_BLOCK", 8)
    path = tmp_path / "a.txt"
    path.write_text("1 qid:a 1:1\n0 qid:b 1:2\n" + "# nothing here\n" * 100 + "0 qid:a 1:3\n")
    stream_data(open_source(path), tmp_path / "a.lucedata")
    assert read_data(tmp_path / "a.lucedata").X.tolist() == [[1.0], [3.0], [2.0]]


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.booleans())
def test_damage_raises_format_errors_only(tmp_path_factory, place, byte, cut) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.lucedata"
    write_data(full_groups(), path)
    raw = bytearray(path.read_bytes())
    place %= len(raw)
    if cut:
        del raw[place:]
    raw[place : place + 1] = bytes([byte])
    path.write_bytes(raw)
    try:
        data = luce.read(path)
    except (ModelFormatError, DataError):
        return
    assert data.n_rows == 3
    repr((data.query_ids.tolist(), data.document_ids.tolist(), data.feature_names))
    data.to_input_order(data.y)


def test_a_changed_bit_is_found_when_asked_for(tmp_path) -> None:
    path = tmp_path / "a.lucedata"
    write_data(full_groups(), path)
    raw = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", raw[:8])
    place = json.loads(raw[8 : 8 + length])["X"]["data_offsets"][0] + 8 + length
    raw[place] ^= 1
    path.write_bytes(raw)
    luce.read(path)
    with pytest.raises(ModelFormatError, match="checksum"):
        luce.read(path, verify=True)


def test_other_containers_are_no_data(tmp_path) -> None:
    from luce.storage import write_container

    write_container(tmp_path / "m.luce", "ranker", {}, {})
    with pytest.raises(ModelFormatError, match="holds a ranker, not data"):
        luce.read(tmp_path / "m.luce")
    with pytest.raises(DataError, match="does not exist"):
        read_data(tmp_path / "absent.lucedata")


def test_streamed_container_equals_its_rows(tmp_path) -> None:
    rows = np.arange(12, dtype=np.int32).reshape(6, 2)
    with stream_container(tmp_path / "a", "test", {"a": 1}, {"rows": (rows.dtype, rows.shape)}) as writer:
        writer.write("rows", 3, rows[3:])
        writer.write("rows", 0, rows[:3])
        with pytest.raises(ValueError, match="do not fit"):
            writer.write("rows", 5, rows[:2])
    container = read_container(tmp_path / "a", "test")
    np.testing.assert_array_equal(container.arrays["rows"], rows)


def test_a_failed_stream_leaves_nothing(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n1 qid:1 1:x\n")
    with pytest.raises(DataError, match="line 2"):
        stream_data(open_source(tmp_path / "a.txt"), tmp_path / "a.lucedata")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("part", ["relation.indptr.links", "relation.indices.links", "subtopics.indptr"])
@pytest.mark.parametrize("value", [-(2**63), -1, 4, 2**40, 0.5])
def test_a_sparse_matrix_that_points_beyond_itself_is_refused(tmp_path, part, value):
    rows = luce.from_arrays(
        np.ones((3, 1)),
        np.zeros(3),
        relations={"links": sparse.csr_array(np.array([[0, 1.0, 0], [1, 0, 0], [0, 0, 0]]))},
        subtopics=sparse.csr_array(np.eye(3)),
    )
    write_data(rows, tmp_path / "d.lucedata")
    kind, settings_, arrays = read_container(tmp_path / "d.lucedata", "data")
    for place in range(len(arrays[part])):
        changed = np.array(arrays[part], dtype=np.float64 if value == 0.5 else np.int64)
        if changed[place] == value:
            continue
        changed[place] = value
        write_container(tmp_path / "e.lucedata", kind, settings_, arrays | {part: changed})
        with pytest.raises(ModelFormatError, match="damaged"):
            read_data(tmp_path / "e.lucedata")
