from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pytest

from luce.aggregate import Ballots, read_ballots, read_runs, write_ballots
from luce.errors import DataError, ParseError, SettingError

from .references import random_ballots


def test_equal_ballots_collapse_and_keep_their_weight():
    votes = Ballots.from_orders(["ab", "ba", "ab"], weights=[1, 2, 3.5])
    assert votes.n_ballots == 2
    assert votes.weights.tolist() == [4.5, 2.0]
    assert votes.total == 6.5
    assert votes.is_complete
    assert not votes.has_ties


def test_orders_ranks_scores_and_frames_agree():
    orders = [["a", ["b", "c"]], ["c", "a"], [["a", "b", "c"]]]
    votes = Ballots.from_orders(orders, items="abc")
    ranks = np.array([[1, 7, 7], [5, np.nan, 2], [4, 4, 4]])
    assert Ballots.from_ranks(ranks, "abc").orders() == votes.orders()
    assert Ballots.from_scores(10 - ranks, "abc").orders() == votes.orders()
    rows = [(b, x, ranks[b, i]) for b in range(3) for i, x in enumerate("abc") if not np.isnan(ranks[b, i])]
    for library in (pl.DataFrame, pd.DataFrame):
        frame = library({"ballot": [r[0] for r in rows], "item": [r[1] for r in rows], "rank": [r[2] for r in rows]})
        assert Ballots.from_frame(frame, rank="rank").orders() == votes.orders()


def test_spans_and_positions_of_a_tied_truncated_ballot():
    votes = Ballots.from_orders([["d", ["a", "b"]]], items="abcde")
    first, size = votes.spans()
    assert first.tolist() == [[1, 1, 3, 0, 3]]
    assert size.tolist() == [[2, 2, 2, 1, 2]]
    assert votes.positions().tolist() == [[2.5, 2.5, 4.5, 1.0, 4.5]]
    np.testing.assert_array_equal(votes.positions("ignore"), [[2.5, 2.5, np.nan, 1.0, np.nan]])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Ballots.from_orders([["a", "b", "a"]]), "ranks 'a' twice"),
        (lambda: Ballots.from_orders(["ab"], weights=[-1]), "weight -1"),
        (lambda: Ballots.from_orders(["ab"], weights=[np.nan]), "above 0"),
        (lambda: Ballots.from_orders(["ab"], weights=[1, 2]), "as many weights"),
        (lambda: Ballots.from_orders([]), "no ballots"),
        (lambda: Ballots.from_orders([["a"], []]), "Ballot 2 ranks no item"),
        (lambda: Ballots.from_orders([["z"]], items="ab"), "not among the items"),
        (lambda: Ballots(("a", "a"), np.zeros((1, 2)), np.ones(1)), "listed twice"),
        (lambda: Ballots.from_ranks([[1.0, np.inf]]), "must be finite"),
        (lambda: Ballots.from_orders(["ab"]).without("z"), "no item 'z'"),
    ],
)
def test_bad_ballots_say_what_is_wrong(build, message):
    with pytest.raises(DataError, match=message):
        build()


def test_bad_frames():
    frame = pl.DataFrame({"ballot": [1, 1], "item": ["a", "a"], "rank": [1, 2], "weight": [1, 2]})
    with pytest.raises(DataError, match="ranks 'a' twice"):
        Ballots.from_frame(frame, rank="rank")
    with pytest.raises(DataError, match="no column 'place'"):
        Ballots.from_frame(frame, rank="place")
    with pytest.raises(SettingError, match="not both"):
        Ballots.from_frame(frame)
    other = pl.DataFrame({"ballot": [1, 1], "item": ["a", "b"], "rank": [1, 2], "weight": [1, 2]})
    with pytest.raises(DataError, match="several weights"):
        Ballots.from_frame(other, rank="rank", weight="weight")


def test_lines_round_trip(tmp_path):
    path = tmp_path / "votes.txt"
    path.write_text("# a comment\n12: A > B = C > D\n\nB > A  # one voter\n0.5: D\n")
    votes = read_ballots(path)
    assert votes.items == ("A", "B", "C", "D")
    assert votes.weights.tolist() == [12, 1, 0.5]
    assert votes.orders()[0] == [["A"], ["B", "C"], ["D"]]
    write_ballots(votes, tmp_path / "again.txt")
    again = read_ballots(tmp_path / "again.txt")
    assert again.orders() == votes.orders()
    assert again.weights.tolist() == votes.weights.tolist()


def test_tiers_of_lines_stand_in_braces_as_in_lists_of_documents(tmp_path):
    path = tmp_path / "votes.txt"
    path.write_text("12: A > {B, green tea} > {D}\nB > A = D\n")
    votes = read_ballots(path)
    assert votes.orders() == [[["A"], ["B", "green tea"], ["D"]], [["B"], ["A", "D"]]]
    with pytest.raises(DataError, match="holds a mark"):
        write_ballots(Ballots.from_orders([["{A", "B"]]), tmp_path / "again.txt")


@pytest.mark.parametrize("tier", ["{B C}", "{B, C", "{}", "{B,}"])
def test_a_tier_of_a_line_that_is_none_is_refused(tmp_path, tier):
    path = tmp_path / "votes.txt"
    path.write_text(f"A > {tier}\n")
    with pytest.raises(ParseError, match=r"votes\.txt, line 1: .*'12: A > B = C > D'"):
        read_ballots(path)


