"""Tables of people: what was once taken in silence is right, refused in one sentence, or said in a remark."""

from __future__ import annotations

import errno
import gzip
import io
import json

import numpy as np
import pandas as pd
import pytest

import luce
from luce.errors import DataError, LuceWarning, ParseError, SettingError

ROWS = 24


def table(**changes):
    rng = np.random.default_rng(0)
    found = pd.DataFrame(
        {
            "qid": np.repeat(["q0", "q1", "q2", "q3"], 6),
            "label": rng.integers(0, 3, ROWS),
            "a": rng.normal(size=ROWS),
            "b": rng.normal(size=ROWS),
        }
    )
    return found.assign(**changes)


def test_a_misspelt_word_is_refused_by_every_reader(tmp_path):
    table().to_csv(tmp_path / "x.csv", index=False)
    table().to_parquet(tmp_path / "x.parquet")
    for read in (
        lambda: luce.from_frame(table(), feature=["a"]),
        lambda: luce.read_csv(tmp_path / "x.csv", feature=["a"]),
        lambda: luce.read_parquet(tmp_path / "x.parquet", feature=["a"]),
    ):
        with pytest.raises(SettingError, match="Did you mean 'features'"):
            read()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qid": np.repeat(["q0", "", "q2", "q3"], 6)}, "Row 6: qid is empty"),
        ({"qid": [[1]] * ROWS}, "'qid' holds list.*; it must hold texts or numbers"),
        ({"label": [[1]] * ROWS}, "'label' holds lists"),
        ({"label": pd.to_datetime(["2024-01-01"] * ROWS)}, "'label' holds dates"),
        ({"label": pd.to_timedelta(np.arange(ROWS), "D")}, "'label' holds durations"),
    ],
)
def test_columns_that_cannot_play_their_part(changes, message):
    with pytest.raises(DataError, match=message):
        luce.from_frame(table(**changes))


def test_large_and_infinite_ids_are_ids():
    data = luce.from_frame(table(qid=np.repeat([1e17, 2e17, np.inf, 0.0], 6)))
    assert data.n_queries == 4


def test_ids_that_differ_in_blanks_are_named():
    with pytest.warns(LuceWarning, match="'q1' and ' q1' .* differ in blanks alone"):
        luce.from_frame(table(qid=np.repeat(["q1", " q1", "q2", "q3"], 6)))


@pytest.mark.parametrize("text", ["0,5", "12%", "$3", "1.200,50", "01.02.2024"])
def test_numbers_in_disguise_are_named(text):
    with pytest.warns(LuceWarning, match="'c' holds numbers or dates written as text"):
        data = luce.from_frame(table(c=[text, "7"] * 12))
    assert "numbers or dates written as text" in data.schema.remark()
    with pytest.warns(LuceWarning, match="written as text"):  # also where every row is different
        luce.from_frame(table(c=[f"{i},5" for i in range(ROWS)]))
    luce.from_frame(table(c=[text, "7"] * 12), categorical=["c"])  # asked for, and no remark


def test_numbers_beyond_float32_are_noted():
    data = luce.from_frame(table(c=1_700_000_000 + np.random.default_rng(1).permutation(ROWS) * 2 + 0.5))
    assert "float32" in data.schema.remark()
    assert "float32" not in luce.from_frame(table(c=np.arange(ROWS)[::-1] * 1e6)).schema.remark()


def test_an_empty_column_is_left_out_whatever_its_type():
    for nothing in (None, np.nan):
        data = luce.from_frame(table(c=nothing))
        assert data.feature_names == ("a", "b")
        assert "c (empty)" in data.schema.remark()


def test_a_csv_column_may_begin_empty(tmp_path):
    lines = ["qid,label,late,b", *(["q1,1,,3"] * 200_000), "q1,0,2,4"]
    (tmp_path / "late.csv").write_text("\n".join(lines) + "\n")
    data = luce.read(tmp_path / "late.csv")
    assert data.feature_names == ("late", "b")
    assert data.X[-1, 0] == 2.0
    assert np.isnan(data.X[0, 0])


