"""Why is A above B? The models and features that the page needs to take the difference of two scores apart.

The page computes what `luce.explanation` does with a document as reference: Shapley values of the change from B to A,
which sum to the difference of the scores. The models are parts of their form.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.export.tree_nodes import at_most
from luce.form import Linear, SecondOrder, Trees, form_of
from luce.ranker import Ranker
from luce.report.panels import packed_places, shown_documents
from luce.report.pool import Blobs, Pool, pack
from luce.scorers.forest import Forest

DEPTHS = (20, 15, 10, 7, 5, 3)
MOST_MODEL_BYTES = 1_500_000
"""After compression."""


def model_parts(ranker: Ranker) -> list[tuple[str, dict[str, NDArray[Any]]]] | str:
    """A score as a sum of parts over features, each a kind and its arrays; or why there is none."""
    if ranker.query_norm is not None:
        return "its features are normalised within queries"
    try:
        terms = form_of(ranker).terms
    except SettingError:
        why = f"its scorer, {ranker.scorer_.name}, is not a sum over features or trees"
        return "it stands on scores that no model file keeps" if ranker.on_scores_ else why
    found: list[tuple[str, dict[str, NDArray[Any]]]] = []
    for term in terms:
        if not all(column.plain for column in term.columns):
            return "gaps or categories of its features become other columns"
        places = np.array([column.feature for column in term.columns])
        if isinstance(term.part, Linear):
            found.append(("linear", {"weights": np.bincount(places, term.part.weights, ranker.n_features_in_)}))
        elif isinstance(term.part, SecondOrder):
            products = term.part.products
            sides = {side: getattr(products, side).astype(np.uint32) for side in ("left", "right")}
            scaled = {"mean": products.mean, "inverse_sd": products.inverse_sd, "weights": term.part.weights}
            found.append(("products", {**scaled, **sides, "pair_weights": term.part.pair_weights}))
        elif isinstance(term.part, Trees):
            found.append(("trees", _trees(term.part.forest.on(places), ranker.n_features_in_)))
        else:
            return f"its scorer, {ranker.scorer_.name}, is not a sum over features or trees"
    return found


def _trees(forest: Forest, n_features: int) -> dict[str, NDArray[Any]]:
    small = int(np.diff(forest.leaves).max(initial=0)) < 2**15
    child = np.int16 if small else np.int32
    categorical = forest.kind & 1 > 0
    threshold = np.where(categorical, forest.threshold, at_most(forest.threshold)).astype(np.float32)
    return {
        "nodes": forest.nodes.astype(np.uint32),
        "leaves": forest.leaves.astype(np.uint32),
        "feature": forest.feature.astype(np.uint16 if n_features < 2**16 else np.uint32),
        "threshold": threshold,
        "left": forest.left.astype(child),
        "right": forest.right.astype(child),
        "kind": forest.kind,
        "value": forest.value.astype(np.float32),
        "sets": forest.sets.astype(np.uint32),
        "bits": forest.bits,
    }


def pack_models(rankers: Mapping[int, Mapping[int, Ranker]], blobs: Blobs) -> tuple[dict[str, Any], dict[int, str]]:
    """Embed the models of all folds, in the order given, as long as there is room; and why others are left out."""
    parts: dict[str, Any] = {}
    left_out: dict[int, str] = {}
    room = MOST_MODEL_BYTES
    for model, by_fold in rankers.items():
        found: dict[int, list[tuple[str, dict[str, NDArray[Any]]]]] = {}
        for fold, ranker in by_fold.items():
            made = model_parts(ranker)
            if isinstance(made, str):
                left_out[model] = made
                break
            found[fold] = made
        if model in left_out:
            continue
        size = sum(len(zlib.compress(pack(arrays)[1], 1)) for listed in found.values() for _, arrays in listed)
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
