"""Columns whose names a reader cannot tell apart: named wherever data come in, and offered where one is missed."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import luce
from luce.errors import DataError, LuceWarning

PAIRS = [
    ("a", "A"),
    ("a", "a "),
    ("a", " a"),
    ("a", "a\u200b"),
    ("caf\u00e9", "cafe\u0301"),
    ("qid", "QID"),
    ("label", "Label"),
]


def frame(*names):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"qid": np.repeat(np.arange(4), 5), "label": rng.integers(0, 3, 20), "other": rng.normal(size=20)}
    )
    return table.assign(**{name: rng.normal(size=20) for name in names if name not in table})


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_alike_names_are_named(one, other, tmp_path):
    table = frame(one, other)
    said = f"The names of the columns {one!a} and {other!a} differ in case, blanks or unseen signs alone".replace(
        "\\", r"\\"
    )
    with pytest.warns(LuceWarning, match=said):
        luce.from_frame(table)
    with pytest.warns(LuceWarning, match=said):
        luce.Ranker(max_iter=2).fit(table, "label", qid="qid")
    if other.strip() == other:  # in files blanks around names mean nothing, so that two of one name are refused
        table.to_csv(tmp_path / "t.csv", index=False)
        with pytest.warns(LuceWarning, match=said):
            luce.read(tmp_path / "t.csv")
    else:
        table.to_csv(tmp_path / "t.csv", index=False)
        with pytest.raises(DataError, match="two columns are named"):
            luce.read(tmp_path / "t.csv")


def test_different_names_say_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = luce.from_frame(frame("a", "b", "1", "01", "a1", "a_1"))
    assert data.feature_names == ("other", "a", "b", "1", "01", "a1", "a_1")


def test_a_missing_feature_is_looked_for_under_names_like_it():
    model = luce.Ranker(max_iter=2).fit(frame("a"), "label", qid="qid")
    with pytest.raises(DataError, match=r"no column 'a', which is a feature; .*other, A.*'A' is another name\."):
        model.predict(frame("A"))


def test_a_name_that_stands_twice_is_named():
    with pytest.raises(DataError, match="Two features are named 'x'"):
        luce.from_arrays(np.eye(3), feature_names=["x", "y", "x"])
    with pytest.raises(DataError, match="3 features need as many names; got 2"):
        luce.from_arrays(np.eye(3), feature_names=["x", "y"])
