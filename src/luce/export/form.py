"""What a model is, apart from how it was trained: the one form that every export target reads.

A form is a sum of parts over the same features: linear, trees, second order or a network. A fitted ranker becomes a
form here or is refused here; what a target cannot express, the target refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.base import ColumnBase, RankerBase
from luce.errors import SettingError
from luce.numerics.products import Products
from luce.scorers.forest import Forest
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.ranker import Ranker


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
    from luce.export.steps import forest_of_steps

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
