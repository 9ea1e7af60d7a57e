"""The scorers `trees`, regression trees that LightGBM grows on any loss, and `blend`, trees with a linear score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from luce.data.filling import Filling
from luce.errors import DataError, ModelFormatError, SettingError
from luce.scorers.forest import Forest
from luce.scorers.linear import FittedLinear
from luce.scorers.saved import Fitted, counted_features, standing_on
from luce.spec import Range, Spec, option
from luce.types import Features, FloatArray, IntArray

CURVATURES = ("newton", "pairs", "risk", "documents")
OVER_PAIRS = CURVATURES[1:]
"""The three readings of [Ties] Algorithm 1: means over the pair occurrences of a leaf, or over its documents."""
_MOST = 2**31 - 1
"""The largest whole number that the engine takes."""
_OWN = ("objective", "members", "curvature", "curvature_floor", "reestimate", "monotone", "categorical", "engine")


def _of_kind(kinds: Any, words: str) -> Callable[[str, Any], Any]:
    """The check of a setting that is of one of these kinds."""

    def convert(name: str, given: Any) -> Any:
        if isinstance(given, kinds) and not isinstance(given, bool):
            return given
        raise SettingError(f"{name} is {given!r}; it must be {words}.")

    return convert


_monotone = _of_kind(
    (Mapping, Sequence, np.ndarray),
    "None, a list of -1, 0 and 1, a mapping from names of features to them, or such a text",
)
_features = _of_kind((Sequence, np.ndarray, int, np.integer), "None, or names or numbers of features")
_engine = _of_kind(Mapping, "a mapping from names of LightGBM's parameters to values")
_OF_LOSS = (lambda own: own.objective is None, "a loss of luce, which an objective of LightGBM takes the place of")


class TreesScorer(Spec):
    r"""Boosted trees, $h_t = h_{t-1} + \beta g_t$, with $g_t$ a tree on the gradient and curvature of the loss.

    The number of trees is the ranker's `max_iter`. Names are those of LightGBM where it has one.

    Parameters
    ----------
    num_leaves, learning_rate
        Leaves of a tree and shrinkage $\beta$.
    min_data_in_leaf
        Documents of a leaf at least; None is 20, less where there are few documents.
    min_sum_hessian_in_leaf, lambda_l2
        Least sum of curvatures of a leaf, and what is added to that sum. Curvature has mean 1, so both count documents.
    bagging_fraction, feature_fraction
        Share of the documents, and of the features, that each tree sees; drawn anew for every tree. LightGBM's own
        objectives take all documents.
    members
        So many forests grow side by side, each from its own draws, and scores are their mean. Their trees differ by
        what they draw, so that `bagging_fraction` or `feature_fraction` must be below 1.
    max_bin
        Bins of a feature.
    curvature
        "newton", the second derivative; or "pairs", the number of pairs of a document, for losses over pairs: the tree
        of [Ties] Algorithm 1, which averages the gradients of all pair occurrences of a leaf. "risk" is its other
        reading: a pair occurrence has the gradient of the whole risk at its document, the sum over all pairs, so that
        `learning_rate` wants to be as many times smaller as a document has pairs. "documents" is the third: that
        gradient, and every document of a pair once.
    curvature_floor
        Curvatures below this share of their mean are raised to it.
    reestimate
        A tie parameter that is to be learned is estimated anew after every so many trees; None keeps its start value.
    monotone
        -1, 0 or 1 a feature, or a mapping from names of features to them: scores may only fall or rise with it. The
        command line writes the mapping as a text, "bm25:1,age:-1".
    categorical
        Names or numbers (from 0) of features that are categories; as a text, names with commas between.
    objective
        None trains on the loss. "lambdarank" or "regression" let LightGBM follow its own objective, without a loss.
    engine
        Further parameters of LightGBM.
    """

    num_leaves: int = option(default=10, least=2, most=131_072, tune=Range(4, 64, whole=True))
    learning_rate: float = option(default=0.1, above=0, tune=Range(0.01, 0.3))
    min_data_in_leaf: int | None = option(default=None, least=1, most=_MOST, tune=Range(5, 200, whole=True))
    min_sum_hessian_in_leaf: float = option(default=1e-3, least=0)
    lambda_l2: float = option(default=0.0, least=0, tune=Range(1e-3, 100.0))
    bagging_fraction: float = option(default=1.0, above=0, most=1, tune=Range(0.5, 1.0, log=False))
    feature_fraction: float = option(default=1.0, above=0, most=1, tune=Range(0.3, 1.0, log=False))
    members: int = option(default=1, least=1, most=_MOST)
    max_bin: int = option(default=255, least=2, most=65_535)
    curvature: Literal["newton", "pairs", "risk", "documents"] = option(default="newton", needs=_OF_LOSS)
    curvature_floor: float = option(default=1e-2, above=0, most=1, needs=_OF_LOSS)
    reestimate: int | None = option(default=10, least=1, most=_MOST, needs=_OF_LOSS)
    monotone: Sequence[int] | Mapping[str, int] | str | None = option(default=None, convert=_monotone)
    categorical: Sequence[int | str] | int | str | None = option(default=None, convert=_features)
    objective: Literal["lambdarank", "regression"] | None = None
    engine: Mapping[str, Any] = option(factory=dict, convert=_engine)

    name: ClassVar[str] = "trees"
    trainer: ClassVar[str] = "boosting"
    takes_missing: ClassVar[bool] = True

    def _check(self) -> None:
        if self.members > 1 and min(self.bagging_fraction, self.feature_fraction) == 1:
            raise SettingError(
                f"members={self.members} would grow the same trees {self.members} times; set feature_fraction or "
                "bagging_fraction below 1, or members=1."
            )
        if self.objective is not None and self.bagging_fraction < 1:
            raise SettingError(
                f"bagging_fraction={self.bagging_fraction:g} draws documents of a loss of luce; objective="
                f"{self.objective!r} takes all of them: leave one of the two out."
            )
        if self.curvature in OVER_PAIRS and self.lambda_l2 > 0:
            raise SettingError(f"curvature={self.curvature!r} averages gradients, without lambda_l2; leave that out.")

    def least_in_leaf(self, n_rows: int) -> int:
        """Documents of a leaf at least."""
        if self.min_data_in_leaf is not None:
            return self.min_data_in_leaf
        return int(np.clip(n_rows // (2 * self.num_leaves), 1, 20))

    def engine_parameters(self, n_rows: int, feature_names: Sequence[str]) -> dict[str, Any]:
        """What LightGBM is told; everything random is drawn by luce, so that a resumed training gives the same bits."""
        own = {key: value for key, value in self.settings.items() if key not in _OWN}
        own |= {"min_data_in_leaf": self.least_in_leaf(n_rows), "bagging_fraction": 1.0, "feature_fraction": 1.0}
        watched = {"lambdarank": "ndcg", "regression": "l2"}.get(self.objective or "", "none")
        fixed = {"objective": self.objective or "none", "metric": watched, "verbosity": -1, "deterministic": True}
        fixed |= {"eval_at": "10"} if watched == "ndcg" else {}
        # LightGBM fails on data whose features were all filtered out; without the filter it finds no split.
        fixed |= {"feature_pre_filter": False} | ({"min_data_in_bin": 1} if n_rows < 1000 else {})
        if self.monotone is not None:
            fixed["monotone_constraints"] = self._monotone(feature_names)
        fixed |= {"force_row_wise": True} if "force_col_wise" not in self.engine else {}
        clash = sorted(set(self.engine) & (set(own) | set(_OWN) | {"metric", "deterministic", "linear_tree"}))
        if clash:
            raise SettingError(f"engine holds {', '.join(clash)}, which luce sets itself; use its own parameters.")
        return {**own, **fixed, **self.engine}

    def _monotone(self, feature_names: Sequence[str]) -> list[int]:
        given = _directions(self.monotone) if isinstance(self.monotone, str) else self.monotone
        assert given is not None
        if isinstance(given, Mapping):
            unknown = sorted(set(map(str, given)) - set(feature_names))
            if unknown:
                raise SettingError(f"monotone names {unknown[0]!r}, which is not a feature of the data.")
            by_name = {str(name): direction for name, direction in given.items()}
            given = [by_name.get(name, 0) for name in feature_names]
        directions = [int(direction) for direction in given]
        if len(directions) != len(feature_names) or not set(directions) <= {-1, 0, 1}:
            raise SettingError(f"monotone must hold -1, 0 or 1 for each of the {len(feature_names)} features.")
        return directions

    def categories(self, feature_names: Sequence[str]) -> list[int]:
        """The numbers of the categorical features."""
        chosen = []
        listed = [self.categorical] if isinstance(self.categorical, int) else self.categorical
        for given in listed.split(",") if isinstance(listed, str) else listed or ():
            if not isinstance(given, int) and given not in feature_names:
                raise SettingError(f"categorical names {given!r}, which is not a feature of the data.")
            number = given if isinstance(given, int) else list(feature_names).index(given)
            if not 0 <= number < len(feature_names):
                raise SettingError(f"categorical names feature {given!r}; the data have {len(feature_names)}, from 0.")
            chosen.append(int(number))
        return chosen


def _directions(text: str) -> dict[str, int]:
    found = {}
    for pair in text.split(","):
        name, _, direction = pair.rpartition(":")
        if not name or direction.strip() not in ("-1", "0", "1"):
            raise SettingError(f"monotone is {text!r}; as a text it must read like bm25:1,age:-1.")
        found[name.strip()] = int(direction)
    return found


class FittedTrees(Fitted):
    """A forest over so many features."""

    forest: Forest
    n_features: int = counted_features()

    name = "trees"
    importance_is = "gain of all its splits"

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """One score a row; each depends on its own row only."""
        return self.forest.score(X)

    def importance(self, kind: str = "gain") -> FloatArray:
        """How much every feature lowered the loss (gain), or how many nodes ask for it (split)."""
        if kind not in ("gain", "split"):
            raise SettingError(f"kind is {kind!r}; it must be 'gain' or 'split'.")
        weights = self.forest.gain if kind == "gain" else None
        counted = np.bincount(self.forest.feature, weights=weights, minlength=self.n_features)
        return counted.astype(np.float64)


def _filling(name: str, kept: Any) -> Filling:
    try:
        return Filling.from_dict(kept)
    except DataError as error:
        raise ModelFormatError(f"In a blend, {error}.") from error


class FittedBlend(Fitted):
    """Trees on the features as they are, and a linear score on what stands for gaps and categories."""

    forest: Forest
    filling: Filling | None = option(convert=_filling)
    """How gaps and categories become numbers for the linear score; None where the features are numbers already."""
    n_features: int = counted_features()
    linear_share: float = option(least=0, most=1)
    """The weight of linear members, by which their effects count beside the gains of trees."""
    linear: FittedLinear | None = standing_on()

    name = "blend"
    importance_is = "share of the gain of trees and of the effects of linear members"

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """One score a row; each depends on its own row only."""
        scores = np.zeros(len(X))
        if self.linear is not None:
            scores += self.linear.score(self._filled(X), offsets)
        self.forest.add_scores(X, scores)
        return scores

    def _filled(self, X: Features) -> Features:
        """The columns of the linear score; no copy where they are the features and there is no gap."""
        if self.filling is None or (self.filling.is_plain and not np.isnan(X).any()):
            return X
        return self.filling.matrix(X)

    def importance(self) -> FloatArray:
        """Shares of the features: gains of trees and effects of linear members, each kind by its weight."""
        gain = np.bincount(self.forest.feature, self.forest.gain, self.n_features).astype(np.float64)
        found = (1.0 - self.linear_share) * _shares(gain)
        if self.linear is not None:
            found += self.linear_share * _shares(self._effects(self.linear))
        return found

    def _effects(self, linear: FittedLinear) -> FloatArray:
        """Effects of the features, those of what stands for one summed."""
        effects = np.abs(linear.importance())
        if self.filling is None:
            return effects
        return np.bincount(self.filling.owners, effects, self.n_features).astype(np.float64)

    @classmethod
    def _width_below(cls, given: Mapping[str, Any], n_features: int) -> int:
        return n_features if given["filling"] is None else given["filling"].width

    def _check(self) -> None:
        filling = self.filling
        if filling is not None and {len(filling.medians), len(filling.categories)} != {self.n_features}:
            raise ModelFormatError("What stands for gaps and categories in a blend does not fit the features.")


def _shares(values: FloatArray) -> FloatArray:
    total = float(values.sum())
    return values / total if total > 0 else np.zeros_like(values, dtype=np.float64)
