"""Scorers of listwise boosting: what is added to the score in every round. The algorithm lives in `luce.training`."""

from __future__ import annotations

from typing import ClassVar, Literal

from luce.scorers.trees import TreesScorer
from luce.spec import Choice, Range, Spec, option

Step = Literal["newton", "unit", "constant"]


class WeakLearner(Spec):
    r"""What all of them share.

    Parameters
    ----------
    learning_rate
        Share of the step that the line search found.
    step
        How far a round goes: "newton" searches from Newton's step along h; "unit" from $\eta = 1$ in [Pareek] (3.19),
        as the chapter does; "constant" takes $\eta = 1$, the tree itself, without a search.
    """

    trainer: ClassVar[str] = "listwise_boosting"


class SingleFeature(WeakLearner):
    r"""One feature a round, $h(x) = x_k$: boosting is coordinate descent on a linear scorer, with early stopping.

    Parameters
    ----------
    standardise
        True takes $(x_k - \mu_k) / \sigma_k$ of the training set. False takes features as they are, as the chapter
        does: for features that are normalised already and whose zero means something.
    constant
        Whether the constant is among the weak learners, so that the scorer gets an intercept.
    """

    standardise: bool = option(default=True, tune=Choice((True, False)))
    constant: bool = False
    learning_rate: float = option(default=1.0, above=0, most=1, tune=Range(0.1, 1.0))
    step: Step = "newton"

    name: ClassVar[str] = "single_feature"


class SingleStump(WeakLearner):
    r"""One step a round, $h(x) = [x_k > \theta]$.

    Parameters
    ----------
    thresholds
        Candidates a feature, 1 to 254: all values where there are no more, else quantiles.
    """

    thresholds: int = option(default=254, least=1, most=254, tune=Range(8, 254, whole=True))
    learning_rate: float = option(default=1.0, above=0, most=1, tune=Range(0.05, 1.0))
    step: Step = "newton"

    name: ClassVar[str] = "single_stump"
    takes_missing: ClassVar[bool] = True


class GradientTrees(WeakLearner):
    r"""One regression tree a round, fitted to the negative gradient by least squares; defaults are the chapter's.

    The scorer `trees` takes Newton's step in every leaf instead, and no line search.

    Parameters
    ----------
    max_depth, num_leaves, min_data_in_leaf
        Size of a tree; None is 2^max_depth leaves, and 20 documents a leaf (less where there are few).
    bagging_fraction, feature_fraction
        Share of the documents, and of the features, that each tree sees; drawn anew for every tree.
    """

    max_depth: int = option(default=5, least=1, most=16, tune=Range(2, 6, log=False, whole=True))
    num_leaves: int | None = None
    min_data_in_leaf: int | None = None
    bagging_fraction: float = option(default=0.5, tune=Range(0.3, 1.0, log=False))
    feature_fraction: float = option(default=0.1, tune=Range(0.1, 1.0))
    learning_rate: float = option(default=0.1, above=0, most=1, tune=Range(0.02, 0.3))
    step: Step = "newton"

    name: ClassVar[str] = "gradient_trees"
    takes_missing: ClassVar[bool] = True

    def _check(self) -> None:
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
