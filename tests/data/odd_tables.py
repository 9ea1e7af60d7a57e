"""Valid tables of odd types: whole numbers above 2^53, nanoseconds, structs, maps, lists in lists, decimals, and so on.

`python -m tests.data.odd_tables 20000` gives so many of them to every door and counts what is no error of luce.
"""

from __future__ import annotations

import datetime
import decimal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

import luce
from luce.aggregate import Ballots, leaderboard, read_ballots, score_board
from luce.clicks import interleaving
from luce.data.clicks import comparisons_from_clicks
from luce.data.trec import read_judgements
from luce.errors import LuceError
from luce.track import read_signals, read_sources

ROWS = 6
_TEXTS = ("a", "b", "tie", "x", "1", "0", "2024-05-31", "", " ", "\u00e9", "nan", "true", "1e400", "\u200b")


def _plain(rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    n = ROWS
    whole = rng.integers(0, 3, n)
    texts = [str(rng.choice(_TEXTS)) for _ in range(n)]
    return {
        "text": lambda: pa.array(texts),
        "large_text": lambda: pa.array(texts, pa.large_string()),
        "text_view": lambda: pa.array(texts, pa.string_view()),
        "whole": lambda: pa.array(whole),
        "int8": lambda: pa.array(whole.astype(np.int8)),
        "uint64": lambda: pa.array(whole.astype(np.uint64) + np.uint64(2**64 - 5)),
        "above 2^53": lambda: pa.array(whole + 2**53 + 1),
        "float": lambda: pa.array(whole / 2.0),
        "odd float": lambda: pa.array([0.0, -0.0, np.inf, np.nan, 1e308, 5e-324]),
        "half": lambda: pa.array(whole.astype(np.float16)),
        "bool": lambda: pa.array(whole > 0),
        "null": lambda: pa.nulls(n),
        "date": lambda: pa.array([datetime.date(2024, 5, 1 + int(k)) for k in whole]),
        "far date": lambda: pa.array([int(k) * 10**9 for k in whole], pa.int32()).view(pa.date32()),
        "date64": lambda: pa.array([int(k) * 86_400_000 for k in whole], pa.int64()).view(pa.date64()),
        "nanoseconds": lambda: pa.array([1_700_000_000_000_000_001 + int(k) for k in whole], pa.timestamp("ns")),
        "zone": lambda: pa.array([1_700_000_000 + int(k) for k in whole], pa.timestamp("s", tz="Europe/Berlin")),
        "far time": lambda: pa.array([2**62 + int(k) for k in whole], pa.int64()).view(pa.timestamp("s")),
        "far zone": lambda: pa.array([-(2**62) + int(k) for k in whole], pa.int64()).view(pa.timestamp("us", tz="UTC")),
        "duration": lambda: pa.array([int(k) for k in whole], pa.duration("ns")),
        "time of day": lambda: pa.array([int(k) for k in whole], pa.time64("ns")),
        "interval": lambda: pa.array([(1, int(k), 3) for k in whole], pa.month_day_nano_interval()),
        "decimal": lambda: pa.array([decimal.Decimal(int(k)) / 2 for k in whole], pa.decimal128(10, 2)),
        "large decimal": lambda: pa.array([decimal.Decimal(10) ** 60 + int(k) for k in whole], pa.decimal256(70, 2)),
        "bytes": lambda: pa.array([text.encode() for text in texts]),
        "odd bytes": lambda: pa.array([b"\xff\xfe"] * n, pa.large_binary()),
        "fixed bytes": lambda: pa.array([b"ab"] * n, pa.binary(2)),
    }


def _dressed(rng: np.random.Generator, array: pa.Array) -> dict[str, Callable[[], Any]]:
    n = len(array)
    gaps = pa.array(rng.random(n) < 0.3)
    return {
        "itself": lambda: array,
        "gaps": lambda: pa.compute.if_else(gaps, pa.scalar(None, array.type), array),
        "dictionary": lambda: array.dictionary_encode(),
        "null in a dictionary": lambda: pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, n, n), pa.int32()), pa.compute.if_else(gaps, pa.scalar(None, array.type), array)
        ),
        "runs": lambda: pa.compute.run_end_encode(array),
        "chunks": lambda: pa.chunked_array([array[:2], array[2:2], array[2:]]),
        "slice": lambda: pa.concat_arrays([array, array])[n:],
        "lists": lambda: pa.ListArray.from_arrays(pa.array(np.arange(n + 1), pa.int32()), array),
        "empty lists": lambda: pa.array([[] for _ in range(n)], pa.list_(array.type)),
        "lists of two": lambda: pa.FixedSizeListArray.from_arrays(pa.concat_arrays([array, array]), 2),
        "lists in lists": lambda: pa.array([[[one]] for one in array.to_pylist()], pa.list_(pa.list_(array.type))),
        "lists with gaps": lambda: pa.array([None if k % 2 else [None] for k in range(n)], pa.list_(array.type)),
        "structs": lambda: pa.StructArray.from_arrays([array, array], ["a", "b"]),
        "maps": lambda: pa.MapArray.from_arrays(pa.array(np.arange(n + 1), pa.int32()), pa.array(["k"] * n), array),
    }


