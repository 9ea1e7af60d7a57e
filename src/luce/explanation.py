r"""Why a document has its score: what each feature adds to that of a reference, in sums that are exact.

A score is a sum of terms over columns that are made of features (`luce.form`), and the values of a sum are the sums of
its terms' values. They are Shapley values of the change from a reference document $r$: a feature gets its mean effect
over all orders in which the features of $r$ are exchanged for those of the document. For a linear term that is
$w_i (x_i - r_i)$, for a product $z_i z_j$ half the change of each factor times the sum of the other, and for trees see
`luce.scorers.forest_paths`. The reference is another document, or the median of each feature in training; trees that
know their training documents then take the mean over these, as TreeSHAP does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from luce.base import RankerBase
from luce.data.filling import normalise_within_queries
from luce.errors import DataError, LuceError, SettingError
from luce.form import Linear, SecondOrder, Term, Trees, base_column, own_terms
from luce.result import Result, Sheet
from luce.scorers.forest_paths import tree_contributions
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.ranker import Ranker


@dataclass(frozen=True, eq=False)
class Explanation(Result):
    """What every feature adds to the score of every document: `base_values + values.sum(axis=1)` are the scores.

    `to_shap` gives it to the pictures of the library shap.
    """

    values: FloatArray
    """One row a document, one column a feature."""
    base_values: FloatArray
    """The score that the features are added to: that of the reference, one a document."""
    data: NDArray[np.float32]
    feature_names: list[str]
    ids: Sequence[Any] = ()
    """Names of the documents, where they have some."""
    notes: Sequence[str] = field(default=())

    @property
    def scores(self) -> FloatArray:
        """The scores of the documents."""
        return self.base_values + self.values.sum(axis=1)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanation:
        """Some of the documents."""
        at = np.atleast_1d(np.arange(len(self))[rows])
        ids = [self.ids[i] for i in at] if len(self.ids) else ()
        return Explanation(self.values[at], self.base_values[at], self.data[at], self.feature_names, ids, self.notes)

    def to_shap(self) -> Any:
        """A `shap.Explanation`, which `shap.plots` draw; one row of it for those of a document."""
        try:
            shap = import_module("shap")
        except ImportError as error:
            raise LuceError("to_shap makes an object of shap, which is missing; `pip install shap`.") from error
        return shap.Explanation(self.values, self.base_values, self.data, feature_names=self.feature_names)

    def of(self, row: int, top: int | None = None) -> Sheet:
        """The features of one document, those that add most first; what `top` leaves out is one line."""
        order = np.argsort(-np.abs(self.values[row]), kind="stable")
        shown, rest = order[:top], order[top:] if top is not None else order[:0]
        names = [self.feature_names[j] for j in shown]
        cells = [float(x) if x == x else None for x in self.data[row][shown].tolist()]
        added = self.values[row][shown].tolist()
        if len(rest):
            names, cells = [*names, f"{len(rest)} others"], [*cells, None]
            added.append(float(self.values[row][rest].sum()))
        name = self.ids[row] if len(self.ids) else row
        title = f"Document {name}: score {self.scores[row]:.6g}, of which the reference has {self.base_values[row]:.6g}"
        return Sheet(title, {"feature": names, "value": cells, "adds": added})

    def sheets(self) -> list[Sheet]:
        """One row a document."""
        ids = list(self.ids) if len(self.ids) else list(range(len(self)))
        whole = {"document": ids, "score": self.scores.tolist(), "reference": self.base_values.tolist()}
        return [Sheet("What features add", whole | dict(zip(self.feature_names, self.values.T.tolist(), strict=True)))]


def explained(
    ranker: Ranker, data: Groups, base_scores: FloatArray | None = None, against: int | None = None
) -> Explanation:
    """The scores of documents, taken apart by feature; `against` is the row of the document to compare with."""
    values, base = np.zeros((data.n_rows, data.n_features)), np.zeros(data.n_rows)
    if against is not None and not 0 <= against < data.n_rows:
        raise DataError(f"against is row {against}, and there are {data.n_rows}; give a number from 0 on.")
    notes: list[str] = []
    _add(ranker, data, against, values, base, notes)
    if base_scores is not None:
        base += base_scores  # what stands outside of the features is no feature's doing
        notes.append("The base scores that were given are part of the reference.")
        if against is not None:
            base += base_scores[against] - base_scores
            notes[-1] = "The difference of the base scores that were given is left out."
    ids = [] if data.document_ids is None else [str(name) for name in data.document_ids]
    return Explanation(values, base, np.asarray(data.X), list(data.feature_names), ids, tuple(dict.fromkeys(notes)))


def _add(
    ranker: Ranker, data: Groups, against: int | None, values: FloatArray, base: FloatArray, notes: list[str]
) -> None:
    """Add what the terms of a ranker do, and those of its base."""
    if isinstance(ranker.base_, RankerBase):
        _add(ranker.base_.ranker, data, against, values, base, notes)
    X = np.asarray(data.X)
    column = base_column(ranker)
    for term in own_terms(ranker):
        owners = np.array([column.feature for column in term.columns])
        seen, reference = _seen(ranker, term, X, data.offsets, against)
        if against is None and reference.any() and not isinstance(term.part, Trees):
            notes.append("Reference: the median of each feature in training.")
        found, level = _contributions(term, owners, seen, reference, against is not None)
        base += level
        np.add.at(values.T, owners, found.T)
    if column is not None:
        x = column.values(X).astype(np.float64)
        low = 0.0 if against is None else x[against]
        values[:, column.feature] += x - low
        base += low


def _seen(
    ranker: Ranker, term: Term, X: NDArray[np.float32], offsets: Any, against: int | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What a term sees of rows and of the reference."""
    if ranker.query_norm is None:
        seen = term.matrix(X)
        middle = _middle(ranker, X.shape[1]) if against is None else X[against : against + 1]
        return seen, term.matrix(middle)[0]
    if ranker.filling_ is None:
        seen = term.matrix(normalise_within_queries(X, offsets, ranker.query_norm))
    else:
        seen = normalise_within_queries(term.matrix(X), offsets, ranker.query_norm)
    return seen, np.zeros(seen.shape[1], np.float32) if against is None else seen[against]


