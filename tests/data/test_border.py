"""Files that attack: every reader reads them or refuses them in one sentence with the file and the place."""

from __future__ import annotations

import gzip
import json
import zlib

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import luce
from luce.aggregate import leaderboard, read_ballots
from luce.data.table import Table
from luce.data.table_file import TableFile
from luce.data.text_files import MOST_BYTES, numbered_lines, open_bytes
from luce.errors import DataError, ParseError, SettingError
from tests.fuzz.readers import PACKED, READERS, ending


@pytest.fixture(params=READERS)
def kind(request):
    return request.param


@pytest.mark.parametrize("how", PACKED)
def test_packed_files_are_read_by_their_first_bytes(tmp_path, kind, how):
    read, text = READERS[kind]
    for name in (f"x.{ending(kind)}.{how}", f"x.{ending(kind)}"):
        (tmp_path / name).write_bytes(PACKED[how](text.encode()))
        read(tmp_path / name)
    (tmp_path / "cut").write_bytes(PACKED[how](text.encode())[:-9])
    with pytest.raises(ParseError, match=r"cut: the \w+ data (end too early|are damaged)"):
        read(tmp_path / "cut")


def test_no_other_bytes_than_utf8_and_no_nul(tmp_path, kind):
    read, text = READERS[kind]
    path = tmp_path / f"x.{ending(kind)}"
    last = text.rstrip("\n").rsplit("\n", 1)
    line = text.count("\n")
    for bad, said in ((b"\xe9", "not UTF-8 text"), (b"\0", "binary file"), (b"\xed\xa0\x80", "not UTF-8 text")):
        path.write_bytes("\n".join(last).encode() + bad + b"\n")
        with pytest.raises(ParseError, match=rf"x\.\w+, line {line}: this is .*{said.removeprefix('not ')}"):
            read(path)


def test_a_missing_file_and_a_folder_have_one_wording(tmp_path, kind):
    with pytest.raises(DataError, match=r"none\.csv does not exist; check the name\.$"):
        READERS[kind][0](tmp_path / "none.csv")
    with pytest.raises(DataError, match="is a folder; give the name of a file in it"):
        READERS[kind][0](tmp_path)


@pytest.mark.parametrize("kind", [kind for kind, (_, text) in READERS.items() if "," in text.split("\n")[0]])
def test_two_columns_of_one_name_are_refused(tmp_path, kind):
    read, text = READERS[kind]
    if kind == "log" or text.startswith("{"):
        return
    header, rest = text.split("\n", 1)
    first = header.split(",")[0]
    (tmp_path / "x.csv").write_text(f"{header},{first}\n" + "".join(f"{row},1\n" for row in rest.split("\n")[:-1]))
    with pytest.raises(ParseError, match=f"two columns are named '{first}'"):
        read(tmp_path / "x.csv")


def test_queries_that_differ_stay_apart(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("1 qid:café 1:1\n0 qid:cafè 1:2\n".encode())
    assert luce.read_letor(path).query_ids.tolist() == ["café", "cafè"]
    with pytest.raises(DataError, match="NUL"):
        luce.from_arrays(np.eye(2), qid=["a", "a\0"])
    with pytest.raises(DataError, match="NUL"):
        luce.from_frame(pa.table({"qid": ["a", "a\0"], "f": [1.0, 2.0]}))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.json", "[" * 100_000, "nested too deeply"),
        ("x.jsonl", '{"a": ' + "[" * 100_000 + "\n", "line 1: .*nested too deeply"),
        ("x.jsonl", '{"a": "x", "b": "y", "outcome": ' + str(2**70) + "}\n", "outcome"),
        ("x.jsonl", '{"a": "\\ud800", "b": "y", "outcome": "a"}\n', "'a'"),
        ("x.jsonl", '{"a": "x", "a": "y"}\n', "line 1: .*'a' stands twice"),
        ("x.json", '[{"a": 1},\n {"a" 2}]', "line 2: this is no JSON"),
        ("x.json", "7", "list of objects"),
        ("x.jsonl", "[1]\n", "line 1: this is no JSON object"),
        ("x.csv", "a,b,outcome\nx,y\n", "line 2: 2 cells, and the header has 3"),
        ("x.csv", 'a,b,outcome\n"x\ny",z,a\n\nu,v\n', "line 5: 2 cells, and the header has 3"),
        ("x.parquet", "PAR1" + "x" * 100 + "PAR1", "cannot be read as parquet"),
        ("x.arrow", "ARROW1" + "x" * 100, "cannot be read as feather"),
    ],
)
def test_damaged_battles(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(ParseError, match=said):
        leaderboard(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# NUMBER VOTERS: ²\n# ALTERNATIVE NAME 1: a\n1: 1\n", "promises ² voters"),
        ("# NUMBER VOTERS: " + "9" * 5000 + "\n# ALTERNATIVE NAME 1: a\n1: 1\n", "promises"),
        ("# ALTERNATIVE NAME ²: a\n1: ²\n", "no '# ALTERNATIVE NAME' lines"),
        ("# ALTERNATIVE NAME 1: a\n" + "9" * 5000 + ": 1\n", "line 2: the count is '9999"),
        ("# ALTERNATIVE NAME 1: a\n²: 1\n", "line 2: the count is '²'"),
        ("# ALTERNATIVE NAME 1: a\n1_0: 1\n", "line 2: the count is '1_0'"),
    ],
)
def test_damaged_preflib(tmp_path, text, said):
    (tmp_path / "x.soc").write_text(text)
    with pytest.raises(ParseError, match=said):
        read_ballots(tmp_path / "x.soc")


