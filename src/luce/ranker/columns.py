"""What stands in a data frame and what beside it: features, labels and query ids of one table for a ranker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce.data.groups import Groups
from luce.data.schema import Schema
from luce.errors import DataError, SettingError
from luce.result import as_frame, facts, html_table, sheet_of
from luce.training.run import best_validation
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.ranker.estimator import Ranker


_EFFECT = "effect of one standard deviation"


def importance_table(ranker: Ranker) -> Any:
    """Features or terms with their importance, the largest first."""
    names, effect = _importance(ranker)
    return as_frame({"feature": names, "importance": effect}, ranker.frame_)


def importance_shares(ranker: Ranker) -> FloatArray:
    """The importance of every feature, of all columns and products that it is in, as shares that sum to 1.

    A product counts for both of its features; AttributeError, as scikit-learn asks, where the scorer tells nothing.
    """
    try:
        effect = np.abs(_effects(ranker))
    except SettingError as error:
        raise AttributeError(str(error)) from error
    width = ranker.n_features_in_
    owners = np.arange(width) if ranker.filling_ is None else ranker.filling_.owners
    products = getattr(ranker.scorer_, "products", None)
    if products is not None:
        owners = np.concatenate([owners, owners[products.left], owners[products.right]])
        effect = np.concatenate([effect, effect[len(effect) - len(products.left) :]])
    if len(owners) != len(effect):
        owners = np.arange(len(effect))
    total: FloatArray = np.bincount(owners, effect, width)[:width].astype(np.float64)
    return total / total.sum() if total.any() else total


def _effects(ranker: Ranker) -> FloatArray:
    if not hasattr(ranker.scorer_, "importance"):
        raise SettingError(f"The scorer {type(ranker.scorer_).__name__!r} has no method importance.")
    return np.asarray(ranker.scorer_.importance(), dtype=np.float64)


def _importance(ranker: Ranker) -> tuple[list[str], list[float]]:
    names = getattr(ranker.scorer_, "term_names", None) or ranker.scored_names
    effect = _effects(ranker)
    order = np.argsort(-np.abs(effect), kind="stable")
    return [names[i] for i in order], effect[order].tolist()


def shown_as_html(ranker: Ranker) -> str:
    """Title, training and strongest features, for a notebook."""
    history, metric = ranker.history_, ranker.parts_.metric
    rows: list[tuple[str, Any]] = [("rounds", len(history.get("objective", []))), ("features", ranker.n_features_in_)]
    if history.get("objective"):
        rows.append(("objective", float(history["objective"][-1])))
    best = best_validation(history, metric)
    rows += [] if best is None else [(f"best {metric.name} on validation", best)]
    names, effect = _importance(ranker) if hasattr(ranker.scorer_, "importance") else ([], [])
    strongest = [[name, value] for name, value in zip(names, effect, strict=True) if value][:10]
    meaning = getattr(ranker.scorer_, "importance_is", _EFFECT)
    table = html_table(sheet_of("Strongest features", ["feature", meaning], strongest)) if strongest else ""
    return html_table(facts(ranker.parts_.title, rows)) + table


_USUAL = ("qid", "query_id")


def is_frame(X: Any) -> bool:
    """Whether X is a data frame; NumPy arrays, lists and sparse matrices are not."""
    from luce.data.table import frame_kind  # and all that tables need

    return frame_kind(X) is not None


def names_of(X: Any) -> list[str]:
    """The columns of a frame."""
    return [str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]


def table_groups(X: Any, given: Mapping[str, Any], *, schema: Schema | None = None, text: Any = None) -> Groups:
    """A frame as groups; labels and query ids (`given`) are columns by name, or stand beside the frame.

    With a schema its features and those columns are read, and no others.
    """
    said: dict[str, Any] = {} if schema is None else {"schema": schema}
    said |= {} if text is None else {"text": text}
    beside: dict[str, Any] = {}
    names = names_of(X)
    for role, values in given.items():
        if values is None:
            continue
        if isinstance(values, str):
            said[role] = values
            continue
        _check_index(X, values, role)
        name = str(getattr(values, "name", None) or f"({role})")
        if name not in names:
            beside[name] = _vector(values, role, len(X))
        elif not np.array_equal(np.asarray(X[name]), np.asarray(values)):  # what is named like a column must be it
            raise DataError(
                f"The {role} given is named {name!r}, and the frame has a column {name!r} with other values; leave one "
                "out."
            )
        said[role] = name
    keep = None
    if schema is None:
        also = next((name for name in _USUAL if name in names), None)
        if also is not None and said.get("qid") in beside:
            raise DataError(
                f"Query ids were given, and the frame has a column {also!r}, which would be a feature; give "
                f"qid={also!r}, or drop that column."
            )
    else:
        needed = {c.name for c in schema.cells} | set([] if schema.text is None else schema.text.columns)
        used = needed | {said[role] for role in given if role in said}
        if needed <= set(names):  # else all are named where one is missed
            keep = [name for name in names if name in used]
    from luce.data.readers.tables import frame_groups

    return frame_groups(X, beside, keep, said)


def _vector(values: Any, role: str, rows: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (rows,):
        raise DataError(f"{rows} rows need as many entries of {role}; got shape {np.shape(values)}.")
    return array


def _check_index(X: Any, values: Any, role: str) -> None:
    """Refuse a series whose index is that of the frame in another order: entries go by place, not by index."""
    ours: Any = getattr(X, "index", None)
    theirs: Any = getattr(values, "index", None)
    if not hasattr(ours, "equals") or not hasattr(theirs, "equals") or len(ours) != len(theirs) or ours.equals(theirs):
        return
    if ours.is_unique and ours.isin(theirs).all():
        raise DataError(
            f"The {role} has the index of the frame in another order, and entries are taken by their place; give "
            f"{role}.loc[frame.index], or reset both indices if the places are right."
        )


def check_labels(y: Any) -> None:
    """Refuse labels that are text, with a map that could make numbers of them."""
    labels = np.asarray(y)
    if labels.ndim == 1 and (labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels[0], str))):
        from luce.data.readers.tables import offered_grades

        some = ", ".join(f"{word!r}: {grade}" for word, grade in offered_grades(sorted(set(map(str, labels)))))
        raise DataError(
            f"The labels are text; labels are numbers, higher is better: map them first, as by {{{some}}}, or read "
            "the table with luce.from_frame(..., label_map=...)."
        )


def query_weights(sample_weight: ArrayLike, data: Groups, moved: bool) -> FloatArray:
    """The weights of queries, from weights of rows in the order of the input that are equal within each query."""
    weight = _vector(sample_weight, "sample_weight", data.n_rows).astype(np.float64)
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.sum() > 0):
        raise DataError("sample_weight must be finite, at least 0 and not all 0.")
    if moved and data.row_order is not None:
        weight = weight[data.row_order]
    first = weight[data.offsets[:-1]]
    other = np.flatnonzero(weight != np.repeat(first, data.sizes))
    if other.size:
        raise DataError(
            f"sample_weight varies inside query {str(data.qid[other[0]])!r}; metrics are means over queries, so that a "
            "query has one weight: give all of its rows the same."
        )
    return first
