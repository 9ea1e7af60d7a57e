"""`luce rerank`: base scores in every form, training, applying, diversity, and each mistake in one sentence."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate_duplicates
from luce.data.trec import write_predictions


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Documents, base scores in three forms, and a base model."""
    folder = tmp_path_factory.mktemp("rerank")
    for name, seed in (("train", 1), ("test", 2)):
        luce.write_parquet(simulate_duplicates(15, seed=seed), folder / f"{name}.parquet")
        data = luce.read_parquet(folder / f"{name}.parquet")
        model = luce.Ranker("listnet").fit(data)
        if name == "train":
            model.save(folder / "base.luce")
        for ending, format in ((".run", "trec"), (".csv", "csv"), (".scores", "scores")):
            write_predictions(folder / (name + ending), data, model.predict(data), format)
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_train_and_apply(folder, call):
    code, out, err = call("rerank", "train.run", "train.parquet", "--save", "r.luce", "--l2", "0.001", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["metric"] == "ndcg@10"
    assert set(result["weights"][0]) == {"constant", "cosine"}
    applied = []
    for ending in ("run", "csv", "scores"):
        code, out, err = call("rerank", f"test.{ending}", "test.parquet", "--model", "r.luce", "--format", "scores")
        assert code == 0, err
        applied.append([float(line) for line in out.split()])
    np.testing.assert_allclose(applied[0], applied[1])
    np.testing.assert_allclose(applied[0], applied[2])
    assert call("rerank", "test.run", "test.parquet", "--model", "r.luce", "--out", "new.run")[0] == 0
    assert "luce-rerank" in (folder / "new.run").read_text()
    test = luce.read_parquet("test.parquet")
    base = np.array([float(line) for line in (folder / "test.scores").read_text().split()])
    np.testing.assert_allclose(luce.load("r.luce").predict(test, base_scores=base), applied[0])


def test_a_model_as_base_is_kept(folder, call):
    code, _, err = call(
        "rerank", "base.luce", "train.parquet", "--save", "r.luce", "--valid", "test.parquet", "--loss", "pmop", "-q"
    )
    assert code == 0, err
    code, out, _ = call("predict", "test.parquet", "--model", "r.luce")
    assert len(out.split()) == luce.read_parquet("test.parquet").n_rows
    code, _, err = call("rerank", "test.run", "test.parquet", "--model", "r.luce")
    assert code == 2
    assert "holds its base model; use luce predict" in err


@pytest.mark.parametrize("base", ["base.luce", "model:listnet"])
def test_base_fitted_on_folds(folder, call, base):
    more = ("train.parquet", "--save", "r.luce", "--base-folds", "3", "--loss", "ndcg_square", "-q")
    code, _, err = call("rerank", base, *more)
    assert code == 0, err
    train, ranker = luce.read_parquet("train.parquet"), luce.load("r.luce")
    np.testing.assert_allclose(ranker.base_.scores(train), luce.load("base.luce").predict(train), rtol=1e-6, atol=1e-9)
    by_hand = luce.Ranker("ndcg_square", "listwise", base=luce.Ranker("listnet"), base_folds=3, random_state=0)
    np.testing.assert_allclose(ranker.predict(train), by_hand.fit(train).predict(train), rtol=1e-6)


def test_folds_of_scores_and_bases_that_are_no_rankers_are_refused(folder, call):
    for base, more, said in (
        ("train.run", ("--base-folds", "3"), "holds scores, which no fold can fit again"),
        ("model:borda-agg", (), "aggregates rankings"),
        ("model:nothing", (), "Unknown model 'nothing'"),
        ("base.luce", ("--base-folds", "1"), "base_folds"),
    ):
        code, _, err = call("rerank", base, "train.parquet", "--save", "r.luce", *more)
        assert code == 2
        assert said in err.replace("\n", " ")
    code, _, err = call("rerank", "test.run", "test.parquet", "--model", "r.luce", "--base-folds", "3")
    assert code == 2
    assert "--base-folds is for training" in err


def test_validation_relations_and_judgements(folder, call):
    train = luce.read_parquet("train.parquet")
    edges = ["query,document_a,document_b,weight", "1,d1,d2,0.5", "2,d1,d3,1", "99,x,y,1"]
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")
    rows = [f"{q} 0 {d} {int(y)}" for q, d, y in zip(train.qid, train.document_ids, train.y, strict=True) if y > 0]
    (folder / "qrels").write_text("\n".join(rows) + "\n")
    more = ("--valid", "test.parquet", "--valid-base", "test.run", "--relation", "same=edges.csv", "--qrels", "qrels")
    code, out, err = call("rerank", "train.run", "train.parquet", "--save", "r.luce", "--json", *more)
    assert code == 0, err
    assert set(json.loads(out)["weights"][0]) == {"constant", "cosine", "relation:same"}
    assert len(json.loads(out)["validation"]) == 9
    more = ("--relation", "same=edges.csv", "--l2", "1e-4")
    assert call("rerank", "train.run", "train.parquet", "--save", "r.luce", *more)[0] == 0
    code, _, err = call("rerank", "test.run", "test.parquet", "--model", "r.luce")
    assert code == 2
    assert "needs the relation 'same'" in err
    code, _, err = call("rerank", "test.run", "test.parquet", "--model", "r.luce", "--relation", "same=edges.csv")
    assert code == 0
    assert "Relation 'same': 1 edges of queries that test.parquet does not have are left out" in err


def test_edges_of_other_queries_only_are_refused(folder, call):
    (folder / "other.csv").write_text("query,source,target\n98,x,y\n99,x,y\n")
    code, _, err = call("rerank", "train.run", "train.parquet", "--save", "r.luce", "--relation", "same=other.csv")
    assert code == 2
    assert "other.csv: none of its 2 edges is in a query of train.parquet" in " ".join(err.split())


@pytest.mark.parametrize("option", [(), ("--valid", "no.parquet", "--valid-base", "nothing.run")])
def test_missing_base_is_refused_before_the_data_are_read(folder, call, option):
    base = "train.run" if option else "nothing.run"
    code, _, err = call("rerank", base, "no.parquet", "--save", "r.luce", *option)
    assert code == 2
    assert "nothing.run does not exist" in err


@pytest.mark.parametrize("method", ["--greedy", "--mmr"])
def test_diversity(folder, call, method):
    code, out, err = call("rerank", "train.run", "train.parquet", "--save", "g.luce", method, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["metric"] == "alpha_ndcg@10"
    assert result["after"] > result["before"] + 0.05
    assert call("rerank", "test.run", "test.parquet", "--model", "g.luce", "--out", "new.run")[0] == 0
    code, out, err = call("evaluate", "test.parquet", "--model", "base.luce", "--metrics", "alpha_ndcg@10", "--json")
    assert code == 0, err
    before = json.loads(out)["means"]["alpha_ndcg@10"]
    test = luce.read_parquet("test.parquet")
    subtopics = ["query,document,subtopic"]
    for row in range(test.n_rows):
        subtopics += [f"{test.qid[row]},{test.document_ids[row]},{t}" for t in test.subtopics[[row]].indices]
    (folder / "subtopics.csv").write_text("\n".join(subtopics) + "\n")
    scored = ("--run", "new.run", "--subtopics", "subtopics.csv", "--metrics", "alpha_ndcg@10", "--json")
    code, out, err = call("evaluate", "test.parquet", *scored)
    assert code == 0, err
    assert json.loads(out)["means"]["alpha_ndcg@10"] > before + 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.run", "train.parquet"], "exactly one of them"),
        (["train.run", "train.parquet", "--save", "r", "--model", "base.luce"], "exactly one of them"),
        (["short.run", "train.parquet", "--save", "r"], "short.run: no score for document 'd"),
        (["nothing.run", "train.parquet", "--save", "r"], "nothing.run does not exist"),
        (["bad.csv", "train.parquet", "--save", "r"], "the columns are a, b; needed are qid, docid, score"),
        (["twice.csv", "train.parquet", "--save", "r"], "line 3: document 'd1' of query '1' occurs twice"),
        (["train.run", "train.parquet", "--save", "r", "--relation", "x"], "must have the form NAME=FILE"),
        (["train.run", "train.parquet", "--save", "r", "--relation", "x=e.csv"], "document 'zz' is not in query '1'"),
        (["train.run", "train.parquet", "--save", "r", "--loss", "x"], "Unknown loss 'x'"),
        (["train.run", "train.parquet", "--save", "r", "--setting", "kernels=x"], "The kernel 'x' is not known"),
        (["train.run", "train.parquet", "--save", "r", "--setting", "turns=2"], "does not take these parameters"),
        (["train.run", "train.parquet", "--save", "r", "--l2", "-1"], "l2 is -1.0"),
        (["train.run", "train.parquet", "--save", "r", "--valid", "test.parquet"], "--valid needs --valid-base"),
        (["train.run", "train.parquet", "--save", "r", "--valid-base", "test.run"], "--valid-base goes with --valid"),
        (["train.run", "train.parquet", "--save", "r", "--greedy", "--mmr"], "give one of them"),
        (["train.run", "train.parquet", "--save", "r", "--out", "x"], "--out is for the ranking"),
        (["train.run", "train.parquet", "--save", "no/r"], "folder no does not exist"),
        (["train.run", "train.parquet", "--save", "r", "--qrels", "e.qrels"], "judges none of the documents"),
        (["train.scores", "flat.csv", "--save", "r"], "all labels of every query are equal"),
        (["test.run", "test.parquet", "--model", "base.luce"], "holds no reranker"),
        (["test.run", "test.parquet", "--model", "base.luce", "--loss", "pmop"], "--loss is for training"),
        (["test.run", "test.parquet", "--model", "base.luce", "--format", "x"], "Unknown format 'x'"),
        (["test.run", "test.parquet", "--model", "base.luce", "--seed", "1"], "--seed is for training"),
        (["test.run", "test.parquet", "--model", "base.luce", "--loss-setting", "a=1"], "--loss-setting is for"),
        (["train.run", "train.parquet", "--save", "r", "--format", "csv"], "--format is for the ranking"),
    ],
)
def test_bad_input(folder, call, arguments, message):
    lines = (folder / "train.run").read_text().splitlines(keepends=True)
    (folder / "short.run").write_text("".join(lines[:20]))
    (folder / "bad.csv").write_text("a,b\n1,2\n")
    (folder / "twice.csv").write_text("qid,docid,score\n1,d1,0\n1,d1,1\n")
    (folder / "e.csv").write_text("query,source,target\n1,d1,zz\n")
    (folder / "e.qrels").write_text("77 0 x 1\n")
    (folder / "flat.csv").write_text("qid,label,f\n1,0,0.5\n1,0,0.7\n")
    code, _, err = call("rerank", *arguments)
    assert code == 2
    assert message in " ".join(err.split())
    assert not (folder / "r").exists()
