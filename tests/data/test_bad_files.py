"""Every mistake gives one sentence with the file, the line and what was expected."""

from __future__ import annotations

import bz2
import gzip

import pytest
import zstandard

import luce
from luce.errors import DataError, LuceError, OutputError, ParseError, SettingError

GOOD = b"0 qid:1 1:1 2:2\n\n# comment\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"abc qid:1 1:1", "the label 'abc' is not a number"),
        (b"nan qid:1 1:1", "the label 'nan' is not finite"),
        (b"-inf qid:1 1:1", "the label '-inf' is not finite"),
        (b"1e999 qid:1 1:1", "the label '1e999' is not finite"),
        (b"1 1:1", "no `qid:`"),
        (b"1 qid: 1:1", "`qid:` without a query"),
        (b"1 qid:1 qid:2 1:1", "a second query id"),
        (b"1 qid:1 0:1", "'0:1' has the index 0"),
        (b"1 qid:1 3:1 3:2", "the feature of '3:2' occurs twice"),
        (b"1 qid:1 2:1 1:0 2:2", "the feature of '2:2' occurs twice"),
        (b"1 qid:1 x:1", "'x:1' is not a feature"),
        (b"1 qid:1 -1:1", "'-1:1' is not a feature"),
        (b"1 qid:1 7", "'7' is not a feature"),
        (b"1 qid:1 10000001:1", "too large; expected at most 10000000"),
        (b"1 qid:1 99999999999999999999999:1", "too large; expected at most 10000000"),
        (b"1 qid:1 18446744073709551617:1", "too large; expected at most 10000000"),  # 1 modulo 2^64
        (b"1 qid:1 1:", "the value in '1:' is not a number"),
        (b"1 qid:1 1:1.2.3", "is not a number"),
        (b"1 qid:1 1:1e", "is not a number"),
        (b"1 qid:1 1:nan", "is NaN"),
        (b"1 qid:1 1:inf", "is infinite"),
        (b"1 qid:1 1:-Infinity", "is infinite"),
        (b"1 qid:1 1:1e39", "is infinite or beyond float32"),
        (b"1 qid:1 1:NULL", "is not a number"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(GOOD + line + b"\n" + GOOD)
    with pytest.raises(ParseError) as caught:
        luce.read_letor(path)
    text = str(caught.value)
    assert message in text
    assert text.startswith(f"{path}, line 4: ")
    assert "\n" not in text


def test_the_line_is_right_in_a_long_file(tmp_path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"0 qid:1 1:1 2:2\n" * 700_000 + b"oops\n")
    with pytest.raises(ParseError, match="line 700001: the label 'oops'"):
        luce.read_letor(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\n# only a comment\n", "empty"),
        (b"\x00\x01\x02PK" * 50, "binary"),
        ("1 qid:1 1:1\n".encode("utf-16"), "UTF-16 text; say so"),
        (b"1 qid:1\n", "no line has a feature"),
        (gzip.compress(GOOD * 1000)[:-9], "truncated"),
        (bz2.compress(GOOD * 1000)[:-5], "truncated"),
        (zstandard.compress(GOOD * 1000)[:-5], "truncated"),
        (gzip.compress(GOOD * 1000)[:-8] + b"x" * 8, "damaged"),
        (zstandard.compress(GOOD * 1000)[:8] + b"x" * 40, "damaged"),
    ],
    ids=[
        "empty",
        "comment",
        "UTF-16 text; say so",
        "utf-16",
        "no features",
        "gzip",
        "bzip2",
        "zstd",
        "gzip check",
        "zstd body",
    ],
)
def test_a_bad_file_is_named(tmp_path, content, message) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(ParseError, match=message) as caught:
        luce.read(path)
    assert str(path) in str(caught.value)


def test_files_that_are_not_there(tmp_path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        luce.read(tmp_path / "absent.txt")
    (tmp_path / "packed.txt.bz2").touch()
    with pytest.raises(DataError, match=r"packed\.txt does not exist; there is packed\.txt\.bz2, give that"):
        luce.read(tmp_path / "packed.txt")
    (tmp_path / "packed.txt.bz2").unlink()
    (tmp_path / "train.txt").write_bytes(GOOD)
    with pytest.raises(DataError, match=r"is a folder; give a file in it, such as .*train\.txt"):
        luce.read(tmp_path)
    with pytest.raises(DataError, match="is a folder"):
        luce.read_letor(tmp_path)
    with pytest.raises(DataError, match="pipe or device"):
        luce.read("/dev/null")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [(b"1\n1\n", "sum to 2; .* has 3 documents"), (b"1\nx\n", "line 2: the query size 'x'"), (b"0\n3\n", "line 1")],
)
def test_query_sizes_that_do_not_fit(tmp_path, sizes, message) -> None:
    (tmp_path / "rank").write_bytes(b"1 1:1\n" * 3)
    (tmp_path / "rank.query").write_bytes(sizes)
    with pytest.raises(ParseError, match=message):
        luce.read_letor(tmp_path / "rank")


def test_query_ids_and_query_sizes_exclude_each_other(tmp_path) -> None:
    (tmp_path / "a.txt").write_bytes(GOOD)
    (tmp_path / "sizes").write_bytes(b"1\n")
    with pytest.raises(ParseError, match="although a file of query sizes"):
        luce.read_letor(tmp_path / "a.txt", query_file=tmp_path / "sizes")


def test_a_matrix_beyond_memory_is_refused(tmp_path) -> None:
    (tmp_path / "a.txt").write_bytes(b"0 qid:1 1:1\n" * 100_000 + b"0 qid:1 10000000:1\n")
    with pytest.raises(ParseError, match="GB of memory"):
        luce.read_letor(tmp_path / "a.txt")


def test_settings_are_checked(tmp_path) -> None:
    (tmp_path / "a.txt").write_bytes(GOOD)
    for options in ({"absent": "one"}, {"n_features": 0}, {"missing": "NULL"}, {"missing": [""]}, {"verify": True}):
        with pytest.raises(SettingError, match=next(iter(options))):
            luce.read(tmp_path / "a.txt", **options)
    with pytest.raises(ParseError, match="line 1: the index in '2:2' is too large; expected at most 1"):
        luce.read(tmp_path / "a.txt", n_features=1)


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz", "out.parquet", "out.lucedata"])
def test_outputs_that_cannot_be_written(tmp_path, name) -> None:
    from luce.data.writers import write

    data = luce.from_arrays([[1.0]] * 20_000, qid=["a"] * 20_000)
    with pytest.raises(OutputError, match="does not exist"):
        write(data, tmp_path / "absent" / name)
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(OutputError, match="disk is full"):
        write(data, tmp_path / name)


def test_an_unknown_ending_is_refused(tmp_path) -> None:
    from luce.data.writers import write

    with pytest.raises(SettingError, match=r"use \.lucedata, \.parquet"):
        write(luce.from_arrays([[1.0]]), tmp_path / "out.xyz")
    assert list(tmp_path.iterdir()) == []
    assert issubclass(SettingError, LuceError)


def test_a_small_text_with_a_far_feature_takes_no_memory(tmp_path):
    path = tmp_path / "wide.txt"
    path.write_text("1 qid:1 10000000:1\n" * 400)
    with pytest.raises(ParseError, match=r"400 lines of 7,600 bytes name feature 10,000,000.* needs 14.9 GB"):
        luce.read(path)
    path.write_text("1 qid:1 100000:1\n" * 400)  # a matrix that is small enough, whatever it holds
    assert luce.read(path).n_features == 100_000
