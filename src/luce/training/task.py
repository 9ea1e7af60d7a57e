"""What every trainer is given, what it gives back, and what it says of itself."""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from luce.data.blocks import Blocks, cut_blocks
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.errors import DataError, SettingError, of_user
from luce.losses.base import Loss
from luce.metrics.catalog import Metric, get
from luce.metrics.evaluate import evaluate_rows
from luce.registry import make, settings_of
from luce.spec import Range, Spec, option
from luce.training.run import Checkpoints, History, TrainingRun, Validate
from luce.types import Features, FittedScorer, FloatArray, Progress

_ENDS = ("max_iter", "max_epochs", "tol", "early_stopping")
"""Settings that say when a training ends: it may be taken up again with others."""


@dataclass(frozen=True, eq=False)
class Task:
    """One training: the data, and the parts that were chosen beside the trainer."""

    data: Groups
    scorer: Any = None
    """None where the trainer is an algorithm that brings its own."""
    loss: Loss | None = None
    """None where the trainer or the scorer has a criterion of its own."""
    valid: Groups | None = None
    target: Any = None
    """What is known of the order beside the grades of the data; None: the grades alone."""
    metric: Metric = field(default_factory=lambda: get("ndcg@10"))
    base: FloatArray | None = None
    """Scores of a base model on the training rows, to which the trained scorer's are added."""
    valid_base: FloatArray | None = None
    """The same on the validation rows."""
    checkpoint: str | Path | None = None
    progress: Progress | None = None
    warm_start: FittedScorer | None = None
    seed: int = 0
    bins: Any = None
    """What LightGBM made of the rows for an earlier training on them, which is over; None: it is made anew."""

    @property
    def given_loss(self) -> Loss:
        """The loss, where there must be one."""
        assert self.loss is not None
        return self.loss

    def judged(self, scores: FloatArray) -> float:
        """The metric of these scores on the validation data."""
        assert self.valid is not None
        value = evaluate_rows(scores, self.valid, [self.metric]).means[self.metric.name]
        if np.isnan(value):
            raise DataError(
                f"The metric {self.metric.name!r} is NaN for each of the {self.valid.n_queries:,} validation queries, "
                "so that it cannot tell one iterate from another; give other queries or another metric."
            )
        return value

    def judged_scorer(self, scorer: FittedScorer) -> float:
        """The metric of a fitted scorer on the validation data, on top of their base."""
        valid, base = self.valid, self.valid_base
        assert valid is not None
        if hasattr(scorer, "score_groups"):
            return self.judged(scorer.score_groups(valid, base))
        scores = scorer.score(valid.X, valid.offsets)
        return self.judged(scores if base is None else scores + base)

    def fingerprint(self, trainer: Any, start: Any, drawn: bool = True) -> dict[str, Any]:
        """What a checkpoint must agree on: data, parts, the place that training starts from, and (`drawn`) the seed."""
        settings = {name: value for name, value in settings_of(trainer).items() if name not in _ENDS}
        return {
            "data": data_digest(self.data) + digest_of(self.target),
            "scorer": repr(self.scorer) if is_dataclass(self.scorer) else getattr(self.scorer, "name", None),
            "loss": repr(self.loss),
            "trainer": repr([trainer.name, sorted(settings.items())]),
            "seed": self.seed if drawn else None,
            "start": digest_of(start),
            "base": [digest_of(self.base), digest_of(self.valid_base)],
            "validation": None if self.valid is None else [self.metric.name, data_digest(self.valid)],
        }

    def start_run(
        self,
        max_iter: int,
        patience: int | None,
        validate: Validate | None,
        fingerprint: Callable[[], dict[str, Any]] | None = None,
        every: int = 1,
    ) -> TrainingRun:
        """The record of a training; `validate` is used where there are validation data.

        Checkpoints are kept where a folder was given and the training has a fingerprint, which they must agree on.
        """
        kept = None if self.checkpoint is None or fingerprint is None else Checkpoints(self.checkpoint, fingerprint())
        return TrainingRun(
            max_iter,
            validate=None if self.valid is None else validate,
            patience=patience,
            checkpoints=kept,
            progress=self.progress,
            greater_is_better=self.metric.greater_is_better,
            every=every,
        )

    def trained_at_once(self, scorer: FittedScorer, value: float, loss: Loss | None = None) -> Trained:
        """What a training of one step gives: a scorer in closed form, and its objective."""
        run = self.start_run(1, None, lambda _: self.judged_scorer(scorer))
        run.step(np.empty(0), value)
        run.history.converged = True
        return Trained(scorer, loss, run.history)


class Trained(NamedTuple):
    """A fitted scorer, the loss with its learned parameters (None: there was none), and what happened."""

    scorer: FittedScorer
    loss: Loss | None
    history: History
    scores: FloatArray | None = None
    """Of the training documents, where the trainer has them at hand: the model is then not asked for them."""


L2 = Range(1e-5, 1e4)
"""What there is to tune of a penalty: losses differ that much in curvature."""
_REFUSALS = {
    "target": "learns from grades only; comparisons need a scorer that a loss trains, such as 'linear'.",
    "base": "stands alone; a base needs a scorer that stands on it: trees, listwise or greedy.",
    "checkpoint": "keeps no checkpoints: leave the folder out, its training is short.",
    "warm_start": "cannot go on from an earlier fit; train it anew, without --update or warm_start.",
}
"""What is said of a part of a task that would not be used."""


