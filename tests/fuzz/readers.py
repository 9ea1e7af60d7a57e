"""Every reader of a file of text or a table, with a small good file of its kind."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard
from pyarrow import feather, parquet

import luce
from luce.aggregate import leaderboard, read_ballots, read_runs
from luce.aggregate.board.battles import read_names
from luce.data.readers.feature_log import read_log
from luce.data.table import Table
from luce.data.trec import read_base, read_judgements, read_scores
from luce.track import read_signals, read_sources
from luce.track.files import read_track
from tests.fuzz.mutations import damaged_bytes

__all__ = ["PACKED", "READERS", "TABLES", "attack", "clean", "ending", "read"]

DOCUMENTS = luce.from_arrays(np.eye(3), [0, 1, 2], qid=["q"] * 3, document_ids=["a", "b", "c"])
PREFLIB = "# NUMBER VOTERS: 2\n# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n"
BATTLES = "a,b,outcome\nx,y,a\ny,x,tie\n"

READERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "letor": (luce.read_letor, "1 qid:q 1:0.5 # a\n0 qid:q 1:0.25 # b\n"),
    "judged csv": (luce.read_csv, "qid,label,f,document_id\nq,1,0.5,a\nq,0,0.25,b\n"),
    "run": (luce.read_run, "q Q0 a 1 0.5 x\nq Q0 b 2 0.25 x\n"),
    "qrels": (luce.read_qrels, "q 0 a 1\nq 0 b 0\n"),
    "judgements": (read_judgements, "query,doc,grade\nq,a,1\nq,b,0\n"),
    "judgement lines": (read_judgements, "# qid:q: words\n1 qid:q # a\n0 qid:q # b\n"),
    "scores": (lambda path: read_scores(path, DOCUMENTS), "1\n2\n3\n"),
    "base": (lambda path: read_base(path, DOCUMENTS), "qid,docid,score\nq,a,1\nq,b,2\nq,c,3\n"),
    "wins": (lambda path: luce.read_comparisons(path, DOCUMENTS), "query,better,worse\nq,a,b\nq,b,c\n"),
    "orders": (lambda path: luce.read_orders(path, DOCUMENTS), "q: a > b\nq: b > c\n"),
    "relations": (lambda path: luce.with_relations(DOCUMENTS, {"r": path}), "query,source,target\nq,a,b\nq,b,c\n"),
    "subtopics": (lambda path: luce.with_subtopics(DOCUMENTS, path), "query,document,subtopic\nq,a,1\nq,b,2\n"),
    "log": (
        read_log,
        json.dumps({"qid": "q", "response": {"docs": [{"id": "a", "[features]": "f=1,g=2"}]}}) + "\n",
    ),
    "battles": (lambda path: leaderboard(path), BATTLES),
    "battle lines": (
        lambda path: leaderboard(path),
        '{"a": "x", "b": "y", "outcome": "a"}\n{"a": "y", "b": "x", "outcome": "tie"}\n',
    ),
    "ballots": (read_ballots, "5: a > b = c\n4: b > a\n"),
    "tidy ballots": (read_ballots, "ballot,item,rank\n1,a,1\n1,b,2\n"),
    "preflib": (lambda path: read_ballots(path, "soc"), PREFLIB + "1: 1,2\n1: 2,1\n"),
    "runs": (lambda path: read_runs([path]), "q Q0 a 1 0.5 x\nq Q0 b 2 0.25 x\n"),
    "signals": (read_signals, "time,arrival\n1,2.5\n2,3.5\n"),
    "sources": (read_sources, "source,x,y\na,1,2\nb,3,4\n"),
    "track": (read_track, "time,x,y\n1,0,0\n2,1,1\n"),
}
CLICKS = "session,query,document,position,clicked\n1,q,a,1,1\n1,q,b,2,0\n2,q,a,1,0\n"
MORE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "clicks": (luce.clicks.read, CLICKS),
    "json table": (lambda path: Table.open(path).read(), json.dumps([{"a": 1, "b": "x"}, {"a": 2, "b": None}])),
    "feature names": (read_names, "name,shown\na,A\nb,B\n"),
}
"""Beside those, for the attack only."""
PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstandard.ZstdCompressor().compress}


def ending(kind: str) -> str:
    """How the name of such a file ends."""
    if kind in TABLES:
        return kind
    return {"letor": "txt", "log": "jsonl", "battle lines": "jsonl", "json table": "json"}.get(
        kind, "csv" if "," in (READERS | MORE)[kind][1] else "txt"
    )


@cache
def _tables() -> dict[str, bytes]:
    """Tables of judged documents in binary form."""
    table = pa.table(
        {
            "qid": ["q", "q", "r", "r"],
            "label": [1, 0, 2, 1],
            "f": [0.5, 0.25, None, 1.0],
            "brand": ["a", "b", None, "a"],
        }
    )
    found = {}
    for name, write in (("parquet", parquet.write_table), ("feather", feather.write_feather)):
        stream = io.BytesIO()
        write(table, stream)
        found[name] = stream.getvalue()
    return found


TABLES = ("parquet", "feather")


def clean(kind: str) -> bytes:
    """A good file."""
    return _tables()[kind] if kind in TABLES else (READERS | MORE)[kind][1].encode()


def attack(kind: str, rng: random.Random) -> bytes:
    """A damaged file of that kind; one in five is packed, and then damaged before or after."""
    if kind in TABLES:
        return damaged_bytes(_tables()[kind], rng, most=4)
    clean = (READERS | MORE)[kind][1].encode()
    if rng.random() < 0.8:
        return damaged_bytes(clean, rng)
    pack = PACKED[rng.choice(sorted(PACKED))]
    return pack(damaged_bytes(clean, rng)) if rng.random() < 0.5 else damaged_bytes(pack(clean), rng)


def read(kind: str, path: Any) -> None:
    """Read a file of that kind."""
    if kind in TABLES:
        luce.read(path)
    else:
        (READERS | MORE)[kind][0](path)
