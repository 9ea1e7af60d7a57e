"""Scorers of listwise boosting: what is added to the score in every round. The algorithm lives in `luce.training`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from luce.checks import one_of, whole
from luce.errors import SettingError
from luce.scorers.trees import TreesScorer

STEPS = ("newton", "unit", "constant")


@dataclass(frozen=True)
class SingleFeature:
    r"""One feature a round, $h(x) = x_k$: boosting is coordinate descent on a linear scorer, with early stopping.

    Parameters
    ----------
    standardise
        True takes $(x_k - \mu_k) / \sigma_k$ of the training set. False takes features as they are, as the chapter
        does: for features that are normalised already and whose zero means something.
    constant
        Whether the constant is among the weak learners, so that the scorer gets an intercept.
    learning_rate
        Share of the step that the line search found.
    step
        How far a round goes: "newton" searches from Newton's step along h; "unit" from $\eta = 1$ in [Pareek] (3.19),
        as the chapter does; "constant" takes $\eta = 1$, the tree itself, without a search.
    """

    standardise: bool = True
    constant: bool = False
    learning_rate: float = 1.0
    step: str = "newton"

    name: ClassVar[str] = "single_feature"
    trainer: ClassVar[str] = "listwise_boosting"

    def __post_init__(self) -> None:
        _check_rate(self.learning_rate)
        one_of("step", self.step, STEPS)


@dataclass(frozen=True)
class SingleStump:
    r"""One step a round, $h(x) = [x_k > \theta]$.

    Parameters
    ----------
    thresholds
        Candidates a feature, 1 to 254: all values where there are no more, else quantiles.
    learning_rate
        Share of the step that the line search found.
    step
        How far a round goes: "newton" searches from Newton's step along h; "unit" from $\eta = 1$ in [Pareek] (3.19),
        as the chapter does; "constant" takes $\eta = 1$, the tree itself, without a search.
    """

    thresholds: int = 254
    learning_rate: float = 1.0
    step: str = "newton"

    name: ClassVar[str] = "single_stump"
    trainer: ClassVar[str] = "listwise_boosting"
    takes_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_rate(self.learning_rate)
        one_of("step", self.step, STEPS)
        object.__setattr__(self, "thresholds", whole("thresholds", self.thresholds, 1, 254))


@dataclass(frozen=True)
class GradientTrees:
    r"""One regression tree a round, fitted to the negative gradient by least squares; defaults are the chapter's.

    The scorer `trees` takes Newton's step in every leaf instead, and no line search.

    Parameters
    ----------
    max_depth, num_leaves, min_data_in_leaf
        Size of a tree; None is 2^max_depth leaves, and 20 documents a leaf (less where there are few).
    bagging_fraction, feature_fraction
        Share of the documents, and of the features, that each tree sees; drawn anew for every tree.
    learning_rate
        Share of the step that the line search found.
    step
        How far a round goes: "newton" searches from Newton's step along h; "unit" from $\eta = 1$ in [Pareek] (3.19),
        as the chapter does; "constant" takes $\eta = 1$, the tree itself, without a search.
    """

    max_depth: int = 5
    num_leaves: int | None = None
    min_data_in_leaf: int | None = None
    bagging_fraction: float = 0.5
    feature_fraction: float = 0.1
    learning_rate: float = 0.1
    step: str = "newton"

    name: ClassVar[str] = "gradient_trees"
    trainer: ClassVar[str] = "listwise_boosting"
    takes_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_rate(self.learning_rate)
        one_of("step", self.step, STEPS)
        object.__setattr__(self, "max_depth", whole("max_depth", self.max_depth, 1, 16))
        self.engine()

    def engine(self) -> TreesScorer:
        """The same for the engine of trees, whose own shrinkage is left out."""
        return TreesScorer(
            num_leaves=2**self.max_depth if self.num_leaves is None else self.num_leaves,
            min_data_in_leaf=self.min_data_in_leaf,
            bagging_fraction=self.bagging_fraction,
            feature_fraction=self.feature_fraction,
            learning_rate=1.0,
            engine={"max_depth": self.max_depth},
        )


def _check_rate(rate: float) -> None:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise SettingError(f"learning_rate is {rate!r}; it must be above 0 and at most 1.")
