"""The best surrogate: weights of a mixture of convex functions, chosen by the metric on other queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from luce.errors import DataError
from luce.losses.ndcg_mix import NDCGMix
from luce.registry import with_settings
from luce.training.checkpoint import Checkpoints
from luce.training.pattern_search import pattern_search, starts
from luce.training.task import Task, Trained, Trainer, data_digest, digest_of
from luce.types import FloatArray

__all__ = ["train_best"]

HELD_OUT = 0.3
"""Share of the training queries on which weights are judged where there are no validation data."""


def train_best(trainer: Trainer, task: Task) -> Trained:
    r"""Maximise the metric of $\hat h_\alpha$ over $\alpha \ge 0$: [Pareek] (3.25), each fit [Pareek] (3.26).

    With validation data, every $\hat h_\alpha$ is fitted on the training data and judged on the validation data, as in
    [Pareek] section 3.6. Without, three tenths of the training queries are held out to judge; the chosen weights are
    fitted again on all of them, for as many iterations as were best. A pattern search from near zeros, ones and each
    unit vector takes `loss.evaluations` fits, shared among the starts; all that it visited is in the history. A
    checkpoint holds what was visited, so that a search that is taken up again fits none of it twice.
    """
    search = _Search(trainer, task)
    alpha = search.run()
    if task.valid is None:
        rounds = max(1, search.iterations[search.key(alpha)])
        trainer = with_settings("trainer", trainer, {"max_iter": rounds})
    trained = trainer.train(replace(task, loss=search.loss.with_alpha(alpha), checkpoint=None))
    trained.history.surface = search.surface
    return trained


class _Search:
    """What was visited, and what a visit takes."""

    def __init__(self, trainer: Trainer, task: Task) -> None:
        assert isinstance(task.loss, NDCGMix)
        self.trainer, self.loss, self.progress = trainer, task.loss, task.progress
        self.sign = 1.0 if task.metric.greater_is_better else -1.0
        quiet = replace(task, checkpoint=None, progress=None)
        self.task = quiet if task.valid is not None else _split(quiet)
        # Boosting follows the direction of alpha alone: its line search undoes the scale.
        self.scale_free = trainer.name == "listwise_boosting"
        self.surface: list[dict[str, Any]] = []
        self.known: dict[tuple[float, ...], float] = {}
        self.iterations: dict[tuple[float, ...], int] = {}
        self.checkpoints = None
        if task.checkpoint is not None:
            fingerprint = {
                "data": data_digest(task.data),
                "parts": [repr(task.scorer), repr(task.loss), repr(trainer), task.metric.name, task.seed],
                "valid": None if task.valid is None else data_digest(task.valid),
                "base": [digest_of(task.base), digest_of(task.valid_base)],
            }
            self.checkpoints = Checkpoints(task.checkpoint, fingerprint)
            saved = self.checkpoints.load()
            for visit in [] if saved is None else saved.state["surface"]:
                self._note(np.array(visit["alpha"]), visit["value"], visit["iterations"])

    def run(self) -> FloatArray:
        """The best weights."""
        begin = starts(len(self.loss.functions), np.random.default_rng(self.task.seed))
        begin = begin[: max(1, min(len(begin), self.loss.evaluations))]
        unit = np.array([psi.unit for psi in self.loss.functions])
        share = -(-self.loss.evaluations // len(begin))
        left = dict.fromkeys(range(len(begin)), share)
        current = -1
        asked: set[tuple[float, ...]] = set()

        def value(alpha: FloatArray) -> float | None:
            nonlocal current
            if current + 1 < len(begin) and alpha is begin[current + 1]:
                current += 1
            if self.key(alpha) not in asked and (left[current] == 0 or len(asked) == self.loss.evaluations):
                return None
            if self.key(alpha) not in asked:
                asked.add(self.key(alpha))
                left[current] -= 1
            return self.sign * self._visit(alpha)

        return pattern_search(value, begin, unit)

    def key(self, alpha: FloatArray) -> tuple[float, ...]:
        """What makes two weights the same."""
        scaled = alpha / alpha.sum() if self.scale_free else alpha
        return tuple(round(float(a), 12) for a in scaled)

    def _visit(self, alpha: FloatArray) -> float:
        if self.key(alpha) in self.known:
            return self.known[self.key(alpha)]
        task = replace(self.task, loss=self.loss.with_alpha(alpha))
        trained = self.trainer.train(task)
        assert task.valid is not None
        scores = trained.scorer.score(task.valid.X, task.valid.offsets)
        found = task.judged(scores if task.valid_base is None else scores + task.valid_base)
        best = trained.history.best_iteration
        self._note(alpha, found, len(trained.history.objective) if best is None else best)
        if self.progress:
            self.progress(len(self.surface), self.loss.evaluations, {"validation": found})
        if self.checkpoints:
            self.checkpoints.save(len(self.surface), {"surface": self.surface}, {"alpha": alpha})
        return found

    def _note(self, alpha: FloatArray, value: float, iterations: int) -> None:
        self.surface.append({"alpha": [float(a) for a in alpha], "value": float(value), "iterations": int(iterations)})
        self.known[self.key(alpha)], self.iterations[self.key(alpha)] = float(value), int(iterations)


def _split(task: Task) -> Task:
    """The same with some queries to judge on, drawn with the seed."""
    data, base = task.data, task.base
    if data.n_queries < 2:
        raise DataError("One query cannot be split to choose alpha; give more, or validation data, or alpha itself.")
    held = np.zeros(data.n_queries, dtype=bool)
    count = max(1, round(HELD_OUT * data.n_queries))
    held[np.random.default_rng(task.seed).permutation(data.n_queries)[:count]] = True
    by_row = np.repeat(held, data.sizes)
    below = {} if base is None else {"base": base[~by_row], "valid_base": base[by_row]}
    return replace(task, data=data.take(~held), valid=data.take(held), **below)
