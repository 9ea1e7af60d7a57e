"""Raw text on the command line: train, evaluate, predict, and what is said where something is missing."""

import json

import numpy as np
import pandas as pd
import pytest

import luce
from luce.errors import LuceError, LuceWarning
from luce.experiments.folds import find_folds
from tests.data.test_text import shop


def test_a_table_with_text_is_trained_and_scored(call, tmp_path):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    shop().to_csv(train, index=False)
    shop(seed=1).to_csv(test, index=False)
    model, scores = tmp_path / "m.luce", tmp_path / "scores.txt"
    words = ("--query-text", "search", "--text", "title", "--label", "grade")
    code, _, error = call("train", train, *words, "-o", model)
    assert code == 0, error
    assert "9 of the texts title against search" in error
    assert call("predict", test, "--model", model, "-o", scores)[0] == 0
    wanted = luce.load(model).predict(shop(seed=1))
    np.testing.assert_allclose(np.loadtxt(scores), wanted, rtol=1e-6)
    code, _, error = call("evaluate", test, "--model", model)
    assert code == 0, error
    assert call("predict", train, *words[:4], "--model", model)[0] != 0


def test_a_binary_file_keeps_features_of_texts_and_goes_with_their_corpus_alone(call, tmp_path):
    train, test, binary = tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "t.lucedata"
    shop().to_csv(train, index=False)
    shop(seed=1).to_csv(test, index=False)
    words = ("--query-text", "search", "--text", "title", "--label", "grade")
    code, _, error = call("convert", train, *words, "-o", binary)
    assert code == 0, error
    assert "Features: 9 of the texts title" in error
    scores = []
    for name, source, more in (("a", train, words), ("b", binary, ())):
        assert call("train", source, *more, "--model", "listnet", "-o", tmp_path / name)[0] == 0
        assert call("predict", test, "--model", tmp_path / name, "-o", tmp_path / "s.txt")[0] == 0
        scores.append((tmp_path / "s.txt").read_text())
    assert scores[0] == scores[1]
    assert "can read 16 words of the corpus" in call("info", binary)[1]
    with pytest.warns(LuceWarning, match="no texts to count anew"):
        code, _, error = call("compare", binary, "--models", "listnet", "--folds", "3", "-o", tmp_path / "run")
    assert code == 0, error
    how = ("--to", "elasticsearch", "--store", "shop", "--offset", "auto", "-o", tmp_path / "m.json")
    code, _, error = call("export", tmp_path / "a", *how, "--check", binary)
    assert code == 0, error
    assert "holds no texts" in error
    assert call("convert", test, *words, "-o", tmp_path / "other.lucedata")[0] == 0
    code, _, error = call("predict", tmp_path / "other.lucedata", "--model", tmp_path / "a")
    assert code == 2
    assert "another corpus than that of the model" in error


def test_info_counts_texts_without_words_and_words_that_no_text_has(call, tmp_path):
    frame, words = shop(), ("--query-text", "search", "--text", "title", "--label", "grade")
    frame.loc[frame.search == frame.search[0], "search"] = "zorgel hammers"
    frame.loc[[1, 2], "title"] = ["", "..."]
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, out, error = call("info", tmp_path / "t.csv", *words)
    assert code == 0, error
    assert "search: 0, title: 2 of 240 rows" in out
    assert "1 (zorgel) of " in out
    shop()[:16].to_csv(tmp_path / "few.csv", index=False)
    found = json.loads(call("info", tmp_path / "t.csv", *words, "--corpus", tmp_path / "few.csv", "--json")[1])["texts"]
    few = {word for title in shop()[:16].title for word in title.split()}
    asked = {word for query in frame.search for word in query.split()}
    assert set(found["unknown_query_words"]) == asked - few - {"hammers"}
    assert found["query_words"] == len(asked)
    assert call("train", tmp_path / "t.csv", *words, "--model", "listnet", "-o", tmp_path / "m.luce")[0] == 0
    assert (
        "title (238 documents) against search; whoever has this file can read " in call("info", tmp_path / "m.luce")[1]
    )


