"""From data, scorer and loss to a fitted scorer: which trainer does it, and how it is told."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.blocks import Blocks, as_blocks, cut_blocks
from luce.data.groups import Groups
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.metrics.catalog import get
from luce.metrics.evaluate import evaluate
from luce.registry import Registry
from luce.scorers.cps import CPSScorer
from luce.training.checkpoint import Checkpoints
from luce.training.coset_objective import CosetObjective, one_target, stages_of
from luce.training.lbfgs import minimise
from luce.training.objective import Objective
from luce.training.projected import PROJECTED, fit_projected
from luce.training.run import History
from luce.training.sgd import DEFAULT_STEP, descend
from luce.types import FittedScorer, FloatArray, Progress

__all__ = ["TRAINERS", "Options", "Trained", "by_gradients", "data_digest", "digest_of", "search", "train"]

TRAINERS = ("auto", "lbfgs", "sgd", *PROJECTED)


@dataclass(frozen=True)
class Options:
    """What a training may be told, whatever the trainer."""

    l2: float = 0.0
    max_iter: int = 100
    tol: float = 1e-5
    metric: str = "ndcg@10"
    patience: int | None = None
    checkpoint: str | Path | None = None
    progress: Progress | None = None
    warm_start: FittedScorer | None = None
    trainer: str = "auto"
    learning_rate: float | None = None
    """First step of descent; None: that of the trainer."""
    schedule: str = "constant"
    batch_queries: int | None = None
    max_epochs: int | None = None
    seed: int = 0
    trainer_params: dict[str, Any] | None = None
    base: FloatArray | None = None
    """Scores of a base model on the training rows, to which the trained scorer's are added."""
    valid_base: FloatArray | None = None
    """The same on the validation rows."""


class Trained(NamedTuple):
    """A fitted scorer, the loss with its learned parameters, and what happened."""

    scorer: FittedScorer
    loss: Loss
    history: History


def train(
    scorer: Any,
    loss: Loss,
    data: Groups,
    valid: Groups | None,
    options: Options,
    target: Any = None,
) -> Trained:
    """Fit a scorer by the way of training that its class names; by gradients of its parameters unless it does."""
    name = getattr(scorer, "training", "gradients")
    if getattr(loss, "chooses_alpha", False) and not getattr(scorer, "own_criterion", False):
        name = "best_surrogate"
    way: Train = _WAYS.get(name)
    return way(scorer, loss, data, valid, options, target)


Train = Callable[[Any, Loss, Groups, Groups | None, Options, Any], Trained]
"""Data, scorer, loss, validation data and target to a fitted scorer."""
_WAYS = Registry(
    "way of training",
    {
        "gradients": "luce.training.train:by_gradients",
        "boosting": "luce.training.boosting:boost",
        "adarank": "luce.training.adarank:fit",
        "coordinate_ascent": "luce.training.coordinate_ascent:fit",
        "frank": "luce.training.frank:fit",
        "ccrf": "luce.training.ccrf:fit",
        "greedy": "luce.training.greedy:fit",
        "latent": "luce.training.latent:fit",
        "listwise": "luce.training.listwise:fit",
        "linear_regression": "luce.training.least_squares:fit",
        "random_forest": "luce.training.random_forest:fit",
        "rankboost": "luce.training.rankboost:fit",
        "listwise_boosting": "luce.training.listwise_boosting:fit",
        "best_surrogate": "luce.training.best_surrogate:fit",
    },
)


def by_gradients(
    scorer: Any, loss: Loss, data: Groups, valid: Groups | None, options: Options, target: Any = None
) -> Trained:
    """Fit a differentiable scorer on the mean loss a query plus l2/2 ||w||^2."""
    if options.base is not None:
        raise SettingError(
            f"A base needs a scorer that stands on it: trees, listwise or greedy; {scorer.name!r} stands alone."
        )
    bound, objective = _objective(scorer, loss, data, options, target)
    problem = "" if options.checkpoint is None else data_digest(data) + digest_of(target)
    return search(bound, objective, valid, options, problem)


