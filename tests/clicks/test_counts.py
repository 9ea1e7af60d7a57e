"""Logs of every shape become the same counts; what contradicts itself is refused in one sentence."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import luce
from luce.clicks import click_rate, evaluate, examination, given_examination, guarded, interleaving, pairs, read
from luce.clicks.log import LogOptions
from luce.clicks.simulation import Users, as_columns, production, simulate_sessions
from luce.data.table import Table
from luce.errors import DataError, ModelFormatError, SettingError


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 40)
    names = [f"d{i}" for i in range(40)]
    return luce.from_arrays(rng.normal(size=(40, 2)), y, qid=np.repeat(["a", "b", "c", "d"], 10), document_ids=names)


@pytest.fixture(scope="module")
def log(data) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    made = production(data, [rng.normal(size=40), rng.normal(size=40)], shown=6, swap=0.5)
    return as_columns(simulate_sessions(data, made, rng, sessions=500, users=Users("cascade")), data)


def cells(counts) -> dict[tuple[str, str, int, int], tuple[float, float]]:
    query = counts.query_ids[counts.document_query[counts.document]]
    keys = zip(query, counts.document_ids[counts.document], counts.position, counts.after, strict=True)
    return {
        (str(q), str(d), int(k), int(a)): (float(n), float(c))
        for (q, d, k, a), n, c in zip(keys, counts.shown, counts.clicked, strict=True)
    }


def by_hand(log) -> dict[tuple[str, str, int, int], tuple[float, float]]:
    """The obvious loop over sessions."""
    found: dict[tuple[str, str, int, int], list[float]] = {}
    for s in np.unique(log["session"]):
        own = np.flatnonzero(log["session"] == s)
        last = 0
        for i in own[np.argsort(log["position"][own])]:
            key = (str(log["query"][i]), str(log["document"][i]), int(log["position"][i]), last)
            cell = found.setdefault(key, [0.0, 0.0])
            cell[0] += 1
            cell[1] += log["clicked"][i]
            if log["clicked"][i]:
                last = int(log["position"][i])
    return {key: (n, c) for key, (n, c) in found.items()}


def test_counts_are_those_of_the_obvious_loop(log):
    assert cells(read(log)) == by_hand(log)


def test_small_batches_give_the_same(log, monkeypatch):
    whole = cells(read(log))
    monkeypatch.setattr(Table, "piece_rows", 7)
    counts = read(log)
    assert cells(counts) == whole
    assert counts.sessions.sum() == 500
    assert counts.notes == ()


def test_rows_of_a_session_may_stand_apart(log, monkeypatch):
    monkeypatch.setattr(Table, "piece_rows", 50)
    mixed = np.random.default_rng(2).permutation(len(log["session"]))
    counts = read({name: column[mixed] for name, column in log.items()})
    assert cells(counts) == by_hand(log)
    assert "stand apart" in counts.notes[0]


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv", "log.parquet", "log.jsonl", "texts.parquet"])
def test_files(log, tmp_path, name):
    path = tmp_path / name
    table = pa.table(log)
    if name == "texts.parquet":
        table = pa.table({key: [str(value) for value in column] for key, column in log.items()})
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    else:
        mark = "\t" if name == "log.tsv" else ","
        lines = [mark.join(log), *(mark.join(map(str, row.values())) for row in table.to_pylist())]
        content = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    assert cells(read(path)) == by_hand(log)


def lists(log, clicked: str) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {"query": [], "documents": [], "clicked": []}
    for s in np.unique(log["session"]):
        own = log["session"] == s
        names, flags = log["document"][own].tolist(), log["clicked"][own].tolist()
        found["query"].append(str(log["query"][own][0]))
        found["documents"].append(names)
        found["clicked"].append(flags if clicked == "flags" else [n for n, c in zip(names, flags, strict=True) if c])
    return found


@pytest.mark.parametrize("clicked", ["flags", "names"])
@pytest.mark.parametrize("kind", ["mapping", "jsonl", "parquet"])
def test_sessions_as_lists(log, tmp_path, clicked, kind):
    source = lists(log, clicked)
    if kind == "jsonl":
        rows = [dict(zip(source, row, strict=True)) for row in zip(*source.values(), strict=True)]
        (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "parquet":
        parquet.write_table(pa.table(source), tmp_path / "log.parquet")
    counts = read(source if kind == "mapping" else tmp_path / f"log.{kind}", document="documents")
    assert cells(counts) == by_hand(log)


def test_user_behavior_insights(log, tmp_path):
    source = lists(log, "names")
    searches, events = [], []
    for i, (query, shown, clicked) in enumerate(zip(*source.values(), strict=True)):
        searches.append({"query_id": f"s{i}", "user_query": query, "query_response_hit_ids": shown})
        events.append({"action_name": "impression", "query_id": f"s{i}"})
        events += [
            {"action_name": "click", "query_id": f"s{i}", "event_attributes": {"object": {"object_id": name}}}
            for name in clicked
        ]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps({"_source": row}) + "\n" for row in searches))
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in events))
    assert cells(read(tmp_path / "queries.jsonl", events=tmp_path / "events.jsonl")) == by_hand(log)
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in searches[:5]))
    with pytest.raises(DataError, match="clicks without an impression: search 's"):
        read(tmp_path / "queries.jsonl", events=tmp_path / "events.jsonl")


def test_positions_are_the_order_of_the_rows_where_none_are_given(log):
    assert cells(read({name: column for name, column in log.items() if name != "position"})) == by_hand(log)


def test_saved_counts_come_back(log, tmp_path):
    counts = read(log, pairs=True)
    counts.save(tmp_path / "counts.lucedata")
    again = read(tmp_path / "counts.lucedata")
    assert cells(again) == cells(counts)
    assert again.sessions.tolist() == counts.sessions.tolist()
    for name, values in vars(counts.pairs).items():
        assert getattr(again.pairs, name).tolist() == values.tolist()


def test_saved_counts_that_do_not_fit_together_are_refused(log, tmp_path):
    counts = read(log)
    replace(counts, offsets=counts.offsets[:0]).save(tmp_path / "counts.lucedata")
    with pytest.raises(ModelFormatError, match="the arrays of counts do not fit together"):
        read(tmp_path / "counts.lucedata")


@pytest.mark.parametrize("first", [True, False, 1.0, np.int64(0)])
def test_the_first_position_is_any_1_or_0(first):
    assert LogOptions(first_position=first).first_position == int(first)


def test_collapsing_to_positions_keeps_all_clicks(log):
    counts = read(log)
    flat = counts.by_position()
    assert flat.shown.sum() == counts.shown.sum()
    assert flat.clicked.sum() == counts.clicked.sum()
    assert len(set(zip(flat.document, flat.position, strict=True))) == len(flat.document)


def test_pairs_are_those_of_the_obvious_loop(log):
    counts = read(log, pairs=True)
    shown, both = {}, {}
    for s in np.unique(log["session"]):
        own = np.flatnonzero(log["session"] == s)
        for i in own[log["clicked"][own] > 0]:
            for j in own[own != i]:
                key = (log["document"][i], log["position"][i], log["document"][j])
                shown[key] = shown.get(key, 0) + 1
                if log["clicked"][j]:
                    pair = frozenset(
                        [(log["document"][i], log["position"][i]), (log["document"][j], log["position"][j])]
                    )
                    both[pair] = both.get(pair, 0) + 0.5
    p, name = counts.pairs, counts.document_ids
    found = zip(name[p.clicked], p.clicked_at, name[p.other], p.with_shown, strict=True)
    assert {(d, int(k), o): n for d, k, o, n in found} == shown
    found = zip(name[p.first], p.first_at, name[p.second], p.second_at, p.both, strict=True)
    assert {frozenset([(d, int(k)), (e, int(m))]): n for d, k, e, m, n in found} == both


ROWS = {
    "session": [1, 1, 2, 2],
    "query": ["q"] * 4,
    "document": ["a", "b", "b", "a"],
    "position": [1, 2, 1, 2],
    "clicked": [1, 0, 0, 1],
}


def test_rules_for_duplicates_robots_and_repeated_documents():
    doubled = {name: [*column, column[-1]] for name, column in ROWS.items()}
    counts = read(doubled)
    assert counts.shown.sum() == 4
    assert "counted once" in counts.notes[0]
    robots = read(ROWS | {"clicked": [1, 1, 0, 1]}, max_clicks=1)
    assert robots.sessions.sum() == 1
    assert "more than 1 clicks (2 clicks)" in robots.notes[0]
    twice = ROWS | {"document": ["a", "a", "b", "a"]}
    assert read(twice, repeated="first").shown.sum() == 3
    gaps = read(ROWS | {"position": [1, 4, 1, 4]})
    assert "No row shows position 2, 3;" in gaps.notes[0]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"position": [0, 1, 0, 1]}, {}, "position is 0; .* first_position=0"),
        ({"position": [1, 1.5, 1, 2]}, {}, "position is 1.5; it must be a whole number"),
        ({"position": ["top", "2", "1", "2"]}, {}, "position is 'top'"),
        ({"position": [1, 1, 1, 2]}, {}, "same position, 1, in one session of query 'q'"),
        ({"document": ["a", "a", "b", "a"]}, {}, "Document 'a' stands twice in one session"),
        ({"clicked": [0, 2, 0, 1]}, {}, "clicked is 2; it must be 0 or 1"),
        (
            {"clicked": None},
            {},
            "no column 'clicked' or 'click' for the clicks; its columns are session, .*clicked=",
        ),
        ({"session": None}, {}, "name what tells sessions apart"),
        ({"document": [["a", "b"]] * 4, "clicked": [["z"], [], [], []]}, {}, "'z' was clicked and not shown"),
        ({"p": [0.5, 0.0, 0.5, 1]}, {"propensity": "p"}, r"propensity is 0; .* a probability above 0 and at most 1"),
        ({"p": [0.5, 1.5, 0.5, 1]}, {"propensity": "p"}, "propensity is 1.5"),
        ({"document": ["a", None, "b", "a"]}, {}, "document is empty"),
        ({"document": ["a", "", "b", "a"]}, {}, "Row 1: document is empty"),
        ({"document": [1.0, np.nan, 2.0, 1.0]}, {}, "Row 1: document is nan; every row needs a value"),
        ({"query": [1.0, np.inf, 1.0, 1.0]}, {}, "Row 1: query is inf"),
        ({"session": [np.nan, 1.0, 2.0, 2.0]}, {}, "Row 0: session is nan"),
        ({"session": [b"\xff", b"\xff", b"a", b"a"]}, {}, "column 'session' cannot be read: Invalid UTF8"),
        ({"position": [1, -2, 1, 2]}, {}, "position is -2; it must be a whole number, 1 at the top"),
        ({"position": [1, 10**6, 1, 2]}, {}, r"position is 1e\+06; .* at most 999,999"),
        ({"position": [1, np.nan, 1, 2]}, {}, "Row 1: position is nan"),
        (
            {"clicked": ["yes", "no", "no", "maybe"]},
            {},
            "clicked is 'maybe'; it must be 0 or 1, or true or false",
        ),
        ({"clicked": [1.0, np.nan, 0.0, 0.0]}, {}, "Row 1: clicked is nan"),
        ({"clicked": pd.to_datetime([1, 2, 3, 4])}, {}, r"'clicked' holds timestamp.*it must hold 0 or 1"),
        ({"p": ["a", "1", "1", "1"]}, {"propensity": "p"}, "the propensity is 'a'; it must be a probability"),
        ({"document": [["a", "b"]] * 4, "clicked": [["a"]] * 4}, {"position": "position"}, "a row is a session"),
        ({"document": [["a", None]] * 4, "clicked": [["a"]] * 4}, {}, "Row 0: an entry of document is empty"),
        (
            {"document": [["a", "b"]] * 4, "clicked": [["a"], None, [], []]},
            {},
            "Row 1: clicked is empty; .* empty list",
        ),
        ({"clicked": [1, 1, 1, 1]}, {"max_clicks": 1}, "shows no document; .* 2 sessions with more than 1 clicks"),
    ],
)
def test_bad_logs(change, options, message):
    log = {name: column for name, column in (ROWS | change).items() if column is not None}
    with pytest.raises(DataError, match=message):
        read(pa.table(log), **options)


@pytest.mark.parametrize(
    "change",
    [
        {"session": [1.0, 1.0, 2.0, 2.0]},
        {"session": np.array([2**63 + 1, 2**63 + 1, 2, 2], dtype=np.uint64)},
        {"session": pd.to_datetime([1, 1, 2, 2])},
        {"session": pd.Categorical(["x", "x", "y", "y"]), "document": pd.Categorical(["a", "b", "b", "a"])},
        {"position": [1.0, 2.0, 1.0, 2.0], "clicked": [True, False, False, True]},
        {"position": ["1", "2", "1", "2"], "clicked": ["True", "false", "0", "1"]},
    ],
    ids=["whole floats", "large numbers", "times", "categories", "floats and bools", "texts"],
)
def test_columns_of_any_type_give_the_same_counts(change):
    right, found = read(ROWS | {"clicked": [1, 0, 0, 1]}), read(pd.DataFrame(ROWS | {"clicked": [1, 0, 0, 1]} | change))
    assert found.document_ids.tolist() == right.document_ids.tolist()
    assert found.sessions.tolist() == right.sessions.tolist() == [2]
    assert found.clicked.tolist() == right.clicked.tolist()


def test_tables_that_are_none():
    with pytest.raises(DataError, match="'clicked' has 2 entries and others have 4"):
        read(ROWS | {"clicked": [0, 1]})
    with pytest.raises(DataError, match=r"'session' .* mixes types: row 0 is int and row 2 is str; make it all texts"):
        read(pd.DataFrame(ROWS | {"session": [1, 1, "x", "x"]}))
    lists = {
        "query": ["q", "q"],
        "documents": [np.array(["a", "b"]), np.array(["b", "a"])],
        "clicked": [[1, 0], [0, 0]],
    }
    assert read(lists, document="documents").clicked.sum() == 1


def test_a_step_that_was_left_out_is_named(data, log):
    counts = read(log)
    seen = given_examination(counts, dict.fromkeys(range(1, 7), 1.0))
    for made, needed in (
        (lambda: examination(log), r"dict .* ClickCounts is needed; make it by luce.clicks.read"),
        (lambda: evaluate(counts, data, np.zeros(40)), r"ClickCounts .* make it by luce.clicks.examination"),
        (lambda: guarded(luce.Ranker(loss="click_choice"), data, counts), "Examination is needed"),
        (lambda: pairs(counts, data), "Examination is needed"),
        (lambda: luce.Ranker(loss="click_choice").fit(data, clicks=counts), r"clicks is a ClickCounts; give .*target"),
        (lambda: luce.Ranker(loss="click_choice").fit(data, clicks=seen), r"clicks is a Examination; give .*target"),
    ):
        with pytest.raises(DataError, match=needed):
            made()


def test_a_level_lies_between_0_and_1(data, log):
    counts = read(log)
    seen = given_examination(counts, dict.fromkeys(range(1, 7), 1.0))
    mixed = {"session": [1, 2], "team": ["a", "b"], "clicked": [1, 1]}
    for level in (0.0, 1.0, 2.0, float("nan")):
        for made in (
            lambda level=level: seen.interval(level),
            lambda level=level: click_rate(counts, level),
            lambda level=level: interleaving(mixed, level=level),
            lambda level=level: evaluate(seen, data, np.zeros(40), level=level),
        ):
            with pytest.raises(SettingError, match="above 0 and below 1"):
                made()


def test_what_stands_further_down_can_be_left_out(log):
    cut = read(log, last_position=3)
    assert cut.positions.tolist() == [1, 2, 3]
    assert "below position 3 and were left out" in cut.notes[-1]
    whole = read(log)
    inside = whole.position <= 3
    assert cut.shown.sum() == whole.shown[inside].sum()
    assert cut.clicked.sum() == whole.clicked[inside].sum()


def test_counts_take_no_rules_of_a_log(log, tmp_path):
    read(log).save(tmp_path / "counts.lucedata")
    for options in ({"max_clicks": 3}, {"document": "sku"}, {"last_position": 2}, {"repeated": "first"}):
        for source in (tmp_path / "counts.lucedata", read(log)):
            with pytest.raises(SettingError, match="these are counts of one; leave them out"):
                read(source, **options)


def test_bad_settings(tmp_path):
    for options, message in (
        ({"last_position": 0}, "last_position is 0"),
        ({"events": "events.jsonl", "document": "sku"}, "name their columns themselves"),
        ({"first_position": 2}, "first_position is 2; it must be 1 or 0"),
        ({"repeated": "last"}, "one of error, first"),
        ({"max_clicks": 0}, "at least 1"),
    ):
        with pytest.raises(SettingError, match=message):
            read(ROWS, **options)
    with pytest.raises(DataError, match="does not exist"):
        read(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match="is empty"):
        read(tmp_path / "empty.csv")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        read(tmp_path / "cut.parquet")


def test_unknown_documents(data, log):
    counts = read(log)
    fewer = luce.from_arrays(data.X[:35], data.y[:35], qid=data.qid[:35], document_ids=data.document_ids[:35])
    with pytest.raises(DataError, match="not in the data, the first is document 'd3"):
        counts.rows_in(fewer)
    assert (counts.rows_in(fewer, "skip") < 0).any()
    other = luce.from_arrays(data.X, data.y, qid=data.qid, document_ids=[f"x{i}" for i in range(40)])
    with pytest.raises(DataError, match=r"No document of the click log .* the data begin with document 'x0' of query"):
        counts.rows_in(other, "skip")


@pytest.mark.parametrize("in_log", [int, float, str])
@pytest.mark.parametrize("in_data", [int, float, str])
def test_ids_are_compared_as_written_and_12_is_12_point_0(in_log, in_data):
    ids, queries = [3, 4], [12, 12]
    log = ROWS | {"document": [in_log(d) for d in (3, 4, 4, 3)], "query": [in_log(12)] * 4}
    data = luce.from_arrays(np.eye(2), qid=[in_data(q) for q in queries], document_ids=[in_data(d) for d in ids])
    assert read(log).rows_in(data).tolist() == [0, 1]


@pytest.mark.real
def test_real_shapes(real_data):
    found = read(
        real_data("clicks") / "retrotech/sessions_dryer_sessions.gz",
        session="sess_id",
        document="clicked_doc_id",
        position="rank",
        first_position=0,
    )
    assert found.sessions.sum() == 5000
    bandit = read(
        real_data("clicks") / "open-bandit/bts_men_men.csv.gz",
        session="-",
        query="-",
        document="item_id",
        clicked="click",
        propensity="propensity_score",
    )
    assert bandit.shown.sum() == 10000
    assert bandit.propensity_sums.shape == (len(bandit.document), 4)
