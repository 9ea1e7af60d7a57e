"""The binary form of judged documents: a `.lucedata` file opens by memory map; its ids are arrays, too.

The system ends a process that reads a map beyond the end of its file, as where another program writes the file anew. So
a small file is read into memory, and of a large one the features ask how long it is whenever rows are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.data.groups import Groups
from luce.data.outline import Outline
from luce.data.schema import Schema
from luce.data.text_files import open_input
from luce.errors import DataError, ModelFormatError, ParseError
from luce.storage import Container, read_container, restoring, stream_container, write_container
from luce.types import IntArray

if TYPE_CHECKING:
    from luce.data.readers.letor import LetorFile
    from luce.data.readers.tables import JudgedTable

KIND = "data"

_TYPES = {"X": np.float32, "y": np.float64, "offsets": np.int64, "row_order": np.int64, "query_weight": np.float64}


SMALL = 64 << 20
"""Bytes of a file that is read into memory, which takes some 20 ms."""


class MappedRows(np.memmap[Any, np.dtype[np.float32]]):
    """Rows on disk, which are there when they are taken, or an error says that they are not."""

    watched: tuple[Path, int] | None = None
    """The file and its size; None for what is no longer part of a file."""

    def __array_finalize__(self, obj: Any) -> None:
        super().__array_finalize__(obj)
        if self._mmap is not None:  # type: ignore[attr-defined]
            self.watched = getattr(obj, "watched", None)

    def __getitem__(self, index: Any) -> Any:
        """Some rows; a copy of them is an array as any other."""
        self._check()
        found = super().__getitem__(index)
        return np.asarray(found) if isinstance(found, MappedRows) and found.watched is None else found

    def take(self, *given: Any, **more: Any) -> Any:
        """A copy of some rows."""
        self._check()
        return np.asarray(super().take(*given, **more))

    def _check(self) -> None:
        if self.watched is None:
            return
        path, size = self.watched
        left = self._mmap.size()  # type: ignore[attr-defined]
        if left < size:
            raise ModelFormatError(
                f"{path} was cut while it was open, to {left:,} of {size:,} bytes; write it again and start anew."
            )


def write_data(data: Groups, path: str | Path) -> None:
    """Write judged documents in the binary form.

    >>> import tempfile, os, luce
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "train.lucedata")
    ...     write_data(luce.from_arrays([[1.0], [2.0]], [0, 1], qid=["a", "b"]), file)
    ...     read_data(file)
    Groups(2 queries, 2 documents, 1 features)
    """
    fields = {field: getattr(data, field) for field in Outline._fields}
    arrays = _arrays(Outline(**fields))
    for name, relation in data.relations.items():
        arrays[f"relation.data.{name}"] = relation.data.astype(np.float64)
        arrays[f"relation.indices.{name}"] = relation.indices.astype(np.int64)
        arrays[f"relation.indptr.{name}"] = relation.indptr.astype(np.int64)
    arrays["X"] = data.X
    write_container(path, KIND, _settings(arrays, data.schema, [*data.relations]), wide_first(arrays))


def wide_first(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays, or what has their item size, with wide types first: each then starts at a multiple of its item size."""
    return dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))


def _settings(arrays: Mapping[str, Any], schema: Schema | None, relations: Sequence[str] = ()) -> dict[str, Any]:
    record = {} if schema is None else {"schema": schema.to_dict()}
    return {"arrays": list(arrays), "relations": list(relations), **record}


def stream_data(source: LetorFile | JudgedTable, path: str | Path) -> Outline:
    """Write the binary form of a file that need not fit in memory; rows of a query that are apart are regrouped."""
    outline = source.outline()
    arrays = _arrays(outline)
    places = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    places["X"] = (np.dtype(np.float32), (outline.n_rows, outline.n_features))
    layout = dict(sorted(places.items(), key=lambda item: -item[1][0].itemsize))
    with stream_container(path, KIND, _settings(layout, outline.schema), layout) as writer:
        for name, array in arrays.items():
            writer.write(name, 0, array)
        first = 0
        target = np.arange(outline.n_rows) if outline.row_order is None else np.argsort(outline.row_order)
        for block in source.blocks(outline.n_features):
            if first + len(block) > outline.n_rows:
                break
            rows = target[first : first + len(block)]
            starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1).tolist()
            for a, b in pairwise([*starts, len(rows)]):
                writer.write("X", int(rows[a]), block[a:b])
            first += len(block)
        if first != outline.n_rows:
            raise ParseError(source.path, "the file changed while it was read; try again.")
    return outline


