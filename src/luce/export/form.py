"""What a model is, apart from how it was trained: the one form that every export target reads.

A form is a sum of parts over the same features: linear, trees, second order or a network. A fitted ranker becomes a
form here or is refused here; what a target cannot express, the target refuses.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.base import ColumnBase, RankerBase
from luce.errors import DataError, ParseError, SettingError
from luce.numerics.products import Products
from luce.scorers.forest import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, MISSING_ZERO, Forest
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.ranker import Ranker


_WORD = re.compile(r"[A-Za-z0-9_.\-]+")
_WORDS = "letters, digits, '_', '.' and '-' are allowed"


def check_names(names: Sequence[str], target: str, allowed: re.Pattern[str] = _WORD, rule: str = _WORDS) -> None:
    """Names that a target takes: by default what stands in URLs, expressions and logs of the engines as it is."""
    bad = next((name for name in names if not allowed.fullmatch(name)), None)
    if bad is not None:
        raise SettingError(
            f"The feature name {bad!r} cannot be used in {target}: {rule}; "
            "give --feature-names (feature_names=) a file or mapping with other names."
        )


def check_name(what: str, name: str) -> str:
    """The name of a model or store, which becomes part of a URL."""
    if not _WORD.fullmatch(name):
        raise SettingError(f"The {what} {name!r} must be of letters, digits, '_', '.' and '-'; give another one.")
    return name


def renamed(names: tuple[str, ...], given: Mapping[str, str] | Sequence[str] | None) -> tuple[str, ...]:
    """The names under a mapping from old to new ones, or a list of all new ones.

    >>> renamed(("1", "2"), {"2": "bm25"})
    ('1', 'bm25')
    """
    if given is None:
        return names
    if isinstance(given, Mapping):
        unknown = next((old for old in given if old not in names), None)
        if unknown is not None:
            raise DataError(f"The feature names rename {unknown!r}, which is not a feature of the model.")
        new = tuple(given.get(name, name) for name in names)
    else:
        new = tuple(given)
        if len(new) != len(names):
            raise DataError(f"{len(new)} feature names were given, and the model has {len(names)} features.")
    if not all(isinstance(name, str) and name for name in new):
        raise DataError("Feature names must be texts that are not empty.")
    if len(set(new)) < len(new):
        twice = next(name for name in new if new.count(name) > 1)
        raise DataError(f"Two features would have the name {twice!r}; names must be different.")
    return new


def read_feature_names(path: str | Path) -> dict[str, str] | list[str]:
    """From JSON (an object from old to new names, or a list of all) or CSV lines `old,new`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"The feature names {path} cannot be read: {reason}.") from error
    if text.lstrip()[:1] in ("{", "["):
        return _from_json(path, text)
    rows = [row for row in csv.reader(text.splitlines()) if row]
    bad = next((i for i, row in enumerate(rows) if len(row) != 2), None)
    if bad is not None or not rows:
        raise ParseError(path, "expected lines `old,new`, or JSON: an object from old to new names, or a list.")
    return {old.strip(): new.strip() for old, new in rows}


def _from_json(path: str | Path, text: str) -> dict[str, str] | list[str]:
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise ParseError(path, f"this is no valid JSON ({error}).") from error
    values = list(given.values()) if isinstance(given, dict) else given
    if not all(isinstance(name, str) for name in values):
        raise ParseError(path, "the names must be texts.")
    return dict(given) if isinstance(given, dict) else list(given)


_MAX = float(np.finfo(np.float32).max)
_MOST_LEVELS = 200


def at_most(threshold: NDArray[Any]) -> NDArray[np.float32]:
    """d(t): `x <= t` is `x <= d(t)` for float32 x; thresholds beyond all float32 become the outermost ones.

    >>> at_most(np.array([0.1, 0.5])).astype(float).tolist()
    [0.09999999403953552, 0.5]
    """
    clipped = np.clip(threshold, -_MAX, _MAX)
    rounded = clipped.astype(np.float32)
    too_high = rounded.astype(np.float64) > clipped
    with np.errstate(over="ignore"):
        below = np.nextafter(rounded, np.float32(-np.inf))
    result: NDArray[np.float32] = np.where(too_high, below, rounded).astype(np.float32)
    return result


def above(threshold: NDArray[Any]) -> NDArray[np.float32]:
    """u(t): `x <= t` is `x < u(t)` for float32 x.

    >>> above(np.array([0.1])).astype(float).tolist()
    [0.10000000149011612]
    """
    with np.errstate(over="ignore"):
        result = np.nextafter(at_most(threshold), np.float32(np.inf))
    beyond = np.asarray(threshold) < -_MAX
    return np.where(beyond, np.float32(-_MAX), np.minimum(result, np.float32(_MAX))).astype(np.float32)


