"""The files of a data set that is cut into many: where they are, and how a worker gets at one."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from luce.errors import DataError


def find_files(given: Sequence[str | Path]) -> list[str]:
    """Files, folders and patterns such as `part-*.parquet` as a list of files; those of one folder sorted by name.

    Where workers run on other machines, all of them must see the same names: a shared folder, or an address that
    pyarrow knows (s3://bucket/folder/*.parquet).
    """
    found: list[str] = []
    for name in map(str, given):
        here = _remote_files(name) if _is_remote(name) else _local_files(name)
        if not here:
            raise DataError(f"{name} matches no file; give files, a folder, or a pattern such as folder/*.parquet.")
        found += here
    seen: set[str] = set()
    for name in found:
        if name in seen:
            raise DataError(f"{name} was given twice; give every file once.")
        seen.add(name)
    return found


def _is_remote(name: str) -> bool:
    return "://" in name


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
    if not _is_remote(name):
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
