"""The baseline of wins over skipped documents: what it counts, and that it is named as a baseline."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import luce
from luce.clicks.simulation import production, simulate_sessions
from luce.errors import DataError, LuceWarning, SettingError

pytestmark = pytest.mark.filterwarnings("ignore:comparisons_from_clicks is a baseline:luce.errors.LuceWarning")


@pytest.fixture
def data() -> luce.Groups:
    return luce.from_arrays(
        np.zeros((5, 1)), qid=["q1", "q1", "q1", "q2", "q2"], document_ids=["a", "b", "c", "a", "b"]
    )


def test_it_says_that_it_is_a_baseline(data):
    with pytest.warns(LuceWarning, match="ranks against the logged ranker"):
        luce.comparisons_from_clicks(log_of([[("a", 0), ("b", 1)]]), data)


def log_of(impressions: list[list[tuple[str, int]]], query: str = "q1") -> dict[str, list[object]]:
    """A log from lists of (document, clicked), top first."""
    rows = [(query, n, p + 1, d, c) for n, shown in enumerate(impressions) for p, (d, c) in enumerate(shown)]
    names = ("query", "impression", "position", "document", "clicked")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def test_a_click_beats_what_was_skipped_above_and_the_next_below():
    data = luce.from_arrays(np.zeros((5, 1)), qid=["q1"] * 5, document_ids=list("abcde"))
    pairs = luce.comparisons_from_clicks(log_of([[("a", 0), ("b", 0), ("c", 1), ("d", 0), ("e", 0)]]), data)
    assert sorted(map(tuple, pairs.wins.tolist())) == [(2, 0), (2, 1), (2, 3)]
    # b is clicked too: it is no skipped document, and only the rule for the next one below applies to it
    pairs = luce.comparisons_from_clicks(log_of([[("a", 0), ("b", 1), ("c", 1), ("d", 0)]]), data, ties=False)
    assert sorted(map(tuple, pairs.wins.tolist())) == [(1, 0), (2, 0), (2, 3)]


def test_counts_are_weights_and_thresholds_apply():
    data = luce.from_arrays(np.zeros((2, 1)), qid=["q1"] * 2, document_ids=["a", "b"])
    log = log_of([[("a", 0), ("b", 1)]] * 3 + [[("a", 1), ("b", 0)]])
    pairs = luce.comparisons_from_clicks(log, data)
    assert dict(zip(map(tuple, pairs.wins.tolist()), pairs.win_weight, strict=True)) == {(1, 0): 3, (0, 1): 1}
    assert luce.comparisons_from_clicks(log, data, min_count=2).wins.tolist() == [[1, 0]]
    assert luce.comparisons_from_clicks(log, data, min_share=0.6).wins.tolist() == [[1, 0]]
    assert luce.comparisons_from_clicks(log, data, min_share=0.75).wins.tolist() == [[1, 0]]
    assert luce.comparisons_from_clicks(log, data, min_share=0.8).wins.tolist() == []


def test_clicked_together_often_is_a_tie():
    data = luce.from_arrays(np.zeros((3, 1)), qid=["q1"] * 3, document_ids=["a", "b", "c"])
    log = log_of([[("a", 1), ("b", 1), ("c", 0)]] * 2 + [[("a", 1), ("b", 0), ("c", 0)]])
    pairs = luce.comparisons_from_clicks(log, data)
    assert pairs.ties.tolist() == [[0, 1]]
    assert pairs.tie_weight.tolist() == [2]
    assert [0, 1] not in pairs.wins.tolist()
    for options in ({"tie_count": 3}, {"tie_share": 0.7}, {"ties": False}):
        pairs = luce.comparisons_from_clicks(log, data, **options)
        assert len(pairs.ties) == 0
        assert [0, 1] in pairs.wins.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clicked": [0, 2]}, "clicked is 2; it must be 0 or 1"),
        ({"position": [1, 1]}, "same position"),
        ({"position": [0, 1]}, "whole number"),
        ({"position": ["top", "2"]}, "position is 'top'"),
        ({"document": ["a", "z"]}, "document 'z' is not in query"),
        ({"document": ["a", "a"]}, "stands twice in one impression"),
        ({"clicked": None}, "needed are query, impression, position, document, clicked"),
    ],
)
def test_bad_logs(data, change, message):
    log = log_of([[("a", 0), ("b", 1)]]) | change
    log = {key: value for key, value in log.items() if value is not None}
    with pytest.raises(DataError, match=message):
        luce.comparisons_from_clicks(log, data)


def test_bad_thresholds(data):
    for options in ({"min_count": 0}, {"tie_count": 0}, {"min_share": 1.5}, {"tie_share": -1}, {"missing": "no"}):
        with pytest.raises(SettingError, match=next(iter(options))):
            luce.comparisons_from_clicks(log_of([[("a", 0), ("b", 1)]]), data, **options)


def test_skipped_documents_keep_their_position(data):
    log = log_of([[("a", 1), ("z", 0), ("b", 0)]])
    assert luce.comparisons_from_clicks(log, data, missing="skip").wins.tolist() == []


def test_counts_against_the_obvious_loop():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 24)
    data = luce.from_arrays(np.zeros((24, 1)), y, qid=np.repeat([1, 2], 12), document_ids=np.tile(np.arange(12), 2))
    made = production(data, [rng.normal(size=24)], shown=6, swap=0.5)
    log = simulate_sessions(data, made, rng, sessions=60)
    wins: dict[tuple[int, int], int] = {}
    for n in np.unique(log.session):
        rows = log.row[log.session == n]
        clicked = log.clicked[log.session == n]
        for i, j in itertools.permutations(range(len(rows)), 2):
            if clicked[i] and not clicked[j] and (j < i or j == i + 1):
                wins[rows[i], rows[j]] = wins.get((rows[i], rows[j]), 0) + 1
    source = {
        "query": data.qid[log.row],
        "impression": log.session,
        "position": log.position,
        "document": data.document_ids[log.row],
        "clicked": log.clicked.astype(int),
    }
    pairs = luce.comparisons_from_clicks(source, data, ties=False)
    assert dict(zip(map(tuple, pairs.wins.tolist()), pairs.win_weight, strict=True)) == wins
