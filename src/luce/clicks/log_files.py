"""Simulated sessions as files: rows in CSV or Parquet, or counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luce.clicks.simulation import SessionRows
from luce.data.groups import Groups
from luce.data.named_rows import NO_IDS
from luce.errors import DataError, SettingError
from luce.numerics.segments import query_index
from luce.storage import atomic_write, check_output

SUFFIXES = (".csv", ".parquet", ".lucedata")


def check_log_output(path: str | Path) -> Path:
    """Fail before long work: a log is .csv or .parquet, counts are .lucedata, in a folder that exists."""
    path = check_output(path)
    if path.suffix not in SUFFIXES:
        raise SettingError(
            f"{path} does not say what to write; name the log .csv or .parquet, or .lucedata for counts of it."
        )
    return path


def as_columns(log: SessionRows, data: Groups) -> dict[str, np.ndarray]:
    """A log as a table with the ids of queries and documents, which `luce.clicks.read` takes."""
    if data.document_ids is None:
        raise DataError(NO_IDS)
    query = query_index(data.offsets)[log.row]
    return {
        "query": data.query_ids[query].astype(str),
        "session": log.session,
        "position": log.position,
        "document": data.document_ids[log.row].astype(str),
        "clicked": log.clicked.astype(np.int8),
    }


def write_log(log: SessionRows, data: Groups, path: str | Path) -> None:
    """Write a click log as CSV or Parquet."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    path = check_log_output(path)
    table = pa.table(as_columns(log, data))
    with atomic_write(path) as stream:
        if path.suffix == ".csv":
            csv.write_csv(table, stream)
        else:
            parquet.write_table(table, stream)
