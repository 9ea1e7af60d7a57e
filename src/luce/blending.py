r"""One ranker from several: the mean of their scores, each on a scale of its own.

Models that are wrong in different ways are better together. With $f_m$ the score of model m and $s_m$ its mean standard
deviation within a query, the blend is

$$f(x) = \frac{c}{M} \sum_m \frac{f_m(x)}{s_m},$$

where $c$ is the scale of the least loss, so that the probabilities of the loss are those of the blend. Sums of trees
are trees and sums of linear scores are linear: a blend is an ordinary ranker, with a linear base where it needs one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from luce.base import make_base
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.losses.base import Loss
from luce.ranker import Ranker
from luce.scorers.forest import Forest
from luce.scorers.linear import FittedLinear
from luce.scorers.trees import FittedTrees
from luce.types import FloatArray

__all__ = ["blend"]


def blend(models: Sequence[Ranker], data: Groups) -> Ranker:
    """The mean of fitted models with the scorers `trees` and `linear`; loss and settings are those of the first.

    `data` says how far the scores of each model spread and what scale suits the loss, two or three numbers in all:
    the validation data are best, the training data will do.

    >>> from luce.data.simulate import simulate
    >>> data = simulate(queries=60, features=8, seed=0)
    >>> trees = Ranker(scorer="trees", max_iter=10).fit(data)
    >>> both = blend([trees, Ranker().fit(data)], data)
    >>> both.score(data) > trees.score(data)
    True
    """
    if not models:
        raise SettingError("A blend needs at least one fitted model; got none.")
    for model in models:
        _check(model, models[0])
    scores = [model.predict(data) for model in models]
    spread = np.array([_spread(one, data) for one in scores])
    share = np.divide(1.0, len(models) * spread, out=np.zeros(len(models)), where=spread > 0)
    scale, loss = _fit_scale(models[0].loss_, np.tensordot(share, scores, 1), data)
    return _joined(models, scale * share, loss)


def _check(model: Ranker, first: Ranker) -> None:
    if not isinstance(getattr(model, "scorer_", None), FittedTrees | FittedLinear):
        raise SettingError(f"A blend takes fitted models with the scorers trees and linear; {model!r} is none.")
    if model.base_ is not None or model.on_scores_ or model.query_norm is not None:
        raise SettingError(f"A blend takes models without base and query_norm; {model!r} has one of them.")
    if model.filling_ is not None and not model.filling_.is_plain:
        raise SettingError(f"A blend takes models of numbers without gaps; {model!r} fills gaps or has categories.")
    if model.feature_names_ != first.feature_names_:
        raise DataError("The models of a blend must be trained on the same features in the same order.")


def _spread(scores: FloatArray, data: Groups) -> float:
    """Mean standard deviation of the scores within a query."""
    starts = data.offsets[:-1]
    mean = np.add.reduceat(scores, starts) / data.sizes
    variance = np.add.reduceat((scores - np.repeat(mean, data.sizes)) ** 2, starts) / data.sizes
    return float(np.sqrt(variance).mean())


def _fit_scale(loss: Loss | None, scores: FloatArray, data: Groups) -> tuple[float, Loss | None]:
    """The factor of the scores, with the parameters of the loss itself, at which the loss is least; 1 without one."""
    if loss is None:
        return 1.0, None

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        scaled = np.exp(vector[0]) * scores
        value, grad, d_parameters = loss.with_parameters(vector[1:]).value_and_grads(scaled, data.y, data.offsets)
        return value / data.n_queries, np.append(grad @ scaled, d_parameters) / data.n_queries

    start = np.append(0.0, loss.parameters)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(-7.0, 7.0), *loss.parameter_bounds])
    return float(np.exp(found.x[0])), loss.with_parameters(found.x[1:])


def _joined(models: Sequence[Ranker], factors: FloatArray, loss: Loss | None) -> Ranker:
    forests: list[tuple[Ranker, Forest]] = []
    linear: list[tuple[Ranker, FittedLinear]] = []
    for model, factor in zip(models, map(float, factors), strict=True):
        scorer = model.scorer_
        if isinstance(scorer, FittedTrees):
            forests.append((model, scorer.forest.scaled(factor)))
        elif isinstance(scorer, FittedLinear):
            weighted = replace(scorer, weights=factor * scorer.weights, intercept=factor * scorer.intercept)
            linear.append((model, weighted))
    below = None
    if linear:
        weights = np.sum([scorer.weights for _, scorer in linear], axis=0)
        intercept = float(sum(scorer.intercept for _, scorer in linear))
        below = _fitted(linear[0][0], replace(linear[0][1], weights=weights, intercept=intercept), models[0], loss)
    if below is not None and not forests:
        return below
    trees = FittedTrees(Forest.joined([forest for _, forest in forests]), models[0].n_features_in_)
    result = _fitted(forests[0][0], trees, models[0], loss)
    result.base, result.base_ = below, make_base(below)
    return result


def _fitted(settings: Ranker, scorer: FittedTrees | FittedLinear, first: Ranker, loss: Loss | None) -> Ranker:
    """A ranker with that scorer; its loss and what it knows of the labels are those of the first model."""
    result = copy.copy(settings)
    result.scorer_, result.loss_ = scorer, loss
    result.loss = first.loss
    result.parts_ = replace(settings.parts_, loss=first.parts_.loss)
    result.sizes_, result.max_grade_ = first.sizes_, first.max_grade_
    result.history_ = {"objective": [], "validation": [], "converged": True, "best_iteration": None}
    return result
