"""Boosting: LightGBM grows the trees, the loss says where to."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from luce.checks import heard, patience, whole
from luce.data.groups import Groups
from luce.errors import DataError, LuceWarning, SettingError
from luce.losses.base import Loss
from luce.numerics.segments import n_threads
from luce.scorers.forest import Forest
from luce.scorers.from_lightgbm import forest_of
from luce.scorers.trees import FittedTrees, TreesScorer
from luce.training.derivatives import Derivatives
from luce.training.task import Task, Trained, Trainer, data_digest, digest_of
from luce.types import FittedScorer, FloatArray

CHECKPOINT_EVERY = 10
"""Trees between two checkpoints."""
_WORTH_THREADS = 1 << 20
"""Entries of X from which on LightGBM gets threads; on a busy machine those of small data mostly wait."""
_FRUITLESS = 20
"""Rounds in a row without a split after which boosting ends where rounds differ by what they draw."""


@dataclass(frozen=True)
class Boosting(Trainer):
    r"""Add trees, $h_t = h_{t-1} + \beta g_t$, until `max_iter` of them or until validation rises no more.

    The sum of trees is [Ties] (15), a step down the gradient [Ties] (16), the algorithm [Ties] Algorithm 1.

    Scores of the training set live in LightGBM, those of the validation set are updated tree by tree. With validation
    data, the trees up to the best value of the metric are kept, with the tie parameter of that round. Several `members`
    grow side by side, each from its own draws and gradients, and $h$ is their mean. What a round draws depends on the
    seed and its number alone, so that a resumed training gives the same bits as a whole one.

    Parameters
    ----------
    max_iter
        Trees at most.
    early_stopping
        With validation data, trees without a better metric that end it; "auto" is five times 1/step, and None never.
    """

    max_iter: int = 100
    early_stopping: int | str | None = "auto"

    name: ClassVar[str] = "boosting"

    def __post_init__(self) -> None:
        whole("max_iter", self.max_iter, 0)
        patience(self.early_stopping, 1.0)

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse all scorers but trees."""
        if not isinstance(scorer, TreesScorer):
            raise SettingError(f"The trainer 'boosting' grows the scorer 'trees', not {scorer.name!r}.")
        learns = scorer.reestimate is None or (loss is not None and len(loss.parameters) > 0)
        heard(scorer.name, {"reestimate": (scorer.reestimate, 10)}, learns, "a loss with a tie parameter to be learned")

    def train(self, task: Task) -> Trained:
        """Round after round."""
        state = self.start(task)
        run = state.run
        while run.iteration < self.max_iter and not run.exhausted and not state.spent:
            state.round()
        run.history.converged = run.exhausted or run.iteration == self.max_iter
        return state.trained()

    def start(self, task: Task) -> Growth:
        """A training before its first round, for who decides himself how many there are."""
        return Growth(self, task)

    def rounds(self, task: Task) -> Callable[[], bool]:
        """A function that grows one tree a call and says whether more can follow, for who wants to watch or time it."""
        return Growth(self, task).round


