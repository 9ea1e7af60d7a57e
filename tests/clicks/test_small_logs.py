"""Logs so small that something is unknown: it is said or refused, never infinite in silence."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.clicks import evaluate, examination, given_examination, interleaving, pairs, policy_value, read
from luce.errors import DataError


def log_of(*sessions: str) -> dict[str, list[object]]:
    """Sessions as `q: a b! c`: the documents in their order, those with a mark clicked."""
    log: dict[str, list[object]] = {"session": [], "query": [], "document": [], "position": [], "clicked": []}
    for number, text in enumerate(sessions):
        query, _, shown = text.partition(": ")
        for position, document in enumerate(shown.split(), 1):
            row = (number, query, document.strip("!"), position, int(document.endswith("!")))
            for column, value in zip(log.values(), row, strict=True):
                column.append(value)
    return log


def data_of(log: dict[str, list[object]]) -> luce.Groups:
    shown = sorted(set(zip(log["query"], log["document"], strict=True)))
    X = np.random.default_rng(0).normal(size=(len(shown), 2))
    return luce.from_arrays(X, qid=[query for query, _ in shown], document_ids=[document for _, document in shown])


def test_a_position_that_wins_always_has_no_finite_examination() -> None:
    """In the query p position 2 has the click and position 1 none; elsewhere there is position 1 alone."""
    log = log_of("q: a!", "q: a!", "p: b c!")
    with pytest.raises(DataError, match="no finite estimate"):
        examination(read(log), data_of(log), method="joint")


def test_pairs_leave_out_positions_without_examination() -> None:
    """With users who stop, position 3 is linked to nothing and left out; its pairs go with it."""
    log = log_of("q: a! b", "q: b! a", "q: a b!", "q: b a!", "p: c d! e!", "p: c d! e!")
    seen = examination(read(log, pairs=True), users="last_click")
    assert seen.position.tolist() == [1, 2]
    found = pairs(seen, data_of(log))
    e = 2  # after c and d
    assert np.isfinite(found.win_weight).all()
    assert e not in found.wins[:, 0]
    assert e not in found.ties


def test_a_policy_that_shows_nothing_of_the_log() -> None:
    counts = read(log_of("q: a! b") | {"p": [0.5, 0.5]}, propensity="p")
    with pytest.raises(DataError, match="never shows what the log shows"):
        policy_value(counts, np.zeros(2))


def test_a_ranking_of_nothing_that_was_shown() -> None:
    log = log_of("q: a! b")
    data = luce.from_arrays(np.eye(3), qid=["q"] * 3, document_ids=["a", "b", "c"])
    seen = given_examination(read(log), {1: 1.0, 2: 0.5})
    with pytest.raises(DataError, match="never showed a document that counts for dcg@1"):
        evaluate(seen, data, [0.0, 0.0, 1.0], metrics=["dcg@1"], most_unseen=1.0)


@pytest.mark.parametrize(("team", "who"), [("aa", "b won"), ("bb", "a won"), (["", ""], "Neither ranker won")])
def test_an_infinite_ratio_of_wins_is_said(team, who) -> None:
    found = interleaving({"session": [1, 2], "team": list(team), "clicked": [1, 1]})
    assert found.notes[0].startswith(who)
    assert found.as_dict()["notes"] == list(found.notes)
    assert found.as_dict()["log_ratio"]["high"] is None


def test_what_is_unknown_beside_trust_is_said() -> None:
    log = log_of(
        *("q1: d e! f!", "q1: d!", "q1: d! e! f!", "q1: d! e! f", "q0: a! b! c!", "q0: a! b c", "q0: a! b!"),
        "q0: a! b! c! g!",
    )
    found = examination(read(log), data_of(log), users="trust")
    assert found.standard_error.max() > 10
    assert "hardly anything" in found.notes[0]
    low, high = found.interval()
    assert not np.isnan([low, high]).any()
