"""All that is attacked, by name: what makes a damaged input, and what uses it."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from luce.errors import LuceError, LuceWarning
from tests.fuzz import containers, model_files, netcdf, readers, requests

__all__ = ["Target", "one", "targets"]


class Target(NamedTuple):
    """`make` writes a damaged input to a path, `use` reads it, and raises nothing but errors of luce."""

    ending: str
    make: Callable[[random.Random, Path], None]
    use: Callable[[Path], None]


def targets() -> dict[str, Target]:
    """Every reader, container, model and form of request."""
    return dict(_targets())


def _targets() -> Iterator[tuple[str, Target]]:
    for kind in (*readers.READERS, *readers.MORE, *readers.TABLES):
        yield f"read {kind}", Target(readers.ending(kind), _bytes(readers.attack, kind), _of(readers.read, kind))
    for kind in containers.KINDS:

        def make(rng: random.Random, path: Path, kind: str = kind) -> None:
            containers.attack(kind, rng, path)

        yield f"file {kind}", Target("luce", make, _of(containers.use, kind))
    for kind in model_files.MODELS:

        def write(rng: random.Random, path: Path, kind: str = kind) -> None:
            model_files.write(model_files.attack(kind, rng), path)

        def use(path: Path, kind: str = kind) -> None:
            model_files.use(path, model_files.rows_for(kind))

        yield f"model {kind}", Target("luce", write, use)
    for kind in requests.KINDS:

        def ask(path: Path, kind: str = kind) -> None:
            requests.use(kind, path.read_bytes())

        yield f"request {kind}", Target("json", _bytes(requests.attack, kind), ask)
    if netcdf.AVAILABLE:
        yield "netcdf trajectories", Target("nc", netcdf.attack, netcdf.use)


def _bytes(attack: Callable[[str, random.Random], bytes], kind: str) -> Callable[[random.Random, Path], None]:
    return lambda rng, path: path.write_bytes(attack(kind, rng)) and None


def _of(use: Callable[[str, Path], None], kind: str) -> Callable[[Path], None]:
    return lambda path: use(kind, path)


def one(name: str, target: Target, seed: int, path: Path) -> BaseException | None:
    """Make and use the input of a seed; what it raises that is no error of luce, if anything."""
    target.make(random.Random(f"{name} {seed}"), path)
    return tried(target, path)


def tried(target: Target, path: Path) -> BaseException | None:
    """Use an input that is there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LuceWarning)
            target.use(path)
    except LuceError as error:
        text = str(error)
        return None if "\n" not in text and len(text) < 4000 else AssertionError(f"no one sentence: {text[:200]!r}")
    except Exception as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
        return error
    return None