class Growth:
    """The state of one training: trees, tie parameter, scores of the validation data."""

    def __init__(self, trainer: Boosting, task: Task) -> None:
        self.task, self.data, self.valid = task, task.data, task.valid
        self.scorer: TreesScorer = task.scorer
        self.loss = task.loss
        """None where LightGBM follows an objective of its own."""
        self.forest = warm_forest(task.warm_start, self.data.n_features)
        self.n_warm = self.forest.n_trees
        self._grown: list[Forest] = []
        self.derivatives = None if self.loss is None else self._derivatives(self.loss)
        self.run = task.start_run(
            trainer.max_iter,
            patience(trainer.early_stopping, self.scorer.learning_rate),
            lambda _: task.judged(self.valid_scores),
            self._fingerprint,
            every=CHECKPOINT_EVERY,
            extras=self._extras,
        )
        start = self._resume()
        sizes = np.diff(self.forest.nodes)[self.n_warm :]
        self.fruitless = (len(sizes) - int(np.flatnonzero(sizes).max(initial=-1)) - 1) // self.scorer.members
        """Rounds without a split up to now, as the trees of a checkpoint tell."""
        self.boosters, self.thread = make_boosters(self.scorer, self.data, start), get_ident()
        self.value = 0.0
        if self.loss is not None:
            self._with_loss(self.loss.with_parameters(self.run.last))

    def _derivatives(self, loss: Loss) -> Derivatives:
        data, target = self.data, self.task.target
        return Derivatives(
            loss,
            data.y if target is None else target,
            data.offsets,
            data.query_weight,
            curvature=self.scorer.curvature,
            floor=self.scorer.curvature_floor,
        )

    def _fingerprint(self) -> dict[str, Any]:
        return {
            "data": data_digest(self.data) + digest_of(self.task.target),
            "scorer": repr(self.scorer),
            "loss": repr(self.loss),
            "seed": self.task.seed,
            "metric": self.task.metric.name,
            "start": start_digest(self.forest.value, self.task.base),
            "validation": None if self.valid is None else data_digest(self.valid) + digest_of(self.task.valid_base),
        }

    def _resume(self) -> FloatArray | None:
        """Take up a checkpoint; returns the scores from which LightGBM starts, a row a member, or None for zero."""
        self.run.resume(self._own_parameters)
        scores = self.run.saved.get("scores")
        if scores is not None:
            trees = {key.removeprefix("tree."): a for key, a in self.run.saved.items() if key.startswith("tree.")}
            self.forest = Forest.from_arrays(trees, self.data.n_features)
        elif self.task.base is not None or self.n_warm:
            scores = np.zeros(self.data.n_rows) if self.task.base is None else self.task.base.copy()
            self.forest.add_scores(self.data.X, scores)
            scores = np.tile(scores, (self.scorer.members, 1))
        if self.valid is not None:
            base = self.task.valid_base
            self.valid_scores = np.zeros(self.valid.n_rows) if base is None else base.copy()
            self.forest.add_scores(self.valid.X, self.valid_scores)
            if self.run.iteration == 0:
                self.run.consider(self.run.last)
        return scores

    def _extras(self) -> dict[str, Any]:
        self._gather()
        trees = {f"tree.{name}": array for name, array in self.forest.arrays().items()}
        return {**trees, "scores": np.array([_training_scores(booster) for booster in self.boosters])}

    def _gather(self) -> None:
        self.forest, self._grown = Forest.joined([self.forest, *self._grown]), []

    @property
    def _own_parameters(self) -> FloatArray:
        """The loss's own, none where there is no loss."""
        return np.empty(0) if self.loss is None else self.loss.parameters

    def _with_loss(self, loss: Loss) -> None:
        assert self.derivatives is not None
        self.loss = self.derivatives.loss = loss

    def round(self) -> bool:
        """Grow one tree of every member; False where no later round can grow one."""
        number, share = self.run.iteration, 1.0 / self.scorer.members
        if self.loss is not None and self.derivatives is not None:
            self.derivatives.loss = self.loss.reseeded(number)
        trees, self.value = [], 0.0
        for member, booster in enumerate(self.boosters):
            drawn = [self.task.seed, number] + ([member] if member else [])
            tree, value = self._grow(booster, np.random.default_rng(drawn))
            trees.append(tree.scaled(share) if share < 1 else tree)
            self.value += share * value
        self._note(trees)
        if len(self._own_parameters) and self.scorer.reestimate and (number + 1) % self.scorer.reestimate == 0:
            self._reestimate()
        self.run.step(self._own_parameters, self.value)
        return not self.spent

    @property
    def spent(self) -> bool:
        """True where no later round can grow a tree."""
        draws = min(self.scorer.feature_fraction, self.scorer.bagging_fraction) < 1
        draws = draws or (self.loss is not None and self.loss.stochastic)
        return bool(self.fruitless >= (_FRUITLESS if draws else 1))

    def _grow(self, booster: Any, rng: np.random.Generator) -> tuple[Forest, float]:
        """One more tree of a member, and the loss of its scores before; a leaf of 0 where there is no split."""
        drawn = {"feature_contri": self._drawn_features(rng)} if self.scorer.feature_fraction < 1 else {}
        if drawn or self.thread != get_ident():
            # How much LightGBM says is a setting of the thread, and this one need not have made the booster.
            self.thread = get_ident()
            booster.reset_parameter({"verbosity": self.scorer.engine.get("verbosity", -1), **drawn})
        grown, value = booster.current_iteration(), 0.0
        derivatives = self.derivatives
        if derivatives is not None:

            def directions(scores: FloatArray, _: Any) -> tuple[Any, Any]:
                nonlocal value
                value, grad, curvature = derivatives(scores)
                if self.scorer.bagging_fraction < 1:
                    left_out = rng.random(len(grad)) >= self.scorer.bagging_fraction
                    grad[left_out] = curvature[left_out] = 0.0
                return grad, curvature

            booster.update(fobj=directions)
        else:
            booster.update()
            value = _own_objective(booster)
        tree = forest_of(booster, grown) if booster.current_iteration() > grown else Forest.empty()
        return (tree if len(tree.feature) else Forest.constant(0.0)), value  # trees and rounds stay in step

    def _drawn_features(self, rng: np.random.Generator) -> list[float]:
        # LightGBM's own draw goes on from an inner state that no checkpoint could keep.
        n = self.data.n_features
        kept = np.zeros(n)
        kept[rng.choice(n, max(1, round(n * self.scorer.feature_fraction)), replace=False)] = 1.0
        return [float(share) for share in kept]

    def _note(self, trees: list[Forest]) -> None:
        self._grown += trees
        if any(len(tree.feature) for tree in trees):
            self.fruitless = 0
            if self.valid is not None:
                Forest.joined(trees).add_scores(self.valid.X, self.valid_scores)
            return
        if self.fruitless == 0:
            warnings.warn(
                f"Tree {self.run.iteration + 1} found no split (constant features, labels that say nothing, or "
                f"fewer than 2 x min_data_in_leaf = {2 * self.scorer.least_in_leaf(self.data.n_rows)} documents).",
                LuceWarning,
                stacklevel=5,
            )
        self.fruitless += 1

    def _reestimate(self) -> None:
        """A few steps of L-BFGS on the loss's own parameters at the present scores."""
        scores = self._scores()
        loss, derivatives = self.loss, self.derivatives
        assert loss is not None
        assert derivatives is not None

        def objective(values: FloatArray) -> tuple[float, FloatArray]:
            return derivatives.parameter_gradient(loss.with_parameters(values), scores)

        start, bounds = loss.parameters, loss.parameter_bounds
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 10})
        self._with_loss(loss.with_parameters(found.x))

    def whole(self) -> Forest:
        """All trees up to now."""
        self._gather()
        return self.forest

    def trained(self) -> Trained:
        """The trees to keep, and the loss with the parameters of that round."""
        whole, history = self.whole(), self.run.history
        best = history.best_iteration if self.run.best is not None else None
        forest = whole if best is None else whole.first(self.n_warm + best * self.scorer.members)
        loss = None if self.loss is None else self.loss.with_parameters(self.run.result)
        return Trained(
            FittedTrees(forest, self.data.n_features), loss, history, self._scores() if best is None else None
        )

    def _scores(self) -> FloatArray:
        """Of the training rows, base scores and all trees up to now."""
        scores: FloatArray = np.mean([_training_scores(booster) for booster in self.boosters], axis=0)
        return scores


