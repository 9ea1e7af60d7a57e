"""Top-k lists at the command line: `train --orders`, `predict --top-k`, `evaluate --top-k`."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Documents with names and no grades to speak of, and their top three in two kinds of file."""
    path = tmp_path_factory.mktemp("lists")
    made = simulate(queries=20, features=4, seed=0)
    names = np.array([f"doc{i}" for i in range(made.n_rows)])
    truth = made.X @ np.array([1.0, -0.5, 0.2, 0.0])
    bare = luce.from_arrays(made.X, qid=made.qid, document_ids=names)
    luce.write_letor(bare, path / "bare.txt")
    lines, run = [], []
    for q, (a, b) in enumerate(zip(made.offsets, made.offsets[1:], strict=False)):
        top = a + np.argsort(-truth[a:b])[:3]
        lines.append(f"{made.query_ids[q]}: {' > '.join(names[top])}\n")
        run += [f"{made.query_ids[q]} Q0 {names[i]} {rank} {truth[i]} t\n" for rank, i in enumerate(top, 1)]
    (path / "orders.txt").write_text("".join(lines))
    (path / "top.run").write_text("".join(run))
    return path


@pytest.mark.parametrize("model", ["hom-og", "topk-cps"])
def test_train_on_lists(call, folder, tmp_path, model):
    outs = []
    for orders in ("orders.txt", "top.run"):
        out = tmp_path / f"{orders}.luce"
        setting = ("--trainer-setting" if model == "topk-cps" else "--loss-setting", "k=none")
        code, _, err = call(
            "train", folder / "bare.txt", "--model", model, *setting, "--orders", folder / orders, "--out", out
        )
        assert code == 0, err
        assert "20 ordered lists" in err
        outs.append(luce.load(out))
    data = luce.read(folder / "bare.txt")
    np.testing.assert_array_equal(outs[0].predict(data), outs[1].predict(data))
    lists = luce.read_orders(folder / "orders.txt", data)
    whole = {"trainer__k" if model == "topk-cps" else "loss__k": None}
    expected = luce.model(model, **whole, random_state=0).fit(data, comparisons=lists)
    np.testing.assert_allclose(outs[0].predict(data), expected.predict(data))


def test_predict_top_k(call, folder, tmp_path):
    data = luce.read(folder / "bare.txt")
    lists = luce.read_orders(folder / "orders.txt", data)
    model = luce.Ranker("topk_listmle", loss__k=None).fit(data, comparisons=lists)
    model.save(tmp_path / "m.luce")
    code, text, err = call(
        "predict", folder / "bare.txt", "--model", tmp_path / "m.luce", "--format", "csv", "--top-k", 5
    )
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(text)))
    chances = np.array([float(row["p_top_5"]) for row in rows])
    np.testing.assert_array_equal(chances, data.to_input_order(model.topk_probability(data, 5)))
    sums = np.add.reduceat(chances, data.offsets[:-1])
    np.testing.assert_allclose(sums, np.minimum(5, data.sizes), atol=1e-12)
    shuffle = np.random.default_rng(0).permutation(data.n_rows)
    np.testing.assert_allclose(model.topk_probability(data.X[shuffle], 5, qid=data.qid[shuffle]), chances[shuffle])


@pytest.mark.filterwarnings("default:'hom_og' was trained without its normaliser")
@pytest.mark.parametrize("name", ["hom-oo", "hom-og", "topk-cps", "listmle"])
def test_predict_top_k_of_a_hundred_documents(call, tmp_path, name):
    """Chances that have no closed form come with their standard errors; all sum to k."""
    rng = np.random.default_rng(0)
    data = luce.from_arrays(rng.normal(size=(200, 3)), rng.permutation(200).astype(float), group=[100, 100])
    luce.model(name, max_iter=20).fit(data).save(tmp_path / "m.luce")
    luce.write_letor(data, tmp_path / "d.txt")
    exact = name in ("listmle", "hom-oo")
    code, text, err = call(
        "predict", tmp_path / "d.txt", "--model", tmp_path / "m.luce", "--format", "csv", "--top-k", 10
    )
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(text)))
    chances = np.array([float(row["p_top_10"]) for row in rows])
    np.testing.assert_allclose(chances.reshape(2, 100).sum(axis=1), 10, atol=1e-8)
    assert ("p_top_10_error" in rows[0]) == (not exact)
    assert ("estimated by 4,000 draws" in err) == (not exact)
    if not exact:
        assert max(float(row["p_top_10_error"]) for row in rows) < 0.02


