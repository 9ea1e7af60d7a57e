"""Trees on a cluster: LightGBM's Dask interface grows them, a luce loss says where to.

LightGBM's processes talk to each other at every split, and none of them can be lost. So trees are grown in segments:
after each the trees are here, the scores of the partitions follow from them, and a segment that a lost worker breaks
is grown again.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from luce import losses
from luce.checks import patience
from luce.distributed.files import DataPart
from luce.distributed.spread import ClusterError, Spread, Wanted, answers
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.numerics.segments import serial
from luce.objectives.engines import LightGBMObjective
from luce.scorers.forest import Forest, trees_of
from luce.training.additive import Additive, warn_of_no_split
from luce.training.boosting import Boosting, warm_forest
from luce.training.derivatives import Derivatives, Shared
from luce.training.run import Step
from luce.training.task import Task, Trained
from luce.training.weak import TreeSum
from luce.types import FloatArray

if TYPE_CHECKING:
    from distributed import Client

SEGMENT = 20
"""Trees of a segment: LightGBM bins the features once in each, and a lost worker costs no more than one."""
_TRIES = 3
_PATIENCE_MINUTES = 2
"""How long LightGBM's processes wait for one that never came."""
_GRACE_SECONDS = 5.0
"""How long after the loss of a worker its own tasks are given up."""
_NAMES = {
    "min_data_in_leaf": "min_child_samples",
    "min_sum_hessian_in_leaf": "min_child_weight",
    "lambda_l2": "reg_lambda",
    "bagging_fraction": "subsample",
    "feature_fraction": "colsample_bytree",
}


def boost(wanted: Wanted) -> Trained:
    """Add trees until `max_iter` of them or until validation rises no more, segment by segment."""
    scorer, trainer = wanted.parts.scorer, wanted.parts.trainer
    if scorer.members > 1:
        raise SettingError(f"members is {scorer.members}, and a cluster grows one forest; set members=1.")
    spread = wanted.dataset.spread(1, wanted.query_norm)
    # Where LightGBM follows an objective of its own, a loss is only watched.
    task = wanted.task(spread, wanted.loss or losses.get("listnet"))
    stop = patience(trainer.early_stopping, scorer.learning_rate)
    trained = _SpreadBoosting(trainer, task, spread).open(trainer.max_iter, stop).follow().trained()
    return trained if wanted.loss is not None else trained._replace(loss=None)


