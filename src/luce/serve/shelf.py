"""The models of a service by name: loaded, tried once, and replaced all at a time."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups, from_arrays
from luce.errors import DataError, SettingError
from luce.model_file import load, load_signed
from luce.ranker import Ranker
from luce.serve.beside import Also, text_features
from luce.serve.settings import Limits
from luce.signing import public_keys


@dataclass(frozen=True)
class Served:
    """A model as it is served."""

    name: str
    ranker: Ranker
    version: str
    """First digits of the file's SHA-256."""
    loaded: float

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features in their order."""
        return self.ranker.feature_names_

    @property
    def takes_missing(self) -> bool:
        """Whether a feature may be missing."""
        return self.ranker.takes_missing

    @cached_property
    def codes(self) -> dict[str, dict[str, int]]:
        """The codes of categories, by feature and name."""
        schema = self.ranker.schema_
        found = {} if schema is None else schema.categories
        return {self.features[j]: {name: code for code, name in enumerate(names)} for j, names in found.items()}

    @cached_property
    def types(self) -> dict[str, str]:
        """The types of the columns that the features were read from, by feature; empty where there was no table."""
        schema = self.ranker.schema_
        return {} if schema is None else {column.name: column.type for column in schema.features}

    @cached_property
    def also(self) -> Also:
        """What the model takes beside features."""
        schema = self.ranker.schema_
        text = None if schema is None else schema.text
        return Also(text, self.ranker.on_scores_, hasattr(self.ranker.scorer_, "score_groups"))

    def groups(self, X: NDArray[np.float32], relations: Mapping[str, Any] | None = None) -> Groups:
        """Rows as the documents of one query."""
        names = list(self.features)
        made = from_arrays(X, None, feature_names=names, allow_nan=self.takes_missing, relations=relations)
        return made if self.ranker.schema_ is None else replace(made, schema=self.ranker.schema_)


class Shelf:
    """Named model files. Requests take a model once and keep it, so that a reload never changes one half-way."""

    def __init__(self, paths: Mapping[str, Path], trusted: Sequence[str | Path] | None = None) -> None:
        if not paths:
            raise SettingError("There is no model to serve; give at least one model file.")
        self._keys = None if trusted is None else public_keys(trusted)
        self._paths = dict(paths)
        self._lock = threading.Lock()
        self.served = self._load()
        """The models as they are now, by name, in the order given."""

    def beside(self, path: Path) -> Served:
        """A model that is not served itself, held to the same signatures."""
        return _open(path.stem, path, self._keys)

    def reload(self) -> list[str]:
        """Read all files again, then replace all models at once; names of those that changed.

        Where a file cannot be read, `LuceError` is raised and the models stay as they were.
        """
        with self._lock:
            fresh = self._load()
            changed = [name for name, model in fresh.items() if model.version != self.served[name].version]
            self.served = fresh
            return changed

    def _load(self) -> dict[str, Served]:
        return {name: _open(name, path, self._keys) for name, path in self._paths.items()}


def _open(name: str, path: Path, keys: Sequence[bytes] | None) -> Served:
    """Load a model and score with it once: kernels are compiled now, and a model that cannot score is no model."""
    ranker = load(path) if keys is None else load_signed(path, keys)[0]
    # Sampled probabilities of a request then depend on that request alone.
    ranker.random_state = 0
    served = Served(name, ranker, hashlib.sha256(path.read_bytes()).hexdigest()[:12], time.time())
    try:
        data = served.groups(np.zeros((2, ranker.n_features_in_), dtype=np.float32))
        ranker.predict(data, base_scores=np.zeros(2) if ranker.on_scores_ else None)
        if served.also.text is not None:
            text_features(
                "", {field: ["", "a"] for field in served.also.text.fields}, [0, 1], served.also.text, Limits()
            )
    except DataError:
        if not served.also.relations:  # those come with requests
            raise
    return served