@pytest.mark.parametrize(
    ("kind", "ties", "truncate"),
    [("soc", False, False), ("soi", False, True), ("toc", True, False), ("toi", True, True)],
)
def test_preflib_round_trip(tmp_path, kind, ties, truncate):
    votes = random_ballots(np.random.default_rng(4), 6, 9, ties=ties, truncate=truncate)
    write_ballots(votes, tmp_path / f"v.{kind}")
    again = read_ballots(tmp_path / f"v.{kind}")
    assert again.items == votes.items
    assert again.orders() == votes.orders()
    assert again.metadata["DATA TYPE"] == kind
    packed = tmp_path / f"w.{kind}.gz"
    packed.write_bytes(gzip.compress((tmp_path / f"v.{kind}").read_bytes()))
    assert read_ballots(packed).weights.tolist() == votes.weights.tolist()


HEADER = "# NUMBER VOTERS: 2\n# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.txt", "", "empty"),
        ("v.txt", "3: A > B > A", "line 1: the ballot ranks 'A' twice"),
        ("v.txt", "A > B\n-3: A > B", "line 2: the count is -3"),
        ("v.txt", "A > > B", "item without a name"),
        ("v.txt", "1 Q0 d1 1 9 x\n", "runs need --format trec"),
        ("v.txt", "# nothing\n>", "without a name"),
        ("v.soc", HEADER + "2: 1,1", "ranks 'a' twice"),
        ("v.soc", HEADER + "2: 1,3", "'3' is not the number"),
        ("v.soc", HEADER + "2: {1,2}", "strict orders"),
        ("v.toc", HEADER + "2: 1", "complete orders"),
        ("v.toc", HEADER + "2: {1,2", "unbalanced"),
        ("v.soc", HEADER + "0: 1,2", "must be above 0"),
        ("v.soc", HEADER + "1: 1,2", "promises 2 voters"),
        ("v.soc", HEADER + "1,2", "expected 'count: order'"),
        ("v.soc", HEADER, "no ballots"),
        ("v.soc", "2: 1,2", "ALTERNATIVE NAME"),
        ("v.csv", "ballot,item,place\n1,a,1\n", "rank or ballot, item, score"),
    ],
)
def test_bad_files_say_where(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ParseError, match=message):
        read_ballots(path)


def test_damaged_gzip_and_wrong_encoding(tmp_path):
    path = tmp_path / "v.soc.gz"
    path.write_bytes(gzip.compress(HEADER.encode())[:20])
    with pytest.raises(ParseError, match="gzip"):
        read_ballots(path)
    other = tmp_path / "v.txt"
    other.write_bytes(b"A > B\n\xff > A\n")
    with pytest.raises(ParseError, match="line 2: this is not UTF-8"):
        read_ballots(other)
    with pytest.raises(DataError, match="does not exist"):
        read_ballots(tmp_path / "nothing.soc")
    with pytest.raises(SettingError, match="Unknown format 'xls' of ballots"):
        read_ballots(other, "xls")


def test_tidy_files(tmp_path):
    frame = pl.DataFrame(
        {"ballot": ["x", "x", "y"], "item": ["a", "b", "b"], "score": [1.0, 2.0, 3.0], "weight": [2, 2, 1]}
    )
    frame.write_csv(tmp_path / "v.csv")
    frame.write_parquet(tmp_path / "v.parquet")
    for name in ("v.csv", "v.parquet"):
        votes = read_ballots(tmp_path / name)
        assert votes.orders() == [[["b"], ["a"]], [["b"]]]
        assert votes.weights.tolist() == [2.0, 1.0]


def test_runs(tmp_path):
    (tmp_path / "one").write_text("7 Q0 d1 1 0.9 x\n7 Q0 d2 2 0.5 x\n8 Q0 d9 1 0.1 x\n")
    (tmp_path / "two").write_text("7 Q0 d2 1 12 y\n7 Q0 d3 2 12 y\n")
    topics = read_runs([tmp_path / "one", tmp_path / "two"])
    assert topics["7"].items == ("d1", "d2", "d3")
    assert topics["7"].orders() == [[["d1"], ["d2"]], [["d2", "d3"]]]
    assert topics["8"].orders() == [[["d9"]]]
    (tmp_path / "bad").write_text("7 Q0 d1 1 0.9 x\n7 Q0 d1 2 0.5 x\n")
    with pytest.raises(ParseError, match=r"line 2: document .d1. of query .7. occurs twice"):
        read_runs([tmp_path / "bad"])
    (tmp_path / "short").write_text("7 d1 0.9\n")
    with pytest.raises(ParseError, match="3 columns; 6 were expected"):
        read_runs([tmp_path / "short"])


def test_names_that_would_break_the_format_are_refused(tmp_path):
    votes = Ballots.from_orders([["a > b", "c"]])
    with pytest.raises(DataError, match="mark of the format"):
        write_ballots(votes, tmp_path / "v.txt")
    assert not (tmp_path / "v.txt").exists()
    with pytest.raises(DataError, match="strict orders"):
        write_ballots(Ballots.from_orders([[["a", "b"]]]), tmp_path / "v.soc")


@pytest.mark.real
def test_real_preflib_files(real_data):
    folder = real_data("preflib")
    sushi = read_ballots(folder / "00014-sushi" / "00014-00000001.soc.gz")
    assert (sushi.n_items, sushi.total, sushi.n_ballots) == (10, 5000, 4926)
    assert sushi.metadata["TITLE"] == "Sushi 10 Rank"
    for path in sorted(folder.glob("0000[2569]*/*.??[ci].gz"))[::6]:
        votes = read_ballots(path)
        assert votes.total == float(votes.metadata["NUMBER VOTERS"])
        assert votes.n_ballots <= int(votes.metadata["NUMBER UNIQUE ORDERS"])
        assert votes.is_complete or path.name.endswith("i.gz")
