"""`luce clicks` and `luce evaluate --clicks`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import luce
from luce.cli.train_options import ClickOptions, What, with_click_loss
from luce.clicks.simulation import production, simulate_sessions, write_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Judged documents, a log and a model."""
    path = tmp_path_factory.mktemp("clicks")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60 * 6)
    X = np.column_stack([y + rng.normal(0, 0.5, len(y)), rng.normal(size=len(y))])
    data = luce.from_arrays(X, y, qid=np.repeat(np.arange(60), 6), document_ids=np.arange(len(y)))
    luce.write_parquet(data, path / "docs.parquet")
    made = production(data, [X[:, 0] + rng.normal(0, 2, len(y))], shown=6, swap=0.4)
    write_log(simulate_sessions(data, made, rng, sessions=3000), data, path / "log.parquet")
    luce.Ranker(loss="ranknet").fit(data).save(path / "m.luce")
    return path


def test_summary_counts_and_picture(call, folder, tmp_path):
    counts = tmp_path / "c.lucedata"
    code, text, err = call("clicks", folder / "log.parquet", "--out", counts, "--plot", tmp_path / "t.svg")
    assert code == 0, err
    assert "3,000 sessions of 60 queries" in " ".join(text.split())
    assert (tmp_path / "t.svg").exists()
    code, text, _ = call("clicks", counts, "--json", "--users", "last_click")
    facts = json.loads(text)
    assert facts["sessions"] == 3000
    assert facts["users"] == "last_click"
    assert facts["not_identified"] is None
    assert facts["share_of_clicks_on_them"] > 0.9


def test_evaluate_from_clicks(call, folder):
    code, text, err = call(
        "evaluate", folder / "docs.parquet", "--model", folder / "m.luce", "--clicks", folder / "log.parquet", "--json"
    )
    assert code == 0, err
    found = json.loads(text)
    assert {row["metric"] for row in found["rows"]} == {"dcg@10", "clicks@10"}
    for row in found["rows"]:
        assert row["difference_low"] > 0  # the model was trained on the grades
    assert found["examination"]["method"] == "combined"
    assert any(note.startswith("Positions lean") for note in found["examination"]["notes"])
    code, text, err = call(
        "evaluate", folder / "docs.parquet", "--model", folder / "m.luce", "--clicks", folder / "log.parquet"
    )
    assert code == 0, err
    assert "snips" in text
    assert "never shown" in err


def test_why_examination_cannot_be_told(call, tmp_path):
    (tmp_path / "log.csv").write_text("session,query,document,position,clicked\n1,q,a,1,1\n1,q,b,2,0\n")
    code, text, err = call("clicks", tmp_path / "log.csv", "--json")
    assert code == 0, err
    assert "nothing tells positions apart" in json.loads(text)["not_identified"]
    _, text, _ = call("clicks", tmp_path / "log.csv", "--quiet")
    assert "Examination cannot be told: " in text
    (tmp_path / "theta.csv").write_text("position,propensity\n1,1\n2,0.5\n")
    code, text, err = call("clicks", tmp_path / "log.csv", "--examination", tmp_path / "theta.csv", "--json")
    assert code == 0, err
    assert json.loads(text)["positions"][1]["theta"] == 0.5


def test_known_examination_teaches_and_judges(call, folder, tmp_path):
    """With examination 1 everywhere what is learned is naive; with 1/k it is what luce finds itself, nearly."""
    models = {}
    for name, theta in (("naive", np.ones(6)), ("right", 1 / np.arange(1, 7))):
        rows = "".join(f"{k},{value}\n" for k, value in enumerate(theta, 1))
        (tmp_path / f"{name}.csv").write_text("position,propensity\n" + rows)
        given = ["--clicks", folder / "log.parquet", "--clicks-examination", tmp_path / f"{name}.csv"]
        out = tmp_path / f"{name}.luce"
        code, _, err = call("train", folder / "docs.parquet", "--ignore-grades", *given, "--out", out)
        assert code == 0, err
        assert f"examination of {tmp_path / name}.csv" in " ".join(err.split())
        models[name] = luce.load(out).predict(luce.read(folder / "docs.parquet"))
        code, text, err = call("evaluate", folder / "docs.parquet", "--model", out, *given, "--json")
        assert code == 0, err
        assert json.loads(text)["examination"]["largest_standard_error"] == 0
    code, _, err = call(
        *("train", folder / "docs.parquet", "--ignore-grades", "--clicks", folder / "log.parquet"),
        *("--out", tmp_path / "own.luce"),
    )
    assert code == 0, err
    own = luce.load(tmp_path / "own.luce").predict(luce.read(folder / "docs.parquet"))
    assert np.corrcoef(own, models["right"])[0, 1] > np.corrcoef(own, models["naive"])[0, 1]


