"""How far an experiment is: counts, the best value so far and the time that is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from luce.experiments.work import Failed, Trial, is_better


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
