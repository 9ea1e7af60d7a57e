"""Rankers that are trained by an algorithm and a criterion of their own: the settings of each.

A loss says nothing to them: `Ranker.loss` is not used. `training` names the algorithm, which lives in `luce.training`;
what it returns is a linear scorer or a sum of steps.
"""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

from luce.checks import whole
from luce.errors import SettingError

__all__ = ["AdaRank", "CoordinateAscent", "FRank", "LinearRegression", "RandomForest", "RankBoost"]

_WEIGHTINGS = ("pairs", "queries")


class _OwnCriterion:
    """A scorer that no loss trains."""

    own_criterion: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in vars(self).items())})"


class RankBoost(_OwnCriterion):
    """Boosted steps in single features on the exponential loss of pairs (Freund et al., 2003).

    Parameters
    ----------
    thresholds
        Candidates a feature, 1 to 254: all values where there are no more, else quantiles.
    weighting
        "pairs": every pair of documents of different grade counts the same; "queries": every query does.
    """

    name = training = "rankboost"
    takes_missing: ClassVar[bool] = True

    def __init__(self, thresholds: int = 254, weighting: str = "pairs") -> None:
        self.thresholds = whole("thresholds", thresholds, 1, 254)
        if weighting not in _WEIGHTINGS:
            raise SettingError(f"weighting is {weighting!r}; it must be one of {', '.join(_WEIGHTINGS)}.")
        self.weighting = weighting


class FRank(_OwnCriterion):
    """Boosted steps in single features on the fidelity loss (Tsai et al., 2007).

    Parameters
    ----------
    thresholds
        Candidates a feature, 1 to 254: all values where there are no more, else quantiles.
    shortlist
        The most promising steps of a round whose fidelity loss is computed in full.
    """

    name = training = "frank"
    takes_missing: ClassVar[bool] = True

    def __init__(self, thresholds: int = 64, shortlist: int = 8) -> None:
        self.thresholds = whole("thresholds", thresholds, 1, 254)
        self.shortlist = whole("shortlist", shortlist, 1)


class AdaRank(_OwnCriterion):
    """Boosted single features on a metric (Xu and Li, 2007).

    Parameters
    ----------
    metric
        The metric that weighs queries and features; None is the `metric` of the ranker.
    both_directions
        Whether a feature may also be taken with small values first; Freund et al. take large ones only.
    """

    name = training = "adarank"

    def __init__(self, metric: str | None = None, both_directions: bool = True) -> None:
        self.metric, self.both_directions = metric, both_directions


class CoordinateAscent(_OwnCriterion):
    """A linear scorer by line searches on a metric, one weight after the other (Metzler and Croft, 2007).

    Parameters
    ----------
    restarts
        Searches from random weights after the first one, which starts from equal weights.
    metric
        The metric to maximise; None is the `metric` of the ranker.
    """

    name = training = "coordinate_ascent"

    def __init__(self, restarts: int = 2, metric: str | None = None) -> None:
        self.restarts = whole("restarts", restarts, 0)
        self.metric = metric


class LinearRegression(_OwnCriterion):
    """A linear scorer by least squares: grades are the target, whatever the query."""

    name = training = "linear_regression"


class RandomForest(_OwnCriterion):
    """A random forest of regression trees on the grades, grown by scikit-learn.

    Parameters
    ----------
    trees
        Number of trees.
    max_features
        Share of the features that a split may choose from.
    min_samples_leaf
        Documents of a leaf at least.
    """

    name = training = "random_forest"

    def __init__(self, trees: int = 200, max_features: float = 0.3, min_samples_leaf: int = 5) -> None:
        self.trees = whole("trees", trees, 1)
        if not (isinstance(max_features, Real) and 0 < max_features <= 1):
            raise SettingError(f"max_features is {max_features!r}; it must be above 0 and at most 1.")
        self.max_features: float = float(max_features)
        self.min_samples_leaf: int = whole("min_samples_leaf", min_samples_leaf, 1)
