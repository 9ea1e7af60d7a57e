"""Texts as features: a slow reference of BM25, bad input, and text as a part of a model."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import luce
from luce.data.schema import Schema
from luce.data.text.analyzer import stored_length
from luce.data.text.tokens import stem, words
from luce.errors import DataError, LuceError, SettingError

NOUNS = "angle bracket hammer wood screw drill pump faucet lamp cable brass chrome steel deck tile saw".split()  # noqa: SIM905


def shop(queries: int = 30, seed: int = 0) -> pd.DataFrame:
    """Rows whose grade is the number of words that query and title share."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(queries):
        query = rng.choice(NOUNS, 3, replace=False).tolist()
        for _ in range(8):
            title = [*rng.choice(query, rng.integers(0, 4), replace=False), *rng.choice(NOUNS, 4)]
            rows.append((" ".join(query), " ".join(title), len({*query} & {*title})))
    return pd.DataFrame(rows, columns=["search", "title", "grade"])


def slow_bm25(query: str, title: str, titles: list[str]) -> float:
    """BM25 of stems as Lucene has it, term by term."""
    stems = [[stem(word) for word in words(each)] for each in titles]
    mean = sum(map(len, stems)) / len(stems)
    found = [stem(word) for word in words(title)]
    total = 0.0
    for term in (stem(word) for word in words(query)):
        n, f = sum(term in each for each in stems), found.count(term)
        length = int(stored_length(np.array([len(found)]))[0])
        idf = math.log(1 + (len(stems) - n + 0.5) / (n + 0.5))
        total += idf * f / (f + 1.2 * (0.25 + 0.75 * length / mean)) if f else 0.0
    return total


def test_bm25_is_that_of_the_slow_reference():
    frame = shop()
    text = luce.Text("search", ["title"])
    found = pd.DataFrame(text.fit_transform(frame), columns=text.get_feature_names_out())
    titles = sorted(set(frame.title))
    wanted = [slow_bm25(q, t, titles) for q, t in zip(frame.search, frame.title, strict=True)]
    np.testing.assert_allclose(found["title.word_bm25"], wanted, rtol=1e-6)


def test_lengths_in_a_byte():
    assert (stored_length(np.arange(40)) == np.arange(40)).all()
    lengths = np.arange(40, 5000)
    assert (stored_length(lengths) <= lengths).all()
    assert (stored_length(lengths) > 0.87 * lengths).all()
    assert len(np.unique(stored_length(np.arange(2**20)))) < 256


@pytest.mark.parametrize("features", ["engine", "full"])
@pytest.mark.parametrize(
    "title",
    ["", "x", "angle " * 200_000, "日本語の本", "مرحبا بالعالم", "😀😀", "<b>angle</b> &amp;", "caf\ufffd",
     "the of and", "12 3.5", "a\0b", "\t\n"],
)  # fmt: skip
def test_features_of_any_text_are_finite(title, features):
    rows = {"query": ["angle bracket", "", title[:100]], "title": [title] * 3, "body": ["", title, "angle"]}
    text = luce.Text("query", ["title", "body"], features=features)
    found = text.fit_transform(rows)
    assert found.shape == (3, len(text.names))
    assert np.isfinite(found).all()


def test_texts_without_blanks_are_named():
    with pytest.warns(luce.errors.LuceWarning, match="3-grams"):
        luce.Text("query", ["title"]).fit({"query": ["本"], "title": ["日本語の本を読む" * 20]})


def test_it_is_a_transformer_of_a_pipeline():
    frame = shop()
    pipeline = make_pipeline(luce.Text("search", ["title"]), Ridge()).fit(frame, frame.grade)
    assert np.corrcoef(pipeline.predict(frame), frame.grade)[0, 1] > 0.9
    assert clone(pipeline[0]).get_params() == pipeline[0].get_params()


def test_a_ranker_reads_texts_and_keeps_them_in_its_file(tmp_path):
    train, test = shop(), shop(seed=1)
    model = luce.Ranker(text=luce.Text("search", ["title"])).fit(train, "grade", qid="search")
    scores = model.predict(test)
    assert model.score(test, "grade") > 0.9
    model.save(tmp_path / "m.luce")
    again = luce.load(tmp_path / "m.luce")
    np.testing.assert_array_equal(again.predict(test[["title", "search"]]), scores)
    np.testing.assert_array_equal(clone(again).fit(train, "grade", qid="search").predict(test), scores)
    with pytest.raises(DataError, match="'title'"):
        again.predict(test[["search"]])
    with pytest.raises(DataError, match="no data frame"):
        again.predict(np.zeros((2, 9)), qid=[1, 1])