def test_evaluate_top_k(call, tmp_path):
    """Of the true order a > b > c > d the first two count; the run has b > a > c > d."""
    (tmp_path / "qrels").write_text("1 0 a 4\n1 0 b 3\n1 0 c 2\n1 0 d 1\n")
    (tmp_path / "run").write_text("1 Q0 b 1 4 t\n1 Q0 a 2 3 t\n1 Q0 c 3 2 t\n1 Q0 d 4 1 t\n")
    metrics = ("--metrics", "kappa_ndcg@1,kappa_ndcg@10,kappa_err", "--json")
    code, text, err = call("evaluate", "--run", tmp_path / "run", "--qrels", tmp_path / "qrels", "--top-k", 2, *metrics)
    assert code == 0, err
    means = json.loads(text)["means"]
    assert means["kappa_ndcg@1"] == pytest.approx(1 / 3)  # gains 2^2 - 1 and 2^1 - 1
    assert means["kappa_ndcg@10"] == pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))
    assert means["kappa_err"] == pytest.approx(1 / 4 + (1 - 1 / 4) * (3 / 4) / 2)  # V = gain / 2^2
    code, _, err = call("evaluate", "--run", tmp_path / "run", "--qrels", tmp_path / "qrels", "--top-k", 0)
    assert code == 2
    assert "top_k is 0" in err


def test_evaluate_by_lists(call, folder, tmp_path):
    """Two judges; scores that agree with the first. The figures are those of luce.evaluate."""
    data = luce.read(folder / "bare.txt")
    scores = np.arange(data.n_rows, 0, -1.0)
    (tmp_path / "scores").write_text("".join(f"{score}\n" for score in data.to_input_order(scores).tolist()))
    names = luce.data.trec.document_names(data)
    (tmp_path / "one").write_text(f"{data.query_ids[0]}: {names[0]} > {names[1]}\n")
    (tmp_path / "two").write_text(f"{data.query_ids[0]} * 3: {{{names[2]} {names[1]}}} > rest\n")
    base = ("evaluate", folder / "bare.txt", "--scores", tmp_path / "scores", "--orders", tmp_path / "one")
    code, _, err = call(*base, "--orders", tmp_path / "two")
    assert code == 0, err
    assert f"2 lists judge 1 of {data.n_queries} queries; all count alike" in err
    code, text, err = call(*base, "--orders", tmp_path / "two", "--json")
    assert code == 0, err
    lists = luce.Comparisons.from_orders([[0, 1], [[2, 1]]], top=True)
    expected = luce.evaluate(scores, data, ["kappa_ndcg@10", "kappa_err"], comparisons=lists)
    assert json.loads(text)["means"] == pytest.approx(expected.means)
    assert expected.values["kappa_ndcg@10"][0] == 1.0
    for more, message in (
        (("--dask", "local"), "--orders are read on one machine"),
        (("--subtopics", tmp_path / "one"), "leave out --subtopics"),
    ):
        code, _, err = call(*base, *more)
        assert code == 2
        assert message in err


