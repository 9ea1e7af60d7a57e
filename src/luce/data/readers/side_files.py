"""LightGBM's side file: the sizes of the queries, a line each, beside text without `qid:`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luce.data.readers.compressed import SUFFIXES, open_bytes
from luce.errors import ParseError
from luce.types import IntArray


def find_query_file(path: Path, given: str | Path | None, batch: bytes) -> Path | None:
    """The file of query sizes: the one given, else `rank.train.query` for a `rank.train` without query ids."""
    if given is not None:
        return Path(given)
    if b"qid:" in _first_row(batch):
        return None
    plain = path.with_suffix("") if path.suffix in SUFFIXES else path
    candidates = (Path(f"{plain}.query{suffix}") for suffix in ("", *SUFFIXES))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _first_row(batch: bytes) -> bytes:
    for line in batch.split(b"\n"):
        row = line.partition(b"#")[0].strip()
        if row:
            return row
    return b""


def read_query_file(path: str | Path, data: str | Path, rows: int) -> IntArray:
    """Sizes of queries whose rows lie side by side; they must sum to the rows of the data."""
    path = Path(path)
    with open_bytes(path) as stream:
        pieces = []
        while piece := stream.read(1 << 20):
            pieces.append(piece)
    sizes = []
    for number, line in enumerate(b"".join(pieces).splitlines(), 1):
        text = line.strip()
        if not text:
            continue
        if not text.isdigit() or len(text) > 15 or int(text) == 0:
            shown = text[:40].decode("utf-8", "backslashreplace")
            raise ParseError(path, f"the query size {shown!r} is not a whole number of at least 1.", number)
        sizes.append(int(text))
    if sum(sizes) != rows:
        raise ParseError(
            path, f"the query sizes sum to {sum(sizes)}; {data} has {rows} documents, and both must agree."
        )
    return np.array(sizes, dtype=np.int64)
