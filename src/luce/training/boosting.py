"""Boosting: LightGBM grows the trees, the loss says where to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from threading import get_ident
from typing import Any, ClassVar, Literal

import numpy as np

from luce.checks import heard, patience
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.scorers.forest import Forest, trees_of
from luce.scorers.trees import FittedTrees, TreesScorer
from luce.spec import option
from luce.training.additive import FRUITLESS, Additive, warn_of_no_split
from luce.training.derivatives import Derivatives
from luce.training.run import Step
from luce.training.task import Stepwise, Task, Trained
from luce.training.weak import TreeSum, drawn_features, leave_out, make_boosters
from luce.types import FittedScorer, FloatArray


class Boosting(Stepwise):
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

    max_iter: int = option(default=100, least=0)
    early_stopping: int | Literal["auto"] | None = option(default="auto", least=1)

    name: ClassVar[str] = "boosting"
    trains: ClassVar[tuple[str, ...]] = ("trees",)

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse a setting of trees that has no effect with this loss."""
        super().check(scorer, loss)
        learns = scorer.reestimate is None or (loss is not None and len(loss.parameters) > 0)
        heard(scorer.name, {"reestimate": (scorer.reestimate, 10)}, learns, "a loss with a tie parameter to be learned")

    def start(self, task: Task) -> Growth:
        """A training before its first round, for who decides himself how many there are."""
        return Growth(self, task).open(self.max_iter, patience(self.early_stopping, task.scorer.learning_rate))