def test_few_clicked_queries_are_told(call, folder, tmp_path):
    given = ["train", folder / "docs.parquet", "--clicks", folder / "log.parquet", "--out", tmp_path / "few.luce"]
    for more, said in (
        (["--ignore-grades"], "Note: 60 queries were clicked, which is few for a penalty"),
        (["--ignore-grades", "--scorer", "trees", "--max-iter", "2"], "few for anything but a linear scorer"),
    ):
        code, _, err = call(*given, *more)
        assert code == 0, err
        assert said in " ".join(err.split())
        assert "--guard" in err
    for more in (["--ignore-grades", "--guard"], ["--loss", "pmop"]):
        code, _, err = call(*given, *more)
        assert code == 0, err
        assert "queries were clicked" not in err


def test_pairs_teach_every_query(call, folder, tmp_path):
    given = ["--clicks", folder / "log.parquet", "--ignore-grades", "--loss", "davidson", "--out", tmp_path / "d.luce"]
    code, _, err = call("train", folder / "docs.parquet", *given)
    assert code == 0, err
    assert "freed of position" in err
    assert "were skipped" not in err


def test_auto_from_clicks_lets_the_log_choose(call, folder, tmp_path):
    given = ["train", folder / "docs.parquet", "--clicks", folder / "log.parquet", "--model", "auto"]
    code, _, err = call(*given, "--ignore-grades", "--out", tmp_path / "a.luce")
    assert code == 0, err
    chosen = luce.load(tmp_path / "a.luce").history_["guard"]["chosen"]
    assert f"Taken: {chosen}." in err
    code, text, err = call(*given, "--ignore-grades", "--json", "--out", tmp_path / "a.luce")
    assert code == 0, err
    assert json.loads(text)["guard"]["chosen"] == chosen
    for more, said in (
        ([], "add --ignore-grades"),
        (["--ignore-grades", "--scorer", "linear"], "leave --loss and --scorer out"),
    ):
        code, _, err = call(*given, *more, "--out", tmp_path / "b.luce")
        assert code == 2
        assert said in " ".join(err.split())


@pytest.mark.parametrize("given", [{}, {"max_iter": 7}, {"trainer__max_iter": 7}])
def test_auto_from_clicks_has_fifty_trees_unless_told(given):
    clicking = ClickOptions(ignore_grades=True)
    what, guarding, settings = with_click_loss(What(model="auto"), Path("log.parquet"), clicking, given)
    assert (what.loss, what.scorer, guarding.guard) == ("click_choice", "trees", True)
    assert settings == (given or {"max_iter": 50})


def test_interleaved_log(call, tmp_path):
    (tmp_path / "log.csv").write_text("session,team,clicked\n1,a,1\n1,b,0\n2,a,0\n2,b,1\n3,a,1\n3,b,0\n")
    code, text, err = call("clicks", tmp_path / "log.csv", "--interleaved", "team_draft", "--json")
    assert code == 0, err
    found = json.loads(text)
    assert (found["wins_a"], found["wins_b"], found["winner"]) == (2, 1, None)


