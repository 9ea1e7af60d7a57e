"""Sums of steps in single features: what boosted threshold rankers leave behind."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce.errors import ModelFormatError
from luce.numerics.compiled import kernel
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.scorers.saved import Fitted, array, counted_features
from luce.types import FloatArray, IntArray


class FittedStumps(Fitted):
    r"""Scores $f(x) = \sum_s w_s [x_{k(s)} > \theta_s]$; a missing $x_{k(s)}$ adds $m_s$ instead.

    The steps are sorted by feature and threshold, and no two have both in common.
    """

    feature: IntArray = array("steps", dtype=np.int64)
    threshold: FloatArray = array("steps")
    weight: FloatArray = array("steps")
    missing: FloatArray = array("steps")
    n_features: int = counted_features()

    name = "stumps"
    importance_is = "range of the score over the feature"

    @classmethod
    def of(
        cls, feature: ArrayLike, threshold: ArrayLike, weight: ArrayLike, missing: ArrayLike, n_features: int
    ) -> FittedStumps:
        """The sum of these steps, in any order; steps at the same place become one.

        >>> FittedStumps.of([1, 0, 1], [0.5, 0.5, 0.5], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0], 2).weight.tolist()
        [2.0, 4.0]
        """
        places = np.empty(np.size(feature), dtype=[("feature", np.int64), ("threshold", np.float64)])
        places["feature"], places["threshold"] = feature, threshold
        unique, index = np.unique(places, return_inverse=True)
        weights, missed = (
            np.bincount(index, np.asarray(values, dtype=np.float64), minlength=len(unique)).astype(np.float64)
            for values in (weight, missing)
        )
        at, above = (np.ascontiguousarray(unique[name]) for name in ("feature", "threshold"))
        return cls(at, above, weights, missed, n_features)

    def score(self, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """One score a row; each depends on its own row only."""
        scores = np.zeros(len(X))
        used, firsts = np.unique(self.feature, return_index=True)
        ends = np.append(firsts, len(self.feature)).astype(np.int64)

        def block(_: int, chunk: Chunk) -> None:
            rows = slice(offsets[chunk[0]], offsets[chunk[1]])
            _add_steps(X[rows], used, ends, self.threshold, self.weight, self.missing, scores[rows])

        map_chunks(block, chunk_queries(offsets))
        return scores

    def importance(self) -> FloatArray:
        """For every feature, by how much it can move the score: the range of its sum of steps."""
        result = np.zeros(self.n_features)
        for feature in np.unique(self.feature):
            path = np.cumsum(self.weight[self.feature == feature])
            result[feature] = max(path.max(), 0.0) - min(path.min(), 0.0)
        return result

    def _check(self) -> None:
        feature, threshold = self.feature, self.threshold
        if np.any(feature < 0) or np.any(feature >= self.n_features):
            raise ModelFormatError(f"The features of stumps must be from 0 to {self.n_features - 1}.")
        same = feature[1:] == feature[:-1]
        if not np.all((feature[1:] > feature[:-1]) | (same & (threshold[1:] > threshold[:-1]))):
            raise ModelFormatError("Stumps must be sorted by feature and threshold, each place once.")


@kernel
def _add_steps(X, used, ends, threshold, weight, missing, out):  # type: ignore[no-untyped-def]
    for i in range(len(X)):
        total = 0.0
        for u in range(len(used)):
            x = X[i, used[u]]
            if np.isnan(x):
                for s in range(ends[u], ends[u + 1]):
                    total += missing[s]
                continue
            for s in range(ends[u], ends[u + 1]):
                if x <= threshold[s]:  # thresholds rise, so that all later ones are above x as well
                    break
                total += weight[s]
        out[i] = total
