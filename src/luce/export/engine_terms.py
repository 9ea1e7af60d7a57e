"""A form in what search engines have: linear models, trees and networks over columns that are features of the engine.

Gaps that are filled, indicators, categories and products become features of the engine, which its feature set computes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from luce.errors import SettingError
from luce.export.request import refuse
from luce.form import Column, Form, Linear, SecondOrder, Term, Trees, merged, raw_columns
from luce.scorers.forest import CATEGORICAL

_SMALLEST = 1e-30
"""Deviations beyond this, or its reciprocal, are no good float32 numbers; 1 does as well."""


def for_engine(form: Form) -> Form:
    """Products and sets of categories as columns, and one column a feature that had no gaps in training."""
    return replace(form, terms=tuple(map(_used, merged(map(_expanded, _filled_alike(form.terms))))))


def without_sets(term: Term) -> Term:
    """Trees whose questions for a set of categories are questions for a column of zeros and ones."""
    if not isinstance(term.part, Trees) or not np.any(term.part.forest.kind & CATEGORICAL):
        return term
    forest = term.part.forest
    nodes = np.flatnonzero(forest.kind & CATEGORICAL)
    feature, left, right = forest.feature.copy(), forest.left.copy(), forest.right.copy()
    threshold, kind = forest.threshold.copy(), forest.kind.copy()
    place = {column: i for i, column in enumerate(term.columns)}
    for i in nodes.tolist():
        column = Column(term.columns[feature[i]].feature, codes=frozenset(forest.codes(i)))
        feature[i] = place.setdefault(column, len(place))
    left[nodes], right[nodes] = forest.right[nodes], forest.left[nodes]  # who is none of them goes to the right
    threshold[nodes], kind[nodes] = 0.5, 0
    asked = replace(forest, feature=feature, left=left, right=right, threshold=threshold, kind=kind)
    return Term(tuple(place), Trees(asked))


def _expanded(term: Term) -> Term:
    """Products as columns of a linear part, and sets of categories as columns of trees."""
    if not isinstance(term.part, SecondOrder):
        return without_sets(term)
    weights, pairs, intercept = term.part.expanded()
    couples = zip(term.part.products.left.tolist(), term.part.products.right.tolist(), strict=True)
    products = [replace(term.columns[i], times=term.columns[j]) for i, j in couples]
    columns = (*term.columns, *products)
    return Term(columns, Linear(np.concatenate([weights, pairs]), intercept, np.zeros(len(columns))))


def _filled_alike(terms: Iterable[Term]) -> list[Term]:
    """Trees see a feature as the linear term fills it where it had no gaps in training: one feature of the engine."""
    terms = list(terms)
    seen = list(chain.from_iterable(term.columns for term in terms))
    marked = {column.feature for column in seen if column.gap}
    filled = {c.feature: c for c in seen if c.plain and c.fill is not None and c.feature not in marked}
    return [replace(t, columns=tuple(filled.get(c.feature, c) if c.plain else c for c in t.columns)) for t in terms]


def _used(term: Term) -> Term:
    """Without the columns that a linear part or trees do not look at."""
    part = term.part
    if isinstance(part, Linear):
        kept = np.flatnonzero(part.weights)
        part = replace(part, weights=part.weights[kept], deviation=part.deviation[kept])
    elif isinstance(part, Trees):
        kept, feature = np.unique(part.forest.feature, return_inverse=True)
        part = Trees(replace(part.forest, feature=feature.astype(np.int32)))
    else:
        return term
    return Term(tuple(term.columns[i] for i in kept), part)


def in_order(form: Form, target: str, expand: bool = False) -> Form:
    """One term over all features in their order, with gaps as they are, and then over what is made of them.

    For readers that know features by their place; with `expand`, products and sets of categories are made columns.
    """
    terms = merged(map(_expanded, form.terms)) if expand else form.terms
    part = terms[0].part
    if len(terms) > 1 or not isinstance(part, Linear | Trees):
        refuse(
            form,
            target,
            "it takes one linear model or trees; take a blend without its linear member, or export to onnx or python",
        )
    made = [_unfilled(column) for column in terms[0].columns]
    if not expand and not all(column.plain for column in made):
        refuse(form, target, "it has no word for indicators of gaps and categories; export to onnx or python")
    columns = tuple(dict.fromkeys((*raw_columns(len(form.names)), *made)))
    at = np.array([columns.index(column) for column in made], np.int32)
    if isinstance(part, Trees):
        return replace(form, terms=(Term(columns, Trees(part.forest.on(at))),))
    weights, deviation = np.zeros(len(columns)), np.zeros(len(columns))
    np.add.at(weights, at, part.weights)
    deviation[at] = part.deviation
    return replace(form, terms=(Term(columns, replace(part, weights=weights, deviation=deviation)),))


def _unfilled(column: Column) -> Column:
    return replace(column, fill=None, times=None if column.times is None else _unfilled(column.times))


def engine_columns(form: Form) -> dict[str, Column]:
    """The features that an engine must have, by name: what is plain first, in the order of the model.

    >>> form = Form(("a",), (Term((Column(0, 0.5), Column(0, gap=True)), Linear(np.ones(2), 0.0, np.zeros(2))),))
    >>> list(engine_columns(form))
    ['a', 'a_missing']
    """
    needed = dict.fromkeys(c for term in form.terms for c in chain(*map(_needed, term.columns)))
    columns = sorted(needed, key=lambda c: (c.times is not None, not c.plain, c.feature))
    found: dict[str, Column] = {}
    for column in columns:
        name = _name(form, column, columns)
        if name in found:
            raise SettingError(
                f"Two features of the engine would have the name {name!r}; rename the features of the model "
                "(--feature-names)."
            )
        found[name] = column
    return found


def _needed(column: Column) -> list[Column]:
    """A column, and of a product its factors, which an engine multiplies."""
    return [column] if column.times is None else [replace(column, times=None), column.times, column]


def _name(form: Form, column: Column, columns: list[Column]) -> str:
    name = form.names[column.feature]
    if column.times is not None:
        return f"{_name(form, replace(column, times=None), columns)}_x_{_name(form, column.times, columns)}"
    if column.gap:
        return f"{name}_missing"
    if column.codes is not None:
        return f"{name}_{_word(form, column, columns)}"
    return f"{name}_filled" if column.fill is not None and Column(column.feature) in columns else name


def _word(form: Form, column: Column, columns: list[Column]) -> str:
    """One category by its name, where that makes a word that no other category has; several by a number."""
    assert column.codes is not None
    if len(column.codes) != 1:
        sets = [c for c in columns if c.codes is not None and c.feature == column.feature and len(c.codes) != 1]
        return f"in_{sets.index(column) + 1}"
    names = form.categories.get(column.feature, ())
    words = [re.sub(r"[^A-Za-z0-9-]+", "_", name).strip("_") for name in names]
    (code,) = column.codes
    return f"is_{words[code] if code < len(words) and words[code] and words.count(words[code]) == 1 else code}"


class Weighted(NamedTuple):
    """`sum of weight (x - mean) / deviation` over the features with a weight; plain weights have no normalizers."""

    weights: dict[str, float]
    normalizers: dict[str, tuple[float, float]]
    """Mean and deviation."""
    remarks: list[str]


def weighted(names: list[str], part: Linear, folded: bool = False) -> Weighted:
    r"""Weights and normalizers for a search engine; `folded` gives plain weights and leaves the intercept $b$ out.

    Features are moved by equally many deviations each, so that the moves add up to the intercept: with
    $k = b / \sum_i |w_i| \sigma_i$ and $\mu_i = -\operatorname{sign}(w_i) \sigma_i k$,
    $\sum_i w_i \sigma_i (x_i - \mu_i) / \sigma_i = \sum_i w_i x_i + b$. One feature could carry all of b, but then
    $x - \mu$ loses the digits of x in float32.
    """
    if folded:
        remark = f"The intercept {part.intercept:.6g} is left out; the order of documents is the same."
        return Weighted(dict(zip(names, part.weights.tolist(), strict=True)), {}, [remark])
    used = np.flatnonzero(part.weights)
    if not len(used):
        raise SettingError("The model gives every document the same score, so that there is nothing to rank by.")
    weights = part.weights[used]
    spread = part.deviation[used]
    deviation = np.where((spread > _SMALLEST) & (spread < 1 / _SMALLEST), spread, 1.0)
    steps = part.intercept / float(np.abs(weights) @ deviation)
    mean = -np.sign(weights) * deviation * steps + 0.0
    known = [names[i] for i in used]
    moves = zip(mean.tolist(), deviation.tolist(), strict=True)
    return Weighted(
        dict(zip(known, (weights * deviation).tolist(), strict=True)), dict(zip(known, moves, strict=True)), []
    )
