"""Tables as people have them: roles, types, categories, dates, gaps, index columns, and columns that say too much."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import luce
from luce.data.describe import describe
from luce.data.mapped import read_data, stream_data, write_data
from luce.data.readers.columns import encode_rows
from luce.data.readers.detect import open_source
from luce.data.schema import Schema
from luce.errors import DataError, LuceWarning, ParseError, SettingError

ROWS = 12
TABLE = {
    "search": [f"q{i // 4}" for i in range(ROWS)],
    "grade": [i % 3 for i in range(ROWS)],
    "sku": [f"sku-{i}" for i in range(ROWS)],
    "price": [None if i == 5 else 10.5 - i for i in range(ROWS)],
    "stock": [i * i % 7 for i in range(ROWS)],
    "brand": [None if i == 7 else ["zeta", "acme", "Öl"][i % 3] for i in range(ROWS)],
    "new": [i % 4 == 0 for i in range(ROWS)],
    "listed": [date(2024, 1, 1) + timedelta(days=i % 5) for i in range(ROWS)],
    "title": [f"title {i}" for i in range(ROWS)],
}
WORDS = {"qid": "search", "label": "grade", "doc": "sku", "allow_nan": True}
FEATURES = ("price", "stock", "brand", "new", "listed")


def frames():
    table = pa.table(TABLE)
    pandas = pd.DataFrame({name: table[name].to_pandas() for name in table.column_names})
    nullable = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get)
    categories = pandas.assign(brand=pandas["brand"].astype("category"), listed=pd.to_datetime(pandas["listed"]))
    polars = pl.from_arrow(table)
    yield from (table, pandas, nullable, categories, polars, polars.with_columns(pl.col("brand").cast(pl.Categorical)))


def files(folder):
    table = pa.table(TABLE)
    parquet.write_table(table, folder / "t.parquet", row_group_size=5)
    feather.write_feather(table, folder / "t.feather")
    table.to_pandas().to_csv(folder / "t.csv", index=False)
    table.to_pandas().to_csv(folder / "t.tsv", index=False, sep="\t")
    return [folder / f"t.{end}" for end in ("parquet", "feather", "csv", "tsv")]


def expected():
    brands = {name: code for code, name in enumerate(sorted({"zeta", "acme", "Öl"}))}
    columns = [
        [np.nan if value is None else value for value in TABLE["price"]],
        TABLE["stock"],
        [np.nan if value is None else brands[value] for value in TABLE["brand"]],
        TABLE["new"],
        [(day - date(1970, 1, 1)).days for day in TABLE["listed"]],
    ]
    return np.array(columns, dtype=np.float32).T


def check(data):
    assert data.feature_names == FEATURES
    np.testing.assert_array_equal(data.X, expected())
    assert data.y.tolist() == TABLE["grade"]
    assert data.query_ids.tolist() == ["q0", "q1", "q2"]
    assert data.document_ids.tolist() == TABLE["sku"]
    assert [column.type for column in data.schema.features] == ["number", "number", "category", "boolean", "date"]
    assert data.schema.categories == {2: ("acme", "zeta", "Öl")}
    assert [column.name for column in data.schema.left_out] == ["title"]


def test_frames_and_files_say_the_same(tmp_path):
    for frame in frames():
        check(luce.from_frame(frame, **WORDS))
    for path in files(tmp_path):
        check(luce.read(path, **WORDS))
        stream_data(open_source(path, **WORDS), tmp_path / "t.lucedata")
        check(read_data(tmp_path / "t.lucedata", verify=True))


def test_the_remark_names_every_column():
    data = luce.from_frame(pa.table(TABLE), drop=["stock"], **WORDS)
    remark = data.schema.remark()
    assert remark == (
        "Features: price, brand (3 categories), new, listed (days since 1970-01-01 UTC). Query: search. Label: grade. "
        "Document: sku. Left out: stock (dropped), title (a text that is different in every row). Not used as "
        "they are: title; compare texts with that of the query by text=, --text, or name those of few values in "
        "categorical=, --categorical."
    )
    assert all(name in remark for name in TABLE)


def test_a_schema_survives_json_and_files(tmp_path):
    data = luce.from_frame(pa.table(TABLE), **WORDS)
    assert Schema.from_dict(json.loads(json.dumps(data.schema.to_dict()))) == data.schema
    write_data(data, tmp_path / "t.lucedata")
    assert read_data(tmp_path / "t.lucedata").schema == data.schema
    assert data.take([1]).schema == data.schema
    luce.write_parquet(data, tmp_path / "again.parquet")
    again = luce.read(tmp_path / "again.parquet", allow_nan=True)
    np.testing.assert_array_equal(again.X, data.X)
    assert again.schema.features == data.schema.features
    with pytest.raises(DataError, match="'brand' is a category, and LETOR text holds numbers"):
        luce.write_letor(data, tmp_path / "t.txt")
    for damaged in (None, {}, {"columns": 3}, {"columns": [{"name": 1}]}, {"columns": [{"name": "a", "role": "b"}]}):
        with pytest.raises(DataError, match="schema"):
            Schema.from_dict(damaged)


def test_the_next_file_has_the_same_codes(tmp_path):
    known = luce.from_frame(pa.table(TABLE), **WORDS).schema
    other = {name: values[:4] for name, values in TABLE.items()} | {"brand": ["Öl", "unheard", None, "acme"]}
    del other["grade"]
    parquet.write_table(pa.table(other), tmp_path / "n.parquet")
    pa.table(other).to_pandas().to_csv(tmp_path / "n.csv", index=False)
    for path in (tmp_path / "n.parquet", tmp_path / "n.csv"):
        with pytest.warns(LuceWarning, match=r"1 of 3 values of the column 'brand' were not seen"):
            data = luce.read(path, schema=known, allow_nan=True)
        np.testing.assert_array_equal(data.X[:, 2], [2, 3, np.nan, 0])
        assert data.y.tolist() == [0, 0, 0, 0]
        assert data.document_ids.tolist() == TABLE["sku"][:4]
    rows = [dict(zip(other, values, strict=True)) for values in zip(*other.values(), strict=True)]
    np.testing.assert_array_equal(encode_rows(known, rows), data.X)
    assert np.isnan(encode_rows(known, [{}])).all()
    assert encode_rows(known, [{"listed": "1970-01-03"}])[0, 4] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price": ["high"] * ROWS}, "'price' holds text here and held numbers before"),
        ({"listed": [1.0] * ROWS}, "'listed' holds numbers here and held dates before"),
        ({"stock": TABLE["listed"]}, "'stock' holds dates here and held numbers before"),
        ({"brand": list(range(ROWS))}, "None of the values of the column 'brand' was seen"),
        ({"price": None}, "no column 'price', which is a feature"),
        ({"search": None}, "no column 'qid' for the query"),
    ],
)
def test_types_that_changed_are_refused(change, message):
    known = luce.from_frame(pa.table(TABLE), **WORDS).schema
    table = {name: values for name, values in (TABLE | change).items() if values is not None}
    with pytest.raises(DataError, match=message):
        luce.from_frame(pa.table(table), schema=known, allow_nan=True)
    with pytest.raises(SettingError, match=r"leave drop .--drop. out"):
        luce.from_frame(pa.table(TABLE), schema=known, drop=["price"])


def test_an_index_is_no_feature(tmp_path):
    frame = pd.DataFrame(TABLE, index=[3 * i * i for i in range(ROWS)])
    named = frame.rename_axis("row")
    frame.to_parquet(tmp_path / "a.parquet")
    named.to_parquet(tmp_path / "b.parquet")
    frame.to_csv(tmp_path / "c.csv")
    pd.read_csv(tmp_path / "c.csv").to_csv(tmp_path / "d.csv", index=False)
    for name in ("a.parquet", "b.parquet", "c.csv", "d.csv"):
        data = luce.read(tmp_path / name, **WORDS)
        assert data.feature_names == FEATURES, name
        assert "the index of a data frame" in [column.why for column in data.schema.left_out], name
    for each in (frame, named):
        assert luce.from_frame(each, **WORDS).feature_names == FEATURES
    by_query = frame.set_index("search")
    by_query.to_parquet(tmp_path / "e.parquet")
    assert luce.read(tmp_path / "e.parquet", **WORDS).query_ids.tolist() == ["q0", "q1", "q2"]
    assert luce.from_frame(by_query, **WORDS).feature_names == FEATURES


def test_columns_that_give_too_much_away():
    table = TABLE | {
        "leak": [float(grade) for grade in TABLE["grade"]],
        "row": list(range(1, ROWS + 1)),
        "same": [7] * ROWS,
        "code": [17 * i % 100 for i in range(ROWS)],
    }
    with pytest.warns(
        LuceWarning,
        match="'leak' is equal to the label and left .*'row' is the number of the row and left out .features=",
    ):
        data = luce.from_frame(pa.table(table), **WORDS)
    assert data.feature_names == (*FEATURES, "same", "code")
    why = {column.name: column.why for column in data.schema.columns if column.why}
    assert why["leak"] == "equal to the label"
    assert why["row"] == "the number of the row"
    assert why["same"] == "one value in all rows"
    assert "different in every row" in why["code"]
    assert luce.from_frame(pa.table(table), features=["row"], **WORDS).feature_names == ("row",)
    with pytest.warns(LuceWarning, match="'leak' is equal to the label"):
        assert luce.from_frame(pa.table(table), features=["leak"], **WORDS).feature_names == ("leak",)


@pytest.mark.parametrize("name", ["relevance", "Label", "human_label", "judgments"])
def test_a_feature_that_is_called_as_labels_are_is_named(name):
    table = pa.table(TABLE | {name: [i % 7 % 3 for i in range(ROWS)]})
    said = {column.name: column.why for column in luce.from_frame(table, **WORDS).schema.features}
    assert "label=, --label" in said.pop(name)
    assert not any(said.values())
    asked = luce.from_frame(table, **WORDS, features=[*FEATURES, name])
    assert not any(column.why for column in asked.schema.features)


@pytest.mark.parametrize("kept", ["id", "grown"])
def test_an_id_is_never_the_only_feature(kept):
    """Rising from row to row, or called an id: left out where nothing else is there, and named where there is more."""
    numbers = {"id": [17 * i % 100 for i in range(ROWS)], "grown": [3 * i * i + 5 for i in range(ROWS)]}
    table = {name: TABLE[name] for name in ("search", "grade")} | {kept: numbers[kept]}
    with pytest.raises(DataError, match=rf"No column is left for features .{kept}: .*an id.*features=, --features"):
        luce.from_frame(pa.table(table), qid="search", label="grade")
    data = luce.from_frame(pa.table(table), qid="search", label="grade", features=[kept])
    assert data.feature_names == (kept,)
    with pytest.warns(LuceWarning, match=f"{kept!r} is a whole number that is different in every row; an id"):
        data = luce.from_frame(pa.table(table | {"x": [0.5, 0.25] * (ROWS // 2)}), qid="search", label="grade")
    assert data.feature_names == (kept, "x")


def test_ids_alone_are_no_features_and_texts_are_offered_instead():
    """A row number beside another id that some rows share is not taken for want of anything better."""
    table = {name: TABLE[name] for name in ("search", "grade")}
    table |= {"id": [3 * i * i for i in range(ROWS)], "product_uid": [i // 3 for i in range(ROWS)]}
    long = {"title": [f"a text {i} of many words" for i in range(1001)]} | {
        name: [values[i % ROWS] for i in range(1001)] for name, values in table.items()
    }
    long |= {"id": list(range(7, 2009, 2))}
    for given, offered in ((table, ""), (long, "Not used as they are: title; compare texts")):
        with pytest.raises(DataError, match=rf"id: a whole .*product_uid: called as an id.*--features.*{offered}"):
            luce.from_frame(pa.table(given), qid="search", label="grade")
    with pytest.raises(DataError, match="id: the number of the row; product_uid: called as an id"):
        luce.from_frame(pa.table(table | {"id": list(range(ROWS))}), qid="search", label="grade")
    data = luce.from_frame(pa.table(table), qid="search", label="grade", features=["product_uid"])
    assert data.feature_names == ("product_uid",)


def test_a_whole_number_that_is_no_id_may_be_the_only_feature():
    table = {name: TABLE[name] for name in ("search", "grade")} | {"price": [17 * i % 100 for i in range(ROWS)]}
    assert luce.from_frame(pa.table(table), qid="search", label="grade").feature_names == ("price",)


def test_a_table_without_a_query_names_likely_columns():
    with pytest.raises(DataError, match=r"no column 'qid' for the query.*such as --qid 'search'"):
        luce.from_frame(pa.table(TABLE), label="grade")


def test_categories_that_are_asked_for():
    many = [f"word {i}" for i in range(3000)]
    table = pa.table(
        {"qid": [i // 2 for i in range(3000)], "word": many, "zip": [i % 5 for i in range(3000)], "f": [0.5] * 3000}
    )
    data = luce.from_frame(table)
    assert data.feature_names == ("zip", "f")
    data = luce.from_frame(table, categorical=["word", "zip"])
    assert data.feature_names == ("word", "zip", "f")
    assert data.schema.categories == {0: tuple(sorted(many)), 1: tuple("01234")}
    assert data.X[:, 1].tolist() == table["zip"].to_pylist()


def test_dates_with_zones_and_durations():
    noon = datetime(1970, 1, 2, 12)
    table = pa.table(
        {
            "qid": [1, 1],
            "when": pa.array([noon, None], pa.timestamp("us", tz="UTC")),
            "how_long": pa.array([timedelta(hours=6), timedelta(days=2)]),
        }
    )
    data = luce.from_frame(table, allow_nan=True)
    np.testing.assert_array_equal(data.X, np.array([[1.5, 0.25], [np.nan, 2]], dtype=np.float32))


@pytest.mark.parametrize(
    ("table", "words", "message"),
    [
        ({"qid": [1], "query_id": [1], "f": [1.0]}, {}, "Both 'qid' and 'query_id' could be the query"),
        (
            {"grade": ["good"], "qid": [1], "f": [1.0]},
            {"label": "grade"},
            "holds text .'good'.*give each of its values",
        ),
        ({"qid": [None], "f": [1.0]}, {}, "ow 0: qid is (empty|nan)"),
        ({"qid": [float("nan")], "f": [1.0]}, {}, "ow 0: qid is (empty|nan)"),
        ({"qid": [""], "f": [1.0]}, {}, "ow 0: qid is (empty|nan)"),
        ({"qid": [], "f": []}, {}, "no rows"),
        ({"f": [1.0]}, {}, "no column 'qid' for the query"),
        ({"qid": [1], "f": [1.0]}, {"drop": ["x"]}, "no column 'x' .drop."),
        ({"qid": [1], "f": [1.0]}, {"drop": ["f"], "features": ["f"]}, "to be dropped and to be used"),
        ({"qid": [1], "f": [1.0]}, {"drop": ["qid"]}, "no column 'qid' for the query|is the qid"),
        ({"qid": [1], "f": [1.0]}, {"features": ["qid"]}, "'qid' is the qid; it cannot be among features"),
        ({"qid": [1], "f": [1.0]}, {"doc": "qid"}, "cannot be both qid and doc"),
        ({"qid": [1], "f": [[1.0]]}, {}, "No column is left for features .f: neither numbers nor text"),
        ({"qid": [1], "f": [[1.0]]}, {"features": ["f"]}, "'f' cannot be a feature"),
        ({"qid": [1], "f": [None]}, {}, "f: empty"),
    ],
)
def test_bad_tables(tmp_path, table, words, message):
    with pytest.raises(DataError, match=message):
        luce.from_frame(pa.table(table), **words)
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    with pytest.raises(ParseError, match=message):
        luce.read(tmp_path / "t.parquet", **words)


def test_words():
    with pytest.raises(SettingError, match="features is 'price'; give a list"):
        luce.from_frame(pa.table(TABLE), qid="search", features="price")
    with pytest.raises(SettingError, match="doc and document_id mean the same"):
        luce.from_frame(pa.table(TABLE), qid="search", doc="sku", document_id="sku")
    with pytest.raises(DataError, match=r"two columns are named 'a'|Two columns are named 'a'|unique"):
        luce.from_frame(pd.DataFrame([[1, 2, 3]], columns=["a", "a", "qid"]))


def test_describe_lists_the_columns():
    facts = {column["name"]: column for column in describe(luce.from_frame(pa.table(TABLE), **WORDS))["columns"]}
    assert list(facts) == ["search", "grade", "sku", "price", "stock", "brand", "new", "listed", "title"]
    assert facts["price"] == {
        "name": "price",
        "role": "feature",
        "type": "number",
        "min": -0.5,
        "max": 10.5,
        "missing": 1 / ROWS,
    }
    assert facts["brand"]["categories"] == ["acme", "zeta", "Öl"]
    assert facts["listed"]["unit"] == "days since 1970-01-01 UTC"
    assert facts["title"]["why"] == "a text that is different in every row"


GRADES = {"good": 2, "ok": 1, "bad": 0}


@pytest.mark.parametrize("kind", ["text", "category"])
def test_labels_that_are_text_have_a_map(tmp_path, kind):
    words = np.random.default_rng(0).choice(list(GRADES), ROWS)
    frame = pd.DataFrame({"qid": 1, "label": words, "x": np.arange(ROWS) % 7})
    frame = frame if kind == "text" else frame.astype({"label": "category"})
    data = luce.from_frame(frame, label_map=GRADES)
    assert data.y.tolist() == [GRADES[word] for word in words]
    again = Schema.from_dict(json.loads(json.dumps(data.schema.to_dict())))
    assert again == data.schema
    np.testing.assert_array_equal(luce.from_frame(frame, schema=again).y, data.y)
    numbers = luce.from_frame(frame.assign(label=data.y), schema=again)
    np.testing.assert_array_equal(numbers.y, data.y)
    with pytest.raises(DataError, match="The label 'bad' in the column 'label' has no number in the label map"):
        luce.from_frame(frame, label_map={"good": 1, "ok": 0})
    with pytest.raises(DataError, match="--label-map good=2,ok=1,bad=0"):
        luce.from_frame(frame)
    with pytest.raises(DataError, match="no label column"):
        luce.from_frame(frame.drop(columns="label"), label_map=GRADES)


@pytest.mark.parametrize("given", [{}, ["good"], {"good": "x"}, {"good": float("inf")}])
def test_bad_label_maps(given):
    with pytest.raises(SettingError, match="label_map"):
        luce.from_frame(pd.DataFrame({"qid": [1], "label": ["good"], "x": [1]}), label_map=given)


def test_few_rows_may_have_new_categories_only():
    known = luce.from_frame(pd.DataFrame({"qid": 1, "brand": ["a", "b"] * 10, "x": [0.5, 2.0] * 10})).schema
    few = pd.DataFrame({"qid": 1, "brand": ["new"] * 9, "x": range(9)})
    with pytest.warns(LuceWarning, match="9 of 9 values of the column 'brand' were not seen"):
        assert (luce.from_frame(few, schema=known).X[:, 0] == 2).all()
    many = pd.DataFrame({"qid": 1, "brand": ["new"] * 10, "x": range(10)})
    with pytest.raises(DataError, match="None of the values"):
        luce.from_frame(many, schema=known)


def test_weights_that_differ_inside_a_query():
    frame = pd.DataFrame({"qid": ["a", "b", "a"], "query_weight": [1.0, 2.0, 1.0], "x": [1, 2, 3]})
    assert luce.from_frame(frame).query_weight.tolist() == [1, 2]
    with pytest.raises(DataError, match="Query 'a' has rows of weight 1 and 3"):
        luce.from_frame(frame.assign(query_weight=[1.0, 2.0, 3.0]))