def test_what_is_missing_is_named(call, tmp_path):
    train = tmp_path / "train.csv"
    shop().to_csv(train, index=False)
    for given, wanted in ((("--query-text", "search"), "--text"), (("--text", "title"), "--query-text")):
        code, _, error = call("train", train, *given, "--label", "grade", "-o", tmp_path / "m.luce")
        assert code != 0
        assert f"{wanted}, the column" in error
    words = ("--query-text", "search", "--text", "title")
    for given, wanted in (
        (("--query-text", "serch", "--text", "title"), "no column 'serch' of text"),
        ((*words, "--drop", "title"), "leave it out of drop"),
        ((*words, "--categorical", "title"), "leave it out of categorical"),
    ):
        code, _, error = call("train", train, *given, "--label", "grade", "-o", tmp_path / "m.luce")
        assert code == 2
        assert wanted in error
    shop().assign(**{"title.length": 1}).to_csv(train, index=False)
    code, _, error = call("train", train, *words, "--label", "grade", "-o", tmp_path / "m.luce")
    assert code == 2
    assert "has the name of a feature that is computed of texts" in error


@pytest.mark.parametrize(
    "command", [("compare", "--models", "listnet", "--folds", "3"), ("tune", "--model", "listnet")]
)
def test_searches_count_words_in_training_rows(call, tmp_path, command):
    train = tmp_path / "train.csv"
    shop().to_csv(train, index=False)
    words = ("--query-text", "search", "--text", "title", "--label", "grade", "--jobs", "1")
    more = ("--trials", "2", "--no-query-features") if command[0] == "tune" else ()
    code, out, error = call(command[0], train, *command[1:], *words, *more, "--out", tmp_path / "run")
    assert code == 0, error
    if command[0] == "tune":
        assert "--query-text search --text title --no-query-features" in out
    else:
        code, _, error = call("report", tmp_path / "run", "--out", tmp_path / "page.html")
        assert code == 0, error


def test_folds_are_as_if_the_text_was_fitted_on_their_training_rows(tmp_path):
    frame = shop()
    frame.to_csv(tmp_path / "t.csv", index=False)
    text = luce.Text("search", ["title"])
    for fold in find_folds(tmp_path / "t.csv", folds=3, text=text, label="grade"):
        train, _, test = fold.load()
        inside = frame[frame.search.isin(set(train.query_ids))]
        fitted = luce.Text("search", ["title"]).fit(inside)
        for part in (train, test):
            rows = frame[frame.search.isin(set(part.query_ids))]
            order = np.concatenate([np.flatnonzero(rows.search == q) for q in part.query_ids])
            np.testing.assert_array_equal(part.X, fitted.transform(rows)[order])


@pytest.mark.parametrize("more", [(), ("--no-query-features",)])
def test_the_whole_way_to_an_engine(call, tmp_path, more):
    train = tmp_path / "train.csv"
    shop().assign(sku=range(240)).to_csv(train, index=False)
    words = ("--query-text", "search", "--text", "title", "--label", "grade", "--doc", "sku", *more)
    assert call("train", train, *words, "--model", "listnet", "-o", tmp_path / "m.luce")[0] == 0
    how = ("--to", "elasticsearch", "--store", "shop", "--offset", "auto", "--check", train)
    code, _, error = call("export", tmp_path / "m.luce", *how, "-o", tmp_path / "m.json")
    assert code == 0, error
    lines = (tmp_path / "m-check.jsonl").read_text().splitlines()
    assert len(lines) == 200
    logged = [json.loads(line) for line in lines]
    table = pd.DataFrame([{"search": one["query"], **one["texts"], **one["features"]} for one in logged])
    table.to_csv(tmp_path / "logged.csv", index=False)
    code, out, error = call("text-check", tmp_path / "logged.csv", "--model", tmp_path / "m.luce")
    assert code == 0, error + out
    assert ("trained without q_words and q_idf" in error) == bool(more)
    assert ("q_idf" in table) == (not more)
    table["title.word_bm25"] += 0.1
    table.to_csv(tmp_path / "logged.csv", index=False)
    assert call("text-check", tmp_path / "logged.csv", "--model", tmp_path / "m.luce")[0] == 1
    assert call("text-check", train, "--model", tmp_path / "m.luce")[0] == 2
    alone = tmp_path / "alone"
    alone.mkdir()
    assert call("export", tmp_path / "m.luce", *how, "--what", "index", "-o", alone / "m.json")[0] == 0
    assert [path.name for path in alone.iterdir()] == ["m-index.json"]
    assert (alone / "m-index.json").read_bytes() == (tmp_path / "m-index.json").read_bytes()
    code, _, error = call("export", tmp_path / "m.luce", *how, "--what", "weights", "-o", alone / "m.json")
    assert code == 2
    assert "it has all, model, features, query, index, check" in error