def _arrays(outline: Outline) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {"y": outline.y, "offsets": outline.offsets}
    if outline.row_order is not None:
        arrays["row_order"] = outline.row_order
    if outline.query_weight is not None:
        arrays["query_weight"] = outline.query_weight
    arrays |= pack_texts("query_ids", outline.query_ids)
    arrays |= pack_texts("feature_names", np.array(outline.feature_names))
    if outline.document_ids is not None:
        arrays |= pack_texts("document_ids", outline.document_ids)
    if outline.subtopics is not None:
        arrays["subtopics.indices"] = outline.subtopics.indices.astype(np.int64)
        arrays["subtopics.indptr"] = outline.subtopics.indptr.astype(np.int64)
    return arrays


def read_data(path: str | Path, *, verify: bool = False) -> Groups:
    """Open a `.lucedata` file; features stay on disk and are read when used.

    `verify=True` checks the checksum, which reads every byte. A file that is damaged or no such file raises
    `ModelFormatError` or `DataError`.
    """
    path = Path(path)
    with open_input(path):
        pass
    size = path.stat().st_size
    container = read_container(path, KIND, memory_map=size > SMALL, verify=verify)
    arrays = container.arrays
    if size > SMALL:
        arrays.update({name: np.array(array) for name, array in arrays.items() if name != "X"})
    if isinstance(arrays.get("X"), np.memmap):
        rows = arrays["X"].view(MappedRows)
        rows.watched = (path, size)
        arrays["X"] = rows
    with restoring(path):
        return _groups(path, container)


def _groups(path: Path, container: Container) -> Groups:
    arrays = container.arrays
    for name, dtype in _TYPES.items():
        if name in arrays and arrays[name].dtype != dtype:
            raise _damaged(path, f"the array {name!r} has the type {arrays[name].dtype}")
    # The list guards against a damaged name in the header, which would make an optional array vanish unnoticed.
    listed = container.settings.get("arrays")
    if not isinstance(listed, list) or not {"X", "y", "offsets"} <= set(map(str, listed)):
        raise _damaged(path, "its list of arrays is incomplete")
    for name in listed:
        if not isinstance(name, str) or name not in arrays:
            raise _damaged(path, f"the array {name!r} is missing")
    rows = len(arrays["y"]) if arrays["y"].ndim else 0
    try:
        texts = {name: unpack_texts(name, arrays) for name in ("query_ids", "document_ids", "feature_names")}
        if texts["query_ids"] is None:
            raise DataError("the array 'query_ids' is missing")
        return Groups(
            X=arrays["X"],
            y=arrays["y"],
            offsets=arrays["offsets"],
            query_ids=texts["query_ids"],
            document_ids=texts["document_ids"],
            query_weight=arrays.get("query_weight"),
            feature_names=() if texts["feature_names"] is None else tuple(texts["feature_names"].tolist()),
            relations=_relations(container, rows),
            row_order=_checked_order(arrays),
            subtopics=_subtopics(arrays, rows),
            schema=Schema.from_dict(container.settings["schema"]) if "schema" in container.settings else None,
        )
    except DataError as error:
        raise _damaged(path, str(error).rstrip(".")) from error


def _checked_order(arrays: dict[str, NDArray[Any]]) -> IntArray | None:
    order = arrays.get("row_order")
    if order is None:
        return None
    rows = len(arrays["X"]) if arrays["X"].ndim else 0
    if order.shape != (rows,) or not np.array_equal(np.sort(order), np.arange(rows)):
        raise DataError("the row order is no permutation")
    return order


