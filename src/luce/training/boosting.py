"""Boosting: LightGBM grows the trees, the loss says where to."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from luce.data.groups import Groups
from luce.errors import DataError, LuceWarning, SettingError
from luce.losses.base import Loss
from luce.metrics.catalog import get
from luce.metrics.evaluate import evaluate
from luce.numerics.segments import n_threads
from luce.scorers.forest import Forest
from luce.scorers.from_lightgbm import forest_of
from luce.scorers.trees import FittedTrees, TreesScorer
from luce.training.checkpoint import Checkpoints
from luce.training.derivatives import Derivatives
from luce.training.run import TrainingRun
from luce.training.train import Options, Trained, data_digest, digest_of
from luce.types import FittedScorer, FloatArray

__all__ = ["boost", "make_boosters", "rounds", "start_digest", "warm_forest"]

CHECKPOINT_EVERY = 10
"""Trees between two checkpoints."""
_WORTH_THREADS = 1 << 20
"""Entries of X from which on LightGBM gets threads; on a busy machine those of small data mostly wait."""
_FRUITLESS = 20
"""Rounds in a row without a split after which boosting ends where rounds differ by what they draw."""


def boost(
    scorer: TreesScorer, loss: Loss, data: Groups, valid: Groups | None, options: Options, target: Any = None
) -> Trained:
    r"""Add trees, $h_t = h_{t-1} + \beta g_t$, until `max_iter` of them or until validation rises no more.

    The sum of trees is [Ties] (15), a step down the gradient [Ties] (16), the algorithm [Ties] Algorithm 1.

    Scores of the training set live in LightGBM, those of the validation set are updated tree by tree. With validation
    data, the trees up to the best value of the metric are kept, with the tie parameter of that round. Several `members`
    grow side by side, each from its own draws and gradients, and $h$ is their mean. What a round draws depends on the
    seed and its number alone, so that a resumed training gives the same bits as a whole one.
    """
    if options.trainer != "auto":
        raise SettingError(f"trainer is {options.trainer!r}, and trees are boosted; leave it at 'auto'.")
    state = _Boosting(scorer, loss, data, valid, options, target)
    run = state.run
    while run.iteration < options.max_iter and not run.exhausted and not state.spent:
        state.round()
    run.history.converged = run.exhausted or run.iteration == options.max_iter
    return state.trained()


def rounds(scorer: TreesScorer, loss: Loss, data: Groups, options: Options) -> Callable[[], bool]:
    """A function that grows one tree a call and says whether more can follow, for who wants to watch or time it."""
    return _Boosting(scorer, loss, data, None, options, None).round


class _Boosting:
    """The state of one training: trees, tie parameter, scores of the validation data."""

    def __init__(
        self, scorer: TreesScorer, loss: Loss, data: Groups, valid: Groups | None, options: Options, target: Any
    ) -> None:
        self.scorer, self.loss, self.data, self.valid, self.options = scorer, loss, data, valid, options
        self.forest = warm_forest(options.warm_start, data.n_features)
        self.n_warm = self.forest.n_trees
        self._grown: list[Forest] = []
        self._target = target
        self.derivatives = Derivatives(
            loss,
            data.y if target is None else target,
            data.offsets,
            data.query_weight,
            curvature=scorer.curvature,
            floor=scorer.curvature_floor,
        )
        self.run = TrainingRun(
            None if valid is None else lambda _: self._metric(),
            options.patience,
            self._checkpoints(),
            options.progress,
            options.max_iter,
            CHECKPOINT_EVERY,
            self._extras,
            greater_is_better=get(options.metric).greater_is_better,
        )
        start = self._resume()
        sizes = np.diff(self.forest.nodes)[self.n_warm :]
        self.fruitless = (len(sizes) - int(np.flatnonzero(sizes).max(initial=-1)) - 1) // scorer.members
        """Rounds without a split up to now, as the trees of a checkpoint tell."""
        self.boosters = make_boosters(scorer, data, start)
        self.value = 0.0
        self._with_loss(loss.with_parameters(self.run.last))

    def _checkpoints(self) -> Checkpoints | None:
        if self.options.checkpoint is None:
            return None
        fingerprint = {
            "data": data_digest(self.data) + digest_of(self._target),
            "scorer": repr(self.scorer),
            "loss": repr(self.loss),
            "seed": self.options.seed,
            "metric": self.options.metric,
            "start": start_digest(self.forest.value, self.options.base),
            "validation": None if self.valid is None else data_digest(self.valid) + digest_of(self.options.valid_base),
        }
        return Checkpoints(self.options.checkpoint, fingerprint)

    def _resume(self) -> FloatArray | None:
        """Take up a checkpoint; returns the scores from which LightGBM starts, a row a member, or None for zero."""
        self.run.resume(self.loss.parameters)
        scores = self.run.saved.get("scores")
        if scores is not None:
            trees = {key.removeprefix("tree."): a for key, a in self.run.saved.items() if key.startswith("tree.")}
            self.forest = Forest.from_arrays(trees, self.data.n_features)
        elif self.options.base is not None or self.n_warm:
            scores = np.zeros(self.data.n_rows) if self.options.base is None else self.options.base.copy()
            self.forest.add_scores(self.data.X, scores)
            scores = np.tile(scores, (self.scorer.members, 1))
        if self.valid is not None:
            base = self.options.valid_base
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

    def _with_loss(self, loss: Loss) -> None:
        self.loss = self.derivatives.loss = loss

    def _metric(self) -> float:
        assert self.valid is not None
        return evaluate(self.valid_scores, self.valid, [self.options.metric]).means[get(self.options.metric).name]

    def round(self) -> bool:
        """Grow one tree of every member; False where no later round can grow one."""
        number, share = self.run.iteration, 1.0 / self.scorer.members
        self.derivatives.loss = self.loss.reseeded(number)
        trees, self.value = [], 0.0
        for member, booster in enumerate(self.boosters):
            drawn = [self.options.seed, number] + ([member] if member else [])
            tree, value = self._grow(booster, np.random.default_rng(drawn))
            trees.append(tree.scaled(share) if share < 1 else tree)
            self.value += share * value
        self._note(trees)
        if len(self.loss.parameters) and self.scorer.reestimate and (number + 1) % self.scorer.reestimate == 0:
            self._reestimate()
        self.run.step(self.loss.parameters, self.value)
        return not self.spent

    @property
    def spent(self) -> bool:
        """True where no later round can grow a tree."""
        draws = min(self.scorer.feature_fraction, self.scorer.bagging_fraction) < 1 or self.loss.stochastic
        return self.fruitless >= (_FRUITLESS if draws else 1)

    def _grow(self, booster: Any, rng: np.random.Generator) -> tuple[Forest, float]:
        """One more tree of a member, and the loss of its scores before; a leaf of 0 where there is no split."""
        if self.scorer.feature_fraction < 1:
            booster.reset_parameter({"feature_contri": self._drawn_features(rng)})
        grown, value = booster.current_iteration(), 0.0
        if self.scorer.objective is None:

            def directions(scores: FloatArray, _: Any) -> tuple[Any, Any]:
                nonlocal value
                value, grad, curvature = self.derivatives(scores)
                if self.scorer.bagging_fraction < 1:
                    left_out = rng.random(len(grad)) >= self.scorer.bagging_fraction
                    grad[left_out] = curvature[left_out] = 0.0
                return grad, curvature

            booster.update(fobj=directions)
        else:
            value = self.derivatives.value(_training_scores(booster))
            booster.update()
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
        scores = np.mean([_training_scores(booster) for booster in self.boosters], axis=0)

        def objective(values: FloatArray) -> tuple[float, FloatArray]:
            return self.derivatives.parameter_gradient(self.loss.with_parameters(values), scores)

        start, bounds = self.loss.parameters, self.loss.parameter_bounds
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 10})
        self._with_loss(self.loss.with_parameters(found.x))

    def trained(self) -> Trained:
        """The trees to keep, and the loss with the parameters of that round."""
        self._gather()
        history = self.run.history
        best = history.best_iteration if self.run.best is not None else None
        forest = self.forest if best is None else self.forest.first(self.n_warm + best * self.scorer.members)
        return Trained(FittedTrees(forest, self.data.n_features), self.loss.with_parameters(self.run.result), history)


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


def _training_scores(booster: Any) -> FloatArray:
    """The scores of the training rows as LightGBM has them."""
    kept: list[FloatArray] = []

    def keep(scores: FloatArray, _: Any) -> tuple[str, float, bool]:
        kept.append(np.array(scores, dtype=np.float64))
        return "scores", 0.0, True

    booster.eval_train(feval=keep)
    return kept[0]