def odd_column(rng: np.random.Generator) -> pa.Array | pa.ChunkedArray:
    """A column of `ROWS` entries of some type, in some dress."""
    while True:
        plain = _plain(rng)
        array = plain[str(rng.choice(list(plain)))]()
        dressed = _dressed(rng, array)
        dress = "itself" if rng.random() < 0.4 else str(rng.choice(list(dressed)))
        try:
            return dressed[dress]()
        except (pa.ArrowException, ValueError, OverflowError):  # Arrow has no such type
            continue


def _data() -> luce.Groups:
    return luce.from_arrays(np.eye(3), [0, 1, 2], qid=["a"] * 3, document_ids=["a", "b", "x"])


def _usual() -> dict[str, dict[str, list[Any]]]:
    """By door, a table that it takes."""
    sides = {"a": list("xyzxyz"), "b": list("yzxzxy"), "outcome": ["a", "b", "tie", "a", "b", "a"]}
    when = {**sides, "t": [1.0, 2, 3, 4, 5, 6]}
    log = {"session": [1, 1, 2, 2, 3, 3], "query": ["q"] * 6, "document": list("abbaab"), "position": [1, 2] * 3}
    log["clicked"] = [1, 0, 1, 0, 0, 1]
    return {
        "board": {**sides, "w": [1.0] * 6},
        "counts": {**sides, "n": [1, 2, 1, 1, 3, 1], "u": list("jkjkjk")},
        "covariates": {**sides, "c": [0.5, 1, 0, 2, 1, 0], "d": [1.0, 0, 3, 1, 2, 0], "g": [0, 1, 0, 0, 1, 0]},
        "goals": {**sides, "h": [1, 2, 3, 1, 2, 3], "g": [0, 2, 1, 3, 1, 1]},
        "winners": {"winner": list("xyzxyz"), "loser": list("yzxzxy"), "tie": [0, 1, 0, 1, 0, 0]},
        "history": when,
        "categories": {**sides, "k": list("mmnnmm")},
        "weighed races": {"race": [1, 1, 1, 2, 2, 2], "competitor": list("xyzxyz"), "place": [1, 2, 3, 3, 2, 1],
                          "w": [1, 1, 1, 2, 2, 2], "c": [0, 1, 2, 2, 1, 3]},
        "races": {"race": [1, 1, 1, 2, 2, 2], "competitor": list("xyzxyz"), "place": [1, 2, 3, 3, 2, 1]},
        "wide races": {"rank1": list("xyzxyz"), "rank2": list("yzxzxy")},
        "scores": {"model": list("abcdef"), "maths": [1, 2, 3, 4, 5, 6], "code": [6.0, 2, 3, 1, 5, 4]},
        "long scores": {"model": list("aabbcc"), "task": ["t", "u"] * 3, "score": [1.0, 2, 3, 4, 0, 1]},
        "ballots": {"ballot": [1, 1, 1, 2, 2, 2], "item": list("abcabc"), "rank": [1, 2, 3, 3, 2, 1]},
        "clicks": {**log, "p": [0.5] * 6},
        "clicks in lists": {"query": ["q"] * 6, "document": [["a", "b"]] * 6, "clicked": [[1, 0]] * 6},
        "interleaving": {"session": [1, 1, 2, 2, 3, 3], "team": list("abbaab"), "clicked": [1, 0, 0, 1, 0, 1]},
        "balanced": {"session": [1, 1, 2, 2, 3, 3], "rank_a": [1, 2] * 3, "rank_b": [2, 1] * 3, "clicked": [1, 0] * 3},
        "skips": {"query": ["a"] * 6, "impression": [1, 1, 1, 2, 2, 2], "document": list("abxabx"),
                  "position": [1, 2, 3] * 2, "clicked": [0, 1, 0, 0, 0, 1]},
        "documents": {"qid": list("aaabbb"), "label": [0, 1, 2, 0, 1, 2], "f": [1.0, 2, 3, 4, 5, 6]},
        "named documents": {"q": list("aaabbb"), "grade": [0, 1, 2, 0, 1, 2], "d": list("uvwxyz"), "f": [1.0] * 6},
        "comparisons": {"query": ["a"] * 3 * 2, "better": list("aabaab"), "worse": list("bxxbxx"), "weight": [1.0] * 6},
        "relations": {"query": ["a"] * 6, "source": list("aabbxx"), "target": list("bxaxab"), "weight": [1.0] * 6},
        "subtopics": {"query": ["a"] * 6, "document": list("abxabx"), "subtopic": list("123456")},
        "judgements": {"query": list("aaabbb"), "document": list("abcabc"), "grade": [0, 1, 2, 0, 1, 2]},
        "sources": {"source": list("abcdef"), "lat": [1.0, 2, 3, 4, 5, 6], "lon": [1.0, 2, 3, 4, 5, 6],
                    "offset": [0.0] * 6, "start": [1] * 6},
        "signals": {"time": [1.0, 2, 3, 4, 5, 6], "arrival": [1.0] * 6, "confidence": [0.5] * 6,
                    "label": list("abcdef")},
    }  # fmt: skip


