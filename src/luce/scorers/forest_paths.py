r"""Shapley values of trees, leaf by leaf: what each feature adds to the score of a document.

A leaf scores its value where a document passes all questions on its path. Let $o_j$ be 1 where the document passes
those that ask for feature $j$, else 0, and $z_j$ what stands for a document of which feature $j$ is not known: the
share of the training documents that pass, or 0 or 1 for a reference document. With the features of a set $S$ known, the
leaf counts $\prod_{j \in S} o_j \prod_{j \notin S} z_j$ of its value $v$, and feature $i$ gets

$$\phi_i = v (o_i - z_i) \int_0^1 \prod_{j \ne i} \big(t o_j + (1 - t) z_j\big)\, dt .$$

The integrand is a polynomial, which the rule of Gauss and Legendre with half as many points as features integrates
exactly; no term is negative, so that nothing cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from luce.numerics.compiled import kernel
from luce.scorers.forest import Forest, _goes_left
from luce.types import Features, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class _Paths:
    """The questions above every leaf: `steps` are (node, whether it goes left, place of the feature on the path)."""

    steps: IntArray
    step_ends: IntArray
    features: IntArray
    """The different features of the path of every leaf."""
    shares: FloatArray
    """The share of training documents that passes all questions for the feature; 1 where it is not known."""
    feature_ends: IntArray

    @classmethod
    @lru_cache(maxsize=4)  # a service asks again and again
    def of(cls, forest: Forest) -> _Paths:
        """The paths of all trees."""
        steps: list[tuple[int, int, int]] = []
        features: list[int] = []
        shares: list[float] = []
        step_ends, feature_ends = [0], [0]
        for tree in range(forest.n_trees):
            for path in _paths(forest, tree):
                places: dict[int, int] = {}
                share: list[float] = []
                for node, to_left, part in path:
                    place = places.setdefault(int(forest.feature[node]), len(places))
                    share += [1.0] * (len(places) - len(share))
                    share[place] *= part
                    steps.append((node, to_left, place))
                features += places
                shares += share
                step_ends.append(len(steps))
                feature_ends.append(len(features))
        return cls(
            np.array(steps, np.int64).reshape(-1, 3),
            np.array(step_ends),
            np.array(features, np.int64),
            np.array(shares, np.float64),
            np.array(feature_ends),
        )


def _paths(forest: Forest, tree: int) -> list[list[tuple[int, int, float]]]:
    """For every leaf of a tree in its order the nodes above it, the way taken, and the share that takes it."""
    start, end = int(forest.nodes[tree]), int(forest.nodes[tree + 1])
    if start == end:
        return [[]]
    known = len(forest.count) == len(forest.value)
    leaves = forest.count[forest.leaves[tree] : forest.leaves[tree + 1]].tolist() if known else []
    counts = forest.node_counts(tree) if known else []
    above: list[list[tuple[int, int, float]]] = [[] for _ in range(end - start)]
    found: list[list[tuple[int, int, float]]] = [[] for _ in range(end - start + 1)]
    for i in range(end - start):  # parents come before their children
        for child, to_left in ((int(forest.left[start + i]), 1), (int(forest.right[start + i]), 0)):
            below = 0 if not known else counts[child] if child >= 0 else leaves[-child - 1]
            path = [*above[i], (start + i, to_left, below / counts[i] if known else 1.0)]
            if child >= 0:
                above[child] = path
            else:
                found[-child - 1] = path
    return found


@kernel
def _ways(X, feature, threshold, kind, sets, bits, ways):  # type: ignore[no-untyped-def]
    """1 for every row and node that sends it to the left, else 0."""
    for row in range(len(X)):
        for i in range(len(feature)):
            ways[row, i] = int(_goes_left(np.float64(X[row, feature[i]]), kind[i], threshold[i], sets, bits))


@kernel
def _add(ways, other, value, steps, step_ends, features, shares, ends, points, weights, out):  # type: ignore[no-untyped-def]
    """Add the values of all leaves for every row of `ways`; `other` is that of the reference, empty for shares."""
    most = 1
    for leaf in range(len(value)):
        most = max(most, ends[leaf + 1] - ends[leaf])
    passes, stands = np.ones(most), np.ones(most)
    for row in range(len(ways)):
        for leaf in range(len(value)):
            first, size = ends[leaf], ends[leaf + 1] - ends[leaf]
            for j in range(size):
                passes[j], stands[j] = 1.0, shares[first + j] if len(other) == 0 else 1.0
            for s in range(step_ends[leaf], step_ends[leaf + 1]):
                node, to_left, place = steps[s, 0], steps[s, 1], steps[s, 2]
                if ways[row, node] != to_left:
                    passes[place] = 0.0
                if len(other) > 0 and other[node] != to_left:
                    stands[place] = 0.0
            for k in range(len(points)):
                t, product = points[k], weights[k] * value[leaf]
                for j in range(size):
                    product *= t * passes[j] + (1.0 - t) * stands[j]
                if product != 0.0:
                    for j in range(size):
                        factor = t * passes[j] + (1.0 - t) * stands[j]
                        out[row, features[first + j]] += product / factor * (passes[j] - stands[j])


def tree_contributions(forest: Forest, X: Features, reference: Features | None) -> tuple[FloatArray, float]:
    """What every feature adds to the scores of rows, and the score that this is added to.

    Without a reference document that is the mean score of training documents, feature by feature on the path (the
    values of TreeSHAP), for which the forest must know how many came to each leaf.
    """
    paths = _Paths.of(forest)
    sizes = np.diff(paths.feature_ends)
    nodes, weights = np.polynomial.legendre.leggauss(max(1, -(-int(sizes.max(initial=1)) // 2)))
    rows = X if reference is None else np.vstack([X, reference[None]]).astype(np.float32)
    ways = np.zeros((len(rows), len(forest.feature)), dtype=np.int8)
    _ways(rows, forest.feature, forest.threshold, forest.kind, forest.sets, forest.bits, ways)
    other = ways[-1] if reference is not None else np.zeros(0, np.int8)
    out = np.zeros((len(X), X.shape[1]))
    arrays = (paths.steps, paths.step_ends, paths.features, paths.shares, paths.feature_ends)
    _add(ways[: len(X)], other, forest.value, *arrays, (nodes + 1) / 2, weights / 2, out)
    if reference is not None:
        return out, float(forest.score(rows[-1:])[0])
    log = np.concatenate([[0.0], np.cumsum(np.log(paths.shares))])
    return out, float(forest.value @ np.exp(log[paths.feature_ends[1:]] - log[paths.feature_ends[:-1]]))
