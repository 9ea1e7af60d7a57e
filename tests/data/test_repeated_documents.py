"""A document twice in a query: named where data are read, refused where documents are known by their names."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import luce
from luce.data.trec import Qrels, TrecRun, join_run, write_predictions
from luce.errors import DataError, LuceWarning

SAID = r"Document 'b' stands more than once in query 'y' \(and 1 more are repeated\)"
DOCUMENTS = ["a", "b", "c", "a", "b", "b", "c", "c"]
QUERIES = ["x", "x", "x", "y", "y", "y", "y", "y"]


@pytest.fixture
def frame():
    return pd.DataFrame({"qid": QUERIES, "doc": DOCUMENTS, "label": [0, 1, 2, 0, 1, 2, 0, 1], "f": np.arange(8.0) ** 2})


def test_every_reader_names_it(frame, tmp_path):
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    lines = [f"{y} qid:{q} 1:{f} # {d}" for q, d, y, f in frame.itertuples(index=False)]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for read in (
        lambda: luce.read(tmp_path / "t.parquet", doc="doc"),
        lambda: luce.read(tmp_path / "t.csv", doc="doc"),
        lambda: luce.read(tmp_path / "t.txt"),
        lambda: luce.from_frame(frame, doc="doc"),
        lambda: luce.from_arrays(np.eye(8), qid=QUERIES, document_ids=DOCUMENTS),
    ):
        with pytest.warns(LuceWarning, match=SAID):
            read()


def test_documents_without_a_name_and_parts_of_data_say_nothing(tmp_path):
    (tmp_path / "t.txt").write_text("1 qid:x 1:1 # a\n0 qid:x 1:2\n0 qid:x 1:3\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert luce.read(tmp_path / "t.txt").document_ids.tolist() == ["a", "", ""]
    with pytest.warns(LuceWarning, match=SAID):
        data = luce.from_arrays(np.eye(8), qid=QUERIES, document_ids=DOCUMENTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.take([1])


@pytest.mark.filterwarnings("ignore:Document 'b' stands")
def test_a_run_has_a_document_once(tmp_path):
    data = luce.from_arrays(np.eye(8), qid=QUERIES, document_ids=DOCUMENTS)
    with pytest.raises(DataError, match="Document 'b' stands twice in query 'y'; a run and judgements name"):
        write_predictions(tmp_path / "run.txt", data, np.arange(8.0), "trec")
    assert not (tmp_path / "run.txt").exists()
    write_predictions(tmp_path / "scores.txt", data, np.arange(8.0), "scores")
    run = TrecRun(np.array(["y"]), np.array(["b"]), np.array([1.0]))
    with pytest.raises(DataError, match="stands twice"):
        join_run(run, Qrels.from_groups(data))
