from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import luce
from luce.data.groups import Groups
from luce.data.trec import read_scores, write_predictions
from luce.errors import DataError, ParseError, UnknownNameError

SCORES = np.array([0.25, 1 / 3, 2.0])


@pytest.fixture
def data() -> Groups:
    """Rows 0 and 2 of the input are query `a`, row 1 is `b`: the rows were regrouped."""
    return luce.from_arrays(np.zeros((3, 1)), [1, 0, 2], qid=["a", "b", "a"], document_ids=["x", "y", "z"])


def text(data: Groups, form: str) -> str:
    stream = io.StringIO()
    write_predictions(stream, data, SCORES, form)
    return stream.getvalue()


def test_scores_are_in_the_row_order_of_the_input(data: Groups) -> None:
    assert text(data, "scores") == f"0.25\n2.0\n{1 / 3!r}\n"


def test_csv_has_ranks(data: Groups) -> None:
    assert text(data, "CSV") == f"qid,docid,score,rank\na,x,0.25,2\nb,y,2.0,1\na,z,{1 / 3!r},1\n"


def test_a_further_column_replaces_none(data: Groups) -> None:
    stream = io.StringIO()
    write_predictions(stream, data, SCORES, "csv", extra={"score": np.array([7.0, 8.0, 9.0])})
    assert stream.getvalue().splitlines()[:2] == ["qid,docid,score,rank,score", "a,x,0.25,2,7.0"]


def test_trec_is_a_run(data: Groups) -> None:
    assert text(data, "trec") == f"a Q0 z 1 {1 / 3!r} luce\na Q0 x 2 0.25 luce\nb Q0 y 1 2.0 luce\n"


@pytest.mark.parametrize("name", ["scores.txt", "scores.txt.gz"])
def test_scores_come_back_aligned_with_the_data(tmp_path: Path, data: Groups, name: str) -> None:
    write_predictions(tmp_path / name, data, SCORES)
    np.testing.assert_array_equal(read_scores(tmp_path / name, data), SCORES)


def test_bad_input(tmp_path: Path, data: Groups) -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown format 'xml'.*csv, scores, trec"):
        write_predictions(tmp_path / "x", data, SCORES, "xml")
    with pytest.raises(DataError, match="3 documents, and the scores have shape"):
        write_predictions(tmp_path / "x", data, SCORES[:2])
    (tmp_path / "short").write_text("1\n2\n")
    with pytest.raises(DataError, match="short: there are 2 scores, and the data have 3 documents"):
        read_scores(tmp_path / "short", data)
    (tmp_path / "words").write_text("1\nbest\n3\n")
    with pytest.raises(ParseError, match="words, line 2: the score is 'best'"):
        read_scores(tmp_path / "words", data)
    (tmp_path / "words").write_text("1\ntrue\n3\n")
    with pytest.raises(ParseError, match="words, line 2: the score is 'true'"):
        read_scores(tmp_path / "words", data)
    assert not (tmp_path / "x").exists()
