"""Ordered lists from files, and every way in which they can be wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import luce
from luce.errors import DataError, ParseError, SettingError


@pytest.fixture
def data() -> luce.Groups:
    return luce.from_arrays(
        np.arange(6, dtype=np.float32)[:, None], qid=["a", "a", "b", "a", "b", "b"], document_ids=list("xyxzyz")
    )  # regrouped: a has x y z in rows 0 to 2, b has x y z in rows 3 to 5


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def lists(comparisons: luce.Comparisons) -> list[list[int]]:
    return [piece.tolist() for piece in np.split(comparisons.order_rows, comparisons.order_offsets[1:-1])]


def test_lines(tmp_path, data):
    found = luce.read_orders(write(tmp_path / "o", "b: z > x\n\na: y > x > z \na:x\n"), data)
    assert lists(found) == [[5, 3], [1, 0, 2], [0]]
    assert found.order_is_top.all()
    assert not luce.read_orders(tmp_path / "o", data, top=False).order_is_top.any()
    assert lists(luce.read_orders(tmp_path / "o", data, k=1)) == [[5], [1], [0]]


def test_run_ranks_by_score(tmp_path, data):
    run = "b Q0 x 1 0.5 t\nb Q0 z 2 0.9 t\na Q0 y 1 2 t\na Q0 z 2 3 t\na Q0 x 3 1 t\n"
    found = luce.read_orders(write(tmp_path / "run", run), data)
    assert lists(found) == [[5, 3], [2, 1, 0]]
    assert lists(luce.read_orders(tmp_path / "run", data, k=1)) == [[5], [2]]


def test_names_by_row_where_there_are_no_ids(tmp_path):
    bare = luce.from_arrays(np.eye(4), qid=["q", "r", "q", "r"])
    assert lists(luce.read_orders(write(tmp_path / "o", "r: d4 > d2\nq: d3"), bare)) == [[3, 2], [1]]


def test_what_the_data_do_not_have(tmp_path, data):
    path = write(tmp_path / "o", "a: x > y\nc: x\n")
    with pytest.raises(ParseError, match=r"line 2: query 'c' is not in the data"):
        luce.read_orders(path, data)
    assert lists(luce.read_orders(path, data, missing="skip")) == [[0, 1]]
    path = write(tmp_path / "o", "a: x > w > y\n")
    with pytest.raises(ParseError, match=r"line 1: document 'w' is not in query 'a'"):
        luce.read_orders(path, data)
    assert lists(luce.read_orders(path, data, missing="skip")) == [[0, 1]]
    with pytest.raises(DataError, match="none of the lists"):
        luce.read_orders(write(tmp_path / "o", "c: x\n"), data, missing="skip")


@pytest.mark.filterwarnings("ignore:Document .* stands more than once")
def test_a_document_twice(tmp_path, data):
    with pytest.raises(ParseError, match="line 1: document 'x' stands twice in the list of query 'a'"):
        luce.read_orders(write(tmp_path / "o", "a: x > y > x\n"), data)
    with pytest.raises(ParseError, match="document 'x' stands twice in a list of query 'a'"):
        luce.read_orders(write(tmp_path / "o", "a Q0 x 1 2 t\na Q0 x 2 1 t\n"), data)
    twice = luce.from_arrays(np.eye(2), document_ids=["x", "x"])
    with pytest.raises(DataError, match="Document 'x' stands twice in query '0'"):
        luce.read_orders(tmp_path / "o", twice)


@pytest.mark.parametrize("k", [0, -2, True, 1.5])
def test_bad_k(tmp_path, data, k):
    with pytest.raises(SettingError, match="whole number of at least 1"):
        luce.read_orders(write(tmp_path / "o", "a: x\n"), data, k=k)


def test_k_caps_lists(tmp_path, data):
    path = write(tmp_path / "o", "# by two judges\na: x > y > z\n  # the second\nb: x\n")
    assert lists(luce.read_orders(path, data, k=2)) == [[0, 1], [3]]
    whole = write(tmp_path / "w", "a: x > y > z\n")
    assert lists(luce.read_orders(whole, data, k=10)) == [[0, 1, 2]]


LONG = {
    "query": ["a", "a", "a", "a", "b"],
    "judge": ["u", "u", "v", "v", "u"],
    "document": ["y", "x", "z", "x", "x"],
    "rank": [1, 2, 1, 1, 1],
}


def test_tables_of_lists(tmp_path, data):
    """Long, a row a document of a judge, and wide, a row a list; as CSV, Parquet, frames and mappings."""
    found = luce.read_orders(LONG, data)
    assert lists(found) == [[1, 0], [2, 0], [3]]
    assert found.order_tied.tolist() == [False, False, False, True, False]
    wide = {"query": ["a", "b"], "rank1": ["z", "x"], "rank2": ["y", None], "weight": [2.0, 1.0]}
    found = luce.read_orders(wide, data, top=False)
    assert lists(found) == [[2, 1], [3]]
    assert found.list_weight.tolist() == [2.0, 1.0]
    pq.write_table(pa.table(LONG), tmp_path / "l.parquet")
    csv.write_csv(pa.table(LONG), tmp_path / "l.csv")
    for source in (tmp_path / "l.parquet", tmp_path / "l.csv", pa.table(LONG)):
        assert lists(luce.read_orders(source, data)) == [[1, 0], [2, 0], [3]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"query": ["a"], "document": ["x"]}, "needed are query, document, rank, or query, rank1"),
        ({**LONG, "document": ["x", "x", "z", "x", "x"]}, "Row 1: document 'x' stands twice in a list of query 'a'"),
        ({**LONG, "weight": [1.0, 2.0, 1.0, 1.0, 1.0]}, "the weight of a list of query 'a' must be one number above 0"),
        ({"query": ["a"], "rank1": [None], "rank2": ["x"]}, "Row 0: the list of query 'a' is .* name documents from"),
        ({"query": ["a"], "rank1": ["w"]}, "document 'w' is not in query 'a' of the data"),
        ({"query": ["c"], "rank1": ["w"]}, "query 'c' is not in the data; .*--missing-documents skip"),
    ],
)
def test_bad_tables_of_lists(data, table, message):
    with pytest.raises(DataError, match=message):
        luce.read_orders(table, data)


def test_ties_in_a_run(tmp_path, data):
    path = write(tmp_path / "run", "a Q0 z 1 2 t\na Q0 y 2 1 t\na Q0 x 3 1 t\n")
    found = luce.read_orders(path, data)
    assert lists(found) == [[2, 1, 0]]
    assert found.order_tied.tolist() == [False, False, True]
    assert not luce.read_orders(path, data, ties="stable").order_tied.any()
    assert lists(luce.read_orders(path, data, k=1, ties="error")) == [[2]]
    with pytest.raises(ParseError, match="documents 'y' and 'x' of query 'a' have equal scores"):
        luce.read_orders(path, data, k=2, ties="error")


def test_tiers_weights_and_the_rest(tmp_path, data):
    text = "a * 2.5: {x z} > rest\nb: {z, y} > x\na: y > x = z\nb: z\n"
    found = luce.read_orders(write(tmp_path / "o", text), data, top=False)
    assert lists(found) == [[0, 2], [5, 4, 3], [1, 0, 2], [5]]
    assert found.order_tied.tolist() == [False, True, False, True, False, False, False, True, False]
    assert found.order_is_top.tolist() == [True, False, False, False]
    assert found.order_weight.tolist() == [2.5, 1, 1, 1]
    cut = luce.read_orders(write(tmp_path / "p", "a: {x z} > y\n"), data, k=1)
    assert lists(cut) == [[0, 2]]  # the tier at the cut is kept whole
    assert luce.read_orders(tmp_path / "p", data).order_weight is None


def test_judges_in_several_files(tmp_path, data):
    one, two = write(tmp_path / "1", "a: x > y > z\n"), write(tmp_path / "2", "a Q0 z 1 9 t\nb Q0 x 1 8 t\n")
    assert lists(luce.read_orders([one, two], data)) == [[0, 1, 2], [2], [3]]


@pytest.mark.parametrize("text", ["a x > y\n", "a: x > > y\n", ": x\n", "a: x > {} > y\n"])
def test_bad_lines(tmp_path, data, text):
    with pytest.raises(ParseError, match=r"line 1: expected `query: d7 > \{d2 d9\} > rest`"):
        luce.read_orders(write(tmp_path / "o", text), data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n", "the list of query 'a' is empty"),
        ("a: {x y\n", "a tier opens with {"),
        ("a: {x y} > x\n", "document 'x' stands twice in the list of query 'a'"),
        ("a: {x y z}\n", "list of query 'a' has 'x', 'y', 'z' in one tier and nothing below them"),
        ("a: {x q}\n", "document 'q' is not in query 'a'"),
        ("a * nan: x > y\n", "weight of a list of query 'a' is 'nan'"),
        ("a * -1: x > y\n", "weight of a list of query 'a' is '-1'"),
        ("a * much: x > y\n", "weight of a list of query 'a' is 'much'"),
    ],
)
def test_bad_tiers_and_weights(tmp_path, data, text, message):
    with pytest.raises(ParseError, match=f"line 1: .*{message}"):
        luce.read_orders(write(tmp_path / "o", text), data)


def test_a_document_of_the_name_rest(tmp_path):
    data = luce.from_arrays(np.eye(3), qid=["q"] * 3, document_ids=["rest", "a", "b"])
    assert lists(luce.read_orders(write(tmp_path / "o", "q: rest > a\n"), data)) == [[0, 1]]
    with pytest.raises(ParseError, match="`rest` stands for all other documents of query 'q'"):
        luce.read_orders(write(tmp_path / "o", "q: a > rest\n"), data)


def test_bad_settings(tmp_path, data):
    path = write(tmp_path / "o", "a: x\n")
    for wrong in ({"ties": "whole"}, {"missing": "zero"}, {"k": 1, "top": False}):
        with pytest.raises(SettingError, match=next(iter(wrong))):
            luce.read_orders(path, data, **wrong)
    with pytest.raises(DataError, match="does not exist"):
        luce.read_orders(tmp_path / "none", data)
