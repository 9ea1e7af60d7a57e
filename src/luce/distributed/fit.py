"""`fit` and `evaluate` as `Ranker.fit` and `luce.evaluate`, for data on a cluster.

The members of a blend are fitted at the same time, each on all folds by one worker, as one machine would. A member
needs all queries, and a fold of them is small work; so the data go to every worker, which must have room for them, and
the blend is learned here. It has the bits of that of one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.auto.crossfit import CrossFit, Walked
from luce.auto.plan import Job
from luce.data.groups import Groups
from luce.distributed.files import DataPart
from luce.distributed.spread import Dataset, SpreadObjective, Wanted, answers, cluster_errors
from luce.distributed.trees import boost
from luce.errors import SettingError
from luce.metrics.catalog import Metric
from luce.metrics.evaluate import Evaluation
from luce.metrics.evaluate import evaluate as evaluate_here
from luce.numerics.segments import serial
from luce.ranker import Ranker
from luce.ranker.parts import Parts
from luce.training.held_out import refuse_equal_labels
from luce.training.objective import blocks_a_sum
from luce.training.task import Trained
from luce.types import FloatArray, Progress

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
    outline = dataset.layout.outline
    parts = dataset.spread(1, wanted.query_norm).each(lambda part: np.asarray(part.data.X))
    data = Groups(  # all rows, here, in the order of the files
        X=np.concatenate(answers(dataset.client, parts)),
        y=outline.y,
        offsets=outline.offsets,
        query_ids=outline.query_ids,
        query_weight=outline.query_weight,
        feature_names=outline.feature_names,
    )
    return trainer.train(wanted.task(data, wanted.loss), partial(_Walks, dataset.client))


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


_SCORERS = ("linear", "second_order", "mlp", "trees")
_TRAINERS = ("lbfgs", "boosting")


def check_fit(ranker: Ranker) -> Parts:
    """Refuse what a cluster cannot train, before anything is read; returns the parts."""
    parts = ranker.parts()
    loss, trainer = parts.loss, parts.trainer.name
    if trainer == "blend":
        check_budget(parts.trainer)
    elif parts.scorer is None or parts.scorer.name not in _SCORERS:
        what = trainer if parts.scorer is None else parts.scorer.name
        raise SettingError(f"A cluster trains the scorers {', '.join(_SCORERS)}; train {what!r} without it.")
    elif trainer not in _TRAINERS:
        sampled = loss is not None and loss.stochastic
        given = (
            f"the loss {loss.name!r}, which samples its gradients," if loss and sampled else f"the trainer {trainer!r}"
        )
        raise SettingError(f"A cluster trains by L-BFGS or boosting; {given} needs one machine.")
    if loss is not None and loss.settings.get("ties") == "random":
        raise SettingError(f"ties='random' of {loss.name!r} is drawn over the whole data set; choose other ties.")
    if loss is not None and (loss.settings.get("inside") == "random" or loss.settings.get("cut") is not None):
        raise SettingError(f"{loss!r} draws over the whole data set, which no partition sees; leave the draw out.")
    if ranker.base is not None:
        raise SettingError("A base model is not added on a cluster; train on one machine, or leave the base out.")
    return parts


def fit(ranker: Ranker, dataset: Dataset, valid: Groups | None = None, progress: Progress | None = None) -> Ranker:
    """Learn from a data set on a cluster; `valid` is here, in memory.

    Linear and second-order models are those that one machine makes of the same files laid end to end, bit for bit
    where the workers have its processor and libraries. Trees are grown by LightGBM's Dask interface. The members of a
    blend (`auto`) are fitted at the same time, each by one worker.
    """
    parts = check_fit(ranker)
    outline = dataset.layout.outline
    ranker._note_features(outline.feature_names)
    ranker.schema_, ranker.filling_ = outline.schema, None
    if valid is not None:
        ranker._check_features(valid)
        refuse_equal_labels(valid, parts.metric)
        valid = ranker._normalised(valid)
    ranker.base_, ranker.on_scores_ = None, False
    told = ranker._told(parts, progress)
    scorer = None if parts.trainer.name == "blend" else parts.scorer.name
    train = blend if scorer is None else boost if scorer == "trees" else _by_gradients
    with cluster_errors():
        trained = train(Wanted(parts, ranker._started(parts.loss), dataset, valid, told, ranker.query_norm))
    ranker._adopt(trained, parts, outline.y, outline.offsets, valid is not None)
    return ranker


def _by_gradients(wanted: Wanted) -> Trained:
    parts, dataset, loss = wanted.parts, wanted.dataset, wanted.loss
    outline = dataset.layout.outline
    # Partitions end where the sums do that one machine would make: of correlations, or of the linear model.
    unit = blocks_a_sum(parts.scorer, outline.offsets, outline.n_features)
    spread = dataset.spread(unit, wanted.query_norm, gaps=parts.takes_missing)
    assert loss is not None
    bound, trainer = parts.scorer.bind(spread), parts.trainer
    objective = SpreadObjective(spread, bound, loss, trainer.l2)
    return trainer.search(bound, objective, wanted.task(spread, loss))


def evaluate(model: Ranker, dataset: Dataset, metrics: Sequence[Metric]) -> Evaluation:
    """Metrics of a model on a data set on a cluster; values query by query, in the order of the files."""
    if any(metric.conventions.ties == "docid" for metric in metrics):
        raise SettingError("ties=docid needs document ids, which stay in the files of a cluster; choose other ties.")
    spread = dataset.spread(1)
    found = answers(dataset.client, spread.each(_values, model=model, metrics=list(metrics)))
    names = found[0]
    values = {name: np.concatenate([part[name] for part in found]) for name in names}
    return Evaluation(dataset.layout.outline.query_ids, values)


def _values(part: DataPart, model: Ranker, metrics: list[Metric]) -> dict[str, FloatArray]:
    with serial():
        return evaluate_here(model, part.data, metrics).values