def start_digest(leaves: FloatArray, base: FloatArray | None) -> str:
    """What boosting starts from: the leaves of earlier trees, and base scores."""
    return hashlib.sha256(leaves.tobytes() + (b"" if base is None else base.tobytes())).hexdigest()


def warm_forest(warm: FittedScorer | None, n_features: int) -> Forest:
    """The trees to go on from, none unless the earlier scorer has some."""
    if not isinstance(warm, FittedTrees):
        return Forest.empty()
    if warm.n_features != n_features:
        raise SettingError(f"The trees to go on from have {warm.n_features} features, and the data {n_features}.")
    return warm.forest


def make_boosters(scorer: TreesScorer, data: Groups, start: FloatArray | None) -> list[Any]:
    """A LightGBM booster a member, without a tree yet; all read the same bins of the features."""
    import lightgbm

    parameters = scorer.engine_parameters(data.n_rows, data.feature_names)
    parameters |= {"num_threads": n_threads() if data.X.size >= _WORTH_THREADS else 1}
    if scorer.objective == "lambdarank":
        _check_grades(data.y)
    labels = data.y if scorer.objective else np.zeros(data.n_rows, dtype=np.float32)
    weight = None if data.query_weight is None else np.repeat(data.query_weight, data.sizes)
    try:
        dataset = lightgbm.Dataset(
            data.X,
            label=labels,
            group=data.sizes if scorer.objective == "lambdarank" else None,
            weight=weight if scorer.objective else None,
            init_score=None if start is None else start[0],
            categorical_feature=scorer.categories(data.feature_names),
            params=parameters,
            free_raw_data=False,
        )
        dataset.construct()
        if not any(dataset.feature_num_bin(feature) for feature in range(data.n_features)):
            raise DataError(
                f"All {data.n_features} features are 0 everywhere, which leaves trees nothing to split; "
                "give features that vary."
            )
        boosters = []
        for member in range(scorer.members):
            if start is not None and member:
                dataset.set_init_score(start[member])
            boosters.append(lightgbm.Booster(parameters, dataset))
        return boosters
    except lightgbm.basic.LightGBMError as error:
        raise SettingError(f"LightGBM refuses these parameters or data: {error}") from error


_HIGHEST = 30


def _check_grades(y: FloatArray) -> None:
    """Refuse what LightGBM's objective would, before it writes to the terminal."""
    wrong = (y < 0) | (y > _HIGHEST) | (y != np.floor(y))
    if wrong.any():
        raise DataError(
            f"The objective of lambdarank takes whole grades from 0 to {_HIGHEST}, as its gain is 2^grade - 1, and a "
            f"label is {y[np.argmax(wrong)]:g}; map the labels to such grades, or train trees on a loss (pmop-trees), "
            "which sees their order alone."
        )


def _own_objective(booster: Any) -> float:
    """What LightGBM says of its own objective on the training data: squared error, or 1 - NDCG."""
    value, greater_is_better = booster.eval_train()[0][2:4]
    return 1.0 - float(value) if greater_is_better else float(value)


def _training_scores(booster: Any) -> FloatArray:
    """The scores of the training rows as LightGBM has them."""
    kept: list[FloatArray] = []

    def keep(scores: FloatArray, _: Any) -> tuple[str, float, bool]:
        kept.append(np.array(scores, dtype=np.float64))
        return "scores", 0.0, True

    booster.eval_train(feval=keep)
    return kept[0]