def test_rows_as_json_are_a_table(tmp_path):
    frame = table()
    frame.to_json(tmp_path / "x.jsonl", orient="records", lines=True)
    frame.to_json(tmp_path / "x.json", orient="records")
    for name in ("x.jsonl", "x.json"):
        data = luce.read(tmp_path / name)
        np.testing.assert_array_equal(data.X, luce.from_frame(frame).X)
    (tmp_path / "log.json").write_text(json.dumps({"hits": {"hits": []}}))
    with pytest.raises(DataError):
        luce.read(tmp_path / "log.json")


def test_later_tables_are_held_against_the_first():
    first = luce.from_frame(table(sold=[True, False] * 12))
    with pytest.raises(DataError, match="'sold' held true and false before, and is 7 in row 0"):
        luce.from_frame(table(sold=7), schema=first.schema)
    assert luce.from_frame(table(sold=[1, 0] * 12), schema=first.schema).n_rows == ROWS
    with pytest.warns(LuceWarning, match="'a' is empty in all 24 rows, and was not in the data before"):
        luce.from_frame(table(sold=True, a=None), schema=first.schema)


@pytest.mark.parametrize(
    "give",
    [
        lambda X: luce.from_arrays(X, ["a", "b", "c", "d"]),
        lambda X: luce.from_arrays(X, [1j, 0, 0, 0]),
        lambda X: luce.from_arrays(X * 1j, [0, 1, 0, 1]),
        lambda X: luce.from_arrays([["a", "b"]] * 4, [0, 1, 0, 1]),
        lambda X: luce.from_arrays(X.astype("M8[D]"), [0, 1, 0, 1]),
        lambda X: luce.from_arrays(X[:, :0], [0, 1, 0, 1]),
        lambda X: luce.from_arrays(X, [0, 1, 0, 1], group=[2.7, 1.3]),
        lambda X: luce.from_arrays(X, [0, 1, 0, 1], group=["2", "2"]),
        lambda X: luce.from_arrays(X, [0, 1, 0, 1], qid=[1, 1, 2, 2], query_weight=["x", "y"]),
        lambda X: luce.from_arrays(X, [0, 1, 0, 1], feature_names="ab"),
    ],
)
def test_arrays_that_are_no_numbers(give):
    with pytest.raises(DataError) as caught:
        give(np.arange(8).reshape(4, 2))
    assert "\n" not in str(caught.value)


def test_a_frame_given_as_an_array_keeps_its_names():
    assert luce.from_arrays(table()[["a", "b"]], table().label).feature_names == ("a", "b")


@pytest.mark.parametrize(("allow", "n_features"), [("no", None), (False, 2.5)])
def test_options_of_text_are_of_their_type(tmp_path, allow, n_features):
    (tmp_path / "x.txt").write_text("1 qid:1 1:2\n0 qid:1 1:3\n")
    with pytest.raises(SettingError, match=r"must be (True or False|a whole number)"):
        luce.read_letor(tmp_path / "x.txt", allow_nan=allow, n_features=n_features)


def test_a_series_in_another_order_is_refused():
    frame = table()
    X, y = frame[["a", "b"]], frame.label
    for given in ({"y": y[::-1], "qid": frame.qid}, {"y": y, "qid": frame.qid.sample(frac=1, random_state=0)}):
        with pytest.raises(DataError, match="has the index of the frame in another order"):
            luce.Ranker().fit(X, **given)
    luce.Ranker().fit(X, y.set_axis(range(100, 100 + ROWS)), qid=frame.qid)  # another index: by place, as everywhere


def test_data_without_labels_are_neither_learned_from_nor_judged():
    bare = luce.from_frame(table().drop(columns="label"))
    with pytest.raises(DataError, match="no column of labels, so that there is nothing to learn from"):
        luce.Ranker().fit(bare)
    with pytest.raises(DataError, match="no column of labels to judge by"):
        luce.evaluate(np.zeros(ROWS), bare, "ndcg")
    for alike in ({"label": 1}, {"qid": np.arange(ROWS)}):
        with pytest.warns(LuceWarning, match="no order can be learned"):
            luce.Ranker().fit(luce.from_frame(table(**alike)))


def test_a_packed_table_says_where_there_is_no_room_to_unpack_it(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"qid,label,a\n" + b"1,0,0.5\n" * 1000))

    class Full(io.BytesIO):
        name = "full"

        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", lambda **_: Full())
    with pytest.raises(ParseError, match="no space is left; set TMPDIR to another folder"):
        luce.read(path)
