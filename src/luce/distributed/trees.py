"""Trees on a cluster: LightGBM's Dask interface grows them, a luce loss says where to.

LightGBM's processes talk to each other at every split, and none of them can be lost. So trees are grown in segments:
after each the trees are here, the scores of the partitions follow from them, and a segment that a lost worker breaks
is grown again.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from luce import losses
from luce.checks import patience
from luce.data.groups import Groups
from luce.distributed import part_boosting as there
from luce.distributed.spread import ClusterError, Dataset, Spread, answers
from luce.errors import LuceWarning, SettingError
from luce.losses.base import Loss
from luce.numerics.segments import serial
from luce.objectives.for_lightgbm import LightGBMObjective
from luce.ranker.parts import Parts
from luce.scorers.forest import Forest
from luce.scorers.from_lightgbm import trees_of
from luce.scorers.trees import FittedTrees
from luce.training.boosting import Boosting, start_digest, warm_forest
from luce.training.derivatives import Shared
from luce.training.task import Task, Trained, data_digest
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


def boost(
    parts: Parts,
    loss: Loss | None,
    dataset: Dataset,
    valid: Groups | None,
    told: dict[str, Any],
    query_norm: str | None,
) -> Trained:
    """Add trees until `max_iter` of them or until validation rises no more, segment by segment."""
    scorer, trainer = parts.scorer, parts.trainer
    if scorer.members > 1:
        raise SettingError(f"members is {scorer.members}, and a cluster grows one forest; set members=1.")
    spread = dataset.spread(1, query_norm)
    # Where LightGBM follows an objective of its own, a loss is only watched.
    task = Task(spread, scorer, loss or losses.get("listnet"), valid, **told)  # type: ignore[arg-type]
    state = _SpreadBoosting(trainer, task, spread)
    run = state.run
    while run.iteration < trainer.max_iter and not run.exhausted:
        if not state.segment():
            break
    run.history.converged = run.exhausted or run.iteration == trainer.max_iter
    trained = state.trained()
    return trained if loss is not None else trained._replace(loss=None)


class _SpreadBoosting:
    """The state of one training: the trees are here, features and scores on the workers."""

    def __init__(self, trainer: Boosting, task: Task, spread: Spread) -> None:
        scorer, loss, valid = task.scorer, task.given_loss, task.valid
        self.scorer, self.loss, self.spread, self.valid, self.task = scorer, loss, spread, valid, task
        self.max_iter = trainer.max_iter
        self.forest = warm_forest(task.warm_start, spread.n_features)
        self.n_warm = self.forest.n_trees
        self.run = task.start_run(
            trainer.max_iter,
            patience(trainer.early_stopping, scorer.learning_rate),
            lambda _: task.judged(self.valid_scores),
            self._fingerprint,
            every=SEGMENT,
            extras=self._extras,
        )
        self.run.resume(loss.parameters)
        saved = {key.removeprefix("tree."): a for key, a in self.run.saved.items() if key.startswith("tree.")}
        if saved:
            self.forest = Forest.from_arrays(saved, spread.n_features)
        self.loss = loss.with_parameters(self.run.last)
        if valid is not None:
            self.valid_scores = self.forest.score(valid.X)
            if self.run.iteration == 0:
                self.run.consider(self.run.last)
        weight, sizes = spread.query_weight, np.diff(spread.offsets)
        self.row_weight = 1.0 if weight is None else float(weight @ sizes) / spread.n_rows
        self.total_weight = float(len(sizes) if weight is None else weight.sum())
        own = {"curvature": scorer.curvature, "floor": scorer.curvature_floor, "row_weight": self.row_weight}
        self.parts = spread.each(there.PartBoosting, loss=loss, **own)
        self.scores = spread.client.map(there.first_scores, self.parts, forest=self.forest, pure=False)
        self.arrays = _Collections(spread)

    def _fingerprint(self) -> dict[str, Any]:
        return {
            "data": data_digest(self.spread),
            "scorer": repr(self.scorer),
            "loss": repr(self.loss),
            "seed": self.task.seed,
            "start": start_digest(self.forest.value, None),
            "validation": None if self.valid is None else [self.task.metric.name, data_digest(self.valid)],
            "segments": SEGMENT,
        }

    def _extras(self) -> dict[str, Any]:
        return {f"tree.{name}": array for name, array in self.forest.arrays().items()}

    def segment(self) -> bool:
        """Grow the trees of one segment; False where no more can follow."""
        run, client = self.run, self.spread.client
        wanted = min(SEGMENT - run.iteration % SEGMENT, self.max_iter - run.iteration)
        trees = [tree for tree in self._grown(wanted) if len(tree.feature)]
        if len(trees) < wanted:
            warnings.warn(
                f"Tree {run.iteration + len(trees) + 1} found no split (constant features, labels that say nothing, or "
                "fewer documents than leaves need); no more trees are grown.",
                LuceWarning,
                stacklevel=4,
            )
        if not trees:
            return False
        self.forest = Forest.joined([self.forest, *trees])
        told = client.map(there.advance, self.parts, self.scores, trees=trees, loss=self.loss, pure=False)
        self.scores = client.map(there.scores_of, told, pure=False)
        values = np.sum(answers(client, client.map(there.values_of, told, pure=False)), axis=0) / self.total_weight
        before = self.loss.parameters
        if len(before) and self.scorer.reestimate:
            self._reestimate()
        for number, (tree, value) in enumerate(zip(trees, values.tolist(), strict=True)):
            if self.valid is not None:
                tree.add_scores(self.valid.X, self.valid_scores)
            last = number == len(trees) - 1
            run.step(self.loss.parameters if last else before, value)
            if run.exhausted:
                break
        return len(trees) == wanted

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
                init_score=self.arrays.vector(self.scores, np.float64),
                categorical_feature=self.scorer.categories(self.spread.feature_names),
            )
        return trees_of(ranker.booster_)

    def _engine(self) -> dict[str, Any]:
        own = self.scorer.engine_parameters(self.spread.n_rows, self.spread.feature_names)
        draws = {"bagging_fraction": self.scorer.bagging_fraction, "feature_fraction": self.scorer.feature_fraction}
        own |= draws | {"subsample_freq": 1 if self.scorer.bagging_fraction < 1 else 0}
        own |= {"objective": self.scorer.objective or self._objective()}
        # What a segment draws depends on the seed and its place alone.
        own |= {"random_state": int(np.random.default_rng([self.task.seed, self.run.iteration]).integers(2**31))}
        return {_NAMES.get(name, name): value for name, value in own.items()}

    def _objective(self) -> LightGBMObjective:
        """The loss for LightGBM: all workers divide by one mean curvature, that of the whole set at these scores."""
        client = self.spread.client
        tasks = client.map(there.positive_curvature, self.parts, self.scores, loss=self.loss, pure=False)
        sums = answers(client, tasks)
        objective = _SerialObjective(self.loss, curvature=self.scorer.curvature, floor=self.scorer.curvature_floor)
        objective.shared = Shared(sum(sums) / self.spread.n_rows, self.row_weight)
        return objective

    def _reestimate(self) -> None:
        """A few steps of L-BFGS on the loss's own parameters at the present scores."""
        client = self.spread.client

        def objective(values: FloatArray) -> tuple[float, FloatArray]:
            told = client.map(there.slopes, self.parts, self.scores, loss=self.loss.with_parameters(values), pure=False)
            found = answers(client, told)
            value, slope = sum(v for v, _ in found), np.sum([s for _, s in found], axis=0)
            return value / self.total_weight, slope / self.total_weight

        start, bounds = self.loss.parameters, self.loss.parameter_bounds
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 10})
        self.loss = self.loss.with_parameters(found.x)

    def trained(self) -> Trained:
        """The trees to keep, and the loss with the parameters of that round."""
        history = self.run.history
        best = history.best_iteration if self.run.best is not None else None
        forest = self.forest if best is None else self.forest.first(self.n_warm + best)
        return Trained(FittedTrees(forest, self.spread.n_features), self.loss.with_parameters(self.run.result), history)


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


class _Collections:
    """The partitions as the Dask arrays that LightGBM takes."""

    def __init__(self, spread: Spread) -> None:
        self._rows = [int(spread.offsets[b] - spread.offsets[a]) for a, b in spread.queries]
        queries = [b - a for a, b in spread.queries]
        width = spread.n_features
        features = [((rows, width), part) for rows, part in zip(self._rows, spread.each(there.features), strict=True)]
        self.fixed = {
            "X": _array(features, np.float32),
            "y": self.vector(spread.each(there.labels), np.float64),
            "group": _array(
                [((n,), part) for n, part in zip(queries, spread.each(there.sizes), strict=True)], np.int64
            ),
        }
        if spread.query_weight is not None:
            self.fixed["sample_weight"] = self.vector(spread.each(there.row_weights), np.float64)

    def vector(self, futures: list[Any], dtype: Any) -> Any:
        """A Dask array of one entry a row."""
        return _array([((rows,), part) for rows, part in zip(self._rows, futures, strict=True)], dtype)


def _array(parts: Sequence[tuple[tuple[int, ...], Any]], dtype: Any) -> Any:
    import dask.array as da
    from dask import delayed

    return da.concatenate([da.from_delayed(delayed(part), shape, dtype=dtype) for shape, part in parts])