def _relations(container: Container, rows: int) -> dict[str, sparse.csr_array]:
    names = container.settings.get("relations", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError("the list of relations is damaged")
    arrays = container.arrays
    parts = {name: [arrays.get(f"relation.{part}.{name}") for part in ("data", "indices", "indptr")] for name in names}
    return {name: _matrix(f"the relation {name!r} is", rows, rows, *parts[name]) for name in names}


def _subtopics(arrays: dict[str, NDArray[Any]], rows: int) -> sparse.csr_array | None:
    indices, indptr = (arrays.get(f"subtopics.{part}") for part in ("indices", "indptr"))
    if indices is None and indptr is None:
        return None
    if indptr is None or indptr.shape != (rows + 1,):
        raise DataError("the subtopics are incomplete")
    return _matrix("the subtopics are", rows, -1, np.ones(0 if indices is None else indices.size), indices, indptr)


def _matrix(what: str, rows: int, columns: int, data: Any, indices: Any, indptr: Any) -> sparse.csr_array:
    """A sparse matrix of its values, columns and starts of rows, which SciPy trusts: it writes where they point.

    Where the number of columns is -1, it has as many as it needs.
    """
    if any(part is None or part.ndim != 1 for part in (data, indices, indptr)):
        raise DataError(f"{what} incomplete")
    good = indices.dtype.kind in "iu" and indptr.dtype.kind in "iu" and data.dtype.kind in "biuf"
    columns = int(indices.max(initial=-1)) + 1 if good and columns < 0 else columns
    good = good and len(data) == len(indices) and indptr.shape == (rows + 1,) and columns < 2**31
    good = good and indptr[0] == 0 and indptr[-1] == len(indices) and bool((indptr[1:] >= indptr[:-1]).all())
    if not good or indices.min(initial=0) < 0 or indices.max(initial=0) >= max(columns, 1):
        raise DataError(f"{what} damaged")
    return sparse.csr_array((np.array(data), indices.astype(np.int64), indptr.astype(np.int64)), shape=(rows, columns))


def _damaged(path: Path, why: str) -> ModelFormatError:
    return ModelFormatError(f"{path} is no data file that luce can read, or it is damaged: {why}.")


_LAST_CHARACTER = 0x10FFFF


def pack_texts(name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """One or two arrays for a vector of ids.

    >>> list(pack_texts("ids", np.array([4, 5]))), list(pack_texts("ids", np.array(["a", "bc"])))
    (['ids'], ['ids'])
    """
    if values.dtype.kind in "iu" and values.dtype != np.uint64:
        return {name: values.astype(np.int64)}
    if values.dtype.kind == "U":
        fixed = np.ascontiguousarray(values)
        width = max(fixed.dtype.itemsize // 4, 1)
        return {name: fixed.astype(f"<U{width}").view("<u4").reshape(len(fixed), width)}
    encoded = [str(value).encode("utf-8", "surrogatepass") for value in values.tolist()]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {f"{name}.ends": ends, f"{name}.utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8)}


def unpack_texts(name: str, arrays: dict[str, NDArray[Any]]) -> NDArray[Any] | None:
    """The vector of ids, or None where there is none; damage raises `DataError`."""
    if f"{name}.ends" in arrays:
        return _ragged(name, arrays[f"{name}.ends"], arrays.get(f"{name}.utf8"))
    packed = arrays.get(name)
    if packed is None or packed.dtype == np.int64:
        return packed
    if packed.dtype != np.uint32 or packed.ndim != 2 or packed.shape[1] == 0:
        raise DataError(f"the texts {name!r} have a type that they cannot have")
    largest = int(packed.max(initial=0))
    if largest > _LAST_CHARACTER or (largest >= 0xD800 and bool(np.any((packed >= 0xD800) & (packed <= 0xDFFF)))):
        raise DataError(f"the texts {name!r} hold numbers that are no characters")
    return np.asarray(packed).view(f"<U{packed.shape[1]}")[:, 0]


def _ragged(name: str, ends: NDArray[Any], blob: NDArray[Any] | None) -> NDArray[Any]:
    if blob is None or blob.dtype != np.uint8 or ends.dtype != np.int64 or blob.ndim != 1 or ends.ndim != 1:
        raise DataError(f"the texts {name!r} are incomplete")
    bounds = np.concatenate([[0], ends])
    if np.any(np.diff(bounds) < 0) or bounds[-1] != len(blob):
        raise DataError(f"the texts {name!r} do not fit their lengths")
    raw = blob.tobytes()
    try:
        return np.array([raw[a:b].decode() for a, b in pairwise(bounds)], dtype=object)
    except UnicodeDecodeError as error:
        raise DataError(f"the texts {name!r} are no UTF-8") from error