def number(value: Any) -> float:
    """A float32 as a float64 whose digits give back that float32, however a reader rounds them."""
    return float(np.float32(value))


def missing_goes_left(forest: Forest) -> NDArray[np.bool_]:
    """For every node, whether it sends a missing value to the left."""
    own = (forest.kind & (MISSING_NAN | MISSING_ZERO)) > 0
    default = (forest.kind & DEFAULT_LEFT) > 0
    result: NDArray[np.bool_] = np.where(own, default, forest.threshold >= 0)
    return result


def missing_is_zero(forest: Forest) -> bool:
    """Whether a missing value goes everywhere where 0 goes."""
    return bool(np.all(missing_goes_left(forest) == (forest.threshold >= 0)))


def check_plain(forest: Forest, names: tuple[str, ...], target: str) -> None:
    """Refuse what cannot be asked with one threshold and one way for missing values."""
    chosen = np.flatnonzero(forest.kind & CATEGORICAL)
    if len(chosen):
        raise SettingError(
            f"The trees split the feature {names[forest.feature[chosen[0]]]!r} by categories, which {target} cannot "
            "express; export to lightgbm or python, or train without categorical features."
        )
    zero = (forest.kind & MISSING_ZERO) > 0
    bad = np.flatnonzero(zero & (((forest.kind & DEFAULT_LEFT) > 0) != (forest.threshold >= 0)))
    if len(bad):
        raise SettingError(
            f"The trees take a zero of the feature {names[forest.feature[bad[0]]]!r} for a missing value "
            f"(zero_as_missing), which {target} cannot express; export to lightgbm or python."
        )


class Split(NamedTuple):
    """An inner node as a target sees it, with its children already written."""

    node: int
    """Its number in the tree; leaves are counted on after all nodes."""
    position: int
    """Its number in the forest."""
    depth: int
    left: Any
    right: Any
    left_node: int
    right_node: int


def nested(
    forest: Forest, tree: int, split: Callable[[Split], Any], leaf: Callable[[int, float], Any], target: str
) -> Any:
    """One tree, written from the leaves up: `leaf(number, value)` and `split(Split)` give what stands for a node."""
    start, end = int(forest.nodes[tree]), int(forest.nodes[tree + 1])
    values = forest.value[forest.leaves[tree] : forest.leaves[tree + 1]].tolist()
    count = end - start
    leaves = [leaf(count + i, value) for i, value in enumerate(values)]
    if count == 0:
        return leaves[0]
    left, right = forest.left[start:end].tolist(), forest.right[start:end].tolist()
    depth = [0] * count
    for i in range(count):  # children come after their parents
        for child in (left[i], right[i]):
            if child >= 0:
                depth[child] = depth[i] + 1
    if max(depth) > _MOST_LEVELS:
        raise SettingError(
            f"Tree {tree} is {max(depth)} levels deep, and {target} is written for at most {_MOST_LEVELS}, since "
            "parsers limit how deep a text may nest; train with fewer leaves or the engine's max_depth."
        )
    written: list[Any] = [None] * count

    def place(child: int) -> tuple[Any, int]:
        return (written[child], child) if child >= 0 else (leaves[-child - 1], count - child - 1)

    for i in reversed(range(count)):
        (below_left, left_node), (below_right, right_node) = place(left[i]), place(right[i])
        written[i] = split(Split(i, start + i, depth[i], below_left, below_right, left_node, right_node))
    return written[0]


@dataclass(frozen=True, eq=False)
class Linear:
    """`weights . x + intercept`; `deviation` is what one standard deviation of a feature is, 0 where unknown."""

    weights: FloatArray
    intercept: float
    deviation: FloatArray

    kind = "a linear model"

    def shifted(self, constant: float) -> Linear:
        """With a constant added to every score."""
        return replace(self, intercept=self.intercept + constant)

    def joined(self, other: Linear) -> Linear:
        """The sum of two."""
        deviation = np.maximum(self.deviation, other.deviation)
        return Linear(self.weights + other.weights, self.intercept + other.intercept, deviation)


