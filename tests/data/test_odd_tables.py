"""Tables of valid but odd types end in a result or in an error of luce, at every door."""

from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pytest

import luce
from luce.aggregate import leaderboard
from luce.data.table import Table
from luce.errors import DataError, LuceWarning, ParseError
from tests.data.odd_tables import DOORS, foreign

COUNT = int(os.environ.get("LUCE_ODD_TABLES", 20 * len(DOORS)))


def test_no_foreign_error_at_any_door(tmp_path):
    fared, found = foreign(0, COUNT, tmp_path)
    assert not found, "\n".join(found)
    assert fared["read"] > COUNT / 20
    assert fared["refused"] > COUNT / 20


BATTLES = {"model_a": ["x", "y", "z"], "model_b": ["y", "z", "x"], "verdict": ["a", "b", "tie"]}


def test_naming_one_column_leaves_the_usual_names_of_the_others():
    named = leaderboard(BATTLES, outcome="verdict")
    assert (
        named.strength.tolist() == leaderboard(BATTLES, a="model_a", b="model_b", outcome="verdict").strength.tolist()
    )
    left = {"left": BATTLES["model_a"], "model_b": BATTLES["model_b"], "winner": BATTLES["verdict"]}
    assert leaderboard(left, a="left").strength.tolist() == named.strength.tolist()
    with pytest.raises(DataError, match="no column 'b' for the second side"):
        leaderboard({"left": ["x"], "right": ["y"], "outcome": ["a"]}, a="left")


def test_a_click_log_has_usual_names_and_no_column_twice(tmp_path):
    log = {"impression": [1, 1], "qid": ["q", "q"], "docid": ["a", "b"], "clicked": [1, 0]}
    assert luce.clicks.read(log).document_ids.tolist() == ["a", "b"]
    with pytest.raises(DataError, match=r"no column 'document' or 'document_id' or .* for the document"):
        luce.clicks.read({name: column for name, column in log.items() if name != "docid"})
    (tmp_path / "log.csv").write_text("session,query,document,clicked,clicked\n1,q,a,1,0\n")
    with pytest.raises(ParseError, match="two columns are named 'clicked'"):
        luce.clicks.read(tmp_path / "log.csv")


@pytest.mark.parametrize("piece", [40, 200, 1 << 20])
def test_pieces_of_any_size_give_the_same_rows(tmp_path, monkeypatch, piece):
    monkeypatch.setattr("luce.data.table_file._PIECE", piece)
    monkeypatch.setattr(Table, "piece_rows", 5)
    ids = [*range(20), *(f"x, {i}" for i in range(10)), 1.5, 2**70, 3.0, *range(7)]
    rows = [{"id": one, "n": i, "more": {"deep": [i]}} for i, one in enumerate(ids)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    (tmp_path / "t.csv").write_text("id,n\n" + "".join(f'"{row["id"]}",{row["n"]}\n' for row in rows))
    for name in ("t.jsonl", "t.csv"):
        names, codes, numbers = {}, [], []
        for part in Table.open(tmp_path / name).pieces(["id", "n"]):
            assert part.first == len(numbers)
            codes += part["id"].numbered(names).tolist()
            numbers += part["n"].number().tolist()
        assert numbers == list(range(len(ids)))
        assert [list(names)[code] for code in codes] == [
            str(one).removesuffix(".0" if name == "t.jsonl" else "") for one in ids
        ]
    table = Table.open(tmp_path / "t.jsonl")
    assert str(table.error(3, "wrong.")).endswith("t.jsonl, line 7: wrong.")
    assert str(Table.open(tmp_path / "t.csv").error(3, "wrong.")).endswith("t.csv, line 5: wrong.")


def test_columns_that_look_alike_are_told():
    with pytest.warns(LuceWarning, match="'clicked' is used and 'Clicked', which looks the same, is not"):
        Table.open({"clicked": [1], "Clicked": [0]}).read(["clicked"])
    with pytest.raises(DataError, match=r"no column 'clicked' for the clicks; its columns are Clicked\. 'Clicked' is"):
        Table.open({"Clicked": [0]}).name("clicked", role="clicks")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (pa.array([1, 2**53 + 1]), "9007199254740993"),
        (pa.array([1.0, 12345678901234567.0]), "12345678901234568"),
        (pa.array([1.0, 12.0]), "12"),
        (pa.array([1, 12], pa.decimal128(5, 2)), "12"),
        (pa.array([0, 1_700_000_000_000_000_001], pa.timestamp("ns")), "2023-11-14 22:13:20.000000001"),
        (pa.array(["y", "x"]).dictionary_encode(), "x"),
        (pa.array([np.uint64(3), np.uint64(2**64 - 1)]), "18446744073709551615"),
    ],
)
def test_ids_keep_all_their_digits(values, said):
    column = Table.open(pa.table({"id": values})).read()["id"]
    assert column.text()[1] == said
    assert column.codes()[1][1] == said


def test_wide_objects_are_refused_before_they_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("luce.data.text_files.MOST_BYTES", 1 << 20)
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"a{i}": [{{}}]}}\n' for i in range(3000)))
    with pytest.raises(ParseError, match="unpack to more than"):
        Table.open(path).read()
    with pytest.raises(DataError, match=r"ballots x .* items need"):
        _many_ballots()


def _many_ballots() -> None:
    from luce.aggregate import Ballots

    n = 2_000_000
    Ballots.from_frame({"ballot": np.arange(n), "item": np.arange(n), "rank": np.ones(n)}, rank="rank")
