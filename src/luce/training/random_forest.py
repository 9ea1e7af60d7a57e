"""Random forest: scikit-learn grows the trees on the grades, luce keeps and scores them."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.data.groups import Groups
from luce.errors import DataError
from luce.losses.base import Loss
from luce.numerics.segments import n_threads, query_index
from luce.scorers.base_rankers import RandomForest
from luce.scorers.forest import Forest
from luce.scorers.trees import FittedTrees
from luce.training.own_criterion import check_options, start_run, valid_metric
from luce.training.train import Options, Trained
from luce.types import FloatArray

__all__ = ["fit", "forest_of"]


def fit(
    scorer: RandomForest, loss: Loss, data: Groups, valid: Groups | None, options: Options, target: Any = None
) -> Trained:
    r"""The mean of trees, each grown on a bootstrap sample of the documents with the grade as target.

    The objective of the history is half the mean squared error on the training set. More trees never overfit, so that
    validation data are only reported on and `max_iter` is not used.
    """
    from sklearn.ensemble import RandomForestRegressor

    check_options(scorer.name, options, target)
    if not np.isfinite(data.X).all():
        raise DataError("The features have NaN or infinite values; a random forest needs finite ones: fill them in.")
    weight = None if data.query_weight is None else data.query_weight[query_index(data.offsets)]
    grower = RandomForestRegressor(
        n_estimators=scorer.trees,
        max_features=scorer.max_features,
        min_samples_leaf=scorer.min_samples_leaf,
        random_state=options.seed,
        n_jobs=n_threads(),
    ).fit(data.X, data.y, sample_weight=weight)
    forest = Forest.joined([forest_of(tree.tree_, scorer.trees) for tree in grower.estimators_])
    fitted = FittedTrees(forest, data.n_features)

    def validate(_: FloatArray) -> float:
        assert valid is not None
        return valid_metric(fitted.score(valid.X, valid.offsets), valid, options)

    run = start_run(options, None if valid is None else validate)
    residual = data.y - fitted.score(data.X, data.offsets)
    run.step(run.last, float(np.average(residual**2, weights=weight)) / 2)
    run.history.converged = True
    return Trained(fitted, loss, run.history)


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