def test_train_stops_early_on_lists(call, folder, tmp_path):
    """Lists of the first queries teach, those of the others judge: by kappa-NDCG, or by their likelihood."""
    lines = (folder / "orders.txt").read_text().splitlines()
    (tmp_path / "teach").write_text("\n".join(lines[:15]))
    (tmp_path / "judge").write_text("\n".join(lines[15:]))
    base = ("train", folder / "bare.txt", "--orders", tmp_path / "teach", "--loss", "topk_listmle")
    more = ("--loss-setting", "k=none", "--valid-orders", tmp_path / "judge", "--out", tmp_path / "m.luce")
    code, text, err = call(*base, *more, "--metric", "kappa_ndcg@3")
    assert code == 0, err
    assert f"validate {len(lines) - 15} of {len(lines)} queries" in err
    assert "best validation kappa_ndcg@3" in text
    code, text, err = call(*base, *more, "--metric", "log_likelihood", "--json")
    assert code == 0, err
    data = luce.read(folder / "bare.txt")
    model, judges = luce.load(tmp_path / "m.luce"), luce.read_orders(tmp_path / "judge", data)
    expected = model.log_likelihood(data, comparisons=judges).mean()
    assert json.loads(text)["validation"] == pytest.approx(expected)
    code, _, err = call(*base, "--valid", folder / "bare.txt", "--out", tmp_path / "m.luce")
    assert code == 2
    assert "All labels of every query of the validation data are equal" in err


@pytest.mark.parametrize(
    ("lists", "settings", "message"),
    [
        ("1: doc0 > doc1 > doc0\n", (), "line 1: document 'doc0' stands twice in the list of query '1'"),
        ("1: doc0 > nobody\n", (), "document 'nobody' is not in query '1'"),
        ("zero: doc0\n", (), "query 'zero' is not in the data"),
        ("1: doc0 > doc1\n", ("--loss-setting", "k=0"), "k is 0; it must be a whole number of at least 1"),
        ("1: doc0 > doc1\n", ("--comparisons", "x.csv"), "give one of them"),
        ("no list\n", (), "expected `query: d7 > {d2 d9} > rest`"),
        ("1:\n", (), "the list of query '1' is empty"),
        ("1 * nan: doc0\n", (), "weight of a list of query '1' is 'nan'"),
    ],
)
def test_bad_lists(call, folder, tmp_path, lists, settings, message):
    (tmp_path / "o").write_text(lists)
    out = tmp_path / "m.luce"
    code, _, err = call(
        "train", folder / "bare.txt", "--loss", "hom_og", "--orders", tmp_path / "o", "--out", out, "-q", *settings
    )
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not out.exists()


def test_ties_at_the_cut_name_query_and_documents(call, tmp_path):
    data = luce.from_arrays(np.eye(4), [2, 1, 1, 0], qid=["q7"] * 4, document_ids=["d7", "d2", "d9", "d4"])
    luce.write_letor(data, tmp_path / "data.txt")
    settings = ("--loss", "hom_gg", "--loss-setting", "k=2", "--loss-setting", "ties=error")
    code, _, err = call("train", tmp_path / "data.txt", *settings, "--out", tmp_path / "m.luce", "-q")
    assert code == 2
    assert "Query 'q7': documents 'd2' and 'd9' both have label 1 at the cut k = 2" in err


def test_bad_requests(call, folder, tmp_path):
    data = luce.read(folder / "bare.txt")
    lists = luce.read_orders(folder / "orders.txt", data)
    luce.Ranker("ranknet").fit(data, comparisons=lists).save(tmp_path / "m.luce")
    arguments = ("predict", folder / "bare.txt", "--model", tmp_path / "m.luce", "--top-k", 3)
    code, _, err = call(*arguments)
    assert (code, "--format csv" in err) == (2, True)
    code, _, err = call(*arguments, "--format", "csv")
    assert (code, "'ranknet' has no top-k probabilities" in err) == (2, True)
    train = ("train", folder / "bare.txt", "--orders", folder / "orders.txt", "--out", tmp_path / "p.luce")
    code, _, err = call(*train, "--loss", "pmop")  # to which a list is a query, graded by position
    assert code == 0, err