DOORS: dict[str, Callable[[Any], Any]] = {
    "board": lambda t: leaderboard(t, weight="w"),
    "counts": lambda t: leaderboard(t, count="n", group="u"),
    "covariates": lambda t: leaderboard(t, covariates=["c", "d"], side=True, neutral="g"),
    "goals": lambda t: leaderboard(t, outcome=("h", "g")),
    "winners": leaderboard,
    "history": lambda t: leaderboard(t, time="t"),
    "categories": lambda t: leaderboard(t, by="k"),
    "races": lambda t: leaderboard(t, "plackett_luce"),
    "weighed races": lambda t: leaderboard(t, "plackett_luce", weight="w", covariates=["c"]),
    "wide races": lambda t: leaderboard(t, "plackett_luce"),
    "scores": lambda t: score_board(t, resamples=100),
    "long scores": lambda t: score_board(t, resamples=100),
    "ballots": lambda t: read_ballots(t) if isinstance(t, Path) else Ballots.from_frame(t, rank="rank"),
    "clicks": lambda t: luce.clicks.read(t, propensity="p"),
    "clicks in lists": luce.clicks.read,
    "interleaving": interleaving,
    "balanced": lambda t: interleaving(t, "balanced"),
    "skips": lambda t: comparisons_from_clicks(t, _data()),
    "documents": lambda t: luce.read(t) if isinstance(t, Path) else luce.from_frame(t),
    "named documents": lambda t: (
        luce.read(t, qid="q", label="grade", doc="d", weight="f")
        if isinstance(t, Path)
        else luce.from_frame(t, qid="q", label="grade", doc="d", categorical=["f"])
    ),
    "comparisons": lambda t: luce.read_comparisons(t, _data()),
    "relations": lambda t: luce.with_relations(_data(), {"link": t}),
    "subtopics": lambda t: luce.with_subtopics(_data(), t, missing="skip"),
    "judgements": read_judgements,
    "sources": read_sources,
    "signals": read_signals,
}
FILES_ONLY = ("judgements", "sources", "signals")
"""Doors that take files alone."""


def odd_tables(seed: int, count: int, folder: Path) -> Iterator[tuple[str, str, Any]]:
    """(door, what is odd, table): one or two columns of a table that the door takes are odd ones."""
    rng = np.random.default_rng(seed)
    usual = _usual()
    for k in range(count):
        door = list(DOORS)[k % len(DOORS)]
        columns: dict[str, Any] = {name: pa.array(values) for name, values in usual[door].items()}
        changed = rng.choice(list(columns), size=int(rng.integers(1, 3)), replace=False).tolist()
        for name in changed:
            columns[name] = odd_column(rng)
        table = pa.table(columns)
        said = ", ".join(f"{name}: {columns[name].type}" for name in changed)
        hows = ["parquet", "feather"] if door in FILES_ONLY else ["arrow", "parquet", "feather", "pandas"]
        how = str(rng.choice(hows))
        try:
            # Arrow itself ends the process where pandas is to get a dictionary or runs of some types.
            if how == "pandas" and "dictionary" not in said and "run_end" not in said:
                yield door, f"{said} (pandas)", table.to_pandas()
            elif how in ("arrow", "pandas"):
                yield door, f"{said} (arrow)", table
            else:
                path = folder / f"odd.{how}"
                (parquet.write_table if how == "parquet" else feather.write_feather)(table, path)
                yield door, f"{said} ({how})", path
        except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError):
            continue  # such a table cannot be written


def foreign(seed: int, count: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """How the tables fared, and what was raised that is no error of luce."""
    fared: Counter[str] = Counter()
    found = []
    tables = odd_tables(seed, count, folder)
    for door, said, table in tables:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                DOORS[door](table)
            fared["read"] += 1
        except LuceError:
            fared["refused"] += 1
        except Exception as error:  # noqa: BLE001 (that is the question)
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            found.append(f"{door}, {said}: {type(error).__name__}: {error} [{place}]")
            fared["foreign"] += 1
    return fared, found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        fared, found = foreign(int(sys.argv[2]) if len(sys.argv) > 2 else 0, int(sys.argv[1]), Path(name))
    print(*found, sep="\n")
    print(dict(fared))
