"""Scores in and out: one a line, a TREC run, or CSV with ranks."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import numpy as np

from luce.data.groups import Groups
from luce.data.table import Table
from luce.data.table_file import table_kind
from luce.data.text_files import finite_number, number, numbered_lines, reader, write_text
from luce.data.trec import TrecRun, document_names, read_run, run_lines, triples
from luce.errors import DataError, LuceWarning
from luce.registry import canonical, unknown_name
from luce.types import FloatArray, IntArray

FORMATS = ("scores", "trec", "csv")


@reader
def read_scores(path: str | Path, data: Groups) -> FloatArray:
    """Scores from a file with one a line, in the row order of the file that `data` came from; aligned with `data.X`."""
    values = [finite_number(path, line, "score", text.strip()) for line, text in numbered_lines(path)]
    if len(values) != data.n_rows:
        raise DataError(
            f"{path} has {len(values)} scores, and the data have {data.n_rows} documents; one each is needed."
        )
    scores = np.array(values)
    return scores if data.row_order is None else scores[data.row_order]


@reader
def read_base(path: str | Path, data: Groups) -> FloatArray:
    """Scores of a base ranker for every document of `data`, aligned with `data.X`.

    The file is a TREC run, a table with the columns qid, docid and score (both as `luce predict` writes them), or one
    score a line in the row order of the file that `data` came from. Documents that the data do not have are passed
    over; one that the file does not score is an error.
    """
    if table_kind(path) != "csv":
        return _aligned(path, data, _scored_rows(path))
    first = next(numbered_lines(path))[1].strip()
    if len(first.split()) == 6:
        run = read_run(path)
        keys, values = zip(run.qid.tolist(), run.docno.tolist(), strict=True), run.scores.tolist()
        return _aligned(path, data, dict(zip(keys, values, strict=True)))
    if number(first) != number(first):  # no score: names of columns
        return _aligned(path, data, _scored_rows(path))
    return read_scores(path, data)


def _scored_rows(path: str | Path) -> dict[tuple[str, str], float]:
    names = ("qid", "docid", "score")
    queries, documents, scores = triples(Table.open(path).choose([names]), names)
    return dict(zip(zip(queries, documents, strict=True), scores.tolist(), strict=True))


def _aligned(path: str | Path, data: Groups, scores: Mapping[tuple[str, str], float]) -> FloatArray:
    keys = list(zip(data.qid.astype(str).tolist(), document_names(data).tolist(), strict=True))
    for query, document in keys:
        if (query, document) not in scores:
            called = (
                " The data name no documents, so that they are called d1, d2, ... by their rows; say which column has "
                "their names (--doc)."
                if data.document_ids is None
                else ""
            )
            raise DataError(
                f"{path} has no score for document {document!r} of query {query!r}; every document of the data needs "
                f"one.{called}"
            )
    if beyond := len(scores) - len(set(keys)):
        message = f"{path}: the scores of {beyond:,} documents that the data do not have are not used."
        warnings.warn(message, LuceWarning, stacklevel=3)
    return np.array([scores[key] for key in keys])


def write_predictions(
    target: str | Path | IO[str],
    data: Groups,
    scores: FloatArray,
    format: str = "scores",
    *,
    tag: str = "luce",
    extra: Mapping[str, FloatArray] | None = None,
) -> None:
    """Write one score for every row of `data` to a file (atomically; gzipped for `.gz`) or an open text stream.

    Parameters
    ----------
    format
        `scores`: one a line, in the row order of the input. `csv`: qid, docid, score, rank, in the same order; rank 1
        is the best score of its query, and ties keep the input's order. `trec`: a run file, best first.
    tag
        Name of the run, for `trec`.
    extra
        Further columns of a `csv`, by name: one value a row of `data`.
    """
    name = canonical(format)
    if name not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (data.n_rows,):
        raise DataError(f"The data have {data.n_rows} documents, and the scores have shape {scores.shape}.")
    if isinstance(target, str | Path):
        with write_text(target) as stream:
            _write(stream, data, scores, name, tag, extra or {})
    else:
        _write(target, data, scores, name, tag, extra or {})


def _write(
    stream: IO[str], data: Groups, scores: FloatArray, name: str, tag: str, extra: Mapping[str, FloatArray]
) -> None:
    if name == "csv":
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(("qid", "docid", "score", "rank", *extra))
        rows.writerows(_table(data, scores, extra))
    elif name == "trec":
        stream.writelines(run_lines(TrecRun.from_scores(data, scores, tag)))
    else:
        stream.writelines(f"{score!r}\n" for score in data.to_input_order(scores).tolist())


def _table(data: Groups, scores: FloatArray, extra: Mapping[str, FloatArray]) -> Iterable[tuple[object, ...]]:
    columns = (data.qid, document_names(data), scores, ranks(scores, data.offsets), *extra.values())
    return zip(*(data.to_input_order(column).tolist() for column in columns), strict=True)


def ranks(scores: FloatArray, offsets: IntArray) -> IntArray:
    """Position of every row in its query by falling score, from 1; ties in row order.

    >>> ranks(np.array([0.1, 0.9, 0.5]), np.array([0, 2, 3])).tolist()
    [2, 1, 1]
    """
    sizes = np.diff(offsets)
    order = np.lexsort((-scores, np.repeat(np.arange(len(sizes)), sizes)))
    position = np.empty(len(scores), dtype=np.int64)
    position[order] = np.arange(len(scores)) - np.repeat(offsets[:-1], sizes) + 1
    return position
