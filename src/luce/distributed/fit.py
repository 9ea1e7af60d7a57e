"""`fit` and `evaluate` as `Ranker.fit` and `luce.evaluate`, for data on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from luce import scorers
from luce.data.groups import Groups
from luce.distributed.parts import DataPart
from luce.distributed.spread import Dataset, SpreadObjective, cluster_errors
from luce.distributed.trees import boost
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.metrics.catalog import Metric
from luce.metrics.evaluate import Evaluation
from luce.metrics.evaluate import evaluate as evaluate_here
from luce.numerics.segments import serial
from luce.ranker import Ranker
from luce.training.objective import blocks_a_sum
from luce.training.projected import PROJECTED
from luce.training.train import Options, Trained, data_digest, digest_of, search
from luce.types import FloatArray, Progress

__all__ = ["check_fit", "evaluate", "fit"]

_SCORERS = ("linear", "second_order", "mlp", "trees")


def check_fit(ranker: Ranker) -> Loss:
    """Refuse what a cluster cannot train, before anything is read; returns the loss."""
    loss = ranker._make_loss()
    if ranker.scorer.replace("-", "_") not in _SCORERS:
        raise SettingError(f"A cluster trains the scorers {', '.join(_SCORERS)}; train {ranker.scorer!r} without it.")
    if loss.stochastic or ranker.trainer in ("sgd", *PROJECTED):
        sampled = f"the loss {loss.name!r}, which samples its gradients,"
        given = sampled if loss.stochastic else f"the trainer {ranker.trainer!r}"
        raise SettingError(f"A cluster trains by L-BFGS or boosting; {given} needs one machine.")
    if loss.settings.get("ties") == "random":
        raise SettingError(f"ties='random' of {loss.name!r} is drawn over the whole data set; choose other ties.")
    if ranker.base is not None:
        raise SettingError("A base model is not added on a cluster; train on one machine, or leave the base out.")
    return loss


def fit(ranker: Ranker, dataset: Dataset, valid: Groups | None = None, progress: Progress | None = None) -> Ranker:
    """Learn from a data set on a cluster; `valid` is here, in memory.

    Linear and second-order models are those that one machine makes of the same files laid end to end, bit for bit
    where the workers have its processor and libraries. Trees are grown by LightGBM's Dask interface.
    """
    ranker._check_settings()
    loss = check_fit(ranker)
    outline = dataset.layout.outline
    ranker._note_features(outline.feature_names)
    if valid is not None:
        ranker._check_features(valid)
        valid = ranker._normalised(valid)
    options = ranker._options(progress)
    scorer = scorers.get(ranker.scorer, **(ranker.scorer_params or {}))
    ranker.base_, ranker.on_scores_ = None, False
    way = boost if scorer.name == "trees" else _by_gradients
    with cluster_errors():
        trained: Trained = way(scorer, loss, dataset, valid, options, ranker.query_norm)
    ranker._adopt(trained, outline.y, outline.offsets)
    return ranker


def _by_gradients(
    scorer: Any, loss: Loss, dataset: Dataset, valid: Groups | None, options: Options, query_norm: str | None
) -> Trained:
    outline = dataset.layout.outline
    # Partitions end where the sums do that one machine would make: of correlations, or of the linear model.
    spread = dataset.spread(blocks_a_sum(scorer, outline.offsets, outline.n_features), query_norm)
    bound = scorer.bind(spread)
    objective = SpreadObjective(spread, bound, loss, options.l2)
    problem = "" if options.checkpoint is None else data_digest(spread) + digest_of(None)
    return search(bound, objective, valid, options, problem)


def evaluate(model: Ranker, dataset: Dataset, metrics: Sequence[Metric]) -> Evaluation:
    """Metrics of a model on a data set on a cluster; values query by query, in the order of the files."""
    if any(metric.conventions.ties == "docid" for metric in metrics):
        raise SettingError("ties=docid needs document ids, which stay in the files of a cluster; choose other ties.")
    spread = dataset.spread(1)
    with cluster_errors():
        found = dataset.client.gather(spread.each(_values, model=model, metrics=list(metrics)))
    names = found[0]
    values = {name: np.concatenate([part[name] for part in found]) for name in names}
    return Evaluation(dataset.layout.outline.query_ids, values)


def _values(part: DataPart, model: Ranker, metrics: list[Metric]) -> dict[str, FloatArray]:
    with serial():
        return evaluate_here(model, part.data, metrics).values
