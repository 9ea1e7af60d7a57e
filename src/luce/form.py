"""What a model is, apart from how it was trained: the one form that exports, explanations and the report read.

A form is a sum of terms. A term is a part (linear, trees, second order or a network) over columns, and a column is a
number made of one feature: its value, with a gap left or filled, whether it is missing, or whether it is one of some
categories. A fitted ranker becomes a form here or is refused here; what a reader cannot express, the reader refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from luce.base import ColumnBase, RankerBase
from luce.data.filling import Filling
from luce.errors import SettingError
from luce.numerics.products import Products
from luce.scorers.forest import Forest
from luce.scorers.linear import reciprocal
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.ranker import Ranker


@dataclass(frozen=True)
class Column:
    """A number made of one feature: by default its value with gaps left as they are."""

    feature: int
    fill: float | None = None
    """What stands for a gap."""
    gap: bool = False
    """1 where the feature is missing, else 0."""
    codes: frozenset[int] | None = None
    """1 where the feature, cut to a whole number, is one of these categories, else 0."""
    times: Column | None = None
    """A second factor, which makes it a product of two."""

    @property
    def plain(self) -> bool:
        """Whether it is the value of the feature, at least where that is not missing."""
        return not self.gap and self.codes is None and self.times is None

    @property
    def never_missing(self) -> bool:
        """Whether it is a number for every document."""
        return self.fill is not None or self.gap or self.codes is not None

    def values(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """The column of rows of features.

        >>> X = np.array([[np.nan, 2.0], [3.0, 1.0]], dtype=np.float32)
        >>> [c.values(X).tolist() for c in (Column(0, 5.0), Column(0, gap=True), Column(1, codes=frozenset([2])))]
        [[5.0, 3.0], [1.0, 0.0], [1.0, 0.0]]
        """
        x = X[:, self.feature]
        if self.gap:
            x = np.isnan(x).astype(np.float32)
        elif self.codes is not None:
            x = (np.isin(np.trunc(x), sorted(self.codes)) & (x > -1)).astype(np.float32)
        elif self.fill is not None:
            x = np.where(np.isnan(x), np.float32(self.fill), x)
        return x if self.times is None else x * self.times.values(X)


def raw_columns(n_features: int) -> tuple[Column, ...]:
    """The features as they are."""
    return tuple(map(Column, range(n_features)))


def columns_of(filling: Filling | None, n_features: int) -> tuple[Column, ...]:
    """The columns that a scorer sees: `Filling.matrix`, one by one."""
    if filling is None:
        return raw_columns(n_features)
    values = [Column(j, filling.medians[j]) for j, count in enumerate(filling.categories) if not count]
    gaps = [Column(j, gap=True) for j in filling.marked]
    codes = [(j, c) for j, count in enumerate(filling.categories) for c in range(count)]
    return (*values, *gaps, *(Column(j, codes=frozenset([c])) for j, c in codes))


@dataclass(frozen=True, eq=False)
class Linear:
    """`weights . x + intercept`; `deviation` is what one standard deviation of a feature is, 0 where unknown."""

    weights: FloatArray
    intercept: float
    deviation: FloatArray

    kind = "a linear model"


@dataclass(frozen=True, eq=False)
class Trees:
    """A sum of trees, at least one."""

    forest: Forest

    kind = "trees"


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """`weights . z + sum of pair_weights[k] z_left[k] z_right[k] + intercept`, z = (x - mean) * inverse_sd."""

    products: Products
    weights: FloatArray
    pair_weights: FloatArray
    intercept: float = 0.0

    kind = "a second-order model"

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


Part = Linear | Trees | SecondOrder | Network


@dataclass(frozen=True, eq=False)
class Term:
    """A part, and the columns that it sees."""

    columns: tuple[Column, ...]
    part: Part

    def matrix(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the part sees of rows of features."""
        if self.columns == raw_columns(X.shape[1]):
            return X
        if not self.columns:
            return np.empty((len(X), 0), np.float32)
        return np.column_stack([column.values(X) for column in self.columns]).astype(np.float32, copy=False)

    @property
    def takes_gaps(self) -> bool:
        """Whether a feature may be missing: trees have a way for it, other parts need what stands for it."""
        return isinstance(self.part, Trees) or all(column.never_missing for column in self.columns)

    def shifted(self, constant: float) -> Term:
        """With a constant added to every score."""
        part = self.part
        if constant == 0:
            return self
        if isinstance(part, Trees):  # a tree of one leaf, so that no other leaf is rounded anew
            return replace(self, part=Trees(Forest.joined([Forest.constant(constant), part.forest])))
        if not isinstance(part, Network):
            return replace(self, part=replace(part, intercept=part.intercept + constant))
        *layers, last = part.layers  # the last one is linear
        return replace(self, part=Network((*layers, replace(last, bias=last.bias + constant))))


