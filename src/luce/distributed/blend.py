"""A blend on a cluster: members are fitted at the same time, each on all folds by one worker, as one machine would.

A member needs all queries, and a fold of them is small work; so the data go to every worker, which must have room for
them, and the blend is learned here. It has the bits of that of one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from luce.auto.crossfit import CrossFit, Walked
from luce.auto.plan import Job
from luce.data.groups import Groups
from luce.distributed.spread import Dataset, Wanted, answers
from luce.errors import SettingError
from luce.numerics.segments import serial
from luce.training.task import Trained

if TYPE_CHECKING:
    from distributed import Client

_COPIES = 8
"""How many times the features are in memory while all folds of a member are fitted, with LightGBM's bins."""


def check_budget(trainer: Any) -> None:
    """Refuse a budget in seconds: what is fitted would depend on the workers."""
    if trainer.plan is None and not isinstance(trainer.budget, str):
        raise SettingError(
            f"budget is {trainer.budget!r} s, and a cluster fits members at the same time; give 'fast' or 'best'."
        )


def blend(wanted: Wanted) -> Trained:
    """Members on workers, the blend of them here."""
    trainer, dataset = wanted.parts.trainer, wanted.dataset
    check_budget(trainer)
    _check_room(dataset)
    task = wanted.task(_gathered(dataset, wanted.query_norm), wanted.loss)
    return trainer.train(task, partial(_Walks, dataset.client))


def _check_room(dataset: Dataset) -> None:
    """Refuse data that a worker cannot hold as often as it must."""
    outline, workers = dataset.layout.outline, dataset.client.scheduler_info(n_workers=-1)["workers"].values()
    needed = _COPIES * 4 * outline.n_rows * outline.n_features
    room = min((worker["memory_limit"] for worker in workers if worker.get("memory_limit")), default=None)
    if room is not None and needed > room:
        raise SettingError(
            f"A member of a blend is fitted by one worker, which needs about {needed / 1e9:.1f} GB for these data and "
            f"has {room / 1e9:.1f}; give workers more memory, or train one system, such as plackett-luce-trees."
        )


def _gathered(dataset: Dataset, query_norm: str | None) -> Groups:
    """All rows, here, in the order of the files."""
    outline = dataset.layout.outline
    parts = dataset.spread(1, query_norm).each(lambda part: np.asarray(part.data.X))
    found: list[NDArray[np.float32]] = answers(dataset.client, parts)
    return Groups(
        X=np.concatenate(found),
        y=outline.y,
        offsets=outline.offsets,
        query_ids=outline.query_ids,
        query_weight=outline.query_weight,
        feature_names=outline.feature_names,
    )


class _Walks:
    """All members on their way at once; a call waits for one of them."""

    def __init__(self, client: Client, crossfit: CrossFit, jobs: Sequence[Job]) -> None:
        self._client = client
        there = client.scatter(replace(crossfit, checkpoint=None, fingerprint=None), broadcast=True, hash=False)
        self._futures = {job: client.submit(_walk, there, job, pure=False) for job in jobs}

    def __call__(self, job: Job, tell: Callable[[float], None]) -> Walked:
        return answers(self._client, [self._futures.pop(job)], lambda: tell(0.0))[0]


def _walk(crossfit: CrossFit, job: Job) -> Walked:
    with serial():
        return crossfit.walk(job, lambda _: None)
