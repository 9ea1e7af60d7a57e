"""Preferences and ties: contradictions, files, and what click logs say."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import luce
from luce.data.statements import Statements
from luce.errors import DataError, LuceWarning, ParseError, SettingError


@pytest.fixture
def data() -> luce.Groups:
    """Two queries; the document ids 'a' and 'b' stand in both."""
    return luce.from_arrays(
        np.zeros((5, 1)), qid=["q1", "q1", "q1", "q2", "q2"], document_ids=["a", "b", "c", "a", "b"]
    )


def test_tied_and_better_is_refused():
    with pytest.raises(DataError, match="Row 3 is better than row 1 and tied with it"):
        luce.Comparisons.from_pairs(wins=[(0, 1), (3, 1)], ties=[(1, 3)])


def test_cycles_are_kept_and_reported():
    with pytest.warns(LuceWarning, match=r"circle in 2 group.*the first of 3 rows \(0, 1, 2\)"):
        pairs = luce.Comparisons.from_pairs(wins=[(0, 1), (1, 2), (2, 0), (3, 0), (7, 8), (8, 7)])
    assert len(pairs.wins) == 6
    assert [group.tolist() for group in pairs.cycles()] == [[0, 1, 2], [7, 8]]
    assert luce.Comparisons.from_pairs(wins=[(0, 1), (1, 2), (0, 2)]).cycles() == []
    # A cycle costs at least log 2 a pair, whatever the scores: the loss takes it and says so by its value.
    value, grad = luce.losses.get("ranknet").value_and_grad(np.zeros(9), pairs)
    assert value == pytest.approx(6 * np.log(2))
    assert np.isfinite(grad).all()


def wins_of(given: luce.Comparisons, offsets: list[int]) -> list[tuple[int, int, float]]:
    """Every strict preference and its weight, by the chains one after the other."""
    said = Statements.of_comparisons(given, np.array(offsets)).closed()
    found = []
    for c in range(len(said.weight)):
        tiers = [said.rows[said.tiers[t] : said.tiers[t + 1]].tolist() for t in range(*said.chains[c : c + 2])]
        for above, below in itertools.combinations(tiers, 2):
            found += [(a, b, said.times[c]) for a, b in itertools.product(above, below)]
    return found


def test_a_top_list_is_above_all_that_it_leaves_out():
    top = luce.Comparisons.from_orders([[4, 2]], top=True)
    assert sorted(wins_of(top, [0, 2, 5])) == [(2, 3, 1.0), (4, 2, 1.0), (4, 3, 1.0)]
    assert wins_of(luce.Comparisons.from_orders([[4, 2]]), [0, 2, 5]) == [(4, 2, 1.0)]


def test_lists_of_several_judges():
    """More entries than the data have rows, in any order of the queries; check_rows looks at every list by itself."""
    offsets = np.array([0, 2, 5])
    lists = luce.Comparisons.from_orders([[4, 3, 2], [0, 1], [2, 3, 4], [1, 0]], top=True, weights=[1, 2, 3, 4])
    lists.check_rows(offsets)
    assert lists.list_queries(offsets).tolist() == [1, 0, 1, 0]
    expected = [(0, 1, 2), (1, 0, 4), (4, 3, 1), (4, 2, 1), (3, 2, 1), (2, 3, 3), (2, 4, 3), (3, 4, 3)]
    assert wins_of(lists, [0, 2, 5]) == expected
    with pytest.raises(DataError, match=r"Rows 4 and 1 of the ordered list 5 .* of different queries"):
        luce.Comparisons.from_orders([*[[4, 3, 2]] * 5, [4, 3, 1]]).check_rows(offsets)


def test_tiers_of_lists():
    lists = luce.Comparisons.from_orders([[[3, 1], 0], [[2, 4]]], top=[False, True])
    assert lists.order_tied.tolist() == [False, True, False, False, True]
    pairs = [(a, b) for a, b, _ in wins_of(lists, [0, 5])]
    assert sorted(pairs) == sorted([(3, 0), (1, 0), *itertools.product((2, 4), (0, 1, 3))])
    moved = lists.moved(np.array([4, 3, 2, 1, 0]))
    assert moved.order_rows.tolist() == [1, 3, 4, 2, 0]
    assert moved.order_tied.tolist() == lists.order_tied.tolist()


@pytest.mark.parametrize(
    ("orders", "settings", "message"),
    [
        ([[0, 1], []], {}, r"ordered list 1 \(counted from 0\) is empty"),
        ([[0, []]], {}, r"ordered list 0 .* has an empty tier"),
        ([[2], [0, [1, 0]]], {}, r"Row 0 stands twice in the ordered list 1"),
        ([[0, "a"]], {}, r"ordered list 0 .* names 'a'; a row is a whole number"),
        ([[0, -1]], {}, r"names -1; a row is a whole number of at least 0"),
        ([[0], [1]], {"weights": [1.0, np.nan]}, r"order_weight .* entry 1 \(counted from 0\) is nan"),
        ([[0], [1]], {"weights": [1.0, 0.0]}, r"order_weight .* entry 1 .* is 0"),
        ([[0], [1]], {"weights": [1.0]}, r"needs 2 positive finite numbers, one a list; got shape \(1,\)"),
        ([[0], [1]], {"top": [True]}, r"2 lists need as many values of top"),
    ],
)
def test_bad_lists(orders, settings, message):
    with pytest.raises(DataError, match=message):
        luce.Comparisons.from_orders(orders, **settings)


def test_lists_that_do_not_fit_the_data():
    offsets = np.array([0, 2, 5])
    with pytest.raises(DataError, match=r"ordered list 1 .* names row 5; the data have rows 0 to 4"):
        luce.Comparisons.from_orders([[0, 1], [2, 5]]).check_rows(offsets)
    for silent in (luce.Comparisons.from_orders([[[2, 3, 4]]], top=True), luce.Comparisons.from_orders([[[4, 2]]])):
        with pytest.raises(DataError, match=r"Query 1 .* a list has rows .* in one tier and nothing below them"):
            silent.check_rows(offsets)


def test_unknown_rows_are_refused():
    with pytest.raises(DataError, match="names row -1"):
        luce.Comparisons.from_pairs([(-1, 0)]).check_rows(np.array([0, 3]))
    with pytest.raises(DataError, match="names row 7"):
        luce.Comparisons.from_pairs([(7, 0)]).check_rows(np.array([0, 3]))


def test_files_of_wins_and_ties(data, tmp_path):
    wins, ties = tmp_path / "wins.csv", tmp_path / "ties.parquet"
    wins.write_text("query,better,worse,weight\nq1,a,b,2\nq2,b,a,0.5\n")
    pq.write_table(pa.table({"query": ["q1"], "tied_a": ["c"], "tied_b": ["b"]}), ties)
    pairs = luce.read_comparisons([wins, ties], data)
    assert pairs.wins.tolist() == [[0, 1], [4, 3]]
    assert pairs.win_weight.tolist() == [2, 0.5]
    assert pairs.ties.tolist() == [[2, 1]]
    only = luce.read_comparisons(wins, data)
    assert only.ties.shape == (0, 2)
    assert only.tie_weight is None
    assert luce.read_comparisons(ties, data).win_weight is None


def test_compressed_and_tab_separated_files_and_frames(data, tmp_path):
    import gzip

    import pandas as pd
    import polars as pl

    packed = tmp_path / "wins.csv.gz"
    packed.write_bytes(gzip.compress(b"query,better,worse\nq1,a,b\n"))
    tabs = tmp_path / "wins.tsv"
    tabs.write_text("worse\tbetter\tquery\nb\ta\tq1\n")
    columns = {"query": ["q1"], "better": ["a"], "worse": ["b"]}
    for source in (packed, tabs, pd.DataFrame(columns), pl.DataFrame(columns), columns):
        assert luce.read_comparisons(source, data).wins.tolist() == [[0, 1]]


def test_ids_that_are_numbers(tmp_path):
    data = luce.from_arrays(np.zeros((3, 1)), qid=[7, 7, 7], document_ids=[10, 11, 12])
    path = tmp_path / "wins.csv"
    path.write_text("query,better,worse\n7,12,10\n")
    assert luce.read_comparisons(path, data).wins.tolist() == [[2, 0]]
    assert luce.read_comparisons({"query": [7.0], "better": [12.0], "worse": [10.0]}, data).wins.tolist() == [[2, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query,better,worse\nq1,a,b\nq1,a,z\n", r"wins.csv, line 3: document 'z' is not in query 'q1'"),
        ("query,better,worse\nq9,a,b\n", r"line 2: query 'q9' is not in the data"),
        ("query,better,worse\nq2,a,c\n", r"document 'c' is not in query 'q2'"),
        ("query,better,worse\nq1,a,a\n", r"line 2: document 'a' is compared with itself"),
        ("query,better,worse\nq1,a,\n", r"line 2: worse is empty"),
        ("query,better\nq1,a\n", r"the columns are query, better; needed are query, better, worse or"),
        ("query,better,worse,weight\nq1,a,b,-1\n", r"weight is '-1'"),
        ("query,better,worse,weight\nq1,a,b,many\n", r"weight is 'many'"),
        ("query,better,worse\nq1,a,b,c\n", r"line 2: 4 cells, and the header has 3"),
        ("", r"the file is empty"),
    ],
)
def test_bad_files(data, tmp_path, text, message):
    path = tmp_path / "wins.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        luce.read_comparisons(path, data)


@pytest.mark.filterwarnings("ignore:Document .* stands more than once")
def test_other_bad_input(data, tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        luce.read_comparisons(tmp_path / "none.csv", data)
    with pytest.raises(DataError, match="no document ids"):
        luce.read_comparisons({}, luce.from_arrays(np.zeros((2, 1))))
    with pytest.raises(DataError, match="stands twice in query"):
        luce.read_comparisons({}, luce.from_arrays(np.zeros((2, 1)), document_ids=["a", "a"]))
    with pytest.raises(SettingError, match="'error' or 'skip'"):
        luce.read_comparisons({}, data, missing="ignore")
    with pytest.raises(DataError, match="is no table"):
        luce.read_comparisons(3, data)
    tied = {"query": ["q1"], "tied_a": ["b"], "tied_b": ["a"]}
    with pytest.raises(DataError, match="better than row 1 and tied"):
        luce.read_comparisons([{"query": ["q1"], "better": ["a"], "worse": ["b"]}, tied], data)
    with pytest.warns(LuceWarning, match=r"circle .*\(a, b\)"):
        luce.read_comparisons({"query": ["q1"] * 2, "better": ["a", "b"], "worse": ["b", "a"]}, data)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ParseError, match="cannot be read as parquet"):
        luce.read_comparisons(tmp_path / "cut.parquet", data)


def test_unknown_documents_can_be_skipped(data):
    table = {"query": ["q1", "q1", "q8"], "better": ["a", "z", "a"], "worse": ["b", "a", "b"]}
    assert luce.read_comparisons(table, data, missing="skip").wins.tolist() == [[0, 1]]
    with pytest.raises(DataError, match="None of the pairs"):
        luce.read_comparisons({"query": ["x"], "better": ["a"], "worse": ["b"]}, data, missing="skip")


@pytest.mark.parametrize(
    ("orders", "top", "message"),
    [([[0, 1]], "no", "top is 'no'"), ([[0, 1]], [1], "top is"), ([3, 1], True, "every list is a list of rows")],
)
def test_lists_and_tops_that_are_none(orders, top, message) -> None:
    with pytest.raises(DataError, match=message):
        luce.Comparisons.from_orders(orders, top=top)
