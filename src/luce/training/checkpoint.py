"""Checkpoints: one format for every trainer.

A checkpoint is a container (see `luce.storage`) with the state of a trainer as JSON and arrays, a step number and a
fingerprint of the problem. A folder keeps the newest two; a torn or damaged file is passed over for the one before it,
with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from luce.errors import LuceWarning, ModelFormatError, SettingError
from luce.storage import make_folder, read_container, write_container


class Checkpoint(NamedTuple):
    """State of a training after `step` steps."""

    step: int
    state: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class Checkpoints:
    """The checkpoints of one training in one folder."""

    keep = 2

    def __init__(self, folder: str | Path, fingerprint: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.fingerprint = dict(fingerprint)
        for torn in make_folder(self.folder).glob(".step-*.part"):
            torn.unlink(missing_ok=True)  # what a process was writing when it was killed

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.luce"))

    def save(self, step: int, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the state after `step` steps, and drop all but the newest two."""
        settings = {"step": step, "fingerprint": self.fingerprint, "state": dict(state), "arrays": _listed(arrays)}
        write_container(self.folder / f"step-{step:09d}.luce", "checkpoint", settings, arrays)
        for old in self._files()[: -self.keep]:
            old.unlink(missing_ok=True)

    def load(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, or None; one of another problem is an error."""
        for path in reversed(self._files()):
            try:
                settings, arrays = read_container(path, "checkpoint")[1:]
                if settings.get("arrays") != _listed(arrays):
                    raise ModelFormatError(f"{path} is damaged: its arrays are not those that were written.")
            except ModelFormatError as error:
                warnings.warn(f"{error} The checkpoint before it is used, if there is one.", LuceWarning, stacklevel=3)
                continue
            if settings.get("fingerprint") != self.fingerprint:
                raise SettingError(
                    f"The checkpoint {path} belongs to another training (data or settings differ, or the seed, "
                    "which is another one each time where none is given); give another folder, or empty this one."
                )
            return Checkpoint(settings["step"], settings["state"], arrays)
        return None


def _listed(arrays: Mapping[str, NDArray[Any]]) -> dict[str, list[Any]]:
    """Types and shapes by name: what the checksums of a container leave out."""
    return {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
