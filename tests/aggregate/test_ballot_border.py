"""Where a person's own ballots meet a rule: what is refused or named, and nothing passed over in silence."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from luce.aggregate import Ballots, consensus, read_ballots
from luce.errors import DataError, ParseError

GAP = pd.DataFrame({"ballot": [1, np.nan], "item": ["a", "b"], "rank": [1, 2]})
HEADER = "".join(f"# ALTERNATIVE NAME {i}: {name}\n" for i, name in enumerate("ABC", 1))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("b.txt", "alice: A > B\nbob: B > A\n", "'alice' stands where a count is"),
        ("b.txt", "nan: A > B\n", "the count is 'nan'"),
        ("b.txt", "A < B < C\nA > B > C\n", "has a '<'"),
        ("b.csv", "voter,candidate,rank\n1,A,1\n", "no columns are called ballot, item"),
        ("b.csv", "ballot,item,rank\n1,A,1\n1,B,2\n2,B,1\n2,A,0\n", "is 0 the first place or no place"),
        ("b.csv", "ballot,item,rank\n1,A,1\n1,B,-1\n", "Ballot 1 has the rank -1"),
        ("b.soc", f"# NUMBER ALTERNATIVES: 4\n{HEADER}1: 1,2,3\n", "promises 4 alternatives, and there are 3"),
        ("b.soc", f"# NUMBER UNIQUE ORDERS: 2\n{HEADER}1: 1,2,3\n", "promises 2 unique orders, and there are 1"),
        ("b.toc", f"{HEADER}1: 1,{{2,{{3}}}}\n", "braces within braces"),
    ],
)
def test_files_that_would_pass_in_silence(tmp_path, name, text, message) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises((DataError, ParseError), match=message):
        read_ballots(path)


def test_a_name_with_a_colon_that_stands_elsewhere_is_a_name(tmp_path) -> None:
    path = tmp_path / "films.txt"
    path.write_text("Alien: Covenant > Heat\nHeat > Alien: Covenant\n")
    assert read_ballots(path).items == ("Alien: Covenant", "Heat")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ballots.from_orders([["a", None]]), "Ballot 1 has None as an item"),
        (lambda: Ballots.from_orders([["a", "b"], ["a", float("nan")]]), "Ballot 2 has nan as an item"),
        (lambda: Ballots.from_orders([["a", []]]), "Ballot 1 has an empty tier"),
        (lambda: Ballots.from_orders({"a": 1}), "a list of ballots"),
        (lambda: Ballots.from_ranks([[1, 2], [0, 1]]), "Ballot 2 has the rank 0"),
        (lambda: Ballots.from_ranks([[1, -1]]), "Ballot 1 has the rank -1"),
        (
            lambda: Ballots.from_frame(
                pd.DataFrame({"ballot": [1, np.nan], "item": ["a", "b"], "rank": [1, 2]}), rank="rank"
            ),
            "Row 1: ballot is empty",
        ),
    ],
)
def test_ballots_that_would_pass_in_silence(make, message) -> None:
    with pytest.raises(DataError, match=message):
        make()


def test_ranks_from_zero_scores_below_zero_and_whole_numbers_are_fine() -> None:
    assert Ballots.from_ranks([[0, 1], [1, 0]], "ab").orders() == [[["a"], ["b"]], [["b"], ["a"]]]
    assert Ballots.from_scores([[-1.0, 0.0]], "ab").orders() == [[["b"], ["a"]]]
    assert Ballots.from_orders([[1.0, 2.0], [1, 2]]).items == ("1", "2")


def test_notes_of_a_consensus() -> None:
    alike = consensus(Ballots.from_orders([["Tea", "coffee"], ["tea", "coffee"]]))
    assert any("'Tea' and 'tea'" in note for note in alike.notes)
    upside_down = consensus(Ballots.from_orders(["abc"]), [1, 2, 3])
    assert "more than a higher one" in upside_down.notes[0]
    assert consensus(Ballots.from_orders(["abc"]), [3, 2, 1]).notes == ()
    with pytest.raises(DataError, match="unranked='error'"):
        consensus(Ballots.from_orders([["a", "b"], ["a"]]), "approval", unranked="error")


CATEGORIES = """# FILE NAME: 00026-00000001.cat
# DATA TYPE: cat
# NUMBER ALTERNATIVES: 3
# NUMBER CATEGORIES: 2
# CATEGORY NAME 1: Yes
# CATEGORY NAME 2: No
# ALTERNATIVE NAME 1: Ann
# ALTERNATIVE NAME 2: Bob
# ALTERNATIVE NAME 3: Cyd
5: {1,2},3
2: 1,{2,3}
"""


@pytest.mark.parametrize("name", ["v.cat", "v.txt", "v.CAT"])
@pytest.mark.parametrize("format", [None, "lines"])
def test_data_of_preflib_that_are_no_orders_are_refused(tmp_path, name, format) -> None:
    (tmp_path / name).write_text(CATEGORIES)
    with pytest.raises(
        ParseError, match=r"type 'cat' \(categories\), which are no orders; soc, soi, toc, toi are read"
    ):
        read_ballots(tmp_path / name, format)


def test_other_and_old_forms_of_preflib_are_refused(tmp_path) -> None:
    (tmp_path / "v.wmg").write_text("3\n1,Ann\n2,Bob\n3,Cyd\n5,5,3\n4,1,2\n")
    with pytest.raises(ParseError, match="type 'wmg'"):
        read_ballots(tmp_path / "v.wmg")
    (tmp_path / "v.txt").write_text(CATEGORIES.replace("DATA TYPE: cat", "DATA TYPE: new"))
    with pytest.raises(ParseError, match="type 'new', which are no orders"):
        read_ballots(tmp_path / "v.txt")
    for name in ("old.soc", "old.txt"):
        (tmp_path / name).write_text("3\n1,Ann: the first\n2,Bob = Rob\n3,Cyd\n5,5,2\n3,1,2,3\n2,3,2,1\n")
        with pytest.raises(ParseError, match="2022"):
            read_ballots(tmp_path / name)


def test_orders_of_preflib_under_another_name_are_read_by_their_header(tmp_path) -> None:
    (tmp_path / "v.txt").write_text(CATEGORIES.replace("DATA TYPE: cat", "DATA TYPE: toc"))
    votes = read_ballots(tmp_path / "v.txt")
    assert votes.items == ("Ann", "Bob", "Cyd")
    assert list(votes.orders()) == [[["Ann", "Bob"], ["Cyd"]], [["Ann"], ["Bob", "Cyd"]]]


@pytest.mark.real
def test_a_real_file_under_the_name_of_another_format(real_data, tmp_path) -> None:
    text = gzip.decompress((real_data("preflib") / "00012-shirt" / "00012-00000001.soc.gz").read_bytes()).decode()
    (tmp_path / "shirt.soc").write_text(text)
    (tmp_path / "shirt.txt").write_text(text)
    one, two = read_ballots(tmp_path / "shirt.soc"), read_ballots(tmp_path / "shirt.txt")
    assert one.items == two.items
    np.testing.assert_array_equal(one.tiers, two.tiers)
    (tmp_path / "shirt.cat").write_text(text.replace("DATA TYPE: soc", "DATA TYPE: cat"))
    with pytest.raises(ParseError, match="type 'cat'"):
        read_ballots(tmp_path / "shirt.cat")