@dataclass(frozen=True, eq=False)
class Trees:
    """A sum of trees, at least one."""

    forest: Forest

    kind = "trees"

    def shifted(self, constant: float) -> Trees:
        """With a constant added to every score: a tree of one leaf, so that no other leaf is rounded anew."""
        return Trees(Forest.joined([Forest.constant(constant), self.forest]))

    def joined(self, other: Trees) -> Trees:
        """The sum of two."""
        return Trees(Forest.joined([self.forest, other.forest]))


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """`weights . z + sum of pair_weights[k] z_left[k] z_right[k] + intercept`, z = (x - mean) * inverse_sd."""

    products: Products
    weights: FloatArray
    pair_weights: FloatArray
    intercept: float = 0.0

    kind = "a second-order model"

    def shifted(self, constant: float) -> SecondOrder:
        """With a constant added to every score."""
        return replace(self, intercept=self.intercept + constant)

    def expanded(self) -> tuple[FloatArray, FloatArray, float]:
        r"""Weights of the features, of the products $x_i x_j$, and intercept, on features as they are in the data.

        $z_i z_j = s_i s_j (x_i x_j - \mu_j x_i - \mu_i x_j + \mu_i \mu_j)$, with $s$ the reciprocal deviations.
        """
        mean, scale, left, right = (getattr(self.products, n) for n in ("mean", "inverse_sd", "left", "right"))
        pairs = self.pair_weights * scale[left] * scale[right]
        weights = self.weights * scale
        intercept = self.intercept - float(mean @ weights) + float(pairs @ (mean[left] * mean[right]))
        weights = weights.copy()
        np.subtract.at(weights, left, pairs * mean[right])
        np.subtract.at(weights, right, pairs * mean[left])
        return weights, pairs, intercept


@dataclass(frozen=True, eq=False)
class Layer:
    """`activation(x @ weights + bias)`; weights are (in, out)."""

    weights: FloatArray
    bias: FloatArray
    activation: str


@dataclass(frozen=True, eq=False)
class Network:
    """Layers one after the other, the last with one output."""

    layers: tuple[Layer, ...]

    kind = "a neural network"

    def shifted(self, constant: float) -> Network:
        """With a constant added to every score; the last layer is linear."""
        last = self.layers[-1]
        return Network((*self.layers[:-1], replace(last, bias=last.bias + constant)))


Part = Linear | Trees | SecondOrder | Network


@dataclass(frozen=True, eq=False)
class Form:
    """A sum of parts over named features."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def kind(self) -> str:
        """What it is, for messages."""
        return " plus ".join(part.kind for part in self.parts)

    @property
    def single(self) -> Part:
        """The only part, for targets that hold one; anything else is refused."""
        if len(self.parts) > 1:
            raise SettingError(
                f"The model is {self.kind}, which this target cannot add up; export to python or onnx, or train "
                "without a base, and a blend without its linear member."
            )
        return self.parts[0]

    def shifted(self, constant: float) -> Form:
        """With a constant added to every score."""
        return self if constant == 0 else replace(self, parts=(self.parts[0].shifted(constant), *self.parts[1:]))


def form_of(ranker: Ranker) -> Form:
    """A fitted ranker as a form; refused where a score is no function of the document's own features."""
    if ranker.query_norm is not None:
        raise SettingError(
            f"The model normalises features within each query (query_norm={ranker.query_norm!r}), which no target can: "
            "a score there depends on one document only; train without query_norm."
        )
    if ranker.filling_ is not None and not ranker.filling_.is_plain:
        raise SettingError(
            "The model fills gaps or makes indicators of categories, which no target can; export trees, or train on "
            "numbers without gaps (--drop)."
        )
    if ranker.on_scores_:
        raise SettingError("The model was trained on top of base_scores, which it does not hold; use a base instead.")
    return Form(tuple(ranker.feature_names_), _merged([*_base_parts(ranker), *_parts(ranker.scorer_)]))


def _base_parts(ranker: Ranker) -> list[Part]:
    base = ranker.base_
    if isinstance(base, RankerBase):
        return list(form_of(base.ranker).parts)
    if isinstance(base, ColumnBase):
        column = np.array([name == base.name for name in ranker.feature_names_], dtype=np.float64)
        return [Linear(column, 0.0, np.zeros(len(column)))]
    return []


def _merged(parts: list[Part]) -> tuple[Part, ...]:
    """Linear parts as one and trees as one; a linear part without weights becomes a leaf."""
    result: list[Part] = []
    for part in parts:
        last = result[-1] if result else None
        if isinstance(last, Trees) and isinstance(part, Trees):
            result[-1] = last.joined(part)
        elif isinstance(last, Linear) and not last.weights.any():
            result[-1] = part.shifted(last.intercept)
        elif isinstance(last, Linear) and isinstance(part, Linear):
            result[-1] = last.joined(part)
        else:
            result.append(part)
    return tuple(result)


def _parts(scorer: Any) -> list[Part]:
    return _blend(scorer) if scorer.name == "blend" else [_part(scorer)]


def _part(scorer: Any) -> Part:
    if scorer.needs_queries:
        raise SettingError(
            f"The scorer {scorer.name!r} scores a document by the others of its query, which no target can: "
            "export a model whose scorer looks at one document."
        )
    if scorer.name not in _PARTS:
        raise SettingError(f"The scorer {scorer.name!r} has no form to export; those of {', '.join(_PARTS)} have one.")
    return _PARTS[scorer.name](scorer)