@pytest.mark.parametrize("cell", ["--1", "1_000", "²", "1" * 5000, "inf", "x"])
def test_damaged_numbers_name_their_line(tmp_path, cell):
    (tmp_path / "x.csv").write_text(f"ballot,item,rank\n1,a,1\n\n1,b,{cell}\n")
    with pytest.raises(ParseError, match=r"x\.csv, line 4: rank is "):
        read_ballots(tmp_path / "x.csv")
    table = Table.open({"position": ["1", cell]}).choose([["position"]])
    with pytest.raises(DataError, match=r"Row 1: position is "):
        table["position"].number()


@pytest.mark.parametrize("write", [parquet.write_table, feather.write_feather])
def test_text_in_binary_tables_is_checked(tmp_path, write):
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"caf\xe9"]).buffers())
    write(pa.table({"a": bad, "b": ["y"], "outcome": ["a"]}), tmp_path / "x")
    with pytest.raises(ParseError, match="UTF8"):
        leaderboard(tmp_path / "x")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends(tmp_path, mark, end):
    rows = ["a|name|b".replace("|", mark), f'x{mark}"one{mark}two"{mark}3', f"y{mark}z{mark}4"]
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbf" + end.join(rows).encode())
    assert Table.open(tmp_path / "x.csv").read().data.to_pylist() == [
        {"a": "x", "name": f"one{mark}two", "b": 3},
        {"a": "y", "name": "z", "b": 4},
    ]


def test_all_forms_of_a_table_say_the_same(tmp_path):
    table = pa.table({"item": ["007", "é"], "rank": [1, 2], "weight": [0.5, 2.0]})
    rows = table.to_pylist()
    parquet.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    (tmp_path / "t.csv").write_text("item,rank,weight\n007,1,0.5\né,2,2.0\n")
    (tmp_path / "t.tsv").write_text("item\trank\tweight\n007\t1\t0.5\né\t2\t2.0\n")
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "t.json").write_text(json.dumps(rows))
    for name in ("t.parquet", "t.feather", "t.csv", "t.tsv", "t.jsonl", "t.json"):
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        for path in (tmp_path / name, packed):
            file = TableFile(path)
            assert file.names == ["item", "rank", "weight"], path
            assert file.read(text=["item"]).data.to_pylist() == rows, path
            assert [row for batch in file.batches(["rank"]) for row in batch.to_pylist()] == [{"rank": 1}, {"rank": 2}]


@pytest.mark.slow
def test_unpacking_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("luce.data.text_files.MOST_BYTES", 1 << 20)
    zeros = b"1 qid:1 1:1\n" * (1 << 18)
    for how, pack in {**PACKED, "gz": lambda text: zlib.compress(text, 9, wbits=31)}.items():
        path = tmp_path / f"x.{how}"
        path.write_bytes(pack(zeros))
        with pytest.raises(ParseError, match=r"unpack to more than .* LUCE_MAX_EXPANSION"):
            luce.read_letor(path)
        with monkeypatch.context() as patch:
            patch.setenv("LUCE_MAX_EXPANSION", "100000")
            assert luce.read_letor(path).n_rows == 1 << 18
            patch.setenv("LUCE_MAX_EXPANSION", "many")
            with pytest.raises(SettingError, match="LUCE_MAX_EXPANSION is 'many'"):
                luce.read_letor(path)
        from typer.testing import CliRunner

        from luce.cli.app import app

        with monkeypatch.context() as patch:
            patch.setenv("LUCE_MAX_EXPANSION", "")  # taken back afterwards
            assert isinstance(CliRunner().invoke(app, ["info", str(path)]).exception, ParseError)
            assert CliRunner().invoke(app, ["--max-expansion", "100000", "info", str(path)]).exit_code == 0
            refused = CliRunner().invoke(app, ["--max-expansion", "0", "info", str(path)])
            assert isinstance(refused.exception, SettingError)
    table = pa.table({"qid": np.zeros(1 << 20, np.int8), "f": np.zeros(1 << 20, np.int8)})
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ParseError, match="LUCE_MAX_EXPANSION"):
        luce.read(tmp_path / "x.parquet")


@pytest.mark.parametrize("how", PACKED)
def test_unpacking_says_how_far_it_is(tmp_path, how, caplog):
    path = tmp_path / "x"
    path.write_bytes(PACKED[how](bytes(MOST_BYTES // 2 + 1)))
    with caplog.at_level("INFO", "luce.unpacking"), open_bytes(path) as stream:
        while stream.read(1 << 22):
            pass
    assert [record.getMessage() for record in caplog.records] == ["x: 134 MB unpacked"]


@pytest.mark.slow
@pytest.mark.parametrize("how", PACKED)
def test_a_piece_of_a_bomb_is_small(tmp_path, how):
    """What one read gives does not depend on how far a few bytes expand."""
    path = tmp_path / "x"
    path.write_bytes(PACKED[how](bytes(MOST_BYTES // 4)))
    with open_bytes(path) as stream:
        sizes = [len(stream.read(1000)) for _ in range(2)]
    assert max(sizes) <= 40 << 20


def test_lines_of_every_ending(tmp_path):
    (tmp_path / "x").write_bytes(b"a\rb\r\n\nc")
    assert list(numbered_lines(tmp_path / "x")) == [(1, "a"), (2, "b"), (4, "c")]
