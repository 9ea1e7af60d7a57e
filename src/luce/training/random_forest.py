"""Random forest: scikit-learn grows the trees on the grades, luce keeps and scores them."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from luce.checks import whole
from luce.errors import DataError, SettingError
from luce.numerics.segments import n_threads, query_index
from luce.scorers.forest import Forest
from luce.scorers.trees import FittedTrees
from luce.training.task import Algorithm, Task, Trained


@dataclass(frozen=True)
class RandomForest(Algorithm):
    r"""A random forest of regression trees on the grades, grown by scikit-learn.

    The mean of trees, each grown on a bootstrap sample of the documents with the grade as target.

    The objective of the history is half the mean squared error on the training set. More trees never overfit, so that
    validation data are only reported on.

    Parameters
    ----------
    trees
        Number of trees.
    max_features
        Share of the features that a split may choose from.
    min_samples_leaf
        Documents of a leaf at least.
    """

    trees: int = 200
    max_features: float = 0.3
    min_samples_leaf: int = 5

    name: ClassVar[str] = "random_forest"

    def __post_init__(self) -> None:
        whole("trees", self.trees, 1)
        whole("min_samples_leaf", self.min_samples_leaf, 1, 2**31)
        if not (isinstance(self.max_features, Real) and 0 < self.max_features <= 1):
            raise SettingError(f"max_features is {self.max_features!r}; it must be above 0 and at most 1.")

    def train(self, task: Task) -> Trained:
        """Tree after tree."""
        self.check_task(task)
        data = task.data
        from sklearn.ensemble import RandomForestRegressor

        if not np.isfinite(data.X).all():
            raise DataError("The features have NaN or infinite values; a random forest needs finite ones: fill them.")
        weight = None if data.query_weight is None else data.query_weight[query_index(data.offsets)]
        grower = RandomForestRegressor(
            n_estimators=self.trees,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            random_state=task.seed,
            n_jobs=n_threads(),
        ).fit(data.X, data.y, sample_weight=weight)
        forest = Forest.joined([forest_of(tree.tree_, self.trees) for tree in grower.estimators_])
        fitted = FittedTrees(forest, data.n_features)
        run = task.start_run(1, None, lambda _: task.judged_scorer(fitted))
        residual = data.y - fitted.score(data.X, data.offsets)
        run.step(run.last, float(np.average(residual**2, weights=weight)) / 2)
        run.history.converged = True
        return Trained(fitted, None, run.history)


def forest_of(tree: Any, n_trees: int) -> Forest:
    """A tree of scikit-learn as arrays of luce, its values divided by the number of trees."""
    left, right = tree.children_left, tree.children_right
    inner = left >= 0
    # Nodes and leaves share one numbering there and have two here; both keep the order.
    number = np.where(inner, np.cumsum(inner) - 1, -np.cumsum(~inner))
    impurity = tree.weighted_n_node_samples * tree.impurity
    gain = (impurity - impurity[left] - impurity[right])[inner]
    n_nodes = int(inner.sum())
    return Forest(
        nodes=np.array([0, n_nodes]),
        leaves=np.array([0, n_nodes + 1]),
        feature=tree.feature[inner].astype(np.int32),
        threshold=tree.threshold[inner].astype(np.float64),
        left=number[left[inner]].astype(np.int32),
        right=number[right[inner]].astype(np.int32),
        kind=np.zeros(n_nodes, dtype=np.uint8),
        gain=np.maximum(gain, 0.0) / n_trees,
        value=tree.value[~inner, 0, 0] / n_trees,
        sets=np.zeros(1, dtype=np.int64),
        bits=np.zeros(0, dtype=np.uint32),
    )
