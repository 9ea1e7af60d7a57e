"""A member on all folds: scores of every document by a model that did not see its query, and the mean of the models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import numpy as np

from luce.auto.folds import deal
from luce.auto.members import MEMBERS
from luce.auto.paths import Pace, Path, Walk, path_of, smoothed_mean, start
from luce.auto.plan import Job
from luce.data.filling import Filling
from luce.data.groups import Groups
from luce.errors import LuceError
from luce.metrics.catalog import Metric
from luce.numerics.segments import n_threads, serial
from luce.scorers.forest import Forest
from luce.scorers.linear import FittedLinear
from luce.training.run import Checkpoints
from luce.training.task import Task
from luce.types import FloatArray, IntArray

__all__ = ["CrossFit", "Fitted", "Walked", "failures", "summed"]

_WORTH_THREADS = 1 << 20
"""Entries of X from which on one fit has all threads to itself, and below which folds share them."""


class Walked(NamedTuple):
    """The ways of all folds, and where they are best."""

    paths: list[Path]
    step: int
    """Trees a fold, or the number of the penalty."""
    at_limit: bool
    """Whether the mean still rose when the last round that was allowed was over."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A member after cross-fitting."""

    member: str
    model: Forest | FittedLinear
    """The mean over folds."""
    scores: FloatArray
    """Out of fold, one a document."""
    step: int
    at_limit: bool


@dataclass(frozen=True, eq=False)
class CrossFit:
    """What all members share: the data, the folds, how models are judged and where they are kept."""

    data: Groups
    folds: int
    metric: Metric
    pace: Pace
    seed: int
    filling: Filling | None
    checkpoint: FilePath | None = None
    fingerprint: dict[str, Any] | None = None

    def fitted(self, job: Job, walked: Walked) -> Fitted:
        """The mean of the models of all folds, and out-of-fold scores."""
        fold, scores = self._fold(job), np.empty(self.data.n_rows)
        models = [path.at(walked.step) for path in walked.paths]
        for k, model in enumerate(models):
            scores[np.repeat(fold == k, self.data.sizes)] = self._scores(model, self.data.take(fold == k))
        return Fitted(job.member, mean_model(models), scores, walked.step, walked.at_limit)

    def _fold(self, job: Job) -> IntArray:
        return deal(self.data, self.folds, np.random.default_rng([self.seed, job.repeat]))

    def walk(self, job: Job, tell: Callable[[float], None]) -> Walked:
        """All folds together, stride by stride, until the mean of their curves has been falling for long enough.

        `tell` hears after every stride what part of the way may be behind.
        """
        member, pace, fold = MEMBERS[job.member], self.pace, self._fold(job)
        sizes = np.bincount(fold, minlength=self.folds).astype(np.float64)
        workers = 1 if self.data.X.size >= _WORTH_THREADS else min(n_threads(), self.folds)
        width = 1 if member.linear else pace.stride
        with ThreadPoolExecutor(workers) as pool:
            walks = list(pool.map(lambda k: self._start(job, fold == k, k, workers > 1), range(self.folds)))
            while True:
                list(pool.map(lambda walk: _advance(walk, workers > 1), walks))
                mean = smoothed_mean([walk.curve for walk in walks], sizes, width)
                best = int(np.argmax(mean if self.metric.greater_is_better else -mean)) + 1
                over = all(walk.ended for walk in walks)
                tell(1.0 if over else min(0.99, len(mean) / (best + pace.patience)))
                if over or len(mean) - best >= pace.patience:
                    break
        at_limit = not member.linear and len(mean) >= pace.rounds and len(mean) - best < width
        return Walked([walk.path() for walk in walks], best, at_limit)

    def _start(self, job: Job, out: Any, k: int, alone: bool) -> Walk:
        number = list(MEMBERS).index(job.member)
        seed = int(np.random.default_rng([self.seed, job.repeat, number, k]).integers(2**31))
        task = Task(self.data.take(~out), valid=self.data.take(out), metric=self.metric, seed=seed)
        with _threads(alone):
            return start(MEMBERS[job.member], task, self.pace, self.filling)

    def load(self, job: Job) -> Walked | None:
        """What an earlier run, ended before its time, left in the checkpoint folder."""
        found = None if self.checkpoint is None else self._checkpoints(self.checkpoint, job).load()
        if found is None:
            return None
        linear = MEMBERS[job.member].linear
        paths = [path_of(linear, _of_fold(found.arrays, k), self._width(linear)) for k in range(self.folds)]
        return Walked(paths, found.state["step"], found.state["at_limit"])

    def save(self, job: Job, walked: Walked) -> None:
        """Leave it there for a later one."""
        if self.checkpoint is None:
            return
        arrays = {f"{k}.{name}": array for k, path in enumerate(walked.paths) for name, array in path.arrays().items()}
        self._checkpoints(self.checkpoint, job).save(1, {"step": walked.step, "at_limit": walked.at_limit}, arrays)

    def _checkpoints(self, folder: FilePath, job: Job) -> Checkpoints:
        return Checkpoints(folder / job.name.replace("#", "-"), {**(self.fingerprint or {}), "job": job.name})

    def _width(self, linear: bool) -> int:
        return self.filling.width if linear and self.filling is not None else self.data.n_features

    def _scores(self, model: Forest | FittedLinear, held: Groups) -> FloatArray:
        if isinstance(model, Forest):
            return model.score(held.X)
        seen = held if self.filling is None else self.filling.applied(held)
        return model.score(seen.X, seen.offsets)


def _threads(alone: bool) -> AbstractContextManager[None]:
    """`alone`: one thread, since other folds have the others."""
    return serial() if alone else nullcontext()


def _advance(walk: Walk, alone: bool) -> None:
    with _threads(alone):
        walk.advance()


def _of_fold(arrays: dict[str, Any], k: int) -> dict[str, Any]:
    return {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{k}.")}


def mean_model(models: Sequence[Forest | FittedLinear]) -> Forest | FittedLinear:
    """One model whose scores are the mean of theirs."""
    forests, linear = summed(models, [1.0 / len(models)] * len(models))
    return forests if linear is None else linear


def summed(models: Sequence[Forest | FittedLinear], factors: Sequence[float]) -> tuple[Forest, FittedLinear | None]:
    """The sum of models times factors: that of the trees, and that of the linear scores, None where there are none."""
    pairs = list(zip(models, factors, strict=True))
    forest = Forest.joined([model.scaled(factor) for model, factor in pairs if isinstance(model, Forest)])
    linear = [(model, factor) for model, factor in pairs if isinstance(model, FittedLinear)]
    if not linear:
        return forest, None
    weights = np.sum([factor * model.weights for model, factor in linear], axis=0)
    intercept = sum(factor * model.intercept for model, factor in linear)
    return forest, replace(linear[0][0], weights=weights, intercept=float(intercept))


def failures() -> tuple[type[Exception], ...]:
    """What may keep a member from being fitted, so that it is left out: all else is a defect of luce."""
    engine = sys.modules.get("lightgbm")
    own = () if engine is None else (engine.basic.LightGBMError,)
    return (LuceError, ArithmeticError, np.linalg.LinAlgError, MemoryError, *own)