EVALUATE = ["evaluate", "{f}/docs.parquet", "--model", "{f}/m.luce", "--clicks", "{f}/log.parquet"]
BAD = {
    "positions from 0": (["clicks", "{t}/zero.csv"], "--first-position 0"),
    "counts as a table": (["clicks", "{t}/log.csv", "--out", "{t}/c.csv"], "counts are written as .lucedata"),
    "no session": (["clicks", "{t}/mixed.csv", "--interleaved", "team_draft"], "session is empty"),
    "no metric": ([*EVALUATE, "--metrics", " "], "give a list of dcg@k"),
    "no share": ([*EVALUATE, "--most-unseen", "nan"], "most_unseen is nan; it must be between 0 and 1"),
    "sessions twice": (
        ["simulate", "clicks", "{f}/docs.parquet", "--sessions", "5", "--impressions", "3", "--out", "{t}/s.csv"],
        "--sessions and --impressions were given",
    ),
    "rankers twice": (
        [
            "simulate",
            "clicks",
            "{f}/docs.parquet",
            "--ranker",
            "{f}/m.luce",
            "--weak-share",
            "0.2",
            "--out",
            "{t}/s.csv",
        ],
        "--weak-share is for the weak rankers",
    ),
    "no file": (["clicks", "{t}/none.csv"], "does not exist"),
    "no ids": (["clicks", "{t}/log.csv", "--data", "{t}/table.csv", "--out", "{t}/c.lucedata"], "--data-doc"),
    "no data": (["clicks", "{t}/log.csv", "--data-doc", "sku"], "--data-doc says nothing without --data"),
    "ids of nothing": (
        ["clicks", "{t}/mixed.csv", "--interleaved", "team_draft", "--data-doc", "sku"],
        "--data-doc says nothing beside --interleaved",
    ),
    "no picture": (["clicks", "{t}/none.csv", "--plot", "{t}/p.txt"], "its ending must be one of .png"),
    "drawn twice": (["clicks", "{t}/drawn.csv", "--propensity", "p"], "'a' has two propensities at position 1"),
    "simulated without ids": (["simulate", "clicks", "{t}/table.csv", "--out", "{t}/s.csv"], "(--doc"),
    "propensity": (["clicks", "{t}/log.csv", "--examination", "{t}/bad.csv"], "above 0 and at most 1"),
    "bad user": (["clicks", "{f}/log.parquet", "--users", "robots"], "position, last_click"),
    "joint alone": (["clicks", "{f}/log.parquet", "--method", "joint"], "give the documents"),
    "no model": (["evaluate", "{f}/docs.parquet", "--scores", "x", "--clicks", "{f}/log.parquet"], "--model"),
    "convention": ([*EVALUATE, "--preset", "lightgbm"], "--preset does not go with --clicks"),
    "users without a log": ([*EVALUATE[:4], "--clicks-users", "last_click"], "goes with --clicks LOG"),
    "known and estimated": (
        [*EVALUATE, "--clicks-examination", "{t}/bad.csv", "--clicks-users", "last_click"],
        "leave it or --clicks-examination out",
    ),
    "known and method": (
        ["clicks", "{t}/log.csv", "--examination", "{t}/bad.csv", "--method", "joint"],
        "--method says",
    ),
    "half a position": (["clicks", "{t}/log.csv", "--examination", "{t}/half.csv"], "must be a whole number"),
    "two propensities": (["clicks", "{t}/log.csv", "--examination", "{t}/two.csv"], "have one propensity"),
    "interleaved and counts": (
        ["clicks", "{t}/log.csv", "--interleaved", "team_draft", "--out", "{t}/c"],
        "--out says",
    ),
    "interleaved and robots": (
        ["clicks", "{t}/log.csv", "--interleaved", "team_draft", "--max-clicks", "3"],
        "--max-clicks says nothing",
    ),
    "weight of comparisons": (
        ["train", "{f}/docs.parquet", "--clicks", "{f}/log.parquet", "--comparison-weight", "2", "--out", "{t}/m.luce"],
        "--clicks-weight",
    ),
    "other names": (
        ["train", "{f}/docs.parquet", "--clicks", "{t}/names.csv", "--out", "{t}/m.luce"],
        "luce clicks --doc",
    ),
    "grades": (
        ["evaluate", "{f}/docs.parquet", "--model", "{f}/m.luce", "--clicks", "{f}/log.parquet", "--metrics", "map"],
        "cannot be told from clicks",
    ),
    "train unlinked": (
        ["train", "{f}/docs.parquet", "--clicks", "{t}/log.csv", "--out", "{t}/m.luce"],
        "both must use the same ids",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_one_sentence_and_code_2(call, folder, tmp_path, name):
    head = "session,query,document,position,clicked\n"
    (tmp_path / "zero.csv").write_text(head + "1,q,a,0,1\n1,q,b,1,0\n")
    (tmp_path / "log.csv").write_text(head + "1,q,a,1,1\n1,q,b,2,0\n")
    (tmp_path / "bad.csv").write_text("position,propensity\n1,1\n2,0\n")
    (tmp_path / "mixed.csv").write_text("session,team,clicked\n1,a,1\n,b,0\n")
    (tmp_path / "half.csv").write_text("position,propensity\n1.5,1\n2,0.5\n")
    (tmp_path / "two.csv").write_text("position,propensity\n1,1\n2,0.5\n2,0.6\n")
    (tmp_path / "names.csv").write_text("session,query,sku,position,clicked\n1,q,a,1,1\n")
    (tmp_path / "table.csv").write_text("qid,sku,label,x\nq,a,0,1\nq,b,1,2\n")
    (tmp_path / "drawn.csv").write_text(head.strip() + ",p\n1,q,a,1,1,0.5\n1,q,a,1,0,0.4\n")
    arguments, message = BAD[name]
    code, _, err = call(*(word.format(f=folder, t=tmp_path) for word in arguments))
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "c.lucedata").exists()


def test_documents_of_a_table_are_found_by_their_column(call, tmp_path):
    rows = [
        (s, d, k, int(d == "a" or (s + k) % 3 == 0)) for s in range(60) for k, d in enumerate(("ab", "ba")[s % 2], 1)
    ]
    text = "".join(f"{s},q,{d},{k},{c}\n" for s, d, k, c in rows)
    (tmp_path / "log.csv").write_text("session,query,document,position,clicked\n" + text + "0,q,b,2,1\n")
    (tmp_path / "docs.csv").write_text("search,sku,grade,x\nq,a,1,1\nq,b,0,3\nq,c,0,2\n")
    named = ["--data-qid", "search", "--data-doc", "sku", "--data-label", "grade"]
    code, text, err = call(
        "clicks", tmp_path / "log.csv", "--data", tmp_path / "docs.csv", *named, "--method", "joint", "--json"
    )
    assert code == 0, err
    notes = json.loads(text)["notes"]
    assert any("differ in the click, which was counted" in note for note in notes) is (rows[1][3] == 0)
    assert any("in no error and no interval" in note for note in notes)
    code, _, err = call(
        *("simulate", "clicks", tmp_path / "docs.csv", "--qid", "search", "--doc", "sku", "--label", "grade"),
        *("--shown", "2", "--out", tmp_path / "s.parquet"),
    )
    assert code == 0, err
    assert set(luce.clicks.read(tmp_path / "s.parquet").document_ids) <= {"a", "b", "c"}