class Growth(Additive):
    """Boosting under way: trees, tie parameter, scores of the validation data."""

    sum: TreeSum

    def __init__(self, trainer: Boosting, task: Task) -> None:
        self.scorer: TreesScorer = task.scorer
        data = task.data
        super().__init__(
            trainer, task, TreeSum(warm_forest(task.warm_start, data.n_features), data.n_features, self.scorer.members)
        )
        self.derivatives: Derivatives | None = None
        """None where LightGBM follows an objective of its own."""
        if self.loss is not None:
            self.derivatives = Derivatives(
                self.loss,
                data.y if task.target is None else task.target,
                data.offsets,
                data.query_weight,
                curvature=self.scorer.curvature,
                floor=self.scorer.curvature_floor,
            )
        self.losses = [0.0] * self.scorer.members
        """Of every member, before its last tree."""
        self.unread: list[list[bool]] = []
        """Of every round whose trees only the boosters have yet, which of them grew one."""

    def begin(self) -> None:
        """Make the boosters, from the scores of the checkpoint where there is one."""
        super().begin()
        scores = self.run.saved.get("scores")
        if scores is None and (self.task.base is not None or self.sum.start.n_trees):
            scores = np.tile(self.first_scores(self.data, self.task.base), (self.scorer.members, 1))
        sizes = np.diff(self.sum.grown().nodes)
        self.fruitless = (len(sizes) - int(np.flatnonzero(sizes).max(initial=-1)) - 1) // self.scorer.members
        """Rounds without a split up to now, as the trees of a checkpoint tell."""
        self.boosters, self.thread = make_boosters(self.scorer, self.data, scores, self.task.bins), get_ident()
        self.rounds = self.run.iteration

    def state(self) -> dict[str, Any]:
        """The scores of every member, too."""
        self._read()
        return {**super().state(), "scores": np.array([_training_scores(booster) for booster in self.boosters])}

    def with_loss(self, loss: Loss) -> None:
        """Go on with this loss."""
        assert self.derivatives is not None
        self.loss = self.derivatives.loss = loss

    def judged(self, vector: FloatArray) -> float:
        """The metric of all trees up to now."""
        self._read()
        return super().judged(vector)

    def steps(self) -> Iterator[Step]:
        """One tree of every member a round."""
        while not self.spent:
            self.grow()
            objective = self.losses if self.loss is not None else list(map(_own_objective, self.boosters))
            yield Step(self.parameters, float(np.mean(objective)))

    def grow(self) -> None:
        """One round that nobody is told of."""
        if self.loss is not None and self.derivatives is not None:
            self.derivatives.loss = self.loss.reseeded(self.rounds)
        before = [booster.current_iteration() for booster in self.boosters]
        split = []
        for member in range(self.scorer.members):
            drawn = [self.task.seed, self.rounds] + ([member] if member else [])
            split.append(self._grow(member, np.random.default_rng(drawn)))
        self.unread.append([booster.current_iteration() > n for booster, n in zip(self.boosters, before, strict=True)])
        self._note(any(split))
        self.rounds += 1
        due = self.scorer.reestimate and self.rounds % self.scorer.reestimate == 0
        if due and self.derivatives is not None and len(self.parameters):
            self.reestimate(partial(self.derivatives.gradients, self._scores()))

    @property
    def spent(self) -> bool:
        """True where no later round can grow a tree."""
        draws = min(self.scorer.feature_fraction, self.scorer.bagging_fraction) < 1
        draws = draws or (self.loss is not None and self.loss.stochastic)
        return bool(self.fruitless >= (FRUITLESS if draws else 1))

    def _grow(self, member: int, rng: np.random.Generator) -> bool:
        """One more tree of a member; False where there is no split."""
        booster = self.boosters[member]
        drawn = drawn_features(self.scorer, rng, self.data.n_features) if self.scorer.feature_fraction < 1 else {}
        if drawn or self.thread != get_ident():
            # How much LightGBM says is a setting of the thread, and this one need not have made the booster.
            self.thread = get_ident()
            booster.reset_parameter({"verbosity": self.scorer.engine.get("verbosity", -1), **drawn})
        derivatives = self.derivatives
        if derivatives is None:
            return not booster.update()

        def directions(scores: FloatArray, _: Any) -> tuple[Any, Any]:
            self.losses[member], grad, curvature = derivatives(scores)
            leave_out(self.scorer, rng, grad, curvature)
            return grad, curvature

        return not booster.update(fobj=directions)

    def _read(self) -> None:
        """Take over the trees that only the boosters have, a leaf of 0 where there was no split: trees and rounds stay
        in step. Texts of trees are long, and one of many costs less than many of one."""
        if not self.unread:
            return
        share, grown = 1.0 / self.scorer.members, np.sum(self.unread, axis=0).tolist()
        found = [
            iter(trees_of(booster, booster.current_iteration() - n))
            for booster, n in zip(self.boosters, grown, strict=True)
        ]
        new = []
        for has_tree in self.unread:
            trees = [next(own) if has else Forest.empty() for own, has in zip(found, has_tree, strict=True)]
            new += [tree.scaled(share) if len(tree.feature) else Forest.constant(0.0) for tree in trees]
        joined = Forest.joined(new)
        self.sum.trees.append(joined)
        self.unread = []
        if self.valid is not None:
            joined.add_scores(self.valid.X, self.valid_scores)

    def _note(self, split: bool) -> None:
        if split:
            self.fruitless = 0
            return
        if self.fruitless == 0:
            least = 2 * self.scorer.least_in_leaf(self.data.n_rows)
            warn_of_no_split(self.rounds + 1, f"than 2 x min_data_in_leaf = {least} documents).")
        self.fruitless += 1

    def whole(self) -> Forest:
        """All trees up to now."""
        self._read()
        return self.sum.fitted().forest

    def trained(self) -> Trained:
        """With the scores of the training rows, where all trees are kept."""
        self._read()
        return super().trained()._replace(scores=self._scores() if self.kept is None else None)

    def _scores(self) -> FloatArray:
        """Of the training rows, base scores and all trees up to now."""
        return np.asarray(np.mean([_training_scores(booster) for booster in self.boosters], axis=0))


def warm_forest(warm: FittedScorer | None, n_features: int) -> Forest:
    """The trees to go on from, none unless the earlier scorer has some."""
    if not isinstance(warm, FittedTrees):
        return Forest.empty()
    if warm.n_features != n_features:
        raise SettingError(f"The trees to go on from have {warm.n_features} features, and the data {n_features}.")
    return warm.forest


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
