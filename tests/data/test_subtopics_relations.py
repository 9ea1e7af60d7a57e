"""Subtopics and relations: from columns, tables and TREC files to the rows of the data, and with them ever after."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse

import luce
from luce.data.mapped import read_data, write_data
from luce.data.trec import Qrels, TrecRun, join_run
from luce.errors import DataError, ParseError, SettingError


@pytest.fixture
def data() -> luce.Groups:
    """Rows of a query that are apart, so that they move."""
    return luce.from_arrays(np.eye(4), qid=["p", "q", "p", "q"], document_ids=["a", "b", "c", "d"])


def test_a_column_of_a_table(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("qid,label,f,subtopics\nx,1,0.5,1 2\ny,0,0.1,\nx,0,0.2,2\n")
    data = luce.read_csv(path)
    assert data.feature_names == ("f",)
    assert data.subtopics.toarray().tolist() == [[1, 1], [0, 1], [0, 0]]  # rows of x side by side
    luce.write_parquet(data, tmp_path / "d.parquet")
    assert luce.read_parquet(tmp_path / "d.parquet").subtopics.toarray().tolist() == data.subtopics.toarray().tolist()


def test_kept_by_take_and_the_binary_form(tmp_path, data):
    full = luce.with_subtopics(data, {"query": ["p", "q"], "document": ["c", "b"], "subtopic": ["s", "t"]})
    full = luce.with_relations(full, {"link": {"query": ["q"], "source": ["d"], "target": ["b"]}})
    assert full.subtopics.toarray()[:, 0].tolist() == [0, 1, 1, 0]
    assert full.relations["link"].toarray()[3, 2] == 1.0
    write_data(full.take([1]), tmp_path / "part.lucedata")
    assert read_data(tmp_path / "part.lucedata").subtopics.toarray().tolist() == [[1.0], [0.0]]
    write_data(full, tmp_path / "d.lucedata")
    for again in (read_data(tmp_path / "d.lucedata"), full.take([1, 0]).take([1, 0])):
        np.testing.assert_array_equal(again.subtopics.toarray(), full.subtopics.toarray())
        np.testing.assert_array_equal(again.relations["link"].toarray(), full.relations["link"].toarray())


def test_trec_diversity_judgements(tmp_path, data):
    path = tmp_path / "div.qrels"
    path.write_text("p 1 a 1\np 2 a 2\np 2 c 0\nq 7 d 1\n")
    assert luce.with_subtopics(data, path).subtopics.toarray().tolist() == [[1, 1], [0, 0], [0, 0], [1, 0]]
    run = TrecRun(np.array(["p", "p"]), np.array(["a", "c"]), np.array([1.0, 2.0]))
    judged = join_run(run, Qrels(np.array(["p"]), np.array(["a"]), np.array([1.0])))
    found = luce.with_subtopics(judged, path, missing="skip")
    assert luce.evaluate(found.scores, found, "alpha_ndcg@2").means["alpha_ndcg@2"] == pytest.approx(1 / np.log2(3))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("p 1 a\n", "3 columns; 4 were expected"),
        ("p 1 a x\n", "the judgement is 'x'"),
        ("p 1 z 1\n", "document 'z' is not in query 'p'"),
        ("z 1 a 1\n", "query 'z' is not in the data"),
        ("p 1 a 0\n", "no judgement above 0"),
    ],
)
def test_bad_judgements(tmp_path, data, text, error):
    path = tmp_path / "div.qrels"
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(error)):
        luce.with_subtopics(data, path)


def test_subtopics_are_numbered_as_they_come_and_without_white_space(data):
    table = {"query": ["q", "q", "q"], "document": ["d", "b", "b"], "subtopic": [" z", "z ", "a"]}
    found = luce.with_subtopics(data, table)
    assert found.subtopics.toarray()[found.document_ids == "d"].tolist() == [[1.0, 0.0]]
    assert found.subtopics.toarray()[found.document_ids == "b"].tolist() == [[1.0, 1.0]]
    numbers = {"query": ["q", "q"], "document": ["d", "b"], "subtopic": [np.inf, 1.0]}
    assert luce.with_subtopics(data, numbers).subtopics.shape == (4, 2)


def test_subtopics_are_zero_or_one():
    with pytest.raises(DataError, match="0 or 1"):
        luce.from_arrays(np.eye(2), subtopics=[[0.5], [1.0]])
    with pytest.raises(DataError, match="a row a document, 2"):
        luce.from_arrays(np.eye(2), subtopics=[[1.0]])


def test_symmetric_and_directed(tmp_path, data):
    path = tmp_path / "similar.csv"
    path.write_text("query,document_a,document_b,weight\np,a,c,0.25\n")
    found = luce.with_relations(data, {"similar": path, "link": {"query": ["p"], "source": ["a"], "target": ["c"]}})
    assert found.relations["similar"].toarray()[:2, :2].tolist() == [[0, 0.25], [0.25, 0]]
    assert found.relations["link"].toarray()[:2, :2].tolist() == [[0, 1], [0, 0]]
    assert isinstance(found.relations["link"], sparse.csr_array)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ("p,a,z,1", "similar.csv, line 2: document 'z' is not in query 'p' of the data"),
        ("p,a,b,1", "line 2: document 'b' is not in query 'p'"),
        ("p,a,a,1", "line 2: document 'a' is related to itself"),
        ("p,a,c,1\np,c,a,1", "line 3: the edge between 'c' and 'a' is given twice"),
        ("p,a,c,nan", "line 2: weight is 'nan'; it must be a finite number"),
    ],
)
def test_bad_edges(tmp_path, data, rows, error):
    path = tmp_path / "similar.csv"
    path.write_text(f"query,document_a,document_b,weight\n{rows}\n")
    with pytest.raises(ParseError, match=re.escape(error)):
        luce.with_relations(data, {"similar": path})


def test_edges_may_be_skipped(data):
    edges = {"query": ["p", "p"], "document_a": ["a", "a"], "document_b": ["z", "c"]}
    assert luce.with_relations(data, {"s": edges}, missing="skip").relations["s"].nnz == 2
    other = {"query": ["p", "z"], "document_a": ["a", "x"], "document_b": ["c", "y"]}
    assert luce.with_relations(data, {"s": other}, missing="skip_queries").relations["s"].nnz == 2
    with pytest.raises(DataError, match="'z' is not in query 'p'"):
        luce.with_relations(data, {"s": edges}, missing="skip_queries")
    with pytest.raises(SettingError, match="'error', 'skip' or 'skip_queries'"):
        luce.with_relations(data, {"s": edges}, missing="drop")
    with pytest.raises(DataError, match="no document ids"):
        luce.with_relations(luce.from_arrays(np.eye(2)), {"s": edges})
