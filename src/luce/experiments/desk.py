"""The desk of an experiment: pieces of work are taken from an earlier run or done, kept, counted and told of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from luce.experiments.pool import Pool
from luce.experiments.state import State
from luce.experiments.work import Bench, Failed, Fit, Result, Setup, Task, Trial, Verdict, is_better
from luce.storage import make_folder


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
    best_on: str = ""
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

    def note(self, model: str, fold: str, result: Trial | Failed, *, kept: bool = False) -> None:
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
            row.best, row.best_on = result.validation, fold


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
            self.tally.note(asked.model, fold, result, kept=kept)
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