def _linear(scorer: Any) -> Part:
    known = scorer.inverse_sd > 0
    deviation = np.divide(1.0, scorer.inverse_sd, out=np.zeros_like(scorer.inverse_sd), where=known)
    return Linear(scorer.weights, scorer.intercept, deviation)


def _trees(scorer: Any) -> Part:
    return Trees(scorer.forest if scorer.forest.n_trees else Forest.constant(0.0))


def _blend(scorer: Any) -> list[Part]:
    if scorer.linear is None:
        return [_trees(scorer)]
    if scorer.filling is not None and not scorer.filling.is_plain:
        raise SettingError(
            "The linear member of the blend fills gaps or makes indicators of categories, which no target can; blend "
            "trees alone, as in luce.model('auto', members=['regression', 'lambdarank']) "
            "(--trainer-setting members=regression,lambdarank)."
        )
    return [_linear(scorer.linear), *([_trees(scorer)] if scorer.forest.n_trees else [])]


def _stumps(scorer: Any) -> Part:
    from luce.export.linear_terms import forest_of_steps

    return Trees(forest_of_steps(scorer))


def _second_order(scorer: Any) -> Part:
    return SecondOrder(scorer.products, scorer.weights, scorer.pair_weights)


def _network(scorer: Any) -> Part:
    *hidden, last = scorer.layers
    layers = [Layer(layer.weights, layer.bias, scorer.activation) for layer in hidden]
    return Network((*layers, Layer(last.weights, last.bias, "identity")))


_PARTS: dict[str, Callable[[Any], Part]] = {
    "linear": _linear,
    "trees": _trees,
    "stumps": _stumps,
    "second_order": _second_order,
    "mlp": _network,
}


_UNIT = 2.0**-24
"""The relative error of one float32 operation."""


def auto_offset(form: Form, X: NDArray[np.float32] | None) -> float:
    """A constant that brings every score to 0 or above, 0 where none is needed, rounding in float32 included.

    Trees: the sum of the smallest leaves bounds every score, whatever the document. A linear model has no bound of its
    own: X says the range of every feature, 0 always in it since an engine takes 0 for a feature that does not match;
    the bound holds for all documents whose features lie within these ranges. Second order: see `_second_order`.
    """
    low = size = 0.0
    terms = 1
    for part in form.parts:
        least, most, count = _range(part, X)
        low, size, terms = low + least, size + most, terms + count
    if low >= 0:
        return 0.0
    # Every partial sum is at most |low| + size; adding `terms` of them in float32 loses at most this much.
    slack = 4 * terms * _UNIT * (size - low)
    return float(np.nextafter(np.float32(slack - low), np.float32(np.inf)))


def _range(part: Part, X: NDArray[np.float32] | None) -> tuple[float, float, int]:
    """A lower bound of the scores, one of the sum of all absolute terms, and the number of terms."""
    if isinstance(part, Trees):
        forest = part.forest
        starts = forest.leaves[:-1]
        least, largest = np.minimum.reduceat(forest.value, starts), np.maximum.reduceat(np.abs(forest.value), starts)
        return float(least.sum()), float(largest.sum()), forest.n_trees
    if isinstance(part, Network):
        raise SettingError("How low a neural network can score is not known; give a number as offset.")
    if X is None:
        raise SettingError(
            f"How low {part.kind} can score depends on the features; give --check DATA (check=), which then "
            "gives a bound, or a number as offset."
        )
    if isinstance(part, Linear):
        ends = part.weights * np.stack([np.minimum(X.min(axis=0), 0.0), np.maximum(X.max(axis=0), 0.0)])
        size = float(np.abs(ends).max(axis=0).sum()) + abs(part.intercept)
        return float(ends.min(axis=0).sum()) + part.intercept, size, len(part.weights) + 1
    return _second_order_bounds(part, X)


def _second_order_bounds(part: SecondOrder, X: NDArray[np.float32]) -> tuple[float, float, int]:
    """The lowest score of the rows and of a document that matches nothing, less the range of these scores once more.

    The ranges of products allow for scores far below any that occurs (on OHSUMED twenty times the range of all scores),
    and so large a constant costs the digits that tell documents apart; so this is no bound, but twice what was seen.
    """
    products = part.products
    rows = np.concatenate([X, np.zeros((1, X.shape[1]), np.float32)])
    scores = products.scores(rows, part.weights, part.pair_weights, precise=True) + part.intercept
    weights, pair_weights, intercept = part.expanded()
    reach = np.abs(X).max(axis=0).astype(np.float64)
    pairs = reach[products.left] * reach[products.right]
    size = float(np.abs(weights) @ reach + np.abs(pair_weights) @ pairs) + abs(intercept)
    return float(scores.min() - np.ptp(scores)), size, len(weights) + len(pairs) + 1
