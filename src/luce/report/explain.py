r"""Why is A above B? The models and features that the page needs to take the difference of two scores apart.

The page computes the Shapley values of the change from B to A: feature $i$ gets its mean effect, over all orders in
which the features of B are exchanged for those of A, one after the other. They sum to $f(A) - f(B)$ exactly. For a
linear model they are $w_i (a_i - b_i)$; for a sum of steps the difference of each feature's steps; for a product
$z_i z_j$ half the change of each factor times the sum of the other; and for a tree every leaf that some mixture of A
and B reaches shares its value: with $p$ features that must come from A and $q$ that must come from B, each of the
former gets $\frac{(p-1)!\,q!}{(p+q)!}$ and each of the latter $-\frac{p!\,(q-1)!}{(p+q)!}$ of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.base import ColumnBase, RankerBase
from luce.ranker import Ranker
from luce.report.panels import packed_places, shown_documents
from luce.report.pool import Blobs, Pool, pack
from luce.scorers.blend import FittedBlend
from luce.scorers.linear import FittedLinear
from luce.scorers.second_order import FittedSecondOrder
from luce.scorers.stumps import FittedStumps
from luce.scorers.trees import FittedTrees
from luce.types import FloatArray

DEPTHS = (20, 15, 10, 7, 5, 3)
MOST_MODEL_BYTES = 1_500_000
"""After compression."""


def why_no_parts(ranker: Ranker) -> str | None:
    """Why the scores of a model cannot be taken apart by feature, or None where they can."""
    if ranker.query_norm is not None:
        return "its features are normalised within queries"
    if ranker.filling_ is not None and not ranker.filling_.is_plain:
        return "gaps or categories of its features become other columns"
    if ranker.on_scores_:
        return "it stands on scores that no model file keeps"
    scorer = ranker.scorer_
    if isinstance(scorer, FittedBlend) and scorer.filling is not None and not scorer.filling.is_plain:
        return "its linear member sees other columns in place of gaps or categories"
    if not isinstance(scorer, FittedLinear | FittedSecondOrder | FittedStumps | FittedTrees | FittedBlend):
        return f"its scorer, {ranker.scorer_.name}, is not a sum over features or trees"
    return why_no_parts(ranker.base_.ranker) if isinstance(ranker.base_, RankerBase) else None


def model_parts(ranker: Ranker) -> list[tuple[str, dict[str, NDArray[Any]]]]:
    """A score as a sum of parts, each a kind and its arrays."""
    scorer = ranker.scorer_
    below: list[tuple[str, dict[str, NDArray[Any]]]] = []
    if isinstance(ranker.base_, RankerBase):
        below = model_parts(ranker.base_.ranker)
    elif isinstance(ranker.base_, ColumnBase):
        below = [("linear", {"weights": np.eye(1, scorer.n_features, _column(ranker))[0]})]
    if isinstance(scorer, FittedLinear):
        return [*below, ("linear", {"weights": scorer.weights})]
    if isinstance(scorer, FittedSecondOrder):
        return [*below, ("products", _products(scorer))]
    if isinstance(scorer, FittedStumps):
        return [*below, ("steps", _steps(scorer))]
    if isinstance(scorer, FittedBlend) and scorer.linear is not None:
        below.append(("linear", {"weights": scorer.linear.weights}))
    assert isinstance(scorer, FittedTrees | FittedBlend)
    return [*below, ("trees", _trees(scorer))]


def _column(ranker: Ranker) -> int:
    assert isinstance(ranker.base_, ColumnBase)
    return list(ranker.feature_names_).index(ranker.base_.name)


def _products(scorer: FittedSecondOrder) -> dict[str, NDArray[Any]]:
    products = scorer.products
    return {
        "mean": products.mean,
        "inverse_sd": products.inverse_sd,
        "weights": scorer.weights,
        "left": products.left.astype(np.uint32),
        "right": products.right.astype(np.uint32),
        "pair_weights": scorer.pair_weights,
    }


def _steps(scorer: FittedStumps) -> dict[str, NDArray[Any]]:
    return {
        "feature": scorer.feature.astype(np.uint32),
        "threshold": _rounded_down(scorer.threshold),
        "weight": scorer.weight,
        "missing": scorer.missing,
    }


def _trees(scorer: FittedTrees | FittedBlend) -> dict[str, NDArray[Any]]:
    forest = scorer.forest
    small = int(np.diff(forest.leaves).max(initial=0)) < 2**15
    child = np.int16 if small else np.int32
    categorical = forest.kind & 1 > 0
    threshold = np.where(categorical, forest.threshold.astype(np.float32), _rounded_down(forest.threshold))
    return {
        "nodes": forest.nodes.astype(np.uint32),
        "leaves": forest.leaves.astype(np.uint32),
        "feature": forest.feature.astype(np.uint16 if scorer.n_features < 2**16 else np.uint32),
        "threshold": threshold,
        "left": forest.left.astype(child),
        "right": forest.right.astype(child),
        "kind": forest.kind,
        "value": forest.value.astype(np.float32),
        "sets": forest.sets.astype(np.uint32),
        "bits": forest.bits,
    }


def _rounded_down(threshold: FloatArray) -> NDArray[np.float32]:
    """The largest float32 that is not above: a float32 is below the one exactly where it is below the other."""
    near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)


def pack_models(rankers: Mapping[int, Mapping[int, Ranker]], blobs: Blobs) -> tuple[dict[str, Any], dict[int, str]]:
    """Embed the models of all folds, in the order given, as long as there is room; and why others are left out."""
    parts: dict[str, Any] = {}
    left_out: dict[int, str] = {}
    room = MOST_MODEL_BYTES
    for model, by_fold in rankers.items():
        reason = next((why for why in map(why_no_parts, by_fold.values()) if why), None)
        if reason:
            left_out[model] = reason
            continue
        found = {fold: model_parts(ranker) for fold, ranker in by_fold.items()}
        size = sum(_compressed(arrays) for listed in found.values() for _, arrays in listed)
        if size > room:
            left_out[model] = f"it is too large to be embedded ({size / 1e6:.1f} MB compressed)"
            continue
        room -= size
        for fold, listed in found.items():
            parts[f"{model}/{fold}"] = [
                {"kind": kind, "data": blobs.add(f"model-{model}-{fold}-{i}", arrays)}
                for i, (kind, arrays) in enumerate(listed)
            ]
    return parts, left_out


def _compressed(arrays: Mapping[str, NDArray[Any]]) -> int:
    return len(zlib.compress(pack(arrays)[1], 1))


def pack_features(pool: Pool, X: NDArray[np.float32], names: tuple[str, ...], blobs: Blobs) -> dict[str, Any]:
    """The features of the documents that can be explained, exact; as many documents as there is room left for."""
    sample = X[:: max(1, len(X) // 2000)]
    a_row = max(1.0, len(zlib.compress(pack({"x": sample.T})[1], 6)) / len(sample))
    shown = shown_documents(pool, DEPTHS, 0.95 * blobs.room / a_row)
    # Feature by feature: the values of one feature are alike and compress together.
    arrays = {**packed_places(pool, shown), "x": np.ascontiguousarray(X[shown.rows].T)}
    return {
        "depth": shown.depth,
        "queries": len(shown.queries),
        "names": list(names),
        "data": blobs.add("features", arrays),
    }
