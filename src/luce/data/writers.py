"""Judged documents out to files: LETOR text and Parquet, exact to the last bit of every feature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.data.late import pa, pq
from luce.data.text_files import write_text
from luce.errors import DataError, OutputError, SettingError
from luce.numerics.segments import query_index
from luce.storage import atomic_write, check_output

_BLOCK_ROWS = 4096
_SPACE = str.maketrans(" \t\r\n\v\f#", "_" * 7)
_NEWLINES = str.maketrans("\r\n", "__")
_LETOR_SUFFIXES = (".txt", ".dat", ".letor", ".svm", ".svmlight", ".libsvm", ".train", ".test", ".vali")
OUTPUT_SUFFIXES = (".lucedata", ".parquet", *_LETOR_SUFFIXES)


def write(data: Groups, path: str | Path) -> None:
    """Write in the format that the file name says: `.lucedata`, `.parquet`, or LETOR text (`.txt`, `.txt.gz`, ...)."""
    suffix = check_data_output(path)
    if suffix == ".lucedata":
        from luce.data.mapped import write_data

        write_data(data, path)
    elif suffix == ".parquet":
        write_parquet(data, path)
    else:
        write_letor(data, path)


def check_data_output(path: str | Path) -> str:
    """Fail before long work: the folder must be there and the name must say the format; returns its suffix."""
    path = check_output(path)
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix in (".lucedata", ".parquet") and path.suffix == ".gz":
        raise SettingError(f"{path}: only LETOR text is written as .gz; leave .gz out.")
    if suffix not in OUTPUT_SUFFIXES and not (path.exists() and not path.is_file()):
        raise SettingError(
            f"{path}: the end of the name says the format, and {f'{suffix!r} is none' if suffix else 'there is none'}; "
            "use .lucedata, .parquet, .txt or .txt.gz."
        )
    return suffix


def write_letor(data: Groups, path: str | Path) -> None:
    """Write LETOR text, gzipped where the name ends with `.gz`: `<label> qid:<query> <index>:<value> ... # <document>`.

    Every number is the shortest decimal that reads back as the same float32 (labels: float64). Zeros are written, so
    that the number of columns survives; a NaN is written as `nan` and needs `allow_nan=True` to be read. White space
    and `#` in ids become `_`.
    """
    if data.schema is not None and data.schema.categories:
        name = data.schema.features[next(iter(data.schema.categories))].name
        raise DataError(
            f"The feature {name!r} is a category, and LETOR text holds numbers; write .parquet or .lucedata."
        )
    ids = [str(value).translate(_SPACE) for value in data.query_ids.tolist()]
    if len(set(ids)) != len(ids) or "" in ids:
        raise DataError("Query ids that are empty or equal but for white space and # cannot be written as LETOR text.")
    query = query_index(data.offsets)
    with write_text(path) as stream:
        for first in range(0, data.n_rows, _BLOCK_ROWS):
            last = min(first + _BLOCK_ROWS, data.n_rows)
            text = "".join(_lines(data, ids, query, first, last))
            stream.write(text.encode("utf-8", "replace").decode())


def _lines(data: Groups, ids: list[str], query: NDArray[np.int64], first: int, last: int) -> Iterator[str]:
    labels = [f"{y:g}" if y == int(y) and abs(y) < 1e5 else repr(y) for y in data.y[first:last].tolist()]
    # astype(str) gives the shortest text that tells a float32 from its neighbours
    numbers = data.X[first:last].astype("U16")
    marks = [f"{i + 1}:" for i in range(data.n_features)]
    for row in range(last - first):
        features = " ".join([mark + value for mark, value in zip(marks, numbers[row].tolist(), strict=True)])
        document = "" if data.document_ids is None else str(data.document_ids[first + row]).translate(_NEWLINES)
        comment = f" # {document}" if document else ""
        yield f"{labels[row]} qid:{ids[query[first + row]]} {features}{comment}\n"


def write_parquet(data: Groups, path: str | Path) -> None:
    """Write Parquet: a column a feature, `qid`, `label`, and `document_id`, `query_weight`, `subtopics` if present."""
    reserved = {"qid", "label", "document_id", "query_weight", "subtopics"}
    taken = reserved & set(data.feature_names)
    if taken:
        raise DataError(f"A feature is named {sorted(taken)[0]!r}, which is the name of another column; rename it.")
    query = query_index(data.offsets)
    schema = _frame(data, query, 0, 1).schema
    try:
        with atomic_write(path) as stream, pq.ParquetWriter(stream, schema) as writer:
            for first in range(0, data.n_rows, 16 * _BLOCK_ROWS):
                writer.write_table(_frame(data, query, first, min(first + 16 * _BLOCK_ROWS, data.n_rows)))
    except pa.ArrowInvalid as error:
        raise OutputError(f"Cannot write {path}: {error}.") from error


def _frame(data: Groups, query: NDArray[np.int64], first: int, last: int) -> Any:
    rows = slice(first, last)
    columns: dict[str, Any] = {"qid": pa.array(data.query_ids[query[rows]].tolist()), "label": pa.array(data.y[rows])}
    if data.document_ids is not None:
        columns["document_id"] = pa.array(data.document_ids[rows].tolist())
    if data.query_weight is not None:
        columns["query_weight"] = pa.array(data.query_weight[query[rows]])
    if data.subtopics is not None:
        about = data.subtopics[rows]
        names = np.split(about.indices.astype(str), about.indptr[1:-1])
        columns["subtopics"] = pa.array([" ".join(each) for each in names])
    for i, name in enumerate(data.feature_names):
        columns[name] = _column(data, rows, i)
    return pa.table(columns)


def _column(data: Groups, rows: slice, i: int) -> Any:
    """A feature as the table had it: categories by their names, dates as dates."""
    values = np.ascontiguousarray(data.X[rows, i])
    column = None if data.schema is None else data.schema.features[i]
    if column is None or column.type not in ("category", "date", "boolean"):
        return pa.array(values)
    gaps = np.isnan(values)
    whole = np.where(gaps, 0, values).astype(np.float64)
    if column.type == "boolean":
        return pa.array(whole != 0, mask=gaps)
    if column.type == "date":
        return pa.array(np.rint(whole * 86_400e6).astype(np.int64), mask=gaps).cast(pa.timestamp("us"))
    codes = pa.array(whole.astype(np.int32), mask=gaps | (whole >= column.unknown))
    return pa.DictionaryArray.from_arrays(codes, pa.array(column.categories, pa.string()))
