"""The best surrogate: weights of a mixture of convex functions, chosen by the metric on other queries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from luce.errors import DataError, LuceWarning
from luce.losses.ndcg import NDCGMix
from luce.registry import with_settings
from luce.training.run import Checkpoints
from luce.training.task import Task, Trained, Trainer
from luce.types import FloatArray

CONVERGED = 1e-3
"""Boosting is at its end where ten rounds bring less than this share of the whole fall of the risk."""
STOPPING = 0.2
"""Share of the training queries by which fits are ended early, where that is asked for."""
HELD_OUT = 0.3
"""Share of the training queries on which weights are judged where there are no validation data."""
_FINEST = 1e-3
"""Mesh at which a pattern search ends."""


def train_best(trainer: Trainer, task: Task) -> Trained:
    r"""Maximise the metric of $\hat h_\alpha$ over $\alpha \ge 0$: [Pareek] (3.25), each fit [Pareek] (3.26).

    With validation data, every $\hat h_\alpha$ is fitted on the training data and judged on the validation data, as in
    [Pareek] section 3.6. Without, three tenths of the training queries are held out to judge, and the chosen weights
    are fitted again on all of them. The queries that judge have no part in a fit: it goes on until the risk on the
    training data falls no more, or (`fits="stopped"`) as long as a fifth of the training queries gains by it. A pattern
    search from near zeros, ones and each unit vector takes `loss.evaluations` fits, shared among the starts, or an even
    grid as many; all that was visited is in the history. A checkpoint holds it, so that a search that is taken up again
    fits none of it twice.
    """
    search = _Search(trainer, task)
    alpha = search.run()
    if task.valid is None and search.loss.fits == "stopped":
        rounds = max(1, search.known[search.key(alpha)]["iterations"])
        short: Trainer = with_settings("trainer", search.trainer, {"max_iter": rounds})
        trained = short.train(replace(task, loss=search.loss.with_alpha(alpha), checkpoint=None))
    else:
        fits = search.fits if task.valid is not None else replace(task, checkpoint=None)
        trained = search.trainer.train(replace(fits, loss=search.loss.with_alpha(alpha), progress=task.progress))
    trained.history.surface = search.surface
    cut_off = sum(not visit["converged"] for visit in search.surface)
    if cut_off:
        most = getattr(search.trainer, "max_iter", None)
        warnings.warn(
            f"{cut_off} of {len(search.surface)} fits of the search ended at max_iter={most} before they converged; "
            "raise max_iter.",
            LuceWarning,
            stacklevel=5,
        )
    return trained


class _Search:
    """What was visited, and what a visit takes."""

    def __init__(self, trainer: Trainer, task: Task) -> None:
        assert isinstance(task.loss, NDCGMix)
        self.loss, self.progress = task.loss, task.progress
        # Boosting follows the direction of alpha alone: its line search undoes the scale.
        self.trainer, self.scale_free = trainer, trainer.name == "listwise_boosting"
        if task.loss.fits == "converged" and self.scale_free and not getattr(trainer, "tol", 1.0):
            self.trainer = with_settings("trainer", trainer, {"tol": CONVERGED})  # ends where the risk falls no more
        self.sign = 1.0 if task.metric.greater_is_better else -1.0
        quiet = replace(task, checkpoint=None, progress=None)
        self.task = quiet if task.valid is not None else _split(quiet, HELD_OUT)
        """Fits and the queries that judge them."""
        alone = replace(self.task, valid=None, valid_base=None)
        self.fits = alone if task.loss.fits == "converged" else _split(alone, STOPPING)
        self.surface: list[dict[str, Any]] = []
        self.known: dict[tuple[float, ...], dict[str, Any]] = {}
        self.checkpoints = None
        if task.checkpoint is not None:
            fingerprint = {**task.fingerprint(trainer, None), "search": [repr(trainer), task.metric.name]}
            self.checkpoints = Checkpoints(task.checkpoint, fingerprint)
            saved = self.checkpoints.load()
            for visit in [] if saved is None else saved.state["surface"]:
                self._note(np.array(visit["alpha"]), visit["value"], visit["iterations"], visit["converged"])

    def run(self) -> FloatArray:
        """The best weights."""
        unit = np.array([psi.unit for psi in self.loss.functions])
        if self.loss.search == "grid":
            points = even_grid(len(unit), self.loss.evaluations, self.scale_free)
            return max((point / unit for point in points), key=lambda alpha: self.sign * self._visit(alpha))
        begin = starts(len(self.loss.functions), np.random.default_rng(self.task.seed))
        begin = begin[: max(1, min(len(begin), self.loss.evaluations))]
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
            return float(self.known[self.key(alpha)]["value"])
        trained = self.trainer.train(replace(self.fits, loss=self.loss.with_alpha(alpha)))
        found = self.task.judged_scorer(trained.scorer)
        best, rounds = trained.history.best_iteration, len(trained.history.objective)
        self._note(alpha, found, rounds if best is None else best, trained.history.converged)
        if self.progress:
            self.progress(len(self.surface), self.loss.evaluations, {"validation": found})
        if self.checkpoints:
            self.checkpoints.save(len(self.surface), {"surface": self.surface}, {"alpha": alpha})
        return found

    def _note(self, alpha: FloatArray, value: float, iterations: int, converged: bool) -> None:
        visit = {"alpha": alpha.tolist(), "value": float(value), "iterations": int(iterations)}
        self.known[self.key(alpha)] = visit | {"converged": bool(converged)}
        self.surface.append(self.known[self.key(alpha)])


def _split(task: Task, part: float) -> Task:
    """The same with a part of the queries to judge on, drawn with the seed."""
    data, base = task.data, task.base
    if data.n_queries < 2:
        raise DataError("One query cannot be split to choose alpha; give more, or validation data, or alpha itself.")
    held = np.zeros(data.n_queries, dtype=bool)
    count = max(1, round(part * data.n_queries))
    held[np.random.default_rng(task.seed).permutation(data.n_queries)[:count]] = True
    by_row = np.repeat(held, data.sizes)
    below = {} if base is None else {"base": base[~by_row], "valid_base": base[by_row]}
    return replace(task, data=data.take(~held), valid=data.take(held), **below)


def starts(n: int, rng: np.random.Generator) -> list[FloatArray]:
    """Near zeros, ones, and each unit vector, as in Section 3.6 of the chapter.

    >>> [start.round(2).tolist() for start in starts(2, np.random.default_rng(0))][1:]
    [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    near_zero = rng.uniform(0.005, 0.015, n)
    return [near_zero, np.ones(n), *np.eye(n)]


def even_grid(n: int, most: int, directions: bool) -> list[FloatArray]:
    """The finest even grid on [0, 1]^n, without 0, of at most so many points; with `directions`, each once.

    >>> [point.tolist() for point in even_grid(2, 5, True)]
    [[0.0, 1.0], [0.5, 1.0], [1.0, 0.0], [1.0, 0.5], [1.0, 1.0]]
    """
    found: list[tuple[float, ...]] = []
    for cells in range(1, most + 1):
        whole = [np.array(point) for point in product(range(cells + 1), repeat=n) if any(point)]
        lengths = [int(point.max()) if directions else cells for point in whole]
        points = sorted({tuple((point / length).tolist()) for point, length in zip(whole, lengths, strict=True)})
        if found and len(points) > most:
            break
        found = points
        if len(points) > most:  # not even the corners: those first that stand for one function alone
            found = sorted(points, key=lambda point: (np.count_nonzero(point), point))[:most]
            break
    return [np.array(point) for point in found]


def pattern_search(
    value: Callable[[FloatArray], float | None], begin: Sequence[FloatArray], unit: FloatArray
) -> FloatArray:
    """The weights of the largest value that were met.

    From every start in turn, neighbours up and down each axis are tried, and the first better one becomes the centre
    with twice the mesh; where none is better the mesh is halved. A step along axis i is the mesh times the sum of
    `start * unit`, over `unit[i]`: weights change by what matters to the sum of the weighted functions, whatever their
    scales. `value` answers None where it takes no more questions from this start.
    """
    best, highest = begin[0], -np.inf
    for start in begin:
        step = float(start @ unit) / unit
        centre, mesh, at = start, 1.0, value(start)
        while at is not None and mesh >= _FINEST:
            tried = ((point, value(point)) for point in _neighbours(centre, mesh * step))
            point, level = next((found for found in tried if found[1] is None or found[1] > at), (centre, at))
            if level is None:
                break
            mesh *= 0.5 if point is centre else 2.0
            centre, at = point, level
        if at is not None and at > highest:
            best, highest = centre, at
    return best


def _neighbours(centre: FloatArray, steps: FloatArray) -> Iterator[FloatArray]:
    """Up and down each axis, at 0 or above."""
    for axis, step in enumerate(steps):
        for sign in (1.0, -1.0):
            point = centre.copy()
            point[axis] = max(point[axis] + sign * step, 0.0)
            if point[axis] != centre[axis] and point.any():
                yield point