class _SpreadBoosting(Additive):
    """Boosting whose trees are here, and features and scores on the workers."""

    sum: TreeSum
    loss: Loss

    def __init__(self, trainer: Boosting, task: Task, spread: Spread) -> None:
        super().__init__(trainer, task, TreeSum(warm_forest(task.warm_start, spread.n_features), spread.n_features))
        self.scorer, self.spread, self.every = task.scorer, spread, SEGMENT
        weight, sizes = spread.query_weight, np.diff(spread.offsets)
        self.row_weight = 1.0 if weight is None else float(weight @ sizes) / spread.n_rows
        self.total_weight = float(len(sizes) if weight is None else weight.sum())

    def fingerprint(self) -> dict[str, Any]:
        """With the length of segments."""
        return {**super().fingerprint(), "segments": SEGMENT}

    def begin(self) -> None:
        """Have the workers prepare the loss, and score the trees that there are."""
        super().begin()
        own = {"curvature": self.scorer.curvature, "floor": self.scorer.curvature_floor, "row_weight": self.row_weight}
        self.parts = self.spread.each(_PartBoosting, loss=self.loss, **own)
        self.scores = self.spread.ask("first_scores", self.parts, forest=self.sum.fitted().forest)
        self.arrays = _Collections(self.spread)

    def steps(self) -> Iterator[Step]:
        """A tree each; those of a segment are grown together."""
        run, client = self.run, self.spread.client
        while True:
            wanted = min(SEGMENT - run.iteration % SEGMENT, run.max_iter - run.iteration)
            trees = [tree for tree in self._grown(wanted) if len(tree.feature)]
            if len(trees) < wanted:
                number = run.iteration + len(trees) + 1
                warn_of_no_split(number, "documents than leaves need); no more trees are grown.")
            if not trees:
                return
            self.sum.trees += trees
            told = self.spread.ask("advance", self.parts, self.scores, trees=trees, loss=self.loss)
            self.scores = client.map(itemgetter(1), told, pure=False)
            values = np.sum(answers(client, client.map(itemgetter(0), told, pure=False)), axis=0) / self.total_weight
            before = self.parameters
            if len(before) and self.scorer.reestimate:
                self.reestimate(self._gradients)
            for number, (tree, value) in enumerate(zip(trees, values.tolist(), strict=True), start=1):
                if self.valid is not None:
                    tree.add_scores(self.valid.X, self.valid_scores)
                yield Step(self.parameters if number == len(trees) else before, value)
            if len(trees) < wanted:
                return

    def _gradients(self, loss: Loss) -> tuple[float, FloatArray, FloatArray]:
        found = answers(self.spread.client, self.spread.ask("slopes", self.parts, self.scores, loss=loss))
        value, slope = sum(v for v, _ in found), np.sum([s for _, s in found], axis=0)
        return value / self.total_weight, np.empty(0), slope / self.total_weight

    def _grown(self, wanted: int) -> list[Forest]:
        """The trees of a segment, grown again where a worker was lost."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError
        from lightgbm.basic import LightGBMError

        trouble: Exception | None = None
        for _ in range(_TRIES):
            try:
                return self._grow(wanted)
            except LightGBMError as error:
                if "ocket" not in str(error) and "onnect" not in str(error):
                    raise SettingError(f"LightGBM refuses these parameters or data: {error}") from error
                trouble = error
            except (KilledWorker, FutureCancelledError, OSError) as error:
                trouble = error
            _after_loss(self.spread.client)
        raise ClusterError(
            f"Workers were lost in {_TRIES} attempts to grow trees {self.run.iteration + 1} and following ({trouble}); "
            "see why they end, then go on from the checkpoint."
        ) from trouble

    def _grow(self, wanted: int) -> list[Forest]:
        from lightgbm import DaskLGBMRanker

        client = self.spread.client
        ranker = DaskLGBMRanker(n_estimators=wanted, client=client, time_out=_PATIENCE_MINUTES, **self._engine())
        with _cancelled_on_loss(client), _quiet_engine():
            ranker.fit(
                **self.arrays.fixed,
                init_score=self.arrays.vector(self.scores),
                categorical_feature=self.scorer.categories(self.spread.feature_names),
            )
        return trees_of(ranker.booster_)

    def _engine(self) -> dict[str, Any]:
        own = self.scorer.engine_parameters(self.spread.n_rows, self.spread.feature_names)
        draws = {"bagging_fraction": self.scorer.bagging_fraction, "feature_fraction": self.scorer.feature_fraction}
        own |= draws | {"subsample_freq": 1 if self.scorer.bagging_fraction < 1 else 0}
        objective: Any = self.scorer.objective
        if objective is None:
            # All workers divide by one mean curvature, that of the whole set at these scores.
            tasks = self.spread.ask("positive_curvature", self.parts, self.scores, loss=self.loss)
            mean = sum(answers(self.spread.client, tasks)) / self.spread.n_rows
            objective = _SerialObjective(self.loss, curvature=self.scorer.curvature, floor=self.scorer.curvature_floor)
            objective.shared = Shared(mean, self.row_weight)
        own |= {"objective": objective}
        # What a segment draws depends on the seed and its place alone.
        own |= {"random_state": int(np.random.default_rng([self.task.seed, self.run.iteration]).integers(2**31))}
        return {_NAMES.get(name, name): value for name, value in own.items()}


def _after_loss(client: Client) -> None:
    """Start the workers that are left anew.

    They may still wait for the one that is lost, inside LightGBM, and would keep its connections; what they held is
    read from the files again. A worker without a nanny cannot be restarted: it gives up by itself, minutes later.
    """
    client.wait_for_workers(1, timeout=60)
    with suppress(ValueError):
        client.restart_workers(list(client.ncores()), timeout=60, raise_for_error=False)
    client.wait_for_workers(1, timeout=60)


@contextmanager
def _cancelled_on_loss(client: Client) -> Iterator[None]:
    """A task of LightGBM that is bound to a lost worker would wait for it for ever; cancel it instead.

    Not at once: workers that are left notice a lost connection themselves, and are then done with their own tasks.
    """
    from distributed import Future

    begun, done = set(client.ncores()), threading.Event()

    def watch() -> None:
        while not done.wait(1.0):
            if begun - set(client.ncores()) and not done.wait(_GRACE_SECONDS):
                keys = [key for key in list(client.futures) if str(key).startswith("_train_part")]
                tasks: list[Any] = [Future(key, client) for key in keys]
                client.cancel(tasks, force=True)
                if tasks:
                    return

    watcher = threading.Thread(target=watch, name="luce-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        # It may be asking a scheduler that does not answer; nothing waits for it then.
        watcher.join(_GRACE_SECONDS)


@contextmanager
def _quiet_engine() -> Iterator[None]:
    """LightGBM prints what it does, and warns of a parameter that its own estimator always has."""
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Parameter n_jobs will be ignored")
        yield


class _SerialObjective(LightGBMObjective):
    """An objective without threads of its own: the other cores of a machine belong to its other workers."""

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> tuple[Any, Any]:
        """f(labels, scores, weight, group), as estimators call it."""
        with serial():
            return super().__call__(first, second, weight, group)


class _PartBoosting(DataPart):
    """Derivatives of the loss on one partition."""

    def __init__(self, part: DataPart, loss: Loss, curvature: str, floor: float, row_weight: float) -> None:
        super().__init__(part.data)
        data, how = self.data, {"curvature": curvature, "floor": floor, "shared": Shared(1.0, row_weight)}
        with serial():
            self.derivatives = Derivatives(loss, data.y, data.offsets, data.query_weight, **how)  # type: ignore[arg-type]

    def first_scores(self, forest: Forest) -> FloatArray:
        """The scores of the trees that there are already."""
        return forest.score(self.data.X)

    def positive_curvature(self, scores: FloatArray, loss: Loss) -> float:
        """The sum of all curvatures above 0."""
        self.derivatives.loss = loss
        return self.derivatives.positive_curvature(scores)

    def advance(self, scores: FloatArray, trees: list[Forest], loss: Loss) -> tuple[list[float], FloatArray]:
        """The loss before every tree, and the scores after all of them."""
        found, values, now = self.derivatives, [], scores.copy()
        found.loss = loss
        for tree in trees:
            values.append(found.value(now) * found.total_weight)
            tree.add_scores(self.data.X, now)
        return values, now

    def slopes(self, scores: FloatArray, loss: Loss) -> tuple[float, FloatArray]:
        """The loss, and its gradient in its own parameters."""
        value, _, slope = self.derivatives.gradients(scores, loss)
        return value * self.derivatives.total_weight, slope * self.derivatives.total_weight


def _column(part: DataPart, name: str) -> Any:
    """What LightGBM wants of a partition, on a worker where it is to be quiet."""
    import lightgbm

    lightgbm.register_logger(logging.Logger("quiet", logging.CRITICAL))  # what goes wrong is raised
    data = part.data
    if name == "sample_weight":
        assert data.query_weight is not None
        return np.repeat(data.query_weight, data.sizes)
    return {"X": data.X, "y": data.y, "group": data.sizes}[name]


class _Collections:
    """The partitions as the Dask arrays that LightGBM takes."""

    def __init__(self, spread: Spread) -> None:
        self._rows = [int(spread.offsets[b] - spread.offsets[a]) for a, b in spread.queries]
        shapes: dict[str, tuple[list[tuple[int, ...]], Any]] = {
            "X": ([(rows, spread.n_features) for rows in self._rows], np.float32),
            "y": ([(rows,) for rows in self._rows], np.float64),
            "group": ([(b - a,) for a, b in spread.queries], np.int64),
        }
        if spread.query_weight is not None:
            shapes["sample_weight"] = shapes["y"]
        self.fixed = {name: _array(spread.each(_column, name=name), *how) for name, how in shapes.items()}

    def vector(self, futures: list[Any]) -> Any:
        """A Dask array of one number a row."""
        return _array(futures, [(rows,) for rows in self._rows], np.float64)


def _array(futures: Sequence[Any], shapes: Sequence[tuple[int, ...]], dtype: Any) -> Any:
    import dask.array as da
    from dask import delayed

    parts = zip(futures, shapes, strict=True)
    return da.concatenate([da.from_delayed(delayed(part), shape, dtype=dtype) for part, shape in parts])
