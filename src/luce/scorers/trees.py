"""The scorer `trees`: a sum of regression trees, grown by LightGBM on any loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from luce.checks import heard, is_whole
from luce.errors import SettingError
from luce.scorers.forest import Forest
from luce.scorers.saved import feature_count
from luce.types import FloatArray, IntArray

CURVATURES = ("newton", "pairs", "risk")
OVER_PAIRS = ("pairs", "risk")
"""The two readings of [Ties] Algorithm 1, both of which average over the pair occurrences of a leaf."""
OBJECTIVES = (None, "lambdarank", "regression")
_MOST = 2**31 - 1
"""The largest whole number that the engine takes."""
_OWN = ("objective", "members", "curvature", "curvature_floor", "reestimate", "monotone", "categorical", "engine")


@dataclass(frozen=True)
class TreesScorer:
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
        `learning_rate` wants to be as many times smaller as a document has pairs.
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

    num_leaves: int = 10
    learning_rate: float = 0.1
    min_data_in_leaf: int | None = None
    min_sum_hessian_in_leaf: float = 1e-3
    lambda_l2: float = 0.0
    bagging_fraction: float = 1.0
    feature_fraction: float = 1.0
    members: int = 1
    max_bin: int = 255
    curvature: str = "newton"
    curvature_floor: float = 1e-2
    reestimate: int | None = 10
    monotone: Sequence[int] | Mapping[str, int] | str | None = None
    categorical: Sequence[int | str] | int | str | None = None
    objective: str | None = None
    engine: Mapping[str, Any] = field(default_factory=dict)

    name: ClassVar[str] = "trees"
    trainer: ClassVar[str] = "boosting"
    takes_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        least, every = self.min_data_in_leaf, self.reestimate
        checks = (
            ("num_leaves", is_whole(self.num_leaves, 2, 131_072), "a whole number of at least 2"),
            ("learning_rate", 0 < self.learning_rate < np.inf, "a number above 0"),
            ("min_data_in_leaf", least is None or is_whole(least, 1, _MOST), "None or a whole number of at least 1"),
            ("min_sum_hessian_in_leaf", 0 <= self.min_sum_hessian_in_leaf < np.inf, "a number of at least 0"),
            ("lambda_l2", 0 <= self.lambda_l2 < np.inf, "a number of at least 0"),
            ("bagging_fraction", 0 < self.bagging_fraction <= 1, "above 0 and at most 1"),
            ("feature_fraction", 0 < self.feature_fraction <= 1, "above 0 and at most 1"),
            ("members", is_whole(self.members, 1, _MOST), "a whole number of at least 1"),
            ("max_bin", is_whole(self.max_bin, 2, 65_535), "a whole number from 2 to 65535"),
            ("curvature", self.curvature in CURVATURES, " or ".join(map(repr, CURVATURES))),
            ("curvature_floor", 0 < self.curvature_floor <= 1, "above 0 and at most 1"),
            ("reestimate", every is None or is_whole(every, 1, _MOST), "None or a whole number of at least 1"),
            ("objective", self.objective in OBJECTIVES, "None, 'lambdarank' or 'regression'"),
            ("engine", isinstance(self.engine, Mapping), "a mapping from names of LightGBM's parameters to values"),
            (
                "categorical",
                isinstance(self.categorical, Sequence | np.ndarray | None) or is_whole(self.categorical),
                "None, or names or numbers of features",
            ),
            (
                "monotone",
                isinstance(self.monotone, Mapping | Sequence | np.ndarray | None),
                "None, a list of -1, 0 and 1, a mapping from names of features to them, or such a text",
            ),
        )
        for name, good, allowed in checks:
            if not good:
                raise SettingError(f"{name} is {getattr(self, name)!r}; it must be {allowed}.")
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
        if self.objective is not None:
            own = {"curvature": "newton", "curvature_floor": 1e-2, "reestimate": 10}
            given = {name: (getattr(self, name), usual) for name, usual in own.items()}
            heard(self.name, given, False, f"a loss of luce, beside objective={self.objective!r}")
        if self.curvature in OVER_PAIRS and self.lambda_l2 > 0:
            raise SettingError(
                f"curvature={self.curvature!r} averages gradients, which needs lambda_l2=0; leave lambda_l2 out."
            )

    def least_in_leaf(self, n_rows: int) -> int:
        """Documents of a leaf at least."""
        if self.min_data_in_leaf is not None:
            return self.min_data_in_leaf
        return int(np.clip(n_rows // (2 * self.num_leaves), 1, 20))

    def engine_parameters(self, n_rows: int, feature_names: Sequence[str]) -> dict[str, Any]:
        """What LightGBM is told; everything random is drawn by luce, so that a resumed training gives the same bits."""
        own = {key: value for key, value in asdict(self).items() if key not in _OWN}
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
            number = given if isinstance(given, int) else _position(given, feature_names)
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


def _position(name: str, feature_names: Sequence[str]) -> int:
    if name not in feature_names:
        raise SettingError(f"categorical names {name!r}, which is not a feature of the data.")
    return list(feature_names).index(name)


@dataclass(frozen=True, eq=False)
class FittedTrees:
    """A forest over so many features."""

    forest: Forest
    n_features: int

    name = "trees"
    needs_queries = False
    importance_is = "gain of all its splits"

    def score(self, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """One score a row; each depends on its own row only."""
        return self.forest.score(X)

    def importance(self, kind: str = "gain") -> FloatArray:
        """How much every feature lowered the loss (gain), or how many nodes ask for it (split)."""
        if kind not in ("gain", "split"):
            raise SettingError(f"kind is {kind!r}; it must be 'gain' or 'split'.")
        weights = self.forest.gain if kind == "gain" else None
        counted = np.bincount(self.forest.feature, weights=weights, minlength=self.n_features)
        return counted.astype(np.float64)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file."""
        return {"n_features": self.n_features}, self.forest.arrays()

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedTrees:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        n_features = feature_count(cls.name, settings)
        return cls(Forest.from_arrays(arrays, n_features), n_features)