def search(bound: Any, objective: Objective, valid: Groups | None, options: Options, problem: str) -> Trained:
    """Minimise an objective in the parameters of its scorer and loss; `problem` is a digest for checkpoints."""
    loss = objective.loss
    rng = np.random.default_rng(options.seed)
    start = np.concatenate([_start(bound, objective, options.warm_start, rng), loss.parameters])

    def validate(vector: FloatArray) -> float:
        assert valid is not None
        fitted = bound.fitted(objective.split(vector)[0])
        return evaluate(fitted.score(valid.X, valid.offsets), valid, [options.metric]).means[get(options.metric).name]

    sampled = _by_sampling(loss, options.trainer)
    steps: dict[str, Any] = {
        "learning_rate": DEFAULT_STEP if options.learning_rate is None else options.learning_rate,
        "schedule": options.schedule,
        "batch_queries": options.batch_queries,
        "seed": options.seed,
    }
    shared: dict[str, Any] = {
        "max_iter": options.max_iter,
        "validate": None if valid is None else validate,
        "greater_is_better": get(options.metric).greater_is_better,
        "patience": options.patience,
        "progress": options.progress,
    }
    fingerprint: dict[str, Any] = {}
    if options.checkpoint is not None:
        fingerprint = {
            **_fingerprint(objective, problem),
            "start": digest_of(start),
            "trainer": steps if sampled else "lbfgs",
            "validation": None if valid is None else [options.metric, data_digest(valid)],
        }
    if options.trainer in PROJECTED:
        warm = options.warm_start is not None and options.warm_start.name == bound.name
        settings = {"trainer_params": options.trainer_params, "raised": "undone"}
        own = {**steps, "learning_rate": options.learning_rate, **settings}
        fingerprint |= {"trainer": [options.trainer, own]} if fingerprint else {}
        vector, history = fit_projected(objective, start if warm else None, options, shared["validate"], fingerprint)
        return Trained(bound.fitted(objective.split(vector)[0]), objective.split(vector)[1], history)
    shared["checkpoints"] = None if options.checkpoint is None else Checkpoints(options.checkpoint, fingerprint)
    if sampled:
        if options.max_epochs is not None:
            n_queries = objective.data.n_queries
            batches = -(-n_queries // min(options.batch_queries or n_queries, n_queries))
            shared["max_iter"] = options.max_epochs * batches
        vector, history = descend(objective, start, **steps, **shared)
    else:
        vector, history = minimise(objective, start, tol=options.tol * loss.score_unit, **shared)
    parameters, learned = objective.split(vector)
    return Trained(bound.fitted(parameters), learned, history)


def _objective(scorer: Any, loss: Loss, data: Groups, options: Options, target: Any) -> tuple[Any, Objective]:
    if isinstance(scorer, CPSScorer):
        loss, target = one_target(loss, target)
        coset = replace(scorer, k=stages_of(loss)).bind(data)
        return coset, CosetObjective(data, coset, loss, options.l2, target)
    bound = scorer.bind(data)
    return bound, Objective(data, bound, loss, options.l2, target)


def _by_sampling(loss: Loss, trainer: str) -> bool:
    if trainer not in TRAINERS:
        raise SettingError(f"trainer is {trainer!r}; it must be one of {', '.join(TRAINERS)}.")
    if loss.stochastic and trainer in ("lbfgs", "projected_lbfgs"):
        raise SettingError(f"The gradient of {loss.name!r} is sampled, which L-BFGS cannot use; take trainer='sgd'.")
    return trainer == "sgd" or (trainer == "auto" and loss.stochastic)


def _start(scorer: Any, objective: Objective, warm: FittedScorer | None, rng: np.random.Generator) -> FloatArray:
    if warm is None or warm.name != scorer.name:
        start: FloatArray = scorer.initial(rng)
    else:
        start = scorer.parameters_of(warm) / objective.units
    return start


def _fingerprint(objective: Objective, problem: str) -> dict[str, Any]:
    return {
        "data": problem,
        "scorer": objective.scorer.name,
        "parameters": objective.n_parameters,
        "loss": repr(objective.loss),
        "l2": objective.l2,
    }


def data_digest(data: Groups | Blocks) -> str:
    """What a checkpoint must agree on with the data of the training that resumes from it: every byte of them.

    Wherever the features are, the same data have the same digest.
    """
    digest = hashlib.sha256()
    for array in (data.y, data.offsets, data.query_weight):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
    cuts = cut_blocks(data.offsets, data.n_features)
    digest.update(np.array(list(as_blocks(data).map(_checksum, cuts)), dtype=np.uint32).tobytes())
    return digest.hexdigest()


def _checksum(X: NDArray[np.float32], y: FloatArray) -> int:
    return zlib.crc32(np.ascontiguousarray(X).data)


def digest_of(value: Any) -> str:
    """A digest of arrays, settings, and whatever holds them."""
    digest = hashlib.sha256()

    def add(part: Any) -> None:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        elif is_dataclass(part) and not isinstance(part, type):
            for entry in fields(part):
                add(getattr(part, entry.name))
        elif isinstance(part, tuple | list):
            for entry in part:
                add(entry)
        else:
            digest.update(repr(part).encode())

    add(value)
    return digest.hexdigest()
