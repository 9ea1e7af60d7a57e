"""The objective of the coset-permutation model, whose features change with the stage."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from luce.data.groups import Groups
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.losses.top_lists import TopLists
from luce.losses.topk import TopKListMLE
from luce.numerics.segments import Chunk, chunk_queries
from luce.scorers.cps import CPSScorer, FittedCPS, distances, list_value
from luce.spec import option
from luce.training.gradients import LBFGS
from luce.training.objective import Objective
from luce.training.task import Minimised, Rounds, Task, Trained
from luce.types import FloatArray

_EVERYTHING = 2**31 - 1
"""Stages enough for any list."""


class CPS(Minimised, Rounds):
    """The coset-permutation model of the first k documents, by L-BFGS; it learns from grades or from lists.

    Parameters
    ----------
    k
        Stages: how many documents of a list count; None: the whole of every list.
    ties
        Equal labels at the cut, as for the `hom` losses; inside the top they are put in an order drawn by a fixed seed.
    """

    k: int | None = option(default=10, least=1, most=2**31)
    ties: str = "extend"

    name: ClassVar[str] = "cps"
    refuses: ClassVar[tuple[str, ...]] = ("base",)

    def _check(self) -> None:
        self._loss()

    def _loss(self) -> TopKListMLE:
        settings: dict[str, Any] = {"ties": self.ties, "inside": "random"}
        return TopKListMLE(self.k, **settings)

    def train(self, task: Task) -> Trained:
        """Fit the weights of the distances."""
        self.check_task(task)
        loss, target = self._loss(), task.target
        if target is not None:
            if np.ptp(target.labels) > 0:
                raise SettingError("topk-cps learns from grades or lists, not both; give data whose grades are equal.")
            target = target.comparisons
        bound = CPSScorer(_EVERYTHING if self.k is None else self.k).bind(task.data)
        objective = CosetObjective(task.data, bound, loss, self.l2, target)
        search = LBFGS(l2=self.l2, max_iter=self.max_iter, tol=self.tol, early_stopping=self.early_stopping)
        return search.search(bound, objective, task)


class CosetObjective(Objective):
    r"""Mean over queries of $-\log p$ of the top k, stage by stage, plus the penalty: [HOM] (2), its sign mended.

    $$p = \prod_{i \le k} \frac{e^{-\theta \cdot d(\sigma_i)}}{\sum_{j \text{ left}} e^{-\theta \cdot d(j)}}$$

    with $d_m(j)$ the number of documents left that feature m puts before j, half for ties, recounted each stage. Keeps
    a copy of the features in the order of the lists, and the distances of the first stage.
    """

    def __init__(self, data: Groups, scorer: CPSScorer, loss: Loss, l2: float, target: Any = None) -> None:
        super().__init__(data, scorer, loss, l2, target)  # type: ignore[arg-type]  # never asked for scores
        self.chunks = chunk_queries(data.offsets, 2048)
        self._lists, self._scale = _Stages(data, self.risk.prepared.lists), scorer.inverse_spread

    def _block(self, parameters: FloatArray, loss: Loss, _: int, chunk: Chunk) -> tuple[float, FloatArray]:
        grad = np.zeros(len(parameters))
        values = self._lists.values(parameters * self._scale, chunk, grad, self.query_weight)
        return float(values.sum()), grad * self._scale

    def _value(self, parameters: FloatArray, loss: Loss, chunk: Chunk) -> float:
        return self._block(parameters, loss, 0, chunk)[0]


class _Stages:
    """Features and distances in the order of the lists, and their likelihood."""

    def __init__(self, data: Groups, lists: TopLists) -> None:
        self.lists = lists
        self.X = np.ascontiguousarray(data.X[lists.rows])
        self.distance = distances(self.X, lists.starts)

    def values(self, theta: FloatArray, chunk: Chunk, grad: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Weighted -log p of every query of a chunk; adds the weighted gradient."""
        lists = self.lists
        values = np.zeros(chunk[1] - chunk[0])
        inside = range(lists.queries[chunk[0]], lists.queries[chunk[1]])
        longest = max((int(lists.starts[n + 1] - lists.starts[n]) for n in inside), default=0)
        scratch = np.empty((int(lists.tops[inside.start : inside.stop].max(initial=0)) + 2, longest))
        for q in range(*chunk):
            for n in range(lists.queries[q], lists.queries[q + 1]):
                w = float(lists.weights[n]) * (1.0 if weight is None else float(weight[q]))
                rows = slice(lists.starts[n], lists.starts[n + 1])
                own, top = np.zeros_like(grad), int(lists.tops[n])
                values[q - chunk[0]] += w * list_value(self.X[rows], self.distance[rows], theta, top, own, scratch)
                grad += w * own
        return values


def coset_log_likelihoods(scorer: FittedCPS, loss: Loss, data: Groups, target: Any = None) -> FloatArray:
    """Log-probability of the top of every query under a fitted model."""
    groups = loss.prepare(data.y if target is None else target, data.offsets)
    grad = np.zeros(scorer.n_features)
    return -_Stages(data, groups.lists).values(scorer.theta, (0, data.n_queries), grad, None)