def test_a_ranker_checks_the_settings_of_its_texts_and_takes_its_document_ids():
    frame = shop().assign(sku=np.arange(240) % 200, note=lambda rows: "on " + rows.title)
    for wrong, said in (
        ({"language": "french"}, "'french'"),
        ({"fields": ["search"]}, "texts of their own"),
        ({"doc": "nope"}, "'nope' of document ids"),
        ({"corpus": frame[["search"]]}, "The corpus has no column 'title'"),
    ):
        with pytest.raises(LuceError, match=said):
            luce.Ranker(text=luce.Text("search", **{"fields": ["title"], **wrong})).fit(frame, "grade")
    text = luce.Text("search", ["title"], doc="sku")
    with pytest.raises(DataError, match="say one"):
        luce.from_frame(frame, text=text, label="grade", doc="note")
    data = luce.from_frame(frame, text=text, label="grade", features=["note"])
    assert data.schema.text.frequencies_ == clone(text).fit(frame).frequencies_
    assert data.schema.named("doc") == "sku"
    assert (
        "Note note: mostly different texts"
        in luce.from_frame(
            pd.concat([frame, frame[:1]]), text=luce.Text("search", ["title"]), label="grade", drop=["sku"]
        ).schema.remark()
    )


def test_groups_without_texts_are_refused():
    with pytest.raises(DataError, match="hold no texts"):
        luce.Ranker(text=luce.Text("search", ["title"])).fit(luce.from_arrays([[1.0], [2.0]], [0, 1]))


def test_a_damaged_record_is_refused():
    data = luce.from_frame(shop(), text=luce.Text("search", ["title"]), label="grade")
    assert Schema.from_dict(data.schema.to_dict()).text.frequencies_ == data.schema.text.frequencies_
    for change in ({"version": 2}, {"fields": "title"}, {"more": 1}, {"frequencies": {}}):
        record = data.schema.to_dict()
        record["text"] |= change
        with pytest.raises(DataError):
            Schema.from_dict(record)
    for change in ({"terms": 10**9}, {"bytes": -1}, {"packed": "AAAA"}, {"documents": 1}, {"terms": 3}):
        record = data.schema.to_dict()
        record["text"]["frequencies"]["title.word"] |= change
        with pytest.raises(DataError):
            Schema.from_dict(record)


def test_features_of_the_query_are_left_out_where_asked():
    whole, without = (luce.Text("search", ["title"], query_features=given).fit(shop()) for given in (True, False))
    assert whole.names == [*without.names, "q_words", "q_idf"]
    np.testing.assert_array_equal(whole.transform(shop())[:, :-2], without.transform(shop()))
    assert "query_features" not in whole.to_dict()
    assert luce.Text.from_dict(whole.to_dict()).names == whole.names
    assert luce.Text.from_dict(without.to_dict()).names == without.names


def test_settings_are_checked():
    for wrong in ({"fields": "title"}, {"fields": []}, {"language": "french"}, {"features": "all"}, {"min_df": 0},
                  {"k1": -1.0}, {"b": 2.0}, {"query": "title"}, {"numbers": 1},
                  {"query_features": 0}):  # fmt: skip
        with pytest.raises(SettingError):
            luce.Text(**{"query": "search", "fields": ["title"], **wrong}).fit(shop())
    with pytest.raises(LuceError, match="'name'"):
        luce.Text("search", ["name"]).fit(shop())


def test_a_word_of_a_megabyte_is_no_spelling_of_another():
    """Its spellings would be a million words of a megabyte each."""
    rows = {"query": ["bracket", "x" * 2**20], "title": ["y" * 2**20 + " brackett", "x" * 2**20]}
    text = luce.Text("query", ["title"], features="full").fit(rows)
    found = dict(zip(text.names, text.transform(rows).T, strict=True))
    assert found["title.near_words"].tolist() == [1, 0]
    assert found["title.word_count"].tolist() == [0, 1]
    assert all(np.isfinite(values).all() for values in found.values())
