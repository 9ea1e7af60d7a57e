"""The desk of an experiment: pieces of work are taken from an earlier run or done, kept, counted and told of.

Finished work is on disk, so that an interrupted experiment goes on where it was. A folder belongs to one problem: data,
folds, seed, tuning metric and conventions, by their digest. It holds one container for each finished piece of work. A
piece's identity is the digest of everything that its result depends on; a record that is torn, damaged or of another
identity counts as not done. A whole record of the right identity with wrong content is an error: something else than
luce writes into the folder, which a user should know.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from luce.errors import DataError, ModelFormatError, SettingError
from luce.experiments.pool import Pool
from luce.experiments.work import Bench, Failed, Fit, Result, Setup, Task, Trial, Verdict, is_better
from luce.storage import atomic_write, make_folder, read_container, write_container


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
        if folder is None:
            return
        path = make_folder(folder) / "problem.json"
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            kept = None
        if not isinstance(kept, dict):
            with atomic_write(path, "w") as stream:
                json.dump(dict(problem), stream, indent=1, default=str)
        elif digest(kept) != self.problem:
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


@dataclass
class ModelTally:
    """One model: fits that are done, failed, taken from an earlier run, and to be done in all."""

    total: int = 0
    done: int = 0
    kept: int = 0
    failed: int = 0
    seconds: float = 0.0
    best: float | None = None
    """The best validation value of a fit so far, over all folds."""
    fold: str = ""
    """The fold that was begun last."""
    error: str = ""

    @property
    def left(self) -> int:
        """Fits that are still to come."""
        return self.total - self.done - self.kept - self.failed


@dataclass
class Tally:
    """All models of an experiment, updated as results come in."""

    metric: str
    jobs: int = 1
    models: dict[str, ModelTally] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Fits of all models."""
        return sum(model.total for model in self.models.values())

    @property
    def left(self) -> int:
        """Fits of all models that are still to come."""
        return sum(model.left for model in self.models.values())

    def seconds_left(self, name: str | None = None) -> float | None:
        """An estimate for one model, or all: fits that are left, at the mean time of those that are done."""
        done = sum(model.done for model in self.models.values())
        if not done:
            return None
        usual = sum(model.seconds for model in self.models.values()) / done
        chosen = list(self.models.values()) if name is None else [self.models[name]]
        work = sum(model.left * (model.seconds / model.done if model.done else usual) for model in chosen)
        return work / max(1, min(self.jobs, sum(model.left for model in chosen)))

    def expect(self, model: str, fits: int) -> None:
        """So many fits of a model will come."""
        self.models.setdefault(model, ModelTally()).total += fits

    def note(self, model: str, result: Trial | Failed, *, kept: bool = False) -> None:
        """A fit has ended, now or in an earlier run."""
        row = self.models[model]
        if isinstance(result, Failed):
            row.failed += 1
            row.error = result.error
            return
        if kept:
            row.kept += 1
        else:
            row.done += 1
            row.seconds += result.seconds
        if row.best is None or is_better(result.validation, row.best, self.metric):
            row.best = result.validation


Watch = Callable[[Tally, str, str, Any], None]
"""Told of (tally, model, fold, result): None at the start of a fit, then its result, last the outcome of the fold."""


@contextmanager
def open_desk(
    bench: Bench, shared: Mapping[str, Any], data: Any, out: str | Path | None, jobs: int | None, watch: Watch | None
) -> Iterator[Desk]:
    """The desk of an experiment whose work depends on `shared` settings and on `data`; it is kept in a folder `out`."""
    from luce import __version__

    folder = None if out is None else make_folder(Path(out)) / "state"
    state = State(folder, {"luce": __version__, **shared, "data": data})
    with Pool(bench, jobs) as pool:
        yield Desk(bench.setup, state, pool, watch)


class Asked(NamedTuple):
    """A piece of work that was asked for: the model as it is shown, where it belongs, its record and what is done."""

    model: str
    key: Any
    record: str
    task: Task


class Desk:
    """All pieces of work of an experiment; `results` gives back the keys by which they were asked for."""

    def __init__(self, setup: Setup, state: State, pool: Pool, watch: Watch | None) -> None:
        self.setup, self.state, self.pool, self.watch = setup, state, pool, watch
        self.tally = Tally(setup.tune_on)
        self._kept: deque[tuple[Asked, Trial | Verdict]] = deque()

    def ask(self, asked: Asked) -> None:
        """Want a result: that of an earlier run, or one that is to be made; verdicts before fits."""
        kind: type[Trial] | type[Verdict] = Trial if isinstance(asked.task, Fit) else Verdict
        found = self.state.get(kind, asked.record, self.identity(asked.task))
        if found is not None:
            self._kept.append((asked, found))
        else:
            self.pool.submit(asked, asked.task, first=kind is Verdict)

    def identity(self, task: Task) -> str:
        """What tells a piece of work from all others: a verdict depends on the metrics, too."""
        fit = task if isinstance(task, Fit) else task.fit
        spelled = fit.system if isinstance(fit.system, str) else f"{type(fit.system).__module__}.{fit.system!r}"
        facts = [self.setup.folds[fit.fold].name, spelled, dict(fit.settings), fit.share]
        return self.state.identity(facts if task is fit else [*facts, list(self.setup.metrics)])

    def results(self) -> Iterator[tuple[Any, Result]]:
        """Keys and results, those of an earlier run first, until nothing is left; more may be asked for meanwhile."""
        yield from self._from_before()
        for asked, result in self.pool.results(self._started):
            if not isinstance(result, Failed):
                self.state.put(asked.record, self.identity(asked.task), result)
            yield self._noted(asked, result, kept=False)
            yield from self._from_before()

    def _from_before(self) -> Iterator[tuple[Any, Result]]:
        while self._kept:
            yield self._noted(*self._kept.popleft(), kept=True)

    def _noted(self, asked: Asked, result: Result, *, kept: bool) -> tuple[Any, Result]:
        fold = self.setup.folds[asked.task.fold].name
        if isinstance(asked.task, Fit):
            assert not isinstance(result, Verdict)
            self.tally.note(asked.model, result, kept=kept)
        if not isinstance(result, Verdict):
            self.tell(asked.model, fold, result)
        return asked.key, result

    def tell(self, model: str, fold: str, result: Any) -> None:
        """Say what has come of a model on a fold."""
        if self.watch:
            self.watch(self.tally, model, fold, result)

    def _started(self, asked: Asked) -> None:
        if isinstance(asked.task, Fit):
            fold = self.setup.folds[asked.task.fold].name
            self.tally.models[asked.model].fold, self.tally.jobs = fold, self.pool.jobs
            self.tell(asked.model, fold, None)