class Trainer(Spec, ABC):
    """Joins data, scorer and loss into a fitted scorer; its fields are its settings."""

    name: ClassVar[str]
    own_criterion: ClassVar[bool] = False
    """True for algorithms that bring their own scorer and criterion, so that neither scorer nor loss is chosen."""
    takes_missing: ClassVar[bool] = False
    """True for an algorithm that takes NaN for what is missing; elsewhere the scorer says it."""
    refuses: ClassVar[tuple[str, ...]] = ()
    """Parts of a task that this trainer has no use for."""
    exact: ClassVar[bool] = False
    """True where a gradient that is drawn would lead astray."""
    trains: ClassVar[tuple[str, ...]] = ()
    """Names of the scorers that this trainer trains; none: whatever `check` lets pass."""

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse a scorer or loss that this trainer cannot train, before any data are read."""
        kinds = {vars(kind).get("name") for kind in type(scorer).__mro__}
        if self.trains and kinds.isdisjoint(self.trains):
            known = ", ".join(map(repr, self.trains))
            raise SettingError(f"The trainer {self.name!r} trains the scorer {known}, not {scorer.name!r}.")
        if self.exact and loss is not None and loss.stochastic:
            way = ", or trainer='sgd'" if hasattr(scorer, "bind") else ""
            raise SettingError(
                f"The gradient of {loss.name!r} is sampled, which {self.name!r} cannot use; take another loss{way}."
            )

    def judge(self, metric: Metric, stated: Comparisons) -> Metric:
        """What judges lists or preferences where this metric was chosen; it itself, but for who brings a loss."""
        return metric

    def check_task(self, task: Task) -> None:
        """Refuse what would not be used."""
        for what in self.refuses:
            if getattr(task, what) is not None:
                name = self.name if what == "warm_start" or task.scorer is None else task.scorer.name
                raise SettingError(f"{name!r} {_REFUSALS[what]}")

    @abstractmethod
    def train(self, task: Task) -> Trained:
        """Fit."""


class Stepwise(Trainer):
    """A trainer whose steps somebody else may follow, one by one."""

    @abstractmethod
    def start(self, task: Task) -> Any:
        """A training before its first step, for who decides himself how many there are."""

    def train(self, task: Task) -> Trained:
        """Step after step."""
        trained: Trained = self.start(task).follow().trained()
        return trained

    def rounds(self, task: Task) -> Callable[[], bool]:
        """A function that takes one step a call and says whether it could, for who wants to watch or time them."""
        going: Callable[[], bool] = self.start(task).round
        return going


class Algorithm(Trainer):
    """A trainer with a scorer and a criterion of its own, which learns from grades alone unless it says more."""

    own_criterion: ClassVar[bool] = True
    refuses: ClassVar[tuple[str, ...]] = ("target", "base", "checkpoint", "warm_start")

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse a scorer and a loss: neither would be used."""
        for what, given in (("scorer", scorer), ("loss", loss)):
            if given is not None:
                raise SettingError(
                    f"{self.name!r} is an algorithm with a {what} of its own, so that the {what} "
                    f"{getattr(given, 'name', given)!r} would not be used; leave it out."
                )


class Rounds(Algorithm):
    """An algorithm that goes round after round.

    Parameters
    ----------
    max_iter, early_stopping
        Rounds at most, and rounds without a better validation metric that end it (None: never).
    """

    _: KW_ONLY
    max_iter: int = option(default=100, least=0)
    early_stopping: int | None = option(default=20, least=1)


class Minimised(Spec):
    """What ends with the minimum of an objective, by L-BFGS.

    Parameters
    ----------
    l2
        Strength of the penalty.
    max_iter, tol
        When the search ends, as for the trainer `lbfgs`.
    """

    _: KW_ONLY
    l2: float = option(default=0.01, least=0, tune=L2)
    max_iter: int = option(default=100, least=0)
    tol: float = option(default=1e-5, above=0)


class OwnTrainer(Trainer):
    """Calls `train(task)` of an object; `own_criterion`, `takes_missing` and `check` are asked for if it has them."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.name = str(getattr(given, "name", type(given).__name__))  # type: ignore[misc]  # of a class elsewhere
        self.own_criterion = bool(getattr(given, "own_criterion", False))  # type: ignore[misc]
        self.takes_missing = bool(getattr(given, "takes_missing", False))  # type: ignore[misc]

    @property
    def factory(self) -> Any:
        """What a registry has under the name of this trainer."""
        return type(self.given)

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the object."""
        return settings_of(self.given)

    def with_settings(self, **settings: Any) -> OwnTrainer:
        """The same trainer with these settings."""
        return OwnTrainer(make("trainer", self.name, type(self.given), settings))

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse what the object refuses."""
        if callable(getattr(self.given, "check", None)):
            with of_user(f"check of the trainer {self.name!r}"):
                self.given.check(scorer, loss)

    def train(self, task: Task) -> Trained:
        """What the object gives: a fitted scorer, or `Trained`."""
        with of_user(f"The trainer {self.name!r}"):
            found: Trained = self.given.train(task)
        return found


def data_digest(data: Groups | Blocks) -> str:
    """What a checkpoint must agree on with the data of the training that resumes from it: every byte of them.

    Wherever the features are, the same data have the same digest.
    """
    digest = hashlib.sha256()
    for array in (data.y, data.offsets, data.query_weight):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
    cuts = cut_blocks(data.offsets, data.n_features)
    digest.update(np.array(list(data.map(_checksum, cuts)), dtype=np.uint32).tobytes())
    return digest.hexdigest()


def _checksum(X: Features, y: FloatArray) -> int:
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