def test_a_log_becomes_a_table(call, tmp_path):
    hits = [
        {
            "_id": str(i),
            "fields": {"_ltrlog": [{"main": [{"name": "title.word_bm25", "value": float(i)}, {"name": "b"}]}]},
        }
        for i in range(4)
    ]
    (tmp_path / "log.json").write_text(json.dumps([{"qid": "1", "hits": {"hits": hits}}]))
    (tmp_path / "j.txt").write_text("".join(f"{i % 2} qid:1 # {i}\n" for i in range(4)))
    given = ("read-log", tmp_path / "log.json", "--judgements", tmp_path / "j.txt", "-o", tmp_path / "t.parquet")
    code, _, error = call(*given, "--from", "elasticsearch")
    assert code == 0, error
    found = luce.read(tmp_path / "t.parquet")
    assert "title.word_bm25" in found.feature_names
    assert found.n_rows == 4
    assert call(*given, "--from", "vespa")[0] == 2


def test_bad_texts_have_a_sentence():
    frame = shop()
    several = frame.assign(qid=np.arange(len(frame)) // 16)
    with pytest.warns(LuceWarning, match="differs within query ids"):
        luce.Ranker("listnet", text=luce.Text("search", ["title"])).fit(several, "grade", qid="qid")
    lists = frame.assign(title=[[t] for t in frame.title])
    with pytest.raises(LuceError, match="join them"):
        luce.Ranker("listnet", text=luce.Text("search", ["title"])).fit(lists, "grade")
    with pytest.warns(LuceWarning, match="all documents the same score"):
        luce.Ranker("listnet", text=luce.Text("search", ["title"])).fit(frame.assign(title="alike"), "grade")
    numbers = frame.assign(title=np.arange(len(frame)))
    with pytest.warns(LuceWarning, match="all documents the same score"):
        model = luce.Ranker("listnet", text=luce.Text("search", ["title"])).fit(numbers, "grade")
    assert np.isfinite(model.predict(numbers)).all()


def test_a_model_that_ranks_nothing_is_not_exported(call, tmp_path):
    shop().assign(title="alike").to_csv(tmp_path / "t.csv", index=False)
    words = ("--query-text", "search", "--text", "title", "--label", "grade")
    assert call("train", tmp_path / "t.csv", *words, "-o", tmp_path / "m.luce")[0] == 0
    how = ("--to", "elasticsearch", "--store", "shop", "--offset", "auto", "-o", tmp_path / "m.json")
    code, _, error = call("export", tmp_path / "m.luce", *how, "--check", tmp_path / "t.csv")
    assert code == 2
    assert "the same score, so that there is nothing to rank by" in error


def test_mixed_encodings_have_a_sentence(call, tmp_path):
    (tmp_path / "t.csv").write_bytes(
        "search,title,grade\ncaf\u00e9,caf\u00e9,1\n".encode() + "caf\u00e9,b,0\n".encode("latin-1")
    )
    words = ("--query-text", "search", "--text", "title", "--label", "grade")
    code, _, error = call("train", tmp_path / "t.csv", *words, "-o", tmp_path / "m.luce")
    assert code == 2
    assert "encoding" in error
