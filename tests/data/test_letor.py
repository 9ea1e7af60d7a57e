"""The LETOR reader against a plain Python one, on well-formed text of every shape."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import luce
from luce.data.groups import Groups
from luce.data.readers import letor
from luce.errors import LuceError, ParseError

_spec = importlib.util.spec_from_file_location("letor_reference", Path(__file__).with_name("letor_reference.py"))
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)


def read_text(folder: Path, text: str | bytes, **options) -> Groups:
    path = folder / "data.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return luce.read_letor(path, **options)


def check_against_reference(data: Groups, text: str, absent: float = 0.0) -> None:
    expected = reference.parse(text, absent)
    order = np.arange(data.n_rows) if data.row_order is None else data.row_order
    np.testing.assert_array_equal(data.X, expected["X"][order])
    np.testing.assert_array_equal(np.signbit(data.X), np.signbit(expected["X"][order]))
    np.testing.assert_array_equal(data.y, expected["y"][order])
    assert data.qid.tolist() == [expected["qid"][i] for i in order]
    documents = [""] * data.n_rows if data.document_ids is None else data.document_ids.tolist()
    assert documents == [expected["documents"][i] for i in order]


numbers = st.one_of(
    st.decimals(-10, 10, places=6).map(str),
    st.floats(-1e30, 1e30).map(repr),
    st.floats(-100, 100, width=32).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(["1e-3", "1E5", "+.5", "-0", "5.", "-0.0", "1e-50", "00012.500", "1e+2", "16777217", "0.1e-44"]),
)
ids = st.text(st.characters(blacklist_categories=["C", "Z"], blacklist_characters="#"), min_size=1, max_size=8)
spaces = st.sampled_from([" ", "  ", "\t", " \t "])


@st.composite
def letor_lines(draw) -> str:
    features = draw(st.dictionaries(st.integers(1, 12), numbers, max_size=6))
    order = draw(st.permutations(list(features)))
    tokens = [draw(numbers), "qid:" + draw(st.one_of(st.sampled_from(["1", "2", "ä"]), ids))]
    tokens += [f"{i}:{features[i]}" for i in order]
    line = draw(spaces).join(tokens)
    if draw(st.booleans()):
        line += draw(st.sampled_from([" # doc 7", "#docid = GX-1 inc = 1", "#", " # ä é", "# docid=7"]))
    return line + draw(st.sampled_from(["", " ", "\r"]))


@st.composite
def letor_files(draw) -> str:
    rows = draw(
        st.lists(st.one_of(letor_lines(), st.sampled_from(["", "  ", "# a comment", "\r"])), min_size=1, max_size=12)
    )
    rows.insert(draw(st.integers(0, len(rows))), "0 qid:1 3:1.5")
    return "\n".join(rows) + draw(st.sampled_from(["", "\n"]))


@pytest.mark.filterwarnings("ignore:Document .* stands more than once")
@settings(max_examples=200, deadline=None)
@given(text=letor_files(), absent=st.sampled_from(["zero", "nan"]), block=st.sampled_from([1, 40, 1 << 21]))
def test_well_formed_text_reads_as_the_reference_reads_it(tmp_path_factory, text, absent, block) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_FIRST", max(block, 8))
        patch.setattr(letor, "_BLOCK", block)
        data = read_text(tmp_path_factory.getbasetemp(), text, absent=absent)
    check_against_reference(data, text, np.nan if absent == "nan" else 0.0)


@pytest.mark.filterwarnings("ignore:Document .* stands more than once")
@settings(max_examples=300, deadline=None)
@given(
    text=letor_files(),
    changes=st.lists(
        st.tuples(st.integers(0, 10**6), st.binary(max_size=3), st.integers(0, 3)), min_size=1, max_size=4
    ),
)
def test_damaged_text_raises_luce_errors_only(tmp_path_factory, text, changes) -> None:
    raw = text.encode()
    for place, insert, drop in changes:
        place %= len(raw) + 1
        raw = raw[:place] + insert + raw[place + drop :]
    try:
        data = read_text(tmp_path_factory.getbasetemp(), raw)
    except LuceError:
        return
    assert np.isfinite(data.X).all()
    assert np.isfinite(data.y).all()


def random_decimals(rng: np.random.Generator, n: int) -> list[str]:
    texts = []
    for _ in range(n):
        digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, 25))))
        point = int(rng.integers(0, len(digits) + 1))
        exponent = f"{rng.choice(['e', 'E'])}{rng.integers(-45, 12)}" if rng.random() < 0.5 else ""
        texts.append(f"{rng.choice(['', '-', '+'])}{digits[:point]}.{digits[point:]}{exponent}")
    return texts


def midpoints(rng: np.random.Generator, n: int) -> list[str]:
    """Decimals exactly between two float32 numbers, and just beside: the hard cases of rounding."""
    low = rng.standard_normal(n).astype(np.float32)
    middle = (low.astype(np.float64) + np.nextafter(low, np.float32(np.inf)).astype(np.float64)) / 2
    return [f"{m:.40f}{tail}" for m in middle for tail in ("", "1")]


def test_numbers_round_as_python_rounds_them(tmp_path) -> None:
    rng = np.random.default_rng(0)
    texts = random_decimals(rng, 20_000) + midpoints(rng, 500)
    texts += [f"{w}e{q}" for w in (1, 2**53 - 1, 2**53 + 1, 10**19, 2**64 - 1) for q in range(-350, 19)]
    texts += [repr(float(x)) for x in rng.standard_normal(2000) * 10.0 ** rng.integers(-40, 38, 2000)]
    data = read_text(tmp_path, "".join(f"{text} qid:1 1:{text}\n" for text in texts))
    exact = np.array([float(text) for text in texts])
    np.testing.assert_array_equal(data.y, exact)
    np.testing.assert_array_equal(data.X[:, 0], exact.astype(np.float32))


@pytest.mark.parametrize(
    "pack",
    [
        bytes,
        gzip.compress,
        bz2.compress,
        zstandard.compress,
        lambda raw: gzip.compress(raw[:20]) + gzip.compress(raw[20:]),
    ],
)
def test_compression_is_found_by_content(tmp_path, pack) -> None:
    text = "".join(f"{i % 3} qid:{i // 5} 1:{i} 4:{i / 7:.6f} # d{i}\n" for i in range(40_000))
    check_against_reference(read_text(tmp_path, pack(text.encode())), text)


def test_rows_of_a_query_that_are_apart_are_regrouped(tmp_path) -> None:
    data = read_text(tmp_path, "1 qid:b 1:1\n0 qid:a 1:2\n2 qid:b 1:3\n")
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.X[:, 0].tolist() == [1, 3, 2]
    assert data.to_input_order(data.X[:, 0]).tolist() == [1, 2, 3]


def test_a_wide_row_late_in_the_file_widens_the_rows_before_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(letor, "_FIRST", 64)
    monkeypatch.setattr(letor, "_BLOCK", 32)
    text = "".join(f"0 qid:1 {1 + i // 3}:{i}\n" for i in range(300))
    for absent in ("zero", "nan"):
        check_against_reference(read_text(tmp_path, text, absent=absent), text, np.nan if absent == "nan" else 0.0)


def test_one_and_two_threads_read_the_same(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(letor, "_BLOCK", 512)
    text = "".join(f"{i % 3} qid:{i % 7} 1:{i} 2:{i / 7:.6f} # d{i}\n" for i in range(3000))
    results = []
    for threads in (1, 2):
        luce.set_threads(threads)
        try:
            results.append(read_text(tmp_path, text))
        finally:
            luce.set_threads(None)
    np.testing.assert_array_equal(results[0].X, results[1].X)
    assert results[0].document_ids.tolist() == results[1].document_ids.tolist()
    assert results[0].row_order.tolist() == results[1].row_order.tolist()


def test_options(tmp_path) -> None:
    assert read_text(tmp_path, "0 qid:1 1:1\n", n_features=4).X.tolist() == [[1, 0, 0, 0]]
    assert np.isnan(read_text(tmp_path, "0 qid:1 1:NaN 2:-nan\n", allow_nan=True).X).all()
    words = read_text(tmp_path, "0 qid:1 1:NULL 2:? 3:4\n", missing=("NULL", "?")).X
    np.testing.assert_array_equal(words, [[np.nan, np.nan, 4]])
    assert read_text(tmp_path, b"\xef\xbb\xbf0 qid:1 1:1\n").y.tolist() == [0]


def test_one_long_comment_does_not_widen_every_document_id(tmp_path) -> None:
    text = "".join(f"0 qid:1 1:{i} # {'x' * 2_000_000 if i == 3 else i}\n" for i in range(200))
    data = read_text(tmp_path, text)
    assert data.document_ids.dtype == object
    assert data.document_ids[4] == "4"
    assert len(data.document_ids[3]) == 2_000_000


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_side_file_of_query_sizes(tmp_path, suffix) -> None:
    pack = gzip.compress if suffix else bytes
    (tmp_path / "rank.train.gz").write_bytes(gzip.compress(b"1 1:1\n0 1:2\n2 1:3\n"))
    (tmp_path / f"rank.train.query{suffix}").write_bytes(pack(b"1\n2\n"))
    data = luce.read_letor(tmp_path / "rank.train.gz")
    assert data.offsets.tolist() == [0, 1, 3]
    (tmp_path / "sizes").write_text("3\n")
    assert luce.read_letor(tmp_path / "rank.train.gz", query_file=tmp_path / "sizes").n_queries == 1


def test_memory_stays_near_that_of_the_features(tmp_path) -> None:
    import tracemalloc

    rows = "".join(f"{i % 3} qid:{i} " + " ".join(f"{k}:0" for k in range(1, 401)) + "\n" for i in range(1000))
    path = tmp_path / "big.txt"
    path.write_text("".join(rows for _ in range(20)))
    luce.read_letor(path)
    tracemalloc.start()
    data = luce.read_letor(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    batch = letor._BLOCK * 4 * min(luce.numerics.threads.n_threads(), 8)
    assert peak < 1.2 * data.X.nbytes + 3 * batch


ODD_LINES = [
    b"2 qid:a 1:0.5 3:-1e-3 # docid = GX008 inc = 1",
    b"0 qid:a 2:4 1:.1 3:5. #first",
    b"-1.5e0\tqid:b\t1:+16777217 2:0.1000000014901161193847656251\r",
    b"+1 qid:b-\xc3\xa4 1:1e-45 2:1e-46 3:340282346638528859811704183484516925440",
    b"  3 qid:7 # DocId=x y",
    b"1 qid:7 4:7.038531e-26#docid =",
    b"1 qid:7 4:9007199254740993 #   two words  \t",
    b"",
    b"  # only a comment",
    b"0 qid:8 12:0.30000001192092896",
    b"1.7976931348623157e308 qid:8 12:3.402823567797336e38",
]
WRONG_LINES = [
    b"1 qid:9 1:3.4028235677973366e38",
    b"1.7976931348623159e308 qid:9 1:1",
    b"1 qid:9 1:nan",
    b"1 qid:9 1:2 1:2",
    b"1 qid:9 0:2",
    b"1 qid:9 1:1e39",
    b"1e999 qid:9 1:1",
    b"1 qid:9 1: 2",
    b"1 qid:9 1:2:3",
    b"1 qid: 1:2",
    b"x qid:1 1:2",
    b"1 qid:9 1:1_0",
    b"1 qid:9 99:1",
    b"1 qid:9 12345678901:1",
]


def test_odd_lines_are_read_as_the_reference_reads_them(tmp_path):
    text = b"".join(line + b"\n" for line in ODD_LINES)
    check_against_reference(read_text(tmp_path, text), text.decode())


@pytest.mark.parametrize("line", WRONG_LINES)
def test_wrong_lines_are_named(tmp_path, line):
    with pytest.raises(ParseError, match="line 2: "):
        read_text(tmp_path, ODD_LINES[0] + b"\n" + line + b"\n", n_features=50)


def test_mangled_lines_are_read_as_python_reads_them_or_refused(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(300):
        values = rng.normal(size=12) * 10.0 ** rng.integers(-40, 38, 12)
        numbers = [f"{v:.{rng.integers(0, 25)}{rng.choice(list('eg'))}}" for v in values]
        text = "0 qid:1 " + " ".join(f"{i + 1}:{number}" for i, number in enumerate(numbers)) + "\n"
        with np.errstate(over="ignore"):
            expected = np.array([float(number) for number in numbers]).astype(np.float32)
        np.testing.assert_array_equal(read_text(tmp_path, text).X[0], expected)
    read = 0
    for _ in range(1000):
        line = bytearray(ODD_LINES[rng.integers(len(ODD_LINES))] or b"1 qid:1 1:1")
        for _ in range(rng.integers(1, 3)):
            line[rng.integers(len(line))] = rng.choice(list(b" 0159.-+e:q#n\t\rd="))
        try:
            data = read_text(tmp_path, bytes(line) + b"\n")
        except LuceError:
            continue
        check_against_reference(data, bytes(line).decode())
        read += 1
    assert read > 200
