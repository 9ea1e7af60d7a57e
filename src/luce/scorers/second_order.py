"""The second-order scorer: features and products of features, none of which is ever built."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.blocks import Blocks
from luce.errors import ModelFormatError, SettingError
from luce.numerics.products import Products
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.scorers.correlation import Selection, product_correlations, select_products
from luce.scorers.linear import OnStandardised, Standardisation, standardise_blocks
from luce.scorers.saved import Fitted, array
from luce.spec import Range, option
from luce.types import Features, FloatArray, IntArray


class Term(NamedTuple):
    """A selected product as a report shows it."""

    name: str
    correlation: float
    weight: float


class SecondOrderScorer(OnStandardised):
    r"""Scores $f(x) = \sum_i w_i z_i + \sum_{(i,j) \in S} w_{ij} z_i z_j / \sigma_{ij}$ with $z = (x - \mu) / \sigma$.

    $S$ holds the products whose correlation with the label is strongest in absolute value: those that reach
    `threshold` ([PMOP] takes 0.15), or the `count` best. It is chosen once, when the scorer is bound to its
    training set; scoring sees features only. The parameters are the weights of the features, then those of the
    products in the order of $S$. $\sigma_{ij}$ is the standard deviation of the product: products of heavy-tailed
    features have large ones, and without it the L2 penalty would hardly hold them.

    Parameters
    ----------
    threshold
        Least absolute Pearson correlation of a product with the label, between 0 and 1.
    count
        Number of products to keep; fewer where there are fewer with a correlation. Where neither is given: one for
        every hundred documents, at least 10 and at most 1000.
    centred
        False takes products of the features as they stand, $z = x / \sigma$: each then holds a part of its two features
        as well, and far more of them reach a threshold. It is how [PMOP] reads.
    """

    threshold: float | None = option(default=None, least=0, most=1)
    count: int | None = option(default=None, least=1, tune=Range(10, 1000, whole=True))
    centred: bool = True

    name = "second_order"
    feature_names: ClassVar[tuple[str, ...]] = ()
    selection = Selection(*(np.empty(0, dtype=np.int64),) * 2, *(np.empty(0),) * 2)

    def _check(self) -> None:
        if self.threshold is not None and self.count is not None:
            raise SettingError(f"threshold={self.threshold!r} and count={self.count!r} were given; give one of them.")

    @cached_property
    def products(self) -> Products:
        """The selected products of standardised features."""
        return Products(self.scale.mean, self.scale.inverse_sd, self.selection.left, self.selection.right)

    def bind(self, data: Blocks) -> SecondOrderScorer:
        """Take the moments of a training set and select the products by their correlation with its labels."""
        scale = standardise_blocks(data)
        if not self.centred:
            scale = Standardisation(np.zeros_like(scale.mean), scale.inverse_sd)
        correlations = product_correlations(data, scale.mean, scale.inverse_sd)
        count = self.count
        if self.threshold is None and count is None:
            # More than that overfit small sets: MQ2008 (10,000 documents) loses by every product beyond some dozens.
            count = min(max(data.n_rows // 100, 10), 1000)
        selection = select_products(correlations, threshold=self.threshold, count=count)
        fresh = SecondOrderScorer(self.threshold, self.count, self.centred)
        return fresh._changed(feature_names=data.feature_names, scale=scale, selection=selection)

    @property
    def n_parameters(self) -> int:
        """A weight a feature and a weight a selected product."""
        return len(self.scale.mean) + len(self.selection.left)

    def forward(self, parameters: FloatArray, X: Features, offsets: IntArray) -> FloatArray:
        """Scores of a block of rows."""
        return self.products.scores(X, *self._split(parameters))

    def backward(self, parameters: FloatArray, X: Features, offsets: IntArray, d_scores: FloatArray) -> FloatArray:
        """Gradient in the weights."""
        d_weights, d_pairs = self.products.gradients(X, d_scores)
        return np.concatenate([d_weights, d_pairs / self.selection.deviation])

    def design(self, X: Features) -> Features:
        """What the scores of a block are linear in, one column a parameter: standardised features, then products."""
        Z = (X - self.scale.mean.astype(np.float32)) * self.scale.inverse_sd.astype(np.float32)
        kept = self.selection
        products = Z[:, kept.left] * Z[:, kept.right] * (1.0 / kept.deviation).astype(np.float32)
        return np.concatenate([Z, products], axis=1)

    def fitted(self, parameters: FloatArray) -> FittedSecondOrder:
        """The scorer for prediction, which standardises each row as it comes."""
        weights, pair_weights = self._split(parameters)
        kept = self.selection
        pairs, about = np.stack([kept.left, kept.right]), (kept.correlation, kept.deviation)
        moments = self.scale.mean, self.scale.inverse_sd
        return FittedSecondOrder(*moments, weights, pairs, pair_weights, *about, self.feature_names)

    def parameters_of(self, fitted: FittedSecondOrder) -> FloatArray:
        r"""The weights of a fitted scorer on this scorer's scale, for a warm start.

        With the old $z = D z' + c$, a product is $z_i z_j = D_i D_j z'_i z'_j + D_i c_j z'_i + D_j c_i z'_j + c_i c_j$.
        Products that this scorer did not select are lost.
        """
        old, new = fitted.products, self.scale
        D = old.inverse_sd * new.sd
        c = (new.mean - old.mean) * old.inverse_sd
        W = np.zeros((old.n_features, old.n_features))
        W[old.left, old.right] = fitted.pair_weights
        weights = D * (fitted.weights + (W + W.T) @ c)
        W *= np.outer(D, D)
        kept = self.selection
        return np.concatenate([weights, W[kept.left, kept.right] * kept.deviation])

    def _split(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights of the features, and of the products as they are."""
        n = len(self.scale.mean)
        return parameters[:n], parameters[n:] / self.selection.deviation


