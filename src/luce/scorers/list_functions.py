r"""Weak learners of listwise boosting: what is added to the score in every round, also functions of a whole list.

A column is an exchangeable function $h_i(x) = h(x_i, \{x_{\setminus i}\})$, [Pareek] (2.5): a sum of a kernel over the
other documents, a product of pairs, or what a feature says of the place of a document in its list. Columns are computed
once; a round of boosting then chooses among them as among features. A column of ranks is a ranking, and a weighted sum
of such columns is a positional voting rule over the rankings by single features: boosting by rank aggregation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from luce.checks import is_whole
from luce.data.groups import Groups
from luce.errors import ModelFormatError, SettingError
from luce.numerics.segments import centred, query_index
from luce.scorers.kernel_sums import (
    FittedLists,
    Kernel,
    Normalisation,
    check_kernels,
    default_kernels,
    kernel_name,
    kernel_sums,
    refuse_functions,
    refuse_missing,
)
from luce.scorers.linear import FittedLinear, reciprocal
from luce.scorers.saved import Fitted, array, below, counted_features
from luce.scorers.stumps import FittedStumps
from luce.scorers.trees import FittedTrees, TreesScorer
from luce.spec import Choice, Range, Spec, option
from luce.types import Features, FloatArray, IntArray


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

    _: KW_ONLY
    step: Literal["newton", "unit", "constant"] = "newton"

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


OF_FEATURES = ("feature", "rank", "reciprocal", "best", "least")
KINDS = (*OF_FEATURES, "kernel", "product")
_WEAK: dict[str, type] = {"single_feature": SingleFeature, "single_stump": SingleStump, "gradient_trees": GradientTrees}
_INNER: dict[str, Any] = {"linear": FittedLinear, "stumps": FittedStumps, "trees": FittedTrees}
_MOST = 2**31
_MOST_LOG = 30.0
"""Products beyond e^30 times the mean of their list are cut there."""


def _functions(name: str, given: Any) -> tuple[str, ...]:
    chosen = tuple(str(kind).strip() for kind in (given.split(",") if isinstance(given, str) else tuple(given)))
    if not chosen or any(kind not in KINDS for kind in chosen) or len(set(chosen)) < len(chosen):
        raise SettingError(f"{name} is {given!r}; it must name some of {', '.join(KINDS)}, each once.")
    return chosen


def _strengths(name: str, given: Any) -> tuple[float, ...]:
    strengths = (given,) if isinstance(given, int | float) else tuple(given)
    if not strengths or not all(isinstance(u, int | float) and 0 < u < np.inf for u in strengths):
        raise SettingError(f"{name} is {given!r}; it must list finite numbers above 0.")
    return tuple(float(u) for u in strengths)


class ListFunctions(Spec):
    r"""What a round may add, $h_i = \sum_{j \ne i} S(x_i, x_j)$ or $h_i = \prod_{j \ne i} g(x_i, x_j)$.

    Parameters
    ----------
    functions
        Kinds of columns: "feature", the feature as it is; "rank", the share of the others that it is above in a feature
        (Borda's rule), "reciprocal", one over the place by it (Dowdall's), "best" and "least", 1 where no other is
        above or below, a product of pairs (plurality); "kernel", the sum of a kernel over the others, and "product",
        the product of $\exp(\pm u S)$, both relative to their mean over the list.
    kernels, normalise
        As for the scorer `listwise`; kernels with parameters stay where these start.
    strengths
        The u of products, in units of the standard deviation of the kernel sums within queries.
    weak
        The weak learner on these columns: single_feature, single_stump or gradient_trees.
    learning_rate, step
        Those of the weak learner; None leaves its own.
    """

    functions: Any = option(default=("feature", "rank", "best", "least", "kernel", "product"), convert=_functions)
    kernels: tuple[Kernel, ...] | None = option(default=None, convert=check_kernels)
    normalise: Normalisation = "minmax"
    strengths: Any = option(default=(0.5, 2.0), convert=_strengths)
    weak: Literal["single_feature", "single_stump", "gradient_trees"] = "single_feature"
    learning_rate: float | None = option(default=None, above=0, most=1)
    step: Literal["newton", "unit", "constant"] | None = None

    name: ClassVar[str] = "list_functions"
    trainer: ClassVar[str] = "listwise_boosting"

    def _check(self) -> None:
        self.learner()

    def learner(self) -> Any:
        """The weak learner."""
        own = {"learning_rate": self.learning_rate, "step": self.step}
        return _WEAK[self.weak](**{name: value for name, value in own.items() if value is not None})

    def columns(self, data: Groups) -> ListColumns:
        """The columns that these data have, with units learned from them."""
        refuse_missing(data)
        kernels: tuple[Kernel, ...] = ()
        units = np.zeros(0)
        if {"kernel", "product"} & set(self.functions):
            kernels = self.kernels or default_kernels(data)
            units = reciprocal(centred(kernel_sums(data, kernels, self.normalise), data.offsets).std(axis=0), 1e-12)
        found: list[tuple[str, int, float]] = []
        for kind in self.functions:
            if kind in OF_FEATURES:
                found += [(kind, k, 0.0) for k in range(data.n_features)]
            elif kind == "kernel":
                found += [(kind, k, 0.0) for k in range(len(kernels))]
            else:
                found += [(kind, k, sign * u) for k in range(len(kernels)) for u in self.strengths for sign in (1, -1)]
        return ListColumns(tuple(found), kernels, self.normalise, units, data.n_features)


def _table(name: str, given: Any) -> tuple[tuple[str, int, float], ...]:
    if not isinstance(given, list | tuple) or not given:
        raise SettingError("listwise functions need 'columns'.")
    for entry in given:
        if not isinstance(entry, list | tuple) or len(entry) != 3 or entry[0] not in KINDS:
            raise SettingError(f"a listwise function is {entry!r}; it must be a kind, a number and a strength.")
    return tuple(
        (kind, k, float(u) if isinstance(u, float) or is_whole(u, -_MOST, _MOST) else np.nan) for kind, k, u in given
    )


class ListColumns(Fitted):
    """Columns as (kind, number of the feature or kernel, strength), and what computes them."""

    columns: tuple[tuple[str, int, float], ...] = option(convert=_table)
    kernels: tuple[Kernel, ...] = option(convert=lambda name, given: check_kernels(name, given) if given != [] else ())
    normalise: Normalisation
    units: FloatArray = array("kernels")
    """One over the standard deviation of each kernel sum within the queries of the training."""
    n_features: int = counted_features()

    name = "list_functions"

    def _check(self) -> None:
        if len(self.units) != len(self.kernels):
            raise ModelFormatError("Listwise functions need a unit for each of their kernels.")
        for kind, k, u in self.columns:
            most = self.n_features if kind in OF_FEATURES else len(self.kernels)
            if not is_whole(k, 0, most - 1) or not np.isfinite(u):
                raise ModelFormatError(f"A listwise function is {kind!r} of {k!r}, which the model does not have.")

    def names(self, features: Sequence[str]) -> tuple[str, ...]:
        """What the columns are called."""
        found = []
        for kind, k, u in self.columns:
            if kind in OF_FEATURES:
                found.append(features[k] if kind == "feature" else f"{kind} in {features[k]}")
            else:
                found.append(f"{kind} of {kernel_name(self.kernels[k])}" + (f" to {u:g}" if kind == "product" else ""))
        return tuple(found)

    def expanded(self, data: Groups) -> Groups:
        """The data with these columns as features."""
        X = self.values(data, range(len(self.columns)))
        return replace(data, X=X, feature_names=self.names(data.feature_names), schema=None)

    def values(self, data: Groups, wanted: Sequence[int] | IntArray) -> Features:
        """A column each; those that are not wanted are 0."""
        X = np.zeros((data.n_rows, len(self.columns)), dtype=np.float32)
        sums: dict[int, FloatArray] = {}
        for c in wanted:
            kind, k, u = self.columns[c]
            if kind == "feature":
                X[:, c] = data.X[:, k]
            elif kind in OF_FEATURES:
                X[:, c] = places(kind, data.X[:, k], data.offsets)
            else:
                if k not in sums:
                    sums[k] = centred(kernel_sums(data, [self.kernels[k]], self.normalise), data.offsets)[:, 0]
                scaled = sums[k] * self.units[k]
                X[:, c] = scaled if kind == "kernel" else np.exp(np.clip(u * scaled, -_MOST_LOG, _MOST_LOG))
        return X


def places(kind: str, x: NDArray[Any], offsets: IntArray) -> FloatArray:
    """What the place of each document by a feature is worth; equal values share the mean of their places.

    >>> x, offsets = np.array([3.0, 1.0, 1.0, 2.0]), np.array([0, 4])
    >>> places("rank", x, offsets).round(3).tolist(), places("best", x, offsets).tolist()
    ([1.0, 0.167, 0.167, 0.667], [1.0, 0.0, 0.0, 0.0])
    """
    starts, sizes, query = offsets[:-1], np.diff(offsets), query_index(offsets)
    if kind in ("best", "least"):
        end = (np.maximum if kind == "best" else np.minimum).reduceat(x, starts)
        return np.asarray((x == end[query]).astype(np.float64))
    order = np.lexsort((x, query))
    new = np.ones(len(x), dtype=bool)
    new[1:] = (np.diff(x[order]) != 0) | (np.diff(query[order]) != 0)
    first = np.flatnonzero(new)
    tied = np.diff(np.append(first, len(x)))
    below = np.empty(len(x))
    below[order] = np.repeat(first + 0.5 * (tied - 1), tied)
    below -= np.repeat(starts, sizes)
    others = np.maximum(sizes - 1, 1)[query]
    return below / others if kind == "rank" else 1.0 / (1.0 + (sizes[query] - 1 - below))


class FittedListFunctions(FittedLists):
    """A scorer on columns that see the whole list."""

    columns: ListColumns
    inner: Any

    name = "list_functions"

    @cached_property
    def n_features(self) -> int:
        """Features of a document."""
        return self.columns.n_features

    def score_groups(self, data: Groups, base: FloatArray | None) -> FloatArray:
        """Scores, added to those of a base."""
        scores: FloatArray = self.inner.score(self.columns.values(data, self.used), data.offsets)
        return scores if base is None else base + scores

    @property
    def used(self) -> IntArray:
        """The columns that the scorer looks at; no other is computed."""
        if isinstance(self.inner, FittedLinear):
            return np.flatnonzero(self.inner.weights)
        return np.unique(self.inner.forest.feature).astype(np.int64)

    def importance(self) -> FloatArray:
        """The importance of all columns that a feature has; kernels have `function_table`."""
        total, own = np.zeros(self.n_features), self.inner.importance()
        for c in self.used:
            kind, k, _ = self.columns.columns[c]
            if kind in OF_FEATURES:
                total[k] += own[c]
        return total

    def function_table(self, features: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The columns that count, the most important first."""
        labels = [str(k + 1) for k in range(self.n_features)] if features is None else list(features)
        names, own = self.columns.names(labels), self.inner.importance()
        return [{"function": names[c], "importance": float(own[c])} for c in sorted(self.used, key=lambda c: -own[c])]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file; a function as a kernel cannot be kept."""
        refuse_functions(self.columns.kernels)
        settings, arrays = self.columns.state()
        inner, own = self.inner.state()
        arrays |= {f"inner.{name}": values for name, values in own.items()}
        return {**settings, "inner": self.inner.name, "inner_settings": inner}, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedListFunctions:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        columns = ListColumns.from_state(settings, arrays)
        kind, inner = settings.get("inner"), settings.get("inner_settings")
        if kind not in _INNER or not isinstance(inner, dict):
            raise ModelFormatError(f"Listwise functions need a scorer of {', '.join(_INNER)}; the file has {kind!r}.")
        fitted = _INNER[kind].from_state(inner, below("inner.", arrays))
        if fitted.n_features != len(columns.columns):
            raise ModelFormatError("The scorer of listwise functions has another number of columns.")
        return cls(columns, fitted)
