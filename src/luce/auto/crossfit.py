"""A member on all folds: scores of every document by a model that did not see its query, and the mean of the models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from luce import losses, scorers, training
from luce.data.filling import Filling
from luce.data.groups import Groups
from luce.data.order_files import judged_lists
from luce.data.statements import graded_rows
from luce.errors import LuceError, SettingError
from luce.losses.base import Loss
from luce.losses.grades_and_statements import BothTargets, GradesAndComparisons
from luce.metrics.catalog import Metric
from luce.numerics.segments import differing, serial
from luce.numerics.threads import n_threads
from luce.registry import unknown_name
from luce.scorers.forest import Forest
from luce.scorers.linear import FittedLinear
from luce.scorers.trees import TreesScorer
from luce.training.boosting import Boosting
from luce.training.run import Checkpoints
from luce.training.task import Task
from luce.types import FloatArray, IntArray

T = TypeVar("T")
_HIGHEST_GAIN = 10.0
"""Grades above this are no grades whose gain is 2^grade - 1."""

if TYPE_CHECKING:
    from luce.auto.plan import Job


_LEAVES, _ROWS = 15, 0.7
_STRIDE, _SMOOTHED = 0.25, 3
"""Times 1/step: rounds between two looks at the held-out queries; and looks over which their mean is smoothed."""


@dataclass(frozen=True)
class Member:
    """One learner: trees on a loss of luce or an objective of LightGBM, or a linear score."""

    about: str
    loss: str | None = None
    objective: Literal["lambdarank", "regression"] | None = None
    linear: bool = False
    gains: bool = False
    """Whether it learns from 2^grade - 1 in place of the grade."""
    by_name: bool = False
    """Whether it is taken only where it is named: on the data at hand blends are no better with it."""

    def make_loss(self, stated: bool = False) -> Loss | None:
        """The loss that it is trained on, of grades or of what is `stated` in place of them; None where LightGBM
        follows its own objective."""
        if self.loss is None:
            return None
        settings: dict[str, Any] = {"tier_gain": 2.0} if self.gains else {}
        loss = losses.get(self.loss, **settings)
        return GradesAndComparisons(loss, 1.0) if stated else loss

    def labels(self, y: FloatArray) -> FloatArray:
        """What it learns from; a loss weighs the gains itself."""
        with np.errstate(over="ignore"):  # gains that are not finite are refused as labels
            return np.exp2(y) - 1.0 if self.gains and self.loss is None else y


MEMBERS: dict[str, Member] = {
    "luce-linear": Member("tied Plackett-Luce on a linear score", loss="plackett_luce", linear=True),
    "regression": Member("squared error of the grade", objective="regression"),
    "lambdarank": Member("LightGBM's lambdarank", objective="lambdarank"),
    "luce-gains": Member("tied Plackett-Luce, tiers weighed by gains", loss="plackett_luce", gains=True),
    "ties": Member("Bradley-Terry with ties", loss="bradley_terry"),
    "gains": Member("squared error of the gain", objective="regression", gains=True),
    "luce": Member("tied Plackett-Luce", loss="plackett_luce"),
    "luce-sizes": Member("tied Plackett-Luce and the sizes of grades", loss="order_and_size", by_name=True),
    "ties-linear": Member("Bradley-Terry with ties on a linear score", loss="bradley_terry", linear=True, by_name=True),
}
"""By name, what is worth most in the least time first: a short budget takes them in this order."""


_OF_LISTS, _OF_PAIRS = ("luce-linear", "ties-linear", "ties", "luce"), ("ties-linear", "ties")
"""The members that learn from lists, and from preferences, in place of grades."""


def suited(names: tuple[str, ...] | None, data: Groups) -> tuple[str, ...]:
    """The members that these data tell apart: gains of two grades are grades, and of high ones they are no gains."""
    chosen = tuple(name for name, one in MEMBERS.items() if not one.by_name) if names is None else names
    if data.judges is not None:
        pairs = data.judges.holds_pairs
        able = _OF_PAIRS if pairs else _OF_LISTS
        chosen = able if names is None else names
        if deaf := [name for name in chosen if name in MEMBERS and name not in able]:
            what = "preferences" if pairs else "lists"
            raise SettingError(f"The member {deaf[0]!r} does not learn from {what}; choose from {', '.join(able)}.")
    for name in chosen:
        if name not in MEMBERS:
            raise unknown_name("member", name, list(MEMBERS))
    if len(set(chosen)) != len(chosen) or not chosen:
        raise SettingError(f"members is {list(chosen)}; give at least one, each once: {', '.join(MEMBERS)}.")
    if names is not None or data.judges is not None:
        return chosen
    grades = np.unique(data.y)
    if len(grades) > 2 and grades[0] >= 0.0 and grades[-1] <= _HIGHEST_GAIN:
        return chosen
    return tuple(name for name in chosen if not MEMBERS[name].gains)


def tree_scorer(member: Member, pace: Pace, data: Groups) -> TreesScorer:
    """The trees of a member: small, each on all features (half of them miss what features say together), and where luce
    draws them, on 70% of the rows."""
    known = {} if data.schema is None else data.schema.categories
    return TreesScorer(
        num_leaves=_LEAVES,
        learning_rate=pace.step,
        bagging_fraction=_ROWS if member.loss is not None else 1.0,
        objective=member.objective,
        categorical=sorted(known) or None,
        max_bin=pace.bins,
    )


def informative(data: Groups) -> IntArray:
    """The queries of at least two grades, or those of which something is stated: all others are silent about order."""
    if data.judges is not None:
        return np.unique(graded_rows(data.judges, data.offsets).queries)
    return np.flatnonzero(differing(data.y, data.offsets))


def deal(data: Groups, folds: int, rng: np.random.Generator) -> IntArray:
    """The fold of every query, drawn; those with two grades and those without are dealt apart.

    >>> data = Groups(np.zeros((4, 1), np.float32), np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 2, 4]), np.arange(2))
    >>> sorted(deal(data, 2, np.random.default_rng(0)).tolist())
    [0, 1]
    """
    speaking = informative(data)
    silent = np.setdiff1d(np.arange(data.n_queries), speaking)
    order = np.concatenate([rng.permutation(speaking), rng.permutation(silent)])
    fold = np.empty(data.n_queries, dtype=np.int64)
    fold[order] = np.arange(data.n_queries) % folds
    return fold


def stated_target(data: Groups) -> BothTargets | None:
    """What members learn from in place of the grades; None: the grades."""
    return None if data.judges is None else BothTargets(np.zeros(data.n_rows), data.judges)


def joined(first: Groups, second: Groups) -> Groups:
    """The queries of both."""
    weight = None
    if first.query_weight is not None or second.query_weight is not None:
        weight = np.concatenate([_weights(first), _weights(second)])
    ids = [np.asarray(part.query_ids).astype(str) for part in (first, second)]
    return Groups(
        X=np.concatenate([first.X, second.X]),
        y=np.concatenate([first.y, second.y]),
        offsets=np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        query_ids=np.concatenate(ids),
        query_weight=weight,
        feature_names=first.feature_names,
        schema=first.schema,
    )


def _weights(data: Groups) -> FloatArray:
    return np.ones(data.n_queries) if data.query_weight is None else data.query_weight


PENALTIES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""Of the linear member, strongest first; the likelihood of a race grows with the documents above the last tier."""
_WEAKER = (0.001, 3e-4, 1e-4, 3e-5, 1e-5)
"""And further for lists and preferences, which are short."""


