"""Regressions on the grades: least squares in closed form, a random forest, and monotone retargeting of either."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from luce.data.groups import Groups
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.losses.ndcg import NDCGMix, NDCGSquare
from luce.losses.retargeting import levels_of, nearest_targets
from luce.numerics.segments import Chunk, chunk_queries, map_chunks, query_index
from luce.numerics.threads import n_threads
from luce.scorers.forest import Forest
from luce.scorers.linear import FittedLinear, LinearScorer, refuse_gaps
from luce.scorers.trees import FittedTrees, TreesScorer
from luce.spec import Range, option
from luce.training.boosting import Boosting
from luce.training.task import L2, Algorithm, Task, Trained, Trainer
from luce.types import FittedScorer, FloatArray

_BLOCK_ROWS = 8192


class LinearRegression(Algorithm):
    r"""A linear scorer by least squares: grades are the target, whatever the query.

    The minimum of $\frac{1}{2 \sum_i v_i} \sum_i v_i (y_i - b - w \cdot z_i)^2 + \frac{l2}{2} \|w\|^2$.

    $z$ are the standardised features and $v_i$ the weight of the document's query; solved in closed form. Where the
    features depend on each other and `l2` is 0, $w$ is the shortest solution.

    Parameters
    ----------
    l2
        Strength of the penalty.
    """

    l2: float = option(default=0.01, least=0, tune=L2)

    name: ClassVar[str] = "linear_regression"

    def train(self, task: Task) -> Trained:
        """In closed form."""
        self.check_task(task)
        data = task.data
        bound = LinearScorer().bind(data)
        weight = np.ones(data.n_rows) if data.query_weight is None else data.query_weight[query_index(data.offsets)]
        weight = weight / weight.sum()
        moments = _moments(bound, data, weight)
        means, gram = moments[-1, :-2], moments[:-2, :-2]
        mean_y = moments[-1, -2]
        covariance = gram - np.outer(means, means)
        slope = moments[-2, :-2] - mean_y * means
        w = np.linalg.lstsq(covariance + self.l2 * np.eye(len(means)), slope, rcond=1e-10)[0]
        plain = bound.fitted(w)
        fitted = FittedLinear(plain.weights, float(plain.intercept + mean_y - means @ w), plain.inverse_sd)
        residual = moments[-2, -2] - mean_y**2 - 2 * w @ slope + w @ covariance @ w
        return task.trained_at_once(fitted, float(residual + self.l2 * w @ w) / 2)


class ClosedForm(Trainer):
    r"""The minimum of `ndcg_square` on the linear scorer, where [Pareek] (3.26) has a closed form.

    $\phi = \|s\|^2 / (4 \alpha) - \langle \tilde r, s \rangle$ with $s = Z w + b$ is a square in w and the offset b, so
    that $(Z^\top C Z / 2 \alpha + l2\, I) w = Z^\top C (\tilde r - b / 2 \alpha)$ with the weights C of the queries.

    Parameters
    ----------
    l2
        Strength of the penalty.
    """

    l2: float = option(default=0.01, least=0, tune=L2)

    name: ClassVar[str] = "closed_form"
    refuses: ClassVar[tuple[str, ...]] = Algorithm.refuses

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse what has no closed form."""
        alone = isinstance(loss, NDCGSquare)
        if isinstance(loss, NDCGMix) and not loss.chooses_alpha:
            alone = [name for name, weight in zip(loss.names, loss.alpha, strict=True) if weight > 0] == ["square"]
        if not alone or getattr(loss, "link", None) is not None or scorer.name != "linear":
            raise SettingError(
                f"The trainer {self.name!r} solves the loss 'ndcg_square', or 'ndcg_mix' of the square alone, without "
                f"a link, for the scorer 'linear'; {getattr(loss, 'name', loss)!r} on {scorer.name!r} needs another."
            )

    def train(self, task: Task) -> Trained:
        """One system of equations."""
        self.check_task(task)
        loss: Any = task.given_loss
        alpha = 1.0 if isinstance(loss, NDCGSquare) else float(loss.alpha.sum())
        gains = loss.prepare(task.data.y, task.data.offsets)
        weight = np.ones(task.data.n_queries) if task.data.query_weight is None else task.data.query_weight
        share = np.repeat(weight / weight.sum() * gains.counted, task.data.sizes)
        bound = LinearScorer().bind(task.data)
        moments = _moments(bound, replace(task.data, y=gains.target), share)
        square, right = np.delete(np.delete(moments, -2, 0), -2, 1) / (2 * alpha), np.delete(moments[-2], -2)
        n = len(right) - 1
        square[:n, :n] += self.l2 * np.eye(n)
        if loss.learns_offset:
            found = np.linalg.lstsq(square, right, rcond=1e-12)[0]
            w, loss = found[:n], loss.with_parameters(found[n:] / loss.score_unit)
        else:
            w = np.linalg.lstsq(square[:n, :n], right[:n] - square[:n, n] * loss.offset, rcond=1e-12)[0]
        fitted, at = bound.fitted(w), np.append(w, loss.offset)
        return task.trained_at_once(fitted, float(0.5 * at @ square @ at - right @ at), loss)


