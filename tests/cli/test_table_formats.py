"""Every command that reads a table reads it in every format, plain and packed, to the same result."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from pyarrow import feather, parquet

import luce

Table = dict[str, list]


def _csv(mark: str) -> Callable[[Table], bytes]:
    def write(table: Table) -> bytes:
        text = io.StringIO()
        rows = csv.writer(text, delimiter=mark, lineterminator="\n")
        rows.writerow(table)
        rows.writerows(zip(*table.values(), strict=True))
        return text.getvalue().encode()

    return write


def _binary(write: Callable) -> Callable[[Table], bytes]:
    def packed(table: Table) -> bytes:
        stream = io.BytesIO()
        write(pa.table(table), stream)
        return stream.getvalue()

    return packed


def _rows(table: Table) -> list[dict]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


FORMATS = {
    "csv": _csv(","),
    "semicolon.csv": _csv(";"),
    "bar.csv": _csv("|"),
    "tsv": _csv("\t"),
    "json": lambda table: json.dumps(_rows(table)).encode(),
    "jsonl": lambda table: "".join(json.dumps(row) + "\n" for row in _rows(table)).encode(),
    "parquet": _binary(parquet.write_table),
    "feather": _binary(feather.write_feather),
}
PACKED = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}
_DOCUMENTS: Table = {
    "qid": ["café"] * 4 + ["b"] * 4,
    "label": [0, 1, 2, 0, 1, 0, 2, 1],
    "document_id": list("stuvwxyz"),
    "bm25": [0.5, 1.25, 2.0, 0.125, 1.0, 0.5, 3.0, 0.75],
    "brand": ["x", "y", "x", "z", "x", "y", "z", "z"],
}
_LOG: Table = {
    "session": np.repeat(np.arange(40), 2).tolist(),
    "query": ["café"] * 80,
    "document": ["a", "b", "b", "a"] * 20,
    "position": [1, 2] * 40,
    "clicked": [1, 0, 0, 1, 1, 1, 1, 0] * 10,
}
_MORE: Table = {
    "qid": [f"q{i // 4}" for i in range(24)],
    "label": [0, 1, 2, 0, 1, 2] * 4,
    "document_id": [f"d{i % 4}" for i in range(24)],
    "bm25": [0.5, 1.25, 2.0, 0.125, 1.0, 0.75] * 4,
    "clicked": [float(i % 5) for i in range(24)],
}
_TEXTS: Table = {
    "query": ["red shoe", "red shoe", "blue hat", "blue hat"],
    "label": [1, 0, 1, 0],
    "title": ["a red shoe", "a blue hat", "the blue hat", "some café"],
    "price": [1.0, 2.0, 3.0, 5.0],
    "title.word_bm25": [1.0, 0.0, 1.0, 0.0],
}
COMMANDS: dict[str, tuple[dict[str, Table], list[str]]] = {
    "leaderboard": (
        {"t": {"a": list("xyzxyé"), "b": list("yzxéxz"), "outcome": ["a", "b", "tie", "a", "b", "tie"]}},
        ["leaderboard", "{t}", "--json"],
    ),
    "scores": (
        {"t": {"model": ["a", "b", "é"], "maths": [90.0, 70.5, 65.0], "code": [80, 85, 30]}},
        ["leaderboard", "{t}", "--scores", "--resamples", "100", "--json"],
    ),
    "clicks": ({"t": _LOG}, ["clicks", "{t}", "--json"]),
    "aggregate": (
        {"t": {"ballot": [1, 1, 1, 2, 2, 2], "item": list("abéabé"), "rank": [1, 2, 3, 3, 2, 1]}},
        ["aggregate", "{t}", "--rule", "borda", "--json"],
    ),
    "track": (
        {
            "t": {"source": list("abc"), "x": [0.0, 1.0, 0.5], "y": [0.0, 0.25, 1.0]},
            "s": {"time": [1.0, 2.0, 3.0, 4.0], "arrival": [0.25, 0.5, 0.75, 0.5]},
        },
        [
            *("track", "--sources", "{t}", "--signals", "{s}", "--start", "0.15,0.2", "--sigma", "0.02"),
            *("--speed", "1"),
            *("--step-sd", "0.03", "--detection", "0.7", "--clutter-rate", "1", "--window", "0,1.5", "--r", "4"),
            *("--particles", "100", "--json"),
        ],
    ),
    "info": ({"t": _DOCUMENTS}, ["info", "{t}", "--json"]),
    "predict": ({"t": _DOCUMENTS}, ["predict", "{t}", "--model", "{model}"]),
    "evaluate": (
        {"t": _DOCUMENTS},
        ["evaluate", "{t}", "--model", "{model}", "--metrics", "ndcg@3", "--json"],
    ),
    "convert": ({"t": _DOCUMENTS}, ["convert", "{t}", "--out", "{out}"]),
    "explain": ({"t": _DOCUMENTS}, ["explain", "{t}", "--model", "{model}", "--json"]),
    "train": (
        {"t": _DOCUMENTS, "v": _DOCUMENTS},
        ["train", "{t}", "--valid", "{v}", "--loss", "listnet", "--out", "m.luce", "--json"],
    ),
    "train by preferences": (
        {
            "t": _DOCUMENTS,
            "w": {"query": ["café", "b"], "better": ["u", "y"], "worse": ["s", "w"], "judge": ["é", "f"]},
        },
        ["train", "{t}", "--comparisons", "{w}", "--loss", "davidson", "--out", "m.luce", "--json"],
    ),
    "train by lists": (
        {"t": _DOCUMENTS, "o": {"query": ["café"] * 3, "document": list("uts"), "rank": [1, 2, 2]}},
        ["train", "{t}", "--orders", "{o}", "--ignore-grades", "--out", "m.luce", "--json"],
    ),
    "train by clicks": (
        {"t": _DOCUMENTS, "l": _LOG | {"document": ["s", "t", "t", "s"] * 20}},
        ["train", "{t}", "--clicks", "{l}", "--out", "m.luce", "--json"],
    ),
    "evaluate by lists": (
        {"t": _DOCUMENTS, "o": {"query": ["b"] * 2, "rank1": ["y", "w"], "rank2": ["x", "z"]}},
        ["evaluate", "{t}", "--model", "{model}", "--orders", "{o}", "--metrics", "kappa_ndcg@2", "--json"],
    ),
    "evaluate by subtopics": (
        {"t": _DOCUMENTS, "s": {"query": ["b"] * 2, "document": ["w", "y"], "subtopic": ["é", "2"]}},
        ["evaluate", "{t}", "--model", "{model}", "--subtopics", "{s}", "--metrics", "alpha_ndcg@3", "--json"],
    ),
    "evaluate a run": (
        {"t": {"qid": ["b", "b"], "docid": ["w", "x"], "rating": [2, 0]}},
        ["evaluate", "--run", "{run}", "--qrels", "{t}", "--metrics", "ndcg@3", "--json"],
    ),
    "compare": (
        {"t": _MORE},
        ["compare", "{t}", "--models", "listnet", "--metrics", "ndcg@3", "--folds", "3", "--jobs", "1", "--json"],
    ),
    "tune": (
        {"t": _MORE},
        ["tune", "{t}", "--model", "listnet", "--trials", "1", "--jobs", "1", "--json"],
    ),
    "rerank": (
        {
            "t": _MORE,
            "b": {"qid": _MORE["qid"], "docid": _MORE["document_id"], "score": _MORE["bm25"]},
            "e": {"query": _MORE["qid"][:2], "document_a": ["d0"] * 2, "document_b": ["d1", "d2"]},
            "s": {"query": _MORE["qid"], "document": _MORE["document_id"], "subtopic": ["é", "2"] * 12},
        },
        [
            *("rerank", "{b}", "{t}", "--relation", "links={e}", "--subtopics", "{s}", "--l2", "0.1"),
            *("--setting", "kernels=cosine", "--save", "m.luce", "--json"),
        ],
    ),
    "axioms": (
        {"t": {"ballot": [1, 1, 1, 2, 2, 2], "item": list("abéabé"), "rank": [1, 2, 3, 3, 2, 1]}},
        ["axioms", "{t}", "--rule", "borda", "--json"],
    ),
    "read-log": (
        {"t": {"query": ["b", "b"], "document": ["w", "x"], "grade": [2, 0]}},
        ["read-log", "{log}", "--from", "elasticsearch", "--judgements", "{t}", "--out", "{out}", "--json"],
    ),
    "text-check": ({"t": _TEXTS}, ["text-check", "{t}", "--model", "{texts}", "--worst", "1e9", "--json"]),
    "clicks with documents": ({"t": _LOG, "d": {"qid": ["café"] * 2, "document_id": list("ab"), "f": [1.0, 2.0]}},
              ["clicks", "{t}", "--data", "{d}", "--json"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of the documents."""
    path = tmp_path_factory.mktemp("model") / "m.luce"
    luce.Ranker(loss="listnet").fit(luce.from_frame(pa.table(_DOCUMENTS))).save(path)
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A model of texts."""
    path = tmp_path_factory.mktemp("texts") / "m.luce"
    table = pa.table({name: column for name, column in _TEXTS.items() if "." not in name})
    luce.Ranker(loss="listnet", text=luce.Text("query", ["title"])).fit(table, "label", qid="query").save(path)
    return path


@pytest.fixture
def log(tmp_path):
    """What an engine logged."""
    hits = [
        {"_id": name, "fields": {"_ltrlog": [{"log": [{"name": "f", "value": value}]}]}}
        for name, value in (("w", 1.0), ("x", 2.0))
    ]
    path = tmp_path / "responses.json"
    path.write_text(json.dumps([{"qid": "b", "hits": {"hits": hits}}]))
    return path


@pytest.fixture
def run(tmp_path):
    """A ranking of documents."""
    path = tmp_path / "run.txt"
    path.write_text("b Q0 x 1 2.0 t\nb Q0 w 2 1.0 t\n")
    return path


@pytest.fixture
def result(call, tmp_path, model, texts, log, run, monkeypatch):
    """What a command says of its tables in a format; only the names of files may differ."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUCE_ENCODING", "")

    def said(command: str, format: str, pack: str = "", encoding: str | None = None) -> str:
        tables, arguments = COMMANDS[command]
        names = {"model": model, "texts": texts, "log": log, "run": run, "out": "out.parquet"}
        for name, table in tables.items():
            content = FORMATS[format](table)
            content = content if encoding is None else content.decode().encode(encoding)
            names[name] = f"{name}.{format}{pack}"
            (tmp_path / names[name]).write_bytes(PACKED[pack](content))
        before = () if encoding is None else ("--encoding", encoding)
        code, out, err = call(*before, *(word.format(**names) for word in arguments))
        assert code == 0, err
        if command == "convert":
            out = str(parquet.read_table(tmp_path / "out.parquet").to_pydict())
        for name in tables:
            out = out.replace(names[name], name)
        return out

    return said