@dataclass(frozen=True)
class Pace:
    """How trees are grown: shrinkage, most rounds, and rounds without a better mean that end a way."""

    step: float
    rounds: int
    patience: int
    bins: int = 255
    """Of a feature at most."""

    @property
    def stride(self) -> int:
        """Rounds between two looks at the held-out queries."""
        return max(1, round(_STRIDE / self.step))


@dataclass(frozen=True, eq=False)
class LinearPath:
    """The linear scores of all penalties, a row each."""

    weights: FloatArray
    intercepts: FloatArray
    inverse_sd: FloatArray

    def at(self, step: int) -> FittedLinear:
        """The score under penalty number `step`, counted from 1."""
        i = min(step, len(self.weights)) - 1
        return FittedLinear(self.weights[i], float(self.intercepts[i]), self.inverse_sd)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a checkpoint."""
        return vars(self)


Path = Forest | LinearPath
"""The trees of all rounds, or the linear scores."""


def path_of(linear: bool, arrays: Mapping[str, NDArray[Any]], n_features: int) -> Path:
    """The way that a checkpoint holds."""
    return LinearPath(**arrays) if linear else Forest.from_arrays(arrays, n_features)


def start(member: Member, task: Task, pace: Pace, filling: Filling | None) -> Walk:
    """A way before its first step; the task has training queries and those that were held out of them."""
    task = replace(task, loss=member.make_loss(task.target is not None))
    return LinearWalk(task, filling) if member.linear else TreeWalk(member, task, pace)


class TreeWalk:
    """Boosting, a stride of rounds at a time.

    As of every way, `curve` is the metric on the held-out queries after each stride, entry 0 that of none, and `bins`
    is what another way on the same rows can use again.
    """

    def __init__(self, member: Member, task: Task, pace: Pace) -> None:
        self.pace = pace
        data = replace(task.data, y=member.labels(task.data.y))
        own = replace(task, data=data, scorer=tree_scorer(member, pace, data))
        self.growth = Boosting(max_iter=pace.rounds, early_stopping=None).start(own)

        self.curve = list(self.growth.run.history.validation)
        self.bins = None if data.query_weight is not None else self.growth.boosters[0].train_set

    @property
    def ended(self) -> bool:
        """True where no more trees are allowed, or can be grown."""
        return self.growth.rounds >= self.pace.rounds or self.growth.spent

    def advance(self) -> None:
        """A stride of rounds, and one look."""
        for _ in range(self.pace.stride):
            if not self.ended:
                self.growth.grow()
        self.curve.append(self.growth.judged(self.growth.parameters))

    def path(self) -> Forest:
        """All trees."""
        return self.growth.whole()


class LinearWalk:
    """One penalty after the other, each from the weights of the one before."""

    def __init__(self, task: Task, filling: Filling | None) -> None:
        assert task.valid is not None
        if filling is not None:
            task = replace(task, data=filling.applied(task.data), valid=filling.applied(task.valid))
        assert task.valid is not None
        self.task = replace(task, scorer=scorers.get("linear"))
        self.found: list[FittedLinear] = []
        self.penalties = PENALTIES if task.target is None else (*PENALTIES, *_WEAKER)
        self.curve = [self.task.judged(np.zeros(task.valid.n_rows))]
        self.bins = task.bins

    @property
    def ended(self) -> bool:
        """True after the weakest penalty."""
        return len(self.found) == len(self.penalties)

    def advance(self) -> None:
        """The next penalty."""
        alone = replace(self.task, valid=None, warm_start=self.found[-1] if self.found else None)
        fitted = training.get("lbfgs", l2=self.penalties[len(self.found)], max_iter=50).train(alone).scorer
        assert isinstance(fitted, FittedLinear)
        self.found.append(fitted)
        self.curve.append(self.task.judged_scorer(fitted))

    def path(self) -> LinearPath:
        """The scores of all penalties."""
        weights = np.stack([one.weights for one in self.found])
        return LinearPath(weights, np.array([one.intercept for one in self.found]), self.found[0].inverse_sd)


Walk = TreeWalk | LinearWalk


def smoothed_mean(curves: Sequence[Sequence[float]], weights: FloatArray, width: int) -> FloatArray:
    """Mean of the curves of all folds from step 1 on, smoothed over `width` steps; a curve that ended stays there.

    >>> smoothed_mean([[0.0, 0.2, 0.5, 0.2], [0.0, 0.4]], np.ones(2), 1).round(12).tolist()
    [0.3, 0.45, 0.3]
    >>> smoothed_mean([[0.0, 0.3, 0.6, 0.3]], np.ones(1), 3).round(12).tolist()
    [0.4, 0.4, 0.4]
    """
    longest = max(map(len, curves))
    held = [np.pad(np.asarray(curve, dtype=np.float64), (0, longest - len(curve)), mode="edge") for curve in curves]
    mean = np.average(held, axis=0, weights=weights)[1:]
    around = np.pad(mean, width // 2, mode="edge")
    return np.convolve(around, np.ones(width) / width, mode="valid")


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


class _Bins(dict[tuple[int, int], Any]):
    """The bins of every fold of a draw, while no member uses them; they stay where they were made."""

    def __reduce__(self) -> Any:
        return _Bins, ()


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
    bins: _Bins = field(default_factory=lambda: _Bins())

    def fitted(self, job: Job, walked: Walked) -> Fitted:
        """The mean of the models of all folds, and out-of-fold scores."""
        fold, scores = self._fold(job), np.empty(self.data.n_rows)
        step, models = walked.step, list[Forest | FittedLinear]()
        for k, path in enumerate(walked.paths):
            model = path.first(min(step, path.n_trees)) if isinstance(path, Forest) else path.at(step)
            models.append(model)
            seen = self.data.take(fold == k)
            if isinstance(model, FittedLinear) and self.filling is not None:
                seen = self.filling.applied(seen)
            found = model.score(seen.X) if isinstance(model, Forest) else model.score(seen.X, seen.offsets)
            scores[np.repeat(fold == k, self.data.sizes)] = found
        forest, linear = summed(models, [1.0 / len(models)] * len(models))
        return Fitted(job.member, forest if linear is None else linear, scores, walked.step, walked.at_limit)

    def _fold(self, job: Job) -> IntArray:
        return deal(self.data, self.folds, np.random.default_rng([self.seed, job.repeat]))

    def walk(self, job: Job, tell: Callable[[float], None]) -> Walked:
        """All folds together, stride by stride, until the mean of their curves has been falling for long enough.

        `tell` hears after every stride what part of the way may be behind.
        """
        member, pace, fold = MEMBERS[job.member], self.pace, self._fold(job)
        sizes = np.bincount(fold, minlength=self.folds).astype(np.float64)
        workers = 1 if self.data.X.size >= _WORTH_THREADS else min(n_threads(), self.folds)
        # Penalties are few, and a better one may come after several that are worse: all are tried.
        width, patience = _SMOOTHED, -(-pace.patience // pace.stride)
        if member.linear:
            width, patience = 1, len(PENALTIES + _WEAKER)
        with ThreadPoolExecutor(workers) as pool:
            walks = list(pool.map(lambda k: self._start(job, fold == k, k, workers > 1), range(self.folds)))
            while True:
                list(pool.map(lambda walk: _alone(workers > 1, walk.advance), walks))
                mean = smoothed_mean([walk.curve for walk in walks], sizes, width)
                best = int(np.argmax(mean if self.metric.greater_is_better else -mean)) + 1
                over = all(walk.ended for walk in walks)
                tell(1.0 if over else min(0.99, len(mean) / (best + patience)))
                if over or len(mean) - best >= patience:
                    break
        self.bins.update({(job.repeat, k): walk.bins for k, walk in enumerate(walks)})
        at_limit = not member.linear and len(mean) * pace.stride >= pace.rounds and len(mean) - best < width
        return Walked([walk.path() for walk in walks], best if member.linear else best * pace.stride, at_limit)

    def _start(self, job: Job, out: Any, k: int, alone: bool) -> Walk:
        number = list(MEMBERS).index(job.member)
        seed = int(np.random.default_rng([self.seed, job.repeat, number, k]).integers(2**31))
        seen, held = self.data.take(~out), self.data.take(out)
        judged = held if held.judges is None else judged_lists(held, held.judges).groups(held)
        bins = self.bins.pop((job.repeat, k), None)
        task = Task(seen, valid=judged, metric=self.metric, seed=seed, target=stated_target(seen), bins=bins)
        return _alone(alone, lambda: start(MEMBERS[job.member], task, self.pace, self.filling))

    def load(self, job: Job) -> Walked | None:
        """What an earlier run, ended before its time, left in the checkpoint folder."""
        found = None if self.checkpoint is None else self._checkpoints(self.checkpoint, job).load()
        if found is None:
            return None
        linear, arrays = MEMBERS[job.member].linear, [dict[str, Any]() for _ in range(self.folds)]
        for place, array in found.arrays.items():
            k, _, name = place.partition(".")
            arrays[int(k)][name] = array
        width = self.filling.width if linear and self.filling is not None else self.data.n_features
        paths = [path_of(linear, own, width) for own in arrays]
        return Walked(paths, found.state["step"], found.state["at_limit"])

    def save(self, job: Job, walked: Walked) -> None:
        """Leave it there for a later one."""
        if self.checkpoint is None:
            return
        arrays = {f"{k}.{name}": array for k, path in enumerate(walked.paths) for name, array in path.arrays().items()}
        self._checkpoints(self.checkpoint, job).save(1, {"step": walked.step, "at_limit": walked.at_limit}, arrays)

    def _checkpoints(self, folder: FilePath, job: Job) -> Checkpoints:
        return Checkpoints(folder / job.name.replace("#", "-"), {**(self.fingerprint or {}), "job": job.name})


def _alone(alone: bool, work: Callable[[], T]) -> T:
    """Do it on one thread (`alone`), since other folds have the others, or on all."""
    with serial() if alone else nullcontext():
        return work()


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
    """What may keep a model from being fitted, so that it is left out: all else is a defect of luce."""
    engine = sys.modules.get("lightgbm")
    own = () if engine is None else (engine.basic.LightGBMError,)
    return (LuceError, ArithmeticError, np.linalg.LinAlgError, MemoryError, *own)
