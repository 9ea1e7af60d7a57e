"""Data frames of every kind, Parquet, Arrow and CSV."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import luce
from luce.data.mapped import read_data, stream_data
from luce.data.readers.detect import open_source
from luce.data.table import Table
from luce.errors import DataError, ParseError

COLUMNS = {
    "qid": ["b", "a", "b"],
    "label": [1, 0, 2],
    "bm25": [0.5, 1.5, 2.5],
    "clicks": [3, 4, 5],
    "title": ["x", "y", "z"],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_every_kind_of_frame(make) -> None:
    data = luce.from_frame(make(COLUMNS), document_id="title")
    assert data.feature_names == ("bm25", "clicks")
    assert data.X.tolist() == [[0.5, 3], [2.5, 5], [1.5, 4]]
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.document_ids.tolist() == ["x", "z", "y"]
    assert data.y.tolist() == [1, 2, 0]


def test_columns_can_be_named() -> None:
    frame = pl.DataFrame({"q": [7, 7], "grade": [0, 1], "w": [2.0, 2.0], "b": [1.0, 2.0], "a": [True, False]})
    data = luce.from_frame(frame, qid="q", label="grade", query_weight="w", features=["a", "b"])
    assert data.X.tolist() == [[1, 1], [0, 2]]
    assert data.query_weight.tolist() == [2]
    assert data.query_ids.tolist() == [7]
    assert luce.from_frame(frame.drop("grade"), qid="q").y.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"qid": "query"}, "There is no column 'query' for qid"),
        ({}, {"label": "grade"}, "There is no column 'grade' for label"),
        ({}, {"features": ["x"]}, "There is no column 'x' .features."),
        ({}, {"label": "title"}, "The label column 'title' holds text"),
        ({"label": [1, None, 2]}, {}, "Row 1: label is empty"),
        ({"bm25": [1.0, None, 2.0]}, {}, "The feature 'bm25' of row 1 is nan"),
        ({"bm25": [1.0, 2.0, 1e39]}, {}, "The feature 'bm25' of row 2 is 1e\\+39"),
        ({"qid": ["a", None, "b"]}, {}, "Row 1: qid is empty"),
        ({"bm25": [[1.0]] * 3, "clicks": list("xyz")}, {}, "No column is left for features"),
    ],
)
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_mistakes_in_a_frame(make, change, options, message) -> None:
    with pytest.raises(DataError, match=message):
        luce.from_frame(make({**COLUMNS, **change}), **{"allow_nan": False, **options})


def test_nulls_as_nan() -> None:
    frame = pa.table({**COLUMNS, "bm25": [1.0, None, 2.0]})
    assert np.isnan(luce.from_frame(frame).X[2, 0])


def test_what_is_no_frame() -> None:
    with pytest.raises(DataError, match="A list is no table"):
        luce.from_frame([[1.0]])


@pytest.fixture(params=["parquet", "feather", "csv", "csv.gz"])
def table_file(request, tmp_path):
    path = tmp_path / f"data.{request.param}"
    table = pa.table(COLUMNS)
    if request.param == "parquet":
        parquet.write_table(table, path)
    elif request.param == "feather":
        feather.write_feather(table, str(path))
    else:
        text = table.to_pandas().to_csv(index=False).encode()
        path.write_bytes(gzip.compress(text) if request.param.endswith("gz") else text)
    return path


def test_files_of_columns_equal_the_frame(table_file, tmp_path) -> None:
    expected = luce.from_frame(pa.table(COLUMNS), document_id="title")
    streamed = tmp_path / "out.lucedata"
    stream_data(open_source(table_file, document_id="title"), streamed)
    for data in (luce.read(table_file, document_id="title"), read_data(streamed, verify=True)):
        np.testing.assert_array_equal(data.X, expected.X)
        assert data.y.tolist() == expected.y.tolist()
        assert data.query_ids.tolist() == expected.query_ids.tolist()
        assert data.document_ids.tolist() == expected.document_ids.tolist()
        assert data.row_order.tolist() == [0, 2, 1]


def test_many_batches_keep_the_order(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Table, "batch_rows", 7)
    path = tmp_path / "a.parquet"
    values = np.arange(1000.0)
    parquet.write_table(pa.table({"qid": np.arange(1000) % 11, "f": values}), path, row_group_size=100)
    data = luce.read_parquet(path, features=["f"])
    assert data.to_input_order(data.X[:, 0]).tolist() == values.tolist()


def test_csv_columns_that_turn_from_whole_to_broken_numbers(tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("qid,label,f\n" + "1,0,1\n" * 400_000 + "1,0,0.5\n")
    assert luce.read_csv(path).X[-1, 0] == 0.5


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "empty"),
        ("a.csv", b"qid,label,f\n", "no rows"),
        ("a.csv", b"label,f\n1,2\n", "no column 'qid'"),
        ("a.csv", b"qid,label,f\n1,2\n", "line 2: 2 cells, and the header has 3; give the row as many cells."),
        ("a.parquet", b"PAR1 and nothing else", "cannot be read as parquet"),
        ("a.parquet", b"1 qid:1 1:1\n", "cannot be read as parquet"),
        ("a.feather", b"ARROW1 and nothing else", "cannot be read as feather"),
        ("a.csv", b"qid,label,f\n1,2,3\n1,2,x\n", "features|cannot be read"),
    ],
)
def test_bad_files_of_columns(tmp_path, name, content, message) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ParseError, match=message):
        luce.read(path)


def test_read_parquet_wants_parquet(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(ParseError, match="neither a Parquet nor an Arrow file"):
        luce.read_parquet(tmp_path / "a.txt")


def test_columns_whose_names_are_numbers() -> None:
    frame = pd.DataFrame(np.eye(2))
    frame["qid"] = ["a", "a"]
    assert luce.from_frame(frame).feature_names == ("0", "1")
