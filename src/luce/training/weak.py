r"""Weighted sums of weak learners, $F = F_0 + \sum_t \alpha_t h_t$: features, steps in features, trees.

`choose` takes the weak learner of the largest |<d, h>| / ||h|| for a gradient d and gives its values on the training
rows, None where there is none; `values` gives those of other rows, `add` appends it with a weight, and `fitted` is the
sum of the first rounds. `arrays` and `restore` are for checkpoints. `unit` is what h has to be multiplied by to be like
-d, None where only the direction of h was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.numerics.compiled import kernel
from luce.numerics.rows import accumulate_rows, column_sums
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.numerics.threads import n_threads
from luce.scorers.forest import Forest, forest_of
from luce.scorers.linear import FittedLinear, Standardisation, reciprocal, standardise
from luce.scorers.list_functions import GradientTrees, SingleFeature
from luce.scorers.stumps import FittedStumps
from luce.scorers.trees import FittedTrees, TreesScorer
from luce.types import Features, FittedScorer, FloatArray

MISSING = 255
"""The bin of NaN."""
_WORTH_THREADS = 1 << 20
"""Entries of X from which on LightGBM gets threads; on a busy machine those of small data mostly wait."""
_HIGHEST = 30


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
        if scorer.standardise:
            squares: FloatArray = data.n_rows * (moments.inverse_sd > 0).astype(np.float64)
        else:
            squares = np.zeros(n)
            column_sums(data.X, np.zeros(n), np.zeros(n), squares)
        self.per_length = reciprocal(np.sqrt(squares))
        self.constant = 1.0 / np.sqrt(data.n_rows) if scorer.constant else 0.0
        self.chunks = chunk_queries(data.offsets, max(64, (4 << 20) // (4 * n)))
        self.feature: list[int] = []
        """Features by round; the number after the last one is the constant."""
        self.weight: list[float] = []
        self._chosen = 0

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

    def values(self, X: Features) -> FloatArray:
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


class Bins(NamedTuple):
    """Thresholds of every feature, rising, and for every feature and row how many of them the value is above.

    Unless it is missing, the value of row i in feature k is above `thresholds[k][b]` exactly where `above[k, i] > b`.
    """

    thresholds: list[FloatArray]
    above: NDArray[np.uint8]


def cut(X: Features, limit: int) -> Bins:
    """Cut every feature between its values: between all of them, or at about `limit` quantiles where there are more.

    >>> bins = cut(np.array([[1], [3], [3], [9]], dtype=np.float32), 254)
    >>> bins.thresholds[0].tolist(), bins.above[0].tolist()
    ([2.0, 6.0], [0, 1, 1, 2])
    """
    rows, columns = X.shape
    above = np.empty((columns, rows), dtype=np.uint8)

    def feature(k: int, _: object) -> FloatArray:
        column = np.ascontiguousarray(X[:, k], dtype=np.float64)
        if np.isinf(column).any():
            raise DataError(f"Feature {k + 1} has infinite values; training needs finite ones.")
        absent = np.isnan(column)
        found = _thresholds(column[~absent], limit)
        above[k] = np.searchsorted(found, column, side="left")
        above[k, absent] = MISSING
        return found

    return Bins(map_chunks(feature, [(k, k + 1) for k in range(columns)]), above)


def _thresholds(values: FloatArray, limit: int) -> FloatArray:
    distinct, counts = np.unique(values, return_counts=True)
    middles = (distinct[1:] + distinct[:-1]) / 2
    if len(middles) <= limit:
        return middles
    below = np.cumsum(counts)[:-1] / len(values)
    wanted = np.arange(1, limit + 1) / (limit + 1)
    return np.asarray(middles[np.unique(np.minimum(np.searchsorted(below, wanted), len(middles) - 1))])


class Stump(NamedTuple):
    """1 where the feature is above its threshold of that number, `missing` where there is none, else 0."""

    feature: int
    place: int
    missing: float


def best_stump(bins: Bins, d: FloatArray, counts: NDArray[np.int64] | None = None) -> Stump | None:
    """The stump h of the largest |<d, h>|, with `counts` of the bins over ||h||; None where all are 0."""
    n = len(bins.thresholds)
    best, place, missing = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n)
    thresholds = np.array([len(found) for found in bins.thresholds])
    sizes = np.empty((0, 0), dtype=np.int64) if counts is None else counts

    def features(_: int, chunk: Chunk) -> None:
        _best_stumps(*chunk, bins.above, thresholds, sizes, d, best, place, missing)

    block = max(1, 65_536 // len(d))
    map_chunks(features, [(k, min(k + block, n)) for k in range(0, n, block)])
    k = int(np.argmax(best))
    return Stump(k, int(place[k]), float(missing[k])) if best[k] > 0 else None


class StumpSum:
    """Steps in single features: sums of the gradient over bins give all margins."""

    unit: float | None = None

    def __init__(self, bins: Bins, start: FittedScorer | None = None) -> None:
        self.bins, self.n_features = bins, len(bins.thresholds)
        self.start = start if isinstance(start, FittedStumps) else None
        self.counts = np.array([np.bincount(row, minlength=256) for row in bins.above])
        self.steps: list[tuple[int, float, float, float]] = []
        self._chosen = (0, 0.0, 0.0)

    def choose(self, d: FloatArray, rng: np.random.Generator) -> FloatArray | None:
        """One pass over the bins."""
        found = best_stump(self.bins, d, self.counts)
        return None if found is None else self.take(found)

    def take(self, stump: Stump) -> FloatArray:
        """Choose this one; returns its values on the training rows."""
        k, place, missing = stump
        self._chosen = (k, float(self.bins.thresholds[k][place]), missing)
        above = self.bins.above[k]
        return np.where(above == MISSING, missing, (above > place).astype(np.float64))

    def values(self, X: Features) -> FloatArray:
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


class TreeSum:
    """Trees, `members` of them a round, on those of an earlier fit."""

    def __init__(self, start: Forest, n_features: int, members: int = 1) -> None:
        self.start, self.n_features, self.members = start, n_features, members
        self.trees: list[Forest] = []

    def grown(self) -> Forest:
        """The trees of this training."""
        self.trees = [Forest.joined(self.trees)]
        return self.trees[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All trees of this training."""
        return {f"tree.{name}": array for name, array in self.grown().arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """All trees of this training."""
        own = {name.removeprefix("tree."): array for name, array in arrays.items() if name.startswith("tree.")}
        self.trees = [Forest.from_arrays(own, self.n_features)]

    def fitted(self, rounds: int | None = None) -> FittedTrees:
        """A forest."""
        grown = self.grown()
        kept = grown if rounds is None else grown.first(rounds * self.members)
        return FittedTrees(Forest.joined([self.start, kept]), self.n_features)


class GradientTreeSum(TreeSum):
    """Trees fitted to the gradient by least squares: LightGBM with a curvature of 1 everywhere.

    The engine grows a tree and forgets it again; what is added, and with which weight, is kept here.
    """

    def __init__(self, scorer: GradientTrees, data: Groups, start: FittedScorer | None) -> None:
        super().__init__(start.forest if isinstance(start, FittedTrees) else Forest.empty(), data.n_features)
        self.X, self.settings = data.X, scorer.engine()
        self.booster = make_boosters(self.settings, data, None)[0]
        self._chosen = Forest.empty()
        self.unit: float | None = None

    def choose(self, d: FloatArray, rng: np.random.Generator) -> FloatArray | None:
        """A tree on drawn documents and features."""
        self.unit = float(np.abs(d).max())
        gradient, curvature = (d / (self.unit or 1.0)).astype(np.float32), np.ones(len(d), dtype=np.float32)
        leave_out(self.settings, rng, gradient, curvature)
        if self.settings.feature_fraction < 1:
            self.booster.reset_parameter(drawn_features(self.settings, rng, self.n_features))
        self.booster.update(fobj=lambda scores, _: (gradient, curvature))
        if self.booster.current_iteration() == 0:
            return None
        self._chosen = forest_of(self.booster)
        self.booster.rollback_one_iter()
        values = self._chosen.score(self.X)
        return values if len(self._chosen.feature) else None

    def values(self, X: Features) -> FloatArray:
        """Leaves of these rows."""
        return self._chosen.score(X)

    def add(self, alpha: float) -> None:
        """The tree, its leaves times alpha."""
        self.trees.append(replace(self._chosen, value=alpha * self._chosen.value))


def leave_out(scorer: TreesScorer, rng: np.random.Generator, *of_rows: Features) -> None:
    """Put to 0 what belongs to the documents that a tree is not to see."""
    if scorer.bagging_fraction < 1:
        out = rng.random(len(of_rows[0])) >= scorer.bagging_fraction
        for array in of_rows:
            array[out] = 0.0


def drawn_features(scorer: TreesScorer, rng: np.random.Generator, n: int) -> dict[str, list[float]]:
    """The features that a tree may split, for the engine, whose own draw has a state that no checkpoint could keep."""
    kept = np.zeros(n)
    kept[rng.choice(n, max(1, round(n * scorer.feature_fraction)), replace=False)] = 1.0
    return {"feature_contri": [float(share) for share in kept]}


def make_boosters(scorer: TreesScorer, data: Groups, start: FloatArray | None, bins: Any = None) -> list[Any]:
    """A LightGBM booster a member, without a tree yet; all read the same bins of the features.

    `bins` are those of an earlier booster of these rows that grows no more, or None to make them.
    """
    import lightgbm

    parameters = scorer.engine_parameters(data.n_rows, data.feature_names)
    parameters |= {"num_threads": n_threads() if data.X.size >= _WORTH_THREADS else 1}
    # What LightGBM's objective would refuse, before it writes to the terminal.
    wrong = (data.y < 0) | (data.y > _HIGHEST) | (data.y != np.floor(data.y))
    if scorer.objective == "lambdarank" and wrong.any():
        raise DataError(
            f"The objective of lambdarank takes whole grades from 0 to {_HIGHEST}, as its gain is 2^grade - 1, and a "
            f"label is {data.y[np.argmax(wrong)]:g}; map the labels to such grades, or train trees on a loss "
            "(pmop-trees), which sees their order alone."
        )
    labels = data.y if scorer.objective else np.zeros(data.n_rows, dtype=np.float32)
    weight = None if data.query_weight is None else np.repeat(data.query_weight, data.sizes)
    try:
        dataset = bins or lightgbm.Dataset(
            data.X,
            label=labels,
            group=data.sizes,
            weight=weight if scorer.objective else None,
            init_score=None if start is None else start[0],
            categorical_feature=scorer.categories(data.feature_names),
            params=parameters,
            free_raw_data=False,
        )
        dataset.construct()
        if bins is not None:
            dataset.set_label(labels)
        if not any(dataset.feature_num_bin(feature) for feature in range(data.n_features)):
            raise DataError(
                f"All {data.n_features} features are 0 everywhere, which leaves trees nothing to split; "
                "give features that vary."
            )
        boosters = []
        for member in range(scorer.members):
            if start is not None and member:
                dataset.set_init_score(start[member])
            boosters.append(lightgbm.Booster(parameters, dataset))
        return boosters
    except lightgbm.basic.LightGBMError as error:
        raise SettingError(f"LightGBM refuses these parameters or data: {error}") from error


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
            size += counts[k, b + 1] if len(counts) else 0
            for side in range(2):  # missing values below, or above
                margin = abs(total + side * sums[MISSING])
                if len(counts):
                    n = size + side * counts[k, MISSING]
                    margin = margin / np.sqrt(n) if n > 0 else 0.0
                if margin > best[k]:
                    best[k], place[k], missing[k] = margin, b, side
