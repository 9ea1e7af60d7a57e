from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import luce
from luce.data.trec import Qrels, TrecRun, join_run
from luce.errors import DataError, OutputError, ParseError

RUN = "2 Q0 x 1 0.5 tag\n1 Q0 b 2 1.5 tag\n1 Q0 a 1 2.5 tag\n"
QRELS = "1 0 a 1\n1 0 c 2\n2 0 x 0\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_reading(tmp_path: Path) -> None:
    run = luce.read_run(written(tmp_path, "run", RUN))
    assert run.qid.tolist() == ["2", "1", "1"]
    assert run.docno.tolist() == ["x", "b", "a"]
    assert run.scores.tolist() == [0.5, 1.5, 2.5]
    assert run.tag == "tag"
    qrels = luce.read_qrels(written(tmp_path, "qrels", "\ufeff" + QRELS.replace("\n", "\r\n\r\n")))
    assert qrels.qid.tolist() == ["1", "1", "2"]
    assert qrels.grades.tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    run = luce.read_run(written(tmp_path, "first", RUN))
    luce.write_run(tmp_path / name, run)
    again = luce.read_run(tmp_path / name)
    raw = (tmp_path / name).read_bytes()
    text = (gzip.decompress(raw) if name.endswith("gz") else raw).decode()
    assert text == "2 Q0 x 1 0.5 tag\n1 Q0 a 1 2.5 tag\n1 Q0 b 2 1.5 tag\n"
    assert sorted(zip(again.qid, again.docno, again.scores, strict=True)) == sorted(
        zip(run.qid, run.docno, run.scores, strict=True)
    )


@pytest.mark.parametrize("name", ["qrels.txt", "qrels.txt.gz"])
def test_qrels_round_trip(tmp_path: Path, name: str) -> None:
    qrels = Qrels(np.array(["1", "1"]), np.array(["a", "b"]), np.array([2.0, 0.5]))
    luce.write_qrels(tmp_path / name, qrels)
    again = luce.read_qrels(tmp_path / name)
    assert (again.qid.tolist(), again.docno.tolist(), again.grades.tolist()) == (["1", "1"], ["a", "b"], [2.0, 0.5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 Q0 a 1 2.5 t\n1 Q0 b 2\n", r"run, line 2: 4 columns; 6 were expected"),
        ("\n1 Q0 a 1 high t\n", r"line 2: the score is 'high'; it must be a finite number"),
        ("1 Q0 a 1 nan t\n", r"line 1: the score is 'nan'"),
        ("1 Q0 a 1 inf t\n", r"line 1: the score is 'inf'"),
        ("1 Q0 a 1 2 t\n1 Q0 a 2 1 t\n", r"line 2: document 'a' of query '1' occurs twice"),
        ("", "the file is empty"),
        (" \n\n", "the file is empty"),
        ("1 Q0 a\0 1 2 t\n", "line 1: this is a binary file"),
    ],
)
def test_bad_runs(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        luce.read_run(written(tmp_path, "run", text))


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        luce.read_qrels(tmp_path / "absent")
    with pytest.raises(DataError, match="is a folder"):
        luce.read_qrels(tmp_path)
    (tmp_path / "latin").write_bytes(b"1 0 a 1\n1 0 caf\xe9 1\n")
    with pytest.raises(ParseError, match="not UTF-8"):
        luce.read_qrels(tmp_path / "latin")
    packed = gzip.compress(QRELS.encode() * 200)
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ParseError, match="end too early"):
        luce.read_qrels(tmp_path / "cut.gz")
    with pytest.raises(ParseError, match="line 1: the grade is 'good'"):
        luce.read_qrels(written(tmp_path, "grades", "1 0 a good\n"))


def test_bad_writing(tmp_path: Path) -> None:
    run = TrecRun(np.array(["1"]), np.array(["two words"]), np.array([1.0]))
    with pytest.raises(DataError, match="'two words' is empty or has a blank"):
        luce.write_run(tmp_path / "run", run)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OutputError, match="does not exist"):
        luce.write_run(tmp_path / "absent" / "run", run)
    with pytest.raises(DataError, match="Row 0 of the run has the value nan"):
        TrecRun(np.array(["1"]), np.array(["a"]), np.array([np.nan]))
    with pytest.raises(DataError, match="must have one length"):
        Qrels(np.array(["1"]), np.array(["a", "b"]), np.array([1.0]))


def test_join_counts_judged_documents_that_the_run_lacks() -> None:
    run = TrecRun(np.array(["1", "1", "3"]), np.array(["a", "b", "z"]), np.array([1.0, 2.0, 1.0]))
    qrels = Qrels(np.array(["1", "1", "2"]), np.array(["a", "c", "x"]), np.array([1.0, 2.0, 1.0]))
    judged = join_run(run, qrels)
    assert judged.query_ids.tolist() == ["1", "2"]
    assert judged.unjudged_queries == ("3",)
    result = luce.evaluate(judged.scores, judged, ["map", "recall", "mrr", "ndcg"])
    assert result.values["map"].tolist() == [(1 / 2) / 2, 0.0]
    assert result.values["recall"].tolist() == [1 / 2, 0.0]
    assert result.values["mrr"].tolist() == [1 / 2, 0.0]
    ideal = 3 + 1 / np.log2(3)
    assert result.values["ndcg"][0] == pytest.approx((1 / np.log2(3)) / ideal)
    without = join_run(run, qrels, unjudged="skip", missing="skip")
    assert without.query_ids.tolist() == ["1"]
    assert luce.evaluate(without.scores, without, "mrr").means["mrr"] == 1.0


def test_join_without_common_queries() -> None:
    run = TrecRun(np.array(["q1"]), np.array(["a"]), np.array([1.0]))
    with pytest.raises(DataError, match="None of the 1 queries of the run is judged"):
        join_run(run, Qrels(np.array(["1"]), np.array(["a"]), np.array([1.0])))
    with pytest.raises(DataError, match="no query in common"):
        join_run(run, Qrels(np.array(["1"]), np.array(["a"]), np.array([1.0])), missing="skip")


def test_groups_as_run_and_judgements() -> None:
    data = luce.from_arrays(np.zeros((3, 1)), [1, 0, 2], qid=[7, 8, 7])
    qrels, run = Qrels.from_groups(data), TrecRun.from_scores(data, np.array([0.1, 0.2, 0.3]))
    assert qrels.qid.tolist() == run.qid.tolist() == ["7", "7", "8"]
    assert qrels.docno.tolist() == run.docno.tolist() == ["d1", "d3", "d2"]
    joined = join_run(run, qrels)
    direct = luce.evaluate(np.array([0.1, 0.2, 0.3]), data, ["ndcg", "map"], order="data").means
    assert luce.evaluate(joined.scores, joined, ["ndcg", "map"]).means == direct