def _names(name: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise SettingError(f"a second-order scorer needs {name!r} as a list of texts.")
    return tuple(given)


class FittedSecondOrder(Fitted):
    """Weights of standardised features and of their products."""

    mean: FloatArray = array("features")
    inverse_sd: FloatArray = array("features")
    weights: FloatArray = array("features")
    pairs: NDArray[np.int64] = array("any", "products", dtype=np.int64)
    """The two features of each product."""
    pair_weights: FloatArray = array("products")
    correlation: FloatArray = array("products")
    """Correlation of each product with the label in the training set."""
    deviation: FloatArray = array("products")
    """Standard deviation of each product there."""
    feature_names: tuple[str, ...] = option(convert=_names)

    name = "second_order"

    @cached_property
    def products(self) -> Products:
        """The selected products of standardised features."""
        left, right = (np.ascontiguousarray(side) for side in self.pairs)
        return Products(self.mean, self.inverse_sd, left, right)

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """One score a row; each depends on its own row only."""

        def block(_: int, chunk: Chunk) -> FloatArray:
            rows = slice(offsets[chunk[0]], offsets[chunk[1]])
            return self.products.scores(X[rows], self.weights, self.pair_weights, precise=True)

        return np.concatenate(map_chunks(block, chunk_queries(offsets, 4096)))

    @property
    def term_names(self) -> list[str]:
        """Names of all terms: the features, then the products, as in "bm25*pagerank"."""
        names = self.feature_names
        pairs = zip(self.products.left.tolist(), self.products.right.tolist(), strict=True)
        return [*names, *(f"{names[i]}*{names[j]}" for i, j in pairs)]

    def importance(self) -> FloatArray:
        """Effect of one standard deviation of each term of `term_names` on the score."""
        return np.concatenate([self.weights, self.pair_weights * self.deviation])

    def table(self) -> list[Term]:
        """The selected products with correlation and standardised weight, the largest weights first."""
        names, weights = self.term_names[self.n_features :], self.importance()[self.n_features :]
        order = np.argsort(-np.abs(weights), kind="stable")
        return [Term(names[k], float(self.correlation[k]), float(weights[k])) for k in order]

    def _check(self) -> None:
        n = self.n_features
        if len(self.feature_names) != n:
            raise ModelFormatError(f"A second-order scorer of {n} features needs as many 'feature_names'.")
        if len(self.pairs) != 2:
            raise ModelFormatError("A second-order scorer needs a 2 x k matrix of whole numbers as 'pairs'.")
        left, right = self.pairs
        if not ((left >= 0) & (left <= right) & (right < n)).all():
            raise ModelFormatError(f"The pairs of a second-order scorer must be i <= j from 0 to {n - 1}.")
        if not (np.diff(left * n + right) > 0).all():
            raise ModelFormatError("The pairs of a second-order scorer must be sorted and different.")