@pytest.mark.parametrize("command", COMMANDS)
def test_every_format_gives_the_same(result, command):
    expected = _comparable(command, result(command, "csv"))
    for format in FORMATS:
        for pack in PACKED:
            assert _comparable(command, result(command, format, pack)) == expected, (format, pack)


def _comparable(command: str, out: str) -> object:
    """Without what is about the file itself: its format, and how long it took."""
    if command in ("predict", "convert"):
        return out
    about = ("format", "seconds", "bytes", "size", "file", "command")

    def plain(facts: object) -> object:
        if isinstance(facts, list):
            return [plain(one) for one in facts]
        return {n: plain(v) for n, v in facts.items() if n not in about} if isinstance(facts, dict) else facts

    return plain(json.loads(out))


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("track", "read-log", "evaluate a run")])
@pytest.mark.parametrize("format", ["semicolon.csv", "jsonl"])
def test_other_encodings_are_said(result, call, command, format):
    expected = _comparable(command, result(command, format))
    assert _comparable(command, result(command, format, encoding="utf-16")) == expected
    if format == "semicolon.csv":
        assert _comparable(command, result(command, format, encoding="latin-1")) == expected


def test_latin_1_is_found_and_said(call, tmp_path, monkeypatch):
    monkeypatch.setenv("LUCE_ENCODING", "")
    (tmp_path / "b.csv").write_bytes("a,b,outcome\nx,é,a\n".encode("latin-1"))
    code, _, err = call("leaderboard", tmp_path / "b.csv")
    assert code == 2
    assert "line 2: this is not UTF-8 text (byte 0xe9, 'é' in Latin-1)" in " ".join(err.split())
    assert "--encoding latin-1" in " ".join(err.split())
    code, _, err = call("--encoding", "latin-2000", "leaderboard", tmp_path / "b.csv")
    assert code == 2
    assert "There is no encoding 'latin-2000'" in " ".join(err.split())
    assert call("--encoding", "latin-1", "leaderboard", tmp_path / "b.csv", "--quiet")[0] == 0
