"""No command writes over what it reads."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from luce.cli.app import _HOMES
from luce.cli.options import OUTPUTS, prepared

GOOD = "1 qid:b 1:1 2:2\n0 qid:a 1:2\n2 qid:b 1:3\n"


@pytest.mark.parametrize(
    "line",
    [
        "train {data} --out {data}",
        "train {other} --valid {data} --out {data}",
        "train {other} --clicks {data} --out {data}",
        "predict {other} --model {data} --out {data}",
        "predict {data} --model {other} --probabilities {data}",
        "predict {data} --model {other} --probabilities {link}",
        "evaluate {data} --model {other} --per-query {data}",
        "convert {data} --out {data}",
        "export {data} --to solr --out {data}",
        "export {other} --to solr --check {data} --out {data}",
        "rerank {other} {data} --save {data}",
        "rerank {other} {other} --save {data} --relation near={data}",
        "aggregate {data} --out {data}",
        "axioms {data} --rule borda --plot {data}",
        "leaderboard {data} --win-matrix {data}",
        "track --sources {other} --signals {data} --start 0,0 --sigma 1 --map {data}",
        "simulate clicks {data} --out {data}",
    ],
)
def test_an_output_that_is_an_input_is_refused(call, tmp_path, line):
    (tmp_path / "a.txt").write_text(GOOD)
    (tmp_path / "b.txt").write_text(GOOD)
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    names = {"data": tmp_path / "a.txt", "other": tmp_path / "b.txt", "link": tmp_path / "link.txt"}
    code, _, error = call(*line.format(**names).split())
    assert code == 2
    assert "a.txt: this command reads it; give the output another name." in error
    assert (tmp_path / "a.txt").read_text() == GOOD


@pytest.mark.parametrize(
    "line",
    [
        "predict {data} --model {data} --out {new} --probabilities {new}",
        "simulate data --out {new} --valid {new}",
        "simulate battles --out {new} --truth {new}",
    ],
)
def test_two_results_in_one_file_are_refused(call, tmp_path, line):
    code, _, error = call(*line.format(data=tmp_path / "a.txt", new=tmp_path / "b.csv").split())
    assert code == 2
    assert "Cannot write two results" in error
    assert not (tmp_path / "b.csv").exists()


def test_what_is_gone_on_from_may_be_replaced(call, tmp_path):
    (tmp_path / "a.txt").write_text(GOOD)
    model = tmp_path / "m.luce"
    assert call("train", tmp_path / "a.txt", "--out", model, "--max-iter", "2", "-q")[0] == 0
    assert call("train", tmp_path / "a.txt", "--update", model, "--out", model, "--max-iter", "2", "-q")[0] == 0
    # An old output is no input, and neither is a name that happens to be that of a file.
    (tmp_path / "solr").write_text("")
    assert call("export", model, "--to", "solr", "--name", "solr", "--out", tmp_path / "solr", "-q")[0] == 0


def test_every_path_is_known_to_be_read_or_written():
    """A new option of a path must be put on one side or the other."""
    read = {"ballots", "base", "check", "checkpoint", "clicks", "compare", "comparisons", "data", "feature_names"}
    read |= {
        "clicks_examination",
        "events",
        "examination",
        "log",
        "logs",
        "require_signature",
        "sign",
        "tls_certificate",
        "tls_key",
        "token_file",
    }
    read |= {"file", "files", "judgements", "model", "names", "orders", "qrels", "query_file", "run", "scores"}
    read |= {"signals", "source", "sources", "subtopics", "truth", "update", "valid", "valid_base", "valid_orders"}
    read |= {"corpus", "logged", "valid_comparisons"}
    found = set()
    for name, home in _HOMES.items():
        function = getattr(import_module(f"luce.cli.{home}"), name.replace("-", "_"))
        if name not in ("demo", "simulate"):
            hints = get_type_hints(prepared(function))
            found |= {name for name, hint in hints.items() if hint is Path or Path in get_args(hint)}
            found |= {name for name, hint in hints.items() if list[Path] in get_args(hint) or hint == list[Path]}
    assert found == read | set(OUTPUTS)