@dataclass(frozen=True, eq=False)
class Form:
    """A sum of terms over named features."""

    names: tuple[str, ...]
    terms: tuple[Term, ...]
    categories: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The names of the codes of a feature, where it has names."""

    @classmethod
    def plain(cls, names: Sequence[str], parts: Iterable[Part]) -> Form:
        """Parts over the features as they are."""
        return cls(tuple(names), tuple(Term(raw_columns(len(names)), part) for part in parts))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of all terms."""
        return tuple(term.part for term in self.terms)

    @property
    def kind(self) -> str:
        """What it is, for messages."""
        return " plus ".join(part.kind for part in self.parts)

    @property
    def takes_gaps(self) -> bool:
        """Whether a feature may be missing."""
        return all(term.takes_gaps for term in self.terms)

    def category(self, feature: int, code: int) -> str:
        """The name of a category; its code where it has none."""
        names = self.categories.get(feature, ())
        return names[code] if code < len(names) else str(code)

    def shifted(self, constants: Sequence[float]) -> Form:
        """With constants added to the terms."""
        return replace(self, terms=tuple(t.shifted(c) for t, c in zip(self.terms, constants, strict=True)))


def form_of(ranker: Ranker) -> Form:
    """A fitted ranker as a form; refused where a score is no function of the document's own features."""
    if ranker.on_scores_:
        raise SettingError("The model was trained on top of base_scores, which it does not hold; use a base instead.")
    known = {} if ranker.schema_ is None else dict(ranker.schema_.categories)
    return Form(tuple(ranker.feature_names_), merged(terms_of(ranker)), known)


def terms_of(ranker: Ranker) -> list[Term]:
    """The terms of a ranker, those of its base first; none for base scores, which it does not hold."""
    if ranker.query_norm is not None:
        raise SettingError(
            f"The model normalises features within each query (query_norm={ranker.query_norm!r}): its scores are no "
            "function of one document; train without query_norm."
        )
    column = base_column(ranker)
    below = terms_of(ranker.base_.ranker) if isinstance(ranker.base_, RankerBase) else []
    below += [] if column is None else [Term((column,), Linear(np.ones(1), 0.0, np.zeros(1)))]
    return [*below, *own_terms(ranker)]


def own_terms(ranker: Ranker) -> list[Term]:
    """The terms of a ranker without those of its base, over features as they come to it."""
    scorer, width = ranker.scorer_, ranker.n_features_in_
    if scorer.name != "blend":
        return [Term(columns_of(ranker.filling_, width), _part(scorer))]
    terms = [] if scorer.linear is None else [Term(columns_of(scorer.filling, width), _linear(scorer.linear))]
    return terms if terms and not scorer.forest.n_trees else [*terms, Term(raw_columns(width), _trees(scorer))]


def base_column(ranker: Ranker) -> Column | None:
    """The feature that is the base of a ranker, where one is."""
    base = ranker.base_
    return Column(list(ranker.feature_names_).index(base.name)) if isinstance(base, ColumnBase) else None


def merged(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Linear terms as one and trees as one; a linear term without weights becomes a constant of the next."""
    kinds: dict[type, Term] = {}
    rest: list[Term] = []
    for term in terms:
        kind = type(term.part)
        if kind in (Linear, Trees):
            kinds[kind] = _sum(kinds[kind], term) if kind in kinds else term
        else:
            rest.append(term)
    found = [*([kinds[Linear]] if Linear in kinds else []), *rest, *([kinds[Trees]] if Trees in kinds else [])]
    first = found[0].part
    if len(found) > 1 and isinstance(first, Linear) and not first.weights.any():
        found[:2] = [found[1].shifted(first.intercept)]
    return tuple(found)


def _sum(one: Term, other: Term) -> Term:
    """Two linear terms, or two terms of trees, as one over the columns of both."""
    columns = tuple(dict.fromkeys((*one.columns, *other.columns)))
    place = {column: i for i, column in enumerate(columns)}
    if isinstance(one.part, Trees) and isinstance(other.part, Trees):
        at = [np.array([place[column] for column in term.columns], np.int32) for term in (one, other)]
        return Term(columns, Trees(Forest.joined([one.part.forest.on(at[0]), other.part.forest.on(at[1])])))
    assert isinstance(one.part, Linear)
    assert isinstance(other.part, Linear)
    weights, deviation = np.zeros(len(columns)), np.zeros(len(columns))
    for term, part in ((one, one.part), (other, other.part)):
        mine = [place[column] for column in term.columns]
        weights[mine] += part.weights
        deviation[mine] = np.maximum(deviation[mine], part.deviation)
    return Term(columns, Linear(weights, one.part.intercept + other.part.intercept, deviation))


def _part(scorer: Any) -> Part:
    if scorer.needs_queries:
        raise SettingError(
            f"The scorer {scorer.name!r} scores a document by the others of its query, so that it "
            "is no function of one document; take a model whose scorer looks at one document."
        )
    if scorer.name not in _PARTS:
        raise SettingError(f"The scorer {scorer.name!r} has no form to export; those of {', '.join(_PARTS)} have one.")
    return _PARTS[scorer.name](scorer)


def _linear(scorer: Any) -> Part:
    return Linear(scorer.weights, scorer.intercept, reciprocal(scorer.inverse_sd))


def _trees(scorer: Any) -> Part:
    return Trees(scorer.forest if scorer.forest.n_trees else Forest.constant(0.0))


def _network(scorer: Any) -> Part:
    *hidden, last = scorer.layers
    layers = [Layer(layer.weights, layer.bias, scorer.activation) for layer in hidden]
    return Network((*layers, Layer(last.weights, last.bias, "identity")))


_PARTS: dict[str, Callable[[Any], Part]] = {
    "linear": _linear,
    "trees": _trees,
    "stumps": _trees,
    "second_order": lambda scorer: SecondOrder(scorer.products, scorer.weights, scorer.pair_weights),
    "mlp": _network,
}
