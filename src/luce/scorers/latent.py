r"""Latent structured ranking (Weston and Blitzer, 2012): documents beside each other count by a low-rank product.

A list $d_1, d_2, \dots$ is worth
$\sum_i \omega_i\, v \cdot d_i + \sum_{i,j} \omega_i \omega_j\, (A d_i) \cdot (A d_j)$ with position weights
$\omega_i = 1 / \log_2(1 + i)$ ([Pareek] (2.25), where the query enters by the features). With
$S = \sum_i \omega_i A d_i$ the second sum is $\|S\|^2$, which is convex in the list: given S, sorting by
$v \cdot d + 2 (A d) \cdot S$ never makes the list worse, and repeating it ends at a local maximum. It is begun from
several lists, and the best end is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from luce.data.trec import ranks
from luce.errors import ModelFormatError
from luce.numerics.segments import query_index
from luce.scorers.kernel_sums import best_left, places_of_rest
from luce.scorers.saved import Fitted, array
from luce.spec import option
from luce.types import FloatArray, IntArray

_MOST_SORTS = 50
_LARGEST = 1e150
"""Squares of what is larger overflow."""


def position_weight(position: int) -> float:
    """The weight of a position, from 0."""
    return float(1.0 / np.log2(position + 2.0))


@dataclass(frozen=True, eq=False)
class _Lists:
    """Lists of all queries at once, as the place of every document, and what they are worth."""

    own: FloatArray
    latent: NDArray[np.float64]
    offsets: IntArray
    depth: int

    @cached_property
    def query(self) -> IntArray:
        return query_index(self.offsets)

    @cached_property
    def position_weights(self) -> FloatArray:
        longest = int(np.diff(self.offsets).max())
        return np.array([position_weight(i) if i < self.depth else 0.0 for i in range(longest)])

    def places(self, values: FloatArray) -> IntArray:
        """The place of every document by falling value; equal values in the order of the rows."""
        return ranks(values, self.offsets) - 1

    def sums(self, places: IntArray) -> NDArray[np.float64]:
        """S of every query."""
        weighted = self.position_weights[places][:, None] * self.latent
        result: NDArray[np.float64] = np.add.reduceat(weighted, self.offsets[:-1])
        return result

    def worth(self, places: IntArray) -> FloatArray:
        """Of every query's list."""
        alone = np.add.reduceat(self.position_weights[places] * self.own, self.offsets[:-1])
        result: FloatArray = alone + np.sum(self.sums(places) ** 2, axis=1)
        return result

    def improved(self, places: IntArray) -> IntArray:
        """Sorted by what S says until nothing changes."""
        for _ in range(_MOST_SORTS):
            again = self.places(self.own + 2 * np.einsum("ij,ij->i", self.latent, self.sums(places)[self.query]))
            # A change that is worth nothing could go back and forth.
            better = (self.worth(again) > self.worth(places))[self.query]
            if not better.any():
                break
            places = np.where(better, again, places)
        return places

    def greedy(self) -> IntArray:
        """At every position the document with the most to add."""
        square = np.einsum("ij,ij->i", self.latent, self.latent)
        left = np.ones(len(self.own), dtype=bool)
        placed = np.zeros((len(self.offsets) - 1, self.latent.shape[1]))
        places = np.zeros(len(self.own), dtype=np.int64)
        utility = self.own
        for position, weight in enumerate(self.position_weights[: self.depth].tolist()):
            utility = self.own + 2 * np.einsum("ij,ij->i", self.latent, placed[self.query]) + weight * square
            rows = best_left(utility, left, self.offsets)
            places[rows], left[rows] = position, False
            placed[self.query[rows]] += weight * self.latent[rows]
        rest, after = places_of_rest(utility, left, self.offsets)
        places[rest] = after
        return places


class FittedLatent(Fitted):
    """`weights` v and `factors` A, (rank, features), on standardised features."""

    weights: FloatArray = array("features")
    factors: NDArray[np.float64] = array("any", "features")
    mean: FloatArray = array("features")
    inverse_sd: FloatArray = array("features")
    depth: int = option(least=1, most=2**31)

    name = "latent"
    needs_queries = True

    def score(self, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """Minus the position of every document, 0 the first: the best list found for [Pareek] (2.26)."""
        Z = (X - self.mean) * self.inverse_sd
        lists = _Lists(Z @ self.weights, Z @ self.factors.T, offsets, self.depth)
        good = (np.abs(lists.own) < _LARGEST) & (np.abs(lists.latent) < _LARGEST).all(axis=1)
        if not good.all():
            return np.where(good, 0.0, np.nan)  # there is no order of what is not known; who asked says which rows
        best = lists.improved(lists.greedy())
        worth = lists.worth(best)
        # Along a principal direction of the latent space, either way, the second sum is far from 0.
        along = lists.latent @ np.linalg.svd(lists.latent, full_matrices=False)[2].T
        for values in (lists.own, *along.T, *-along.T):
            found = lists.improved(lists.places(values))
            better = (there := lists.worth(found)) > worth
            best, worth = np.where(better[lists.query], found, best), np.maximum(worth, there)
        return -best.astype(np.float64)

    def importance(self) -> FloatArray:
        """Weight of each standardised feature by itself."""
        return self.weights

    def _check(self) -> None:
        if not len(self.weights):
            raise ModelFormatError("Latent structured ranking needs at least one feature.")