def _middle(ranker: Ranker, width: int) -> NDArray[np.float32]:
    """A document with the median of every number in training, and of no category; zeros where that is not known."""
    known = {} if ranker.schema_ is None else ranker.schema_.categories
    row = np.zeros((1, width), dtype=np.float32)
    for j in range(width if ranker.profile_ is not None else 0):
        row[0, j] = np.nan if j in known else ranker.profile_.middle(j)  # type: ignore[union-attr]
    return row


def _contributions(
    term: Term, owners: NDArray[Any], X: NDArray[np.float32], reference: NDArray[np.float32], given: bool
) -> tuple[FloatArray, float]:
    """What every column adds to the scores of rows, and the score of the reference."""
    part = term.part
    if isinstance(part, Trees):
        known = len(part.forest.count) == len(part.forest.value)
        return tree_contributions(part.forest, X, None if known and not given else reference)
    rows, low = X.astype(np.float64), reference.astype(np.float64)
    if isinstance(part, Linear):
        return part.weights * (rows - low), float(part.weights @ low) + part.intercept
    if not isinstance(part, SecondOrder):
        raise SettingError(
            f"The model is {part.kind}, whose scores are no sum over features, so that no exact contributions are "
            "known; linear models, trees, second-order models and their sums are explained."
        )
    products = part.products
    z, r = ((x - products.mean) * products.inverse_sd for x in (rows, low))
    found = part.weights * (z - r)
    i, j = products.left, products.right
    for one, other in ((i, j), (j, i)):
        np.add.at(found.T, one, (part.pair_weights * (z - r)[:, one] * (z + r)[:, other] / 2).T)
    return found, float(part.weights @ r + part.pair_weights @ (r[i] * r[j])) + part.intercept
