"""Weak learners of listwise boosting: which one a round takes, what it gives, and what a sum of them is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.numerics.compiled import kernel
from luce.numerics.rows import accumulate_rows, column_sums
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.scorers.linear import FittedLinear, Standardisation, standardise
from luce.scorers.stumps import FittedStumps
from luce.scorers.weak_learners import SingleFeature, SingleStump
from luce.training.bins import MISSING, cut
from luce.types import FittedScorer, FloatArray


class Ensemble(Protocol):
    r"""A weighted sum of weak learners, $F = F_0 + \sum_t \alpha_t h_t$, that can be told to choose the next."""

    unit: float | None
    """What h has to be multiplied by to be like -d; None where only the direction of h was chosen."""

    def choose(self, d: FloatArray, rng: np.random.Generator) -> FloatArray | None:
        """The weak learner of the largest |<d, h>| / ||h|| on the training rows, as its values; None: there is none."""
        ...

    def values(self, X: NDArray[np.float32]) -> FloatArray:
        """What the one chosen last gives for other rows."""
        ...

    def add(self, alpha: float) -> None:
        """Append the one chosen last with this weight."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that was added, for a checkpoint."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take up what `arrays` gave."""
        ...

    def fitted(self, rounds: int | None = None) -> FittedScorer:
        """The sum of the first rounds, or of all."""
        ...


class FeatureSum:
    """Single features: all margins come from one product of X with the gradient."""

    unit: float | None = None

    def __init__(self, scorer: SingleFeature, data: Groups, start: FittedScorer | None) -> None:
        self.X, self.offsets = data.X, data.offsets
        self.start = start if isinstance(start, FittedLinear) else None
        n = data.n_features
        moments = standardise(data.X)
        self.scale = moments if scorer.standardise else Standardisation(np.zeros(n), np.ones(n))
        self.deviation = moments.inverse_sd
        length = np.sqrt(self._squares(moments))
        with np.errstate(divide="ignore"):
            self.per_length = np.where(length > 0, 1.0 / length, 0.0)
        self.constant = 1.0 / np.sqrt(data.n_rows) if scorer.constant else 0.0
        self.chunks = chunk_queries(data.offsets, max(64, (4 << 20) // (4 * n)))
        self.feature: list[int] = []
        """Features by round; the number after the last one is the constant."""
        self.weight: list[float] = []
        self._chosen = 0

    def _squares(self, moments: Standardisation) -> FloatArray:
        """Sums of squares of the weak learners over the training rows."""
        rows, n = self.X.shape
        if self.scale is moments:
            counts: FloatArray = rows * (moments.inverse_sd > 0).astype(np.float64)
            return counts
        total = np.zeros((2, n))
        column_sums(self.X, np.zeros(n), total[0], total[1])
        squares: FloatArray = total[1]
        return squares

    def choose(self, d: FloatArray, rng: np.random.Generator) -> FloatArray | None:
        """One pass over X."""
        n = self.X.shape[1]

        def block(_: int, chunk: Chunk) -> FloatArray:
            rows = slice(self.offsets[chunk[0]], self.offsets[chunk[1]])
            total = np.zeros(n)
            accumulate_rows(self.X[rows], d[rows], total)
            return total

        products = np.sum(map_chunks(block, self.chunks), axis=0)
        margins = np.abs((products - d.sum() * self.scale.mean) * self.scale.inverse_sd) * self.per_length
        margins = np.append(margins, abs(d.sum()) * self.constant)
        self._chosen = int(np.argmax(margins))
        return self.values(self.X) if margins[self._chosen] > 0 else None

    def values(self, X: NDArray[np.float32]) -> FloatArray:
        """The chosen column."""
        k = self._chosen
        if k == X.shape[1]:
            return np.ones(len(X))
        column = X[:, k].astype(np.float64)
        column -= self.scale.mean[k]
        column *= self.scale.inverse_sd[k]
        return column

    def add(self, alpha: float) -> None:
        """A weight of the chosen feature."""
        self.feature.append(self._chosen)
        self.weight.append(alpha)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Features and weights by round."""
        return {"feature": np.array(self.feature, dtype=np.int64), "weight": np.array(self.weight, dtype=np.float64)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Features and weights by round."""
        self.feature, self.weight = arrays["feature"].tolist(), arrays["weight"].tolist()

    def fitted(self, rounds: int | None = None) -> FittedLinear:
        """A linear scorer on the features as they are."""
        n = self.X.shape[1]
        sums = np.zeros(n + 1)
        np.add.at(sums, np.array(self.feature[:rounds], dtype=np.int64), self.weight[:rounds])
        weights = sums[:n] * self.scale.inverse_sd
        intercept = float(sums[n] - self.scale.mean @ weights)
        if self.start is not None:
            weights, intercept = weights + self.start.weights, intercept + self.start.intercept
        return FittedLinear(weights, intercept, self.deviation)


class StumpSum:
    """Steps in single features: sums of the gradient over bins give all margins."""

    unit: float | None = None

    def __init__(self, scorer: SingleStump, data: Groups, start: FittedScorer | None) -> None:
        self.bins = cut(data.X, scorer.thresholds)
        self.n_features = data.n_features
        self.start = start if isinstance(start, FittedStumps) else None
        self.counts = np.array([np.bincount(row, minlength=256) for row in self.bins.above])
        self.steps: list[tuple[int, float, float, float]] = []
        self._chosen = (0, 0.0, 0.0)

    def choose(self, d: FloatArray, rng: np.random.Generator) -> FloatArray | None:
        """One pass over the bins."""
        n = self.n_features
        best, place, missing = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n)
        thresholds = np.array([len(found) for found in self.bins.thresholds])

        def features(_: int, chunk: Chunk) -> None:
            _best_stumps(*chunk, self.bins.above, thresholds, self.counts, d, best, place, missing)

        block = max(1, 65_536 // len(d))
        map_chunks(features, [(k, min(k + block, n)) for k in range(0, n, block)])
        k = int(np.argmax(best))
        if not best[k] > 0:
            return None
        self._chosen = (k, float(self.bins.thresholds[k][place[k]]), float(missing[k]))
        above = self.bins.above[k]
        result: FloatArray | None = np.where(above == MISSING, missing[k], (above > place[k]).astype(np.float64))
        return result

    def values(self, X: NDArray[np.float32]) -> FloatArray:
        """1 above the threshold, 0 below."""
        k, threshold, missing = self._chosen
        column = X[:, k]
        return np.where(np.isnan(column), missing, column > np.float64(threshold))

    def add(self, alpha: float) -> None:
        """A step of this height."""
        k, threshold, missing = self._chosen
        self.steps.append((k, threshold, alpha, alpha * missing))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """A row a round."""
        return {"steps": np.array(self.steps, dtype=np.float64).reshape(-1, 4)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """A row a round."""
        self.steps = [(int(k), float(a), float(b), float(c)) for k, a, b, c in arrays["steps"]]

    def fitted(self, rounds: int | None = None) -> FittedStumps:
        """A sum of steps."""
        table = np.array(self.steps[:rounds], dtype=np.float64).reshape(-1, 4)
        if self.start is not None:
            old = self.start
            table = np.vstack([np.column_stack([old.feature, old.threshold, old.weight, old.missing]), table])
        feature, threshold, weight, missing = table.T
        return FittedStumps.of(feature, threshold, weight, missing, self.n_features)


@kernel
def _best_stumps(first, last, above, thresholds, counts, d, best, place, missing):  # type: ignore[no-untyped-def]
    sums = np.empty(256)
    for k in range(first, last):
        sums[:] = 0.0
        for i in range(len(d)):
            sums[above[k, i]] += d[i]
        total, size = 0.0, 0
        for b in range(thresholds[k] - 1, -1, -1):
            total += sums[b + 1]
            size += counts[k, b + 1]
            for side in range(2):  # missing values below, or above
                n = size + side * counts[k, MISSING]
                margin = abs(total + side * sums[MISSING]) / np.sqrt(n) if n > 0 else 0.0
                if margin > best[k]:
                    best[k], place[k], missing[k] = margin, b, side
