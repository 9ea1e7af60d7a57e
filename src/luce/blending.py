r"""One ranker from several: the weighted mean of their scores, each on a scale of its own.

Models that are wrong in different ways are better together. With $f_m$ the score of model m, $s_m$ its deviation within
queries and $w_m$ its weight, the blend is

$$f(x) = c \sum_m w_m \frac{f_m(x)}{s_m},$$

where $c$ is the scale of the least loss, so that the probabilities of the loss are those of the blend. The weights are
those of `luce.auto.weights`: by the metric where there are many queries, and equal where there are few. Sums of trees
are trees and sums of linear scores are linear: a blend is an ordinary ranker, with a linear base where it needs one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from luce.auto.crossfit import summed
from luce.auto.weights import fit_scale, learned, spread, value_blends
from luce.base import make_base
from luce.data.filling import Filling
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.losses.base import Loss
from luce.ranker import Ranker
from luce.scorers.linear import FittedLinear
from luce.scorers.trees import FittedTrees
from luce.types import FloatArray


def blend(models: Sequence[Ranker], data: Groups, *, weights: str = "learned", random_state: int = 0) -> Ranker:
    """One ranker from fitted models with the scorers `trees` and `linear`; loss and settings are those of the first.

    `data` say how far the scores of each model spread, what scale suits the loss, and by the metric of the first model
    what each model counts: they must be queries that no model was trained on, such as the validation data, and judge
    nothing afterwards. `weights="equal"` asks less of them: all models count alike, and the training data will do.
    `luce.model("auto")` fits its models by folds, so that no query is kept apart.

    >>> from luce.data.simulate import simulate, split
    >>> train, valid, test = split(simulate(queries=150, features=8, seed=0), [0.4, 0.3, 0.3])
    >>> trees, linear = Ranker(scorer="trees", max_iter=10).fit(train), Ranker().fit(train)
    >>> blend([trees, linear], valid).score(test) > min(trees.score(test), linear.score(test))
    True
    """
    if not isinstance(models, list | tuple):
        raise SettingError(f"The models of a blend are {type(models).__name__}; give a list of fitted models.")
    if not isinstance(data, Groups):
        raise SettingError(f"The data of a blend are {type(data).__name__}; give Groups (luce.read, luce.from_frame).")
    if not models:
        raise SettingError("A blend needs at least one fitted model; got none.")
    if weights not in ("learned", "equal"):
        raise SettingError(f"weights is {weights!r}; it must be 'learned' or 'equal'.")
    for model in models:
        _check(model, models[0])
    scores = np.stack([model.predict(data) for model in models])
    width = np.array([spread(one, data) for one in scores])
    if not width.any():
        raise DataError("All models give the documents of a query the same score, so that there is nothing to blend.")
    kept = [i for i, one in enumerate(width) if one > 0]
    units = scores[kept] / width[kept, None]
    if weights == "equal":
        shares = np.full(len(units), 1.0 / len(units))
    else:
        rng = np.random.default_rng(random_state)
        valued = value_blends(units, data, models[0].parts_.metric, rng)
        shares = learned(valued, np.arange(valued.values.shape[1]), rng).weights
    scale, loss = (1.0, None) if models[0].loss_ is None else fit_scale(models[0].loss_, shares @ units, data)
    factors = np.zeros(len(models))
    factors[kept] = scale * shares / width[kept]
    return joined_models(models, factors, loss)


def _check(model: Ranker, first: Ranker) -> None:
    if not isinstance(getattr(model, "scorer_", None), FittedTrees | FittedLinear):
        raise SettingError(f"A blend takes fitted models with the scorers trees and linear; {model!r} is none.")
    if model.base_ is not None or model.on_scores_ or model.query_norm is not None:
        raise SettingError(f"A blend takes models without base and query_norm; {model!r} has one of them.")
    if model.feature_names_ != first.feature_names_:
        raise DataError("The models of a blend must be trained on the same features in the same order.")
    if _categories(model) != _categories(first):
        raise DataError("The models of a blend must know the same categories; give the schema of one to the others.")


def _categories(model: Ranker) -> dict[int, tuple[str, ...]]:
    return {} if model.schema_ is None else dict(model.schema_.categories)


def can_join(model: Ranker, first: Ranker) -> bool:
    """Whether a sum of the scores of two models is one ranker."""
    try:
        _check(model, first)
    except (SettingError, DataError):
        return False
    return True


def joined_models(models: Sequence[Ranker], factors: FloatArray, loss: Loss | None) -> Ranker:
    """One ranker whose scores are those of the models times these factors."""
    of_trees = [model for model in models if isinstance(model.scorer_, FittedTrees)]
    of_linear = [model for model in models if isinstance(model.scorer_, FittedLinear)]
    filling, linear_scores = _on_one_filling(of_linear)
    scored = iter(linear_scores)
    parts = [model.scorer_.forest if isinstance(model.scorer_, FittedTrees) else next(scored) for model in models]
    forest, linear = summed(parts, factors.tolist())
    below = None
    if linear is not None:
        below = _fitted(of_linear[0], linear, models[0], loss)
        below.filling_ = filling
    if not of_trees:
        assert below is not None
        return below
    result = _fitted(of_trees[0], FittedTrees(forest, models[0].n_features_in_), models[0], loss)
    result.base, result.base_ = below, make_base(below)
    return result


def _on_one_filling(models: Sequence[Ranker]) -> tuple[Filling | None, list[FittedLinear]]:
    r"""Linear scores over the columns of one filling of gaps, which is that of all of them together.

    A gap adds $w_m \tilde x_m$ with the median $\tilde x_m$ of the model: where medians differ, an indicator of the gap
    adds the difference, so that no score changes.
    """
    fillings = [model.filling_ for model in models if model.filling_ is not None]
    if not fillings:
        return None, [model.scorer_ for model in models]
    if len(fillings) < len(models):
        raise DataError("Some linear models of the blend fill gaps and others know none; train all on the same table.")
    width = len(fillings[0].medians)
    differs = [j for j in range(width) if len({filling.medians[j] for filling in fillings}) > 1]
    marked = tuple(sorted({j for filling in fillings for j in filling.marked}.union(differs)))
    joined = replace(fillings[0], marked=marked)
    return joined, [_moved(model.scorer_, filling, joined) for model, filling in zip(models, fillings, strict=True)]


def _moved(scorer: FittedLinear, own: Filling, joined: Filling) -> FittedLinear:
    """A linear score over the columns of another filling, which marks the gaps of at least as many features."""
    numbers, first = own.categories.count(0), own.categories.count(0) + len(own.marked)
    place = {j: i for i, j in enumerate(j for j, count in enumerate(own.categories) if not count)}
    gaps = dict(zip(own.marked, scorer.weights[numbers:first].tolist(), strict=True))
    moved = [
        gaps.get(j, 0.0) + scorer.weights[place[j]] * ((own.medians[j] or 0.0) - (joined.medians[j] or 0.0))
        for j in joined.marked
    ]
    deviation = dict(zip(own.marked, scorer.inverse_sd[numbers:first].tolist(), strict=True))
    weights = np.concatenate([scorer.weights[:numbers], moved, scorer.weights[first:]])
    spreads = [deviation.get(j, 0.0) for j in joined.marked]
    inverse_sd = np.concatenate([scorer.inverse_sd[:numbers], spreads, scorer.inverse_sd[first:]])
    return replace(scorer, weights=weights, inverse_sd=inverse_sd)


def _fitted(settings: Ranker, scorer: FittedTrees | FittedLinear, first: Ranker, loss: Loss | None) -> Ranker:
    """A ranker with that scorer; its loss and what it knows of the labels are those of the first model."""
    result = copy.copy(settings)
    result.scorer_, result.loss_ = scorer, loss
    result.loss = first.loss
    result.parts_ = replace(settings.parts_, loss=first.parts_.loss)
    result.sizes_, result.max_grade_ = first.sizes_, first.max_grade_
    result.history_ = {"objective": [], "validation": [], "converged": True, "best_iteration": None}
    return result