def _moments(bound: LinearScorer, data: Groups, weight: FloatArray) -> FloatArray:
    """The matrix of weighted mean products of standardised features, label and 1, block by block of rows."""

    def block(_: int, chunk: Chunk) -> FloatArray:
        rows = slice(data.offsets[chunk[0]], data.offsets[chunk[1]])
        Z = bound.scale(data.X[rows])
        Z = np.column_stack([Z, data.y[rows], np.ones(len(Z))])
        return (Z * weight[rows, None]).T @ Z

    return np.asarray(np.sum(map_chunks(block, chunk_queries(data.offsets, _BLOCK_ROWS)), axis=0))


_LEAF = 50
"""Documents of a leaf of a forest; 5 of them rank worse on OHSUMED and MQ2008 (see the page on listwise functions)."""


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
        Documents of a leaf at least; None: 50, or a twentieth of the documents where that is fewer.
    """

    trees: int = option(default=200, least=1)
    max_features: float = option(default=0.3, above=0, most=1, tune=Range(0.05, 0.8))
    min_samples_leaf: int | None = option(default=None, least=1, most=2**31, tune=Range(1, 100, whole=True))

    name: ClassVar[str] = "random_forest"

    def train(self, task: Task) -> Trained:
        """Tree after tree."""
        self.check_task(task)
        data = task.data
        from sklearn.ensemble import RandomForestRegressor

        refuse_gaps(~np.isfinite(data.X).all(axis=0))
        weight = None if data.query_weight is None else data.query_weight[query_index(data.offsets)]
        grower = RandomForestRegressor(
            n_estimators=self.trees,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf or min(_LEAF, max(1, data.n_rows // 20)),
            random_state=task.seed,
            n_jobs=n_threads(),
        ).fit(data.X, data.y, sample_weight=weight)
        forest = Forest.joined([forest_of(tree.tree_, self.trees) for tree in grower.estimators_])
        fitted = FittedTrees(forest, data.n_features)
        residual = data.y - fitted.score(data.X, data.offsets)
        return task.trained_at_once(fitted, float(np.average(residual**2, weights=weight)) / 2)


def forest_of(tree: Any, n_trees: int) -> Forest:
    """A tree of scikit-learn as arrays of luce, its values divided by the number of trees."""
    left, right = tree.children_left, tree.children_right
    inner = left >= 0
    # Nodes and leaves share one numbering there and have two here; both keep the order.
    number = np.where(inner, np.cumsum(inner) - 1, -np.cumsum(~inner))
    impurity = tree.weighted_n_node_samples * tree.impurity
    gain = (impurity - impurity[left] - impurity[right])[inner]
    return Forest.tree(
        feature=tree.feature[inner],
        threshold=tree.threshold[inner],
        left=number[left[inner]],
        right=number[right[inner]],
        gain=np.maximum(gain, 0.0) / n_trees,
        value=tree.value[~inner, 0, 0] / n_trees,
    )


_OF_REGRESSION = (lambda own: own.regressor == "linear_regression", "regressor='linear_regression'")


class Retargeting(Algorithm):
    r"""A regression on targets that need only be in the order of the grades, [Pareek] chapter 7.

    Each round fits the regressor to the targets, then takes as targets the nearest to its scores that are in the order
    of the grades. For scorers that a loss trains, the loss `monotone_retargeting` does both at once. With validation
    data the best round is kept.

    Parameters
    ----------
    regressor
        linear_regression, random_forest or mart, with its usual settings.
    margin
        How far targets of neighbouring grades of a query are apart.
    max_iter, early_stopping
        Rounds at most, and rounds without a better validation metric that end it (None: never).
    tol
        Ends it where a round moves the targets by less than this share of the margin on average.
    l2
        Penalty of linear_regression.
    """

    regressor: Literal["linear_regression", "random_forest", "mart"] = "random_forest"
    margin: float = option(default=1.0, above=0, tune=Range(0.1, 10.0))
    max_iter: int = option(default=10, least=1)
    early_stopping: int | None = option(default=3, least=1)
    tol: float = option(default=1e-3, least=0)
    l2: float = option(default=0.01, least=0, needs=_OF_REGRESSION, tune=L2)

    name: ClassVar[str] = "retargeting"

    def train(self, task: Task) -> Trained:
        """Round after round."""
        self.check_task(task)
        data = task.data
        levels = levels_of(data.y, data.offsets)
        targets: FloatArray = np.float64(self.margin) * levels.level.astype(np.float64)
        regressor: Any = LinearRegression(self.l2) if self.regressor == "linear_regression" else RandomForest()
        scorer = None
        if self.regressor == "mart":
            regressor, scorer = Boosting(), TreesScorer(objective="regression")
        found: list[FittedScorer] = []
        run = task.start_run(self.max_iter, self.early_stopping, lambda _: task.judged_scorer(found[-1]))
        while run.goes_on:
            again = replace(task, data=replace(data, y=targets), valid=None, progress=None, scorer=scorer)
            found.append(fitted := regressor.train(again).scorer)
            scores = fitted.score(data.X, data.offsets)
            moved = nearest_targets(scores, levels, float(self.margin))
            value = 0.5 * float(np.sum((scores - moved) ** 2)) / data.n_queries
            run.step(np.empty(0), value)
            still = float(np.abs(moved - targets).mean()) < self.tol * self.margin
            targets = moved
            if still:
                run.history.converged = True
                break
        best = run.history.best_iteration
        return Trained(found[-1 if best is None else best - 1], None, run.history)
