"""Ballots from files: PrefLib, one ballot a line, tidy tables, TREC runs; and back to files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from luce.aggregate.ballots import Ballots
from luce.aggregate.result import tiers_text
from luce.data.table import Table
from luce.data.text_files import finite_number, numbered_lines, plain_suffix, read_text, reader, table_kind
from luce.data.text_files import number as number_of
from luce.data.trec import read_run
from luce.errors import DataError, ParseError, SettingError
from luce.storage import atomic_write

PREFLIB = ("soc", "soi", "toc", "toi")
"""Strict or tied, complete or incomplete orders."""
_OTHER_PREFLIB = {
    "cat": "categories",
    "wmd": "a weighted graph",
    "wmg": "a weighted majority graph",
    "pwg": "a pairwise graph",
    "mjg": "a majority graph",
    "tog": "a tournament graph",
}
"""Data of PrefLib that are no orders."""

_FORMATS = (*PREFLIB, "lines", "tidy")
_COUNT = re.compile(r"^\s*([-+]?(?:[0-9.][0-9.eE+-]*|nan|inf|infinity))\s*:(.*)$", re.IGNORECASE)
_NAME = re.compile(r"^ALTERNATIVE NAME ([0-9]+)$")


@reader
def read_ballots(path: str | Path, format: str | None = None) -> Ballots:
    """Read ballots, plain or packed by gzip, bzip2 or zstd.

    - PrefLib `.soc`, `.soi`, `.toc`, `.toi`; the header lines become `metadata`.
    - Lines (`.txt`, `.csv`, anything else): one ballot a line, `12: A > B = C > D`; the count is optional, `#` starts a
      comment.
    - Tidy tables (Parquet, JSON, or CSV whose first line names columns): `ballot`, `item`, and `rank` or `score`;
      `weight` is optional.

    `format` (`soc`, `soi`, `toc`, `toi`, `lines`, `tidy`) overrides what the name says.
    """
    path = Path(path)
    if format is not None and format not in _FORMATS:
        raise SettingError(f"Unknown format {format!r} of ballots; it must be one of {', '.join(_FORMATS)}.")
    suffix = plain_suffix(path).removeprefix(".").lower()
    if format is None:
        format = suffix if suffix in PREFLIB else None
    if suffix not in _OTHER_PREFLIB and (format == "tidy" or (format is None and _is_tidy(path))):
        file = Table.open(path)
        if {"rank", "score"} <= set(file.names):
            raise ParseError(path, "there are both a column rank and a column score; a tidy table needs one of them.")
        wanted = [("ballot", "item", "rank"), ("ballot", "item", "score")]
        file.need(wanted)
        file.say_unused([*wanted[0], "score", "weight"])
        return Ballots.from_frame(file, **{name: name for name in ("rank", "score", "weight") if name in file.names})
    lines = read_text(path).split("\n")
    if format not in PREFLIB:
        format = _preflib_kind(path, lines, suffix) or format
    return _read_preflib(path, lines, format) if format in PREFLIB else _read_lines(path, lines)


def _count(path: Path, number: int, text: str) -> float:
    value = finite_number(path, number, "count", text)
    if not value > 0:
        raise ParseError(path, f"the count is {text}; a count or weight must be above 0.", number)
    return value


_Row = tuple[float, list[int], list[int]]
"""Of a line its count, and the numbers of its items with their tiers."""


def _row(path: Path, number: int, weight: float, tiers: list[list[int]], names: Iterable[str]) -> _Row:
    items = [item for tier in tiers for item in tier]
    if len(set(items)) < len(items):
        twice = next(item for k, item in enumerate(items) if item in items[:k])
        raise ParseError(path, f"the ballot ranks {list(names)[twice]!r} twice; an item has one place.", number)
    return weight, items, [place for place, tier in enumerate(tiers) for _ in tier]


def _ballots(path: Path, rows: list[_Row], names: Iterable[str], metadata: dict[str, str]) -> Ballots:
    if not rows:
        raise ParseError(path, "the file has no ballots; at least one is needed.")
    items = tuple(names)
    tiers = np.full((len(rows), len(items)), -1, dtype=np.int32)
    for i, (_, columns, places) in enumerate(rows):
        tiers[i, columns] = places
    return Ballots(items, tiers, np.array([weight for weight, _, _ in rows]), metadata)


def _read_preflib(path: Path, lines: list[str], kind: str) -> Ballots:
    metadata, names, start = _preflib_header(path, lines)
    numbers = {key: i for i, key in enumerate(names)}
    rows: list[_Row] = []
    for number, line in enumerate(lines[start:], start + 1):
        if not line.strip():
            continue
        head, colon, body = line.partition(":")
        if not colon:
            raise ParseError(path, f"expected 'count: order'; got {line.strip()!r}.", number)
        tiers = list(_preflib_tiers(path, number, body, numbers))
        rows.append(_row(path, number, _count(path, number, head.strip()), tiers, names.values()))
        if kind in ("soc", "soi") and any(len(tier) > 1 for tier in tiers):
            raise ParseError(path, f"a .{kind} file holds strict orders, and this ballot has a tie.", number)
        if kind in ("soc", "toc") and sum(map(len, tiers)) != len(numbers):
            raise ParseError(path, f"a .{kind} file holds complete orders, and this ballot leaves items open.", number)
    held = {"VOTERS": sum(row[0] for row in rows), "ALTERNATIVES": len(names), "UNIQUE ORDERS": len(rows)}
    for what, found in held.items():
        promised = metadata.get(f"NUMBER {what}", "")
        if rows and promised and not abs(number_of(promised) - found) < 0.5:
            raise ParseError(
                path, f"the header promises {promised} {what.lower()}, and there are {found:g}; is the file whole?"
            )
    return _ballots(path, rows, names.values(), metadata)


def _preflib_kind(path: Path, lines: list[str], suffix: str) -> str | None:
    """The kind of PrefLib data, by the header, whatever the file is called; None where this is no such file."""
    kind = suffix if suffix in _OTHER_PREFLIB else None
    head = [line[1:].strip() for line in itertools.takewhile(lambda line: line.startswith("#"), lines)]
    if any(line.startswith("ALTERNATIVE NAME ") for line in head):
        said = (line.partition(":")[2].strip().lower() for line in head if line.startswith("DATA TYPE:"))
        kind = next(said, None) or kind or "unknown"
    if kind is None and len(lines) > 1 and lines[0].strip().isdecimal() and re.match(r"\s*1\s*,", lines[1]):
        raise ParseError(
            path, "this is PrefLib's form before 2022, without '# ALTERNATIVE NAME' lines; take the file of today.", 1
        )
    if kind is None or kind in PREFLIB:
        return kind
    what = f"{kind!r} ({_OTHER_PREFLIB[kind]})" if kind in _OTHER_PREFLIB else repr(kind)
    raise ParseError(
        path, f"this is PrefLib data of the type {what}, which are no orders; {', '.join(PREFLIB)} are read.", 1
    )


def _preflib_header(path: Path, lines: list[str]) -> tuple[dict[str, str], dict[str, str], int]:
    metadata: dict[str, str] = {}
    names: dict[str, str] = {}
    head = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    for line in head:
        key, _, value = (part.strip() for part in line[1:].partition(":"))
        alternative = _NAME.match(key)
        if alternative:
            names[alternative.group(1)] = value
        else:
            metadata[key] = value
    if not names:
        raise ParseError(
            path, "no '# ALTERNATIVE NAME' lines, which PrefLib's files have since 2022; take the file of today.", 1
        )
    if len(set(names.values())) < len(names):  # names are free text, numbers are the identity
        names = {key: f"{value} ({key})" for key, value in names.items()}
    return metadata, names, len(head)


def _preflib_tiers(path: Path, number: int, body: str, numbers: dict[str, int]) -> Iterator[list[int]]:
    if re.search(r"\{[^}]*\{", body):
        raise ParseError(path, f"braces within braces in {body.strip()!r}; a tier holds items only.", number)
    if body.count("{") != body.count("}"):
        raise ParseError(path, f"unbalanced braces in {body.strip()!r}.", number)
    for part in re.findall(r"\{[^{}]*\}|[^,{}]+", body):
        keys = [key.strip() for key in part.strip().strip("{}").split(",")] if part.strip() else []
        unknown = next((key for key in keys if key not in numbers), None)
        if unknown is not None:
            raise ParseError(path, f"{unknown!r} is not the number of an alternative of the header.", number)
        if keys:
            yield [numbers[key] for key in keys]


def _read_lines(path: Path, lines: list[str]) -> Ballots:
    if not any(">" in line or "=" in line or _COUNT.match(line) for line in lines):
        message = (
            "no line looks like '12: A > B = C > D', and no columns are called ballot, item, and rank or score, as a "
            "table of ballots has them; runs need --format trec."
        )
        raise ParseError(path, message, 1)
    any_counted = any(map(_COUNT.match, lines))
    rows: list[_Row] = []
    index: dict[str, int] = {}
    labelled: dict[str, int] = {}
    elsewhere: set[str] = set()
    for number, line in enumerate(lines, 1):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        counted = _COUNT.match(text)
        word, colon, _ = text.partition(">")[0].partition(":")
        if any_counted and not counted and colon:  # without counts elsewhere, a colon is a part of a name
            raise ParseError(path, f"the count is {word.strip()!r}; it must be a number above 0.", number)
        weight = _count(path, number, counted.group(1)) if counted else 1.0
        body = counted.group(2) if counted else text
        tiers = [_tier(path, number, tier.strip()) for tier in body.split(">")]
        if any(not name for tier in tiers for name in tier):
            raise ParseError(path, f"an item without a name in {text!r}; write '12: A > B = C > D'.", number)
        if " < " in body:
            raise ParseError(path, f"{text!r} has a '<'; write the best first: '12: A > B = C > D'.", number)
        first, *others = (name for tier in tiers for name in tier)
        elsewhere.update(others)
        if ":" in first and not counted:
            labelled.setdefault(first, number)
        numbers = [[index.setdefault(name, len(index)) for name in tier] for tier in tiers]
        rows.append(_row(path, number, weight, numbers, index))
    # Refuse `alice: A > B`: the name of a voter is not a count, and would become a part of the first item.
    for name, number in labelled.items():
        if name not in elsewhere:
            raise ParseError(
                path,
                f"{name.partition(':')[0]!r} stands where a count is expected; write '12: A > B' or 'A > B'.",
                number,
            )
    return _ballots(path, rows, index, {})


def _tier(path: Path, number: int, text: str) -> list[str]:
    """The items of one tier: one, several with `=` between them, or several in braces with commas between them."""
    if not text.startswith("{"):
        return [name.strip() for name in text.split("=")]
    names = [name.strip() for name in text.removeprefix("{").removesuffix("}").split(",")]
    if not text.endswith("}") or (len(names) == 1 and len(names[0].split()) > 1):
        raise ParseError(path, f"the tier {text!r} is not as in '12: A > B = C > D' or '12: A > {{B, C}} > D'.", number)
    return names


def _is_tidy(path: Path) -> bool:
    if table_kind(path) != "csv":
        return True
    first = next(numbered_lines(path))[1]
    return "ballot" in first and "item" in first and {"ballot", "item"} <= set(Table.open(path).names)


def read_runs(paths: Iterable[str | Path]) -> dict[str, Ballots]:
    """TREC runs as ballots: one ballot a run for every topic, items are documents, high scores first.

    A line is `topic Q0 document rank score tag`; documents that a run does not list are left open.
    """
    topics: dict[str, list[dict[str, float]]] = {}
    files = list(paths)
    for number, path in enumerate(files):
        run = read_run(path)
        for topic, document, score in zip(run.qid.tolist(), run.docno.tolist(), run.scores.tolist(), strict=True):
            topics.setdefault(topic, [{} for _ in files])[number][document] = score
    if not topics:
        raise DataError("The runs are empty; at least one line is needed.")
    found = {}
    for topic, runs in topics.items():
        documents = list(dict.fromkeys(document for run in runs for document in run))
        scores = [[run.get(document, np.nan) for document in documents] for run in runs if run]
        found[topic] = Ballots.from_scores(scores, documents)
    return found


def write_ballots(ballots: Ballots, path: str | Path) -> None:
    """Write ballots: PrefLib where the name ends in .soc, .soi, .toc or .toi, else one ballot a line."""
    kind = Path(path).suffix.lstrip(".").lower()
    if kind in ("gz", "parquet", "pq"):
        raise SettingError(
            f"{path} would be text under the name of another format; write .soc, .soi, .toc, .toi or .txt."
        )
    if kind in ("soc", "toc") and not ballots.is_complete:
        raise DataError(f"A .{kind} file holds complete orders and some ballots leave items open; write .soi or .toi.")
    if kind in ("soc", "soi") and ballots.has_ties:
        raise DataError(f"A .{kind} file holds strict orders and some ballots have ties; write .toc or .toi.")
    if kind in PREFLIB:
        lines = _preflib_lines(ballots, kind)
    else:
        reserved = [name for name in ballots.items if any(mark in name for mark in ">=#\n") or name[0] == "{"]
        if reserved:
            raise DataError(f"The name {reserved[0]!r} holds a mark of the format (> = # {{); write a PrefLib file.")
        lines = (f"{weight}: {tiers_text(tiers)}" for weight, tiers in _orders(ballots))
    with atomic_write(path, "w") as stream:
        stream.writelines(line + "\n" for line in lines)


def _orders(ballots: Ballots) -> Iterator[tuple[str, list[list[str]]]]:
    for weight, tiers in zip(ballots.weights, ballots.orders(), strict=True):
        yield f"{int(weight)}" if weight == int(weight) else repr(float(weight)), tiers


def _preflib_lines(ballots: Ballots, kind: str) -> Iterator[str]:
    total = ballots.total
    header = {
        **ballots.metadata,
        "DATA TYPE": kind,
        "NUMBER ALTERNATIVES": str(ballots.n_items),
        "NUMBER VOTERS": f"{int(total)}" if total == int(total) else repr(total),
        "NUMBER UNIQUE ORDERS": str(ballots.n_ballots),
    }
    yield from (f"# {key}: {value}" for key, value in header.items())
    yield from (f"# ALTERNATIVE NAME {i}: {name}" for i, name in enumerate(ballots.items, 1))
    numbers = tuple(str(i) for i in range(1, ballots.n_items + 1))
    for weight, tiers in _orders(replace(ballots, items=numbers)):
        yield f"{weight}: " + ",".join(tier[0] if len(tier) == 1 else "{" + ",".join(tier) + "}" for tier in tiers)
