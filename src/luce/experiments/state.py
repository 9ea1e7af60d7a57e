"""Finished work on disk, so that an interrupted experiment goes on where it was.

A folder belongs to one problem: data, folds, seed, tuning metric and conventions, by their digest. It holds one
container for each finished piece of work. A piece's identity is the digest of everything that its result depends on;
a record that is torn, damaged or of another identity counts as not done. A whole record of the right identity with
wrong content is an error: something else than luce writes into the folder, which a user should know.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from luce.errors import DataError, ModelFormatError, SettingError
from luce.experiments.work import Trial, Verdict
from luce.storage import atomic_write, make_folder, read_container, write_container

_PROBLEM = "problem.json"


def digest(facts: Any) -> str:
    """SHA-256 of JSON-able facts, whatever the order of keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def safe_name(name: str) -> str:
    """A name as part of a path.

    >>> safe_name("hom-gg/sgd")
    'hom-gg_sgd'
    """
    return re.sub(r"[^A-Za-z0-9.@+=-]", "_", name).lstrip(".") or "_"


class State:
    """Records of finished work in a folder; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, problem: Mapping[str, Any]) -> None:
        self.folder = folder
        self.problem = digest(problem)
        if folder is not None:
            make_folder(folder)
            self._claim(folder / _PROBLEM, dict(problem))

    def _claim(self, path: Path, problem: dict[str, Any]) -> None:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            kept = None
        if not isinstance(kept, dict):
            with atomic_write(path, "w") as stream:
                json.dump(problem, stream, indent=1, default=str)
            return
        if digest(kept) != self.problem:
            differ = [key for key in sorted({*kept, *problem}) if digest(kept.get(key)) != digest(problem.get(key))]
            raise SettingError(
                f"{path.parent.parent} holds a run that differs in {', '.join(differ)}; "
                "give another folder for the results, or delete this one."
            )

    def _path(self, name: str, identity: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{safe_name(name)}.{identity[:16]}.luce"

    def identity(self, facts: Any) -> str:
        """What tells a piece of work from all others."""
        return digest([self.problem, facts])

    def get(self, kind: type[Trial] | type[Verdict], name: str, identity: str) -> Trial | Verdict | None:
        """A finished piece of work, or None where it is to be done (again)."""
        if self.folder is None or not self._path(name, identity).is_file():
            return None
        try:
            settings, arrays = read_container(self._path(name, identity), kind.__name__.lower())[1:]
        except ModelFormatError:
            return None
        if settings.get("identity") != identity:
            return None
        try:
            return kind.from_content(settings, arrays)
        except DataError as error:
            raise self.wrong(name, identity, str(error)) from None

    def wrong(self, name: str, identity: str, why: str) -> DataError:
        """The error for a whole record whose content cannot be the result of that piece of work."""
        return DataError(
            f"{self._path(name, identity)} is no record that luce wrote: {why}; delete this file and give the same "
            "command again, which does that piece of work anew."
        )

    def put(self, name: str, identity: str, result: Trial | Verdict) -> None:
        """Keep a finished piece of work."""
        if self.folder is not None:
            settings, arrays = result.content()
            kind = type(result).__name__.lower()
            # A record that a power cut tears is done again, so that no fit waits for the disk.
            write_container(self._path(name, identity), kind, {**settings, "identity": identity}, arrays, durable=False)
