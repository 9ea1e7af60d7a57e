"""The files of a data set that is cut into many: where they are, and what a worker reads of them.

A partition is made from files alone, so that any worker can make it again.
"""

from __future__ import annotations

import glob
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.filling import normalise_within_queries
from luce.data.groups import Groups
from luce.data.outline import Outline
from luce.data.readers.detect import data_format, open_source, options_like
from luce.distributed.plan import FileOutline, Partition, Piece
from luce.errors import DataError
from luce.numerics.segments import serial


def find_files(given: Sequence[str | Path]) -> list[str]:
    """Files, folders and patterns such as `part-*.parquet` as a list of files; those of one folder sorted by name.

    Where workers run on other machines, all of them must see the same names: a shared folder, or an address that
    pyarrow knows (s3://bucket/folder/*.parquet).
    """
    found: list[str] = []
    for name in map(str, given):
        here = _remote_files(name) if "://" in name else _local_files(name)
        if not here:
            raise DataError(f"{name} matches no file; give files, a folder, or a pattern such as folder/*.parquet.")
        found += here
    name, times = Counter(found).most_common(1)[0] if found else ("", 1)
    if times > 1:
        raise DataError(f"{name} was given twice; give every file once.")
    return found


def _local_files(name: str) -> list[str]:
    path = Path(name)
    if path.is_dir():
        return [str(p.resolve()) for p in sorted(path.iterdir()) if p.is_file() and p.name[0] not in "._"]
    if path.exists():
        return [str(path.resolve())]
    if glob.has_magic(name):
        return [str(Path(p).resolve()) for p in sorted(glob.glob(name)) if Path(p).is_file()]
    raise DataError(f"{name} does not exist; check the name.")


@contextmanager
def _remote_errors(name: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:300]
        raise DataError(f"{name} cannot be reached: {reason}.") from error


def _remote_files(name: str) -> list[str]:
    from pyarrow import fs

    folder, _, pattern = name.rpartition("/")
    if not glob.has_magic(pattern):
        folder, pattern = name.rstrip("/"), "*"
    with _remote_errors(name):
        system, inside = fs.FileSystem.from_uri(folder)
        if system.get_file_info(inside).type == fs.FileType.File:
            return [name]
        listed = system.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    names = sorted(info.base_name for info in listed if info.type == fs.FileType.File)
    return [f"{folder}/{base}" for base in names if fnmatch(base, pattern) and base[0] not in "._"]


@contextmanager
def local_file(name: str) -> Iterator[Path]:
    """A file as a local path: itself, or a copy that lives as long as the block."""
    if "://" not in name:
        yield Path(name)
        return
    from pyarrow import fs

    with tempfile.TemporaryDirectory(prefix="luce-") as folder:
        copy = Path(folder) / name.rpartition("/")[2]
        with _remote_errors(name):
            system, inside = fs.FileSystem.from_uri(name)
            options: dict[str, Any] = {"source_filesystem": system, "destination_filesystem": fs.LocalFileSystem()}
            fs.copy_files(inside, str(copy), **options)
        yield copy


class DataPart:
    """Judged documents of a run of whole queries; knows its size, so that Dask moves tasks and not data."""

    def __init__(self, data: Groups) -> None:
        self.data = data

    def __sizeof__(self) -> int:
        return int(self.data.X.nbytes + self.data.y.nbytes)


def read_outline(name: str, options: Mapping[str, Any], expected: tuple[str, ...] | None = None) -> FileOutline:
    """Everything but the features of one file; `expected` are features that tables are to be read by."""
    with serial(), local_file(name) as path:
        format = data_format(path)
        own = dict(options) if expected is None else options_like(format, expected, options)
        source = open_source(path, **own)
        if isinstance(source, Groups):
            outline = Outline(**{field: getattr(source, field) for field in Outline._fields})
        else:
            outline = source.outline()
        names = outline.feature_names
        if outline.schema is not None and outline.schema.categories:
            column = outline.schema.features[next(iter(outline.schema.categories))].name
            raise DataError(
                f"{name}: the column {column!r} is text, and a cluster takes numbers; leave it out by --drop."
            )
        if expected is not None and (len(names) > len(expected) or (format != "letor" and names != expected)):
            raise DataError(f"{name} has {len(names)} features that are not the {len(expected)} that are expected.")
        # Copies, since a memory map does not travel; document ids stay where they are.
        here = outline._replace(y=np.array(outline.y), offsets=np.array(outline.offsets), document_ids=None)
        return FileOutline(name, format, here)


def load_part(
    partition: Partition,
    names: tuple[str, ...],
    options: Mapping[str, Any],
    query_norm: str | None,
    named: bool = False,
    gaps: bool = True,
) -> DataPart:
    """Read the rows of a partition; a run of rows of one binary file stays on disk, as a memory map."""
    with serial():
        blocks = [_read_piece(piece, names, options, named) for piece in partition.pieces]
        for block, piece in zip(blocks, partition.pieces, strict=True):
            if not gaps and np.isnan(block).any():
                feature = names[int(np.flatnonzero(np.isnan(block).any(axis=0))[0])]
                raise DataError(
                    f"{piece.name}: the feature {feature!r} has gaps, and a cluster does not learn what to fill them "
                    "with; fill them, train trees, or train on one machine."
                )
        X = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        if query_norm is not None:
            X = normalise_within_queries(X, partition.offsets, query_norm)
    queries = np.arange(*partition.queries)
    return DataPart(
        Groups(
            X=X,
            y=partition.y,
            offsets=partition.offsets,
            query_ids=queries,
            query_weight=partition.query_weight,
            feature_names=names,
        )
    )


def _read_piece(piece: Piece, names: tuple[str, ...], options: Mapping[str, Any], named: bool) -> NDArray[np.float32]:
    with local_file(piece.name) as path:
        source = open_source(path, **(options_like(data_format(path), names, options) if named else options))
        if isinstance(source, Groups):
            rows = source.X[piece.first : piece.last]
            return rows if Path(piece.name) == path else np.array(rows)
        wanted = np.arange(piece.first, piece.last) if piece.order is None else piece.order
        X = np.empty((len(wanted), len(names)), dtype=np.float32)
        filled, first, end = 0, 0, int(wanted.max()) + 1
        for block in source.blocks(len(names)):
            places = np.flatnonzero((wanted >= first) & (wanted < first + len(block)))
            X[places] = block[wanted[places] - first]
            filled += len(places)
            first += len(block)
            if first >= end:
                break
    if filled != len(wanted):
        raise DataError(f"{piece.name} changed while it was read; try again.")
    return X
