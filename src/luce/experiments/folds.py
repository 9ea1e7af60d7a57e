"""Folds: predefined ones as LETOR lays them out, or drawn by query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from luce.data.groups import Groups
from luce.data.readers.detect import read
from luce.errors import DataError, SettingError

__all__ = ["Fold", "find_folds", "grouped_folds"]

_PARTS = {"train": ("train",), "valid": ("vali", "valid", "validation", "dev"), "test": ("test",)}
_ENDINGS = (".txt", ".txt.gz", ".txt.zst", ".txt.bz2", ".lucedata", ".parquet", ".csv", "")


@dataclass(frozen=True)
class Fold:
    """One split of the data; `load` gives (train, valid, test), and how validation queries were come by is said."""

    name: str
    load: Callable[[], tuple[Groups, Groups, Groups]]
    note: str = ""


def find_folds(path: str | Path, *, folds: int = 5, seed: int = 0, **options: Any) -> list[Fold]:
    """The folds of a data set.

    A folder with `Fold1`, `Fold2`, ... that hold train, vali and test files is taken as it is, and so is a folder that
    holds the three files themselves. A single file is cut by query into `folds` parts: each is the test part once, the
    next one is for validation, the others are for training. Options go to `luce.read`.
    """
    path = Path(path)
    if path.is_file():
        data = read(path, **options)
        return grouped_folds(data, folds, seed)
    if not path.is_dir():
        raise DataError(f"{path} does not exist; give a file, or a folder with train, vali and test files.")
    folders = sorted(p for p in path.iterdir() if p.is_dir() and p.name.lower().startswith("fold"))
    found = [_folder_fold(folder, seed, options) for folder in folders or [path]]
    return found


def _folder_fold(folder: Path, seed: int, options: dict[str, Any]) -> Fold:
    files = {part: _find(folder, names) for part, names in _PARTS.items()}
    train_file, valid_file, test_file = files["train"], files["valid"], files["test"]
    if train_file is None or test_file is None:
        raise DataError(f"{folder} holds no train and test files; expected names such as train.txt and test.txt.")

    def load() -> tuple[Groups, Groups, Groups]:
        train = read(train_file, **options)
        width = {"n_features": train.n_features} if train_file.name.startswith("train.txt") else {}
        test = read(test_file, **width, **options)
        if valid_file is not None:
            valid = read(valid_file, **width, **options)
        else:
            train, valid = _hold_out(train, seed)
        _check_apart(folder, train, valid, test)
        return train, valid, test

    note = "" if valid_file else "no validation file: a fifth of the training queries is held out"
    return Fold(folder.name, load, note)


def _find(folder: Path, names: tuple[str, ...]) -> Path | None:
    for name in names:
        for ending in _ENDINGS:
            if (folder / (name + ending)).is_file():
                return folder / (name + ending)
    return None


def _hold_out(data: Groups, seed: int) -> tuple[Groups, Groups]:
    order = np.random.default_rng(seed).permutation(data.n_queries)
    cut = max(1, data.n_queries // 5)
    if data.n_queries < 2:
        raise DataError("One query cannot be split into training and validation data; give at least two.")
    return data.take(np.sort(order[cut:])), data.take(np.sort(order[:cut]))


def grouped_folds(data: Groups, folds: int, seed: int = 0) -> list[Fold]:
    """Cut a data set by query into `folds` parts, drawn with `seed`."""
    if not 3 <= folds <= data.n_queries:
        raise SettingError(f"{folds} folds of {data.n_queries} queries; give at least 3 and at most one a query.")
    part = np.random.default_rng(seed).permutation(data.n_queries) % folds

    def fold(k: int) -> Fold:
        def load() -> tuple[Groups, Groups, Groups]:
            test, valid = part == k, part == (k + 1) % folds
            return data.take(~(test | valid)), data.take(valid), data.take(test)

        return Fold(f"Fold{k + 1}", load)

    return [fold(k) for k in range(folds)]


def _check_apart(folder: Path, train: Groups, valid: Groups, test: Groups) -> None:
    parts = {"train": train, "vali": valid, "test": test}
    for a, b in (("train", "vali"), ("train", "test"), ("vali", "test")):
        shared = set(map(str, parts[a].query_ids)) & set(map(str, parts[b].query_ids))
        if shared:
            raise DataError(
                f"{folder}: query {min(shared)} stands in both {a} and {b} ({len(shared)} such queries); "
                "the parts of a fold must not share queries."
            )
