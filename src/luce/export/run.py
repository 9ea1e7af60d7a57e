"""`export_model`: a fitted ranker as the file of a target, checked on data where they are given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError, SettingError
from luce.export.base import Request, Written
from luce.export.bounds import auto_offset
from luce.export.check import ExportDifference, compared
from luce.export.form import Form, SecondOrder, Trees, form_of
from luce.export.names import renamed
from luce.registry import Registry, canonical
from luce.storage import atomic_write
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.ranker import Ranker

_TARGETS = Registry(
    "export target",
    {
        "elasticsearch": "luce.export.elasticsearch:write",
        "lightgbm": "luce.export.lightgbm:write",
        "onnx": "luce.export.onnx:write",
        "opensearch": "luce.export.elasticsearch:opensearch",
        "python": "luce.export.python:write",
        "ranklib": "luce.export.ranklib:write",
        "solr": "luce.export.solr:write",
        "xgboost-dump": "luce.export.xgboost:write_dump",
        "xgboost-json": "luce.export.xgboost:write",
    },
)
_NEVER_NEGATIVE = ("elasticsearch", "opensearch")


def targets() -> list[str]:
    """All export targets."""
    return _TARGETS.names()


def resolve(target: str) -> str:
    """The registered spelling of a target, or an error that lists them."""
    return _TARGETS.resolve(target)


@dataclass(frozen=True, eq=False)
class Export:
    """An exported model: the content of its file, and what its user must know."""

    target: str
    content: str | bytes
    offset: float
    """What was added to every score."""
    remarks: tuple[str, ...]
    facts: dict[str, Any]
    comparison: ExportDifference | None
    """How it does on the data that were given to check it."""

    def save(self, path: str | Path) -> None:
        """Write the file atomically."""
        data = self.content.encode() if isinstance(self.content, str) else self.content
        with atomic_write(path) as stream:
            stream.write(data)

    def remarks_on(self, path: str | Path) -> list[str]:
        """The remarks with the file in the place of FILE: ready for a shell after @, as a Python string elsewhere."""
        return [_with_file(remark, str(path)) for remark in self.remarks]


def _with_file(remark: str, path: str) -> str:
    """The remark about a file.

    >>> _with_file("curl --data-binary @FILE", "my model.json")
    "curl --data-binary '@my model.json'"
    >>> _with_file("lightgbm.Booster(model_file=FILE)", "model.txt")
    "lightgbm.Booster(model_file='model.txt')"
    """
    command = remark.removesuffix("@FILE")
    if command != remark:
        return command + shlex.quote(f"@{path}")
    return re.sub(r"\bFILE\b", lambda _: repr(path), remark)


def export_model(
    model: Ranker,
    target: str,
    *,
    name: str = "luce",
    store: str = "",
    offset: float | Literal["auto"] = 0.0,
    feature_names: Mapping[str, str] | Sequence[str] | None = None,
    check: Groups | None = None,
    folded: bool = False,
    ignore_missing: bool = False,
) -> Export:
    """Write a fitted ranker in the format of another engine; what that cannot express raises `SettingError`.

    Parameters
    ----------
    target
        One of `targets()`.
    name, store
        Name of the model, and of the feature set (Elasticsearch, OpenSearch) or feature store (Solr).
    offset
        Added to every score. "auto" brings them to 0 or above, which Elasticsearch and OpenSearch demand.
    feature_names
        New names of features, from old to new, or a list of all.
    check
        Judged documents (labels are not used) on which the exported file is evaluated beside the model, and whose
        feature ranges bound a linear model for `offset="auto"`.
    folded
        Linear models in Elasticsearch, OpenSearch and Solr: plain weights, the intercept left out, instead of
        normalizers that carry it.
    ignore_missing
        Write trees for RankLib, which takes a missing value for 0, even where they send it another way.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "scorer_")
    writer, target = _TARGETS.get(target), _TARGETS.resolve(target)
    form = form_of(model)
    codes = _category_codes(model, target)
    scores = None if check is None else _scores(model, check)
    form = replace(form, names=renamed(form.names, feature_names))
    added = auto_offset(form, None if check is None else check.X) if offset == "auto" else _number(offset)
    if folded and added:
        raise SettingError("An offset goes into the normalizers of a linear model; leave folded (--folded) out.")
    request = Request(form.shifted(added), name, store, folded, ignore_missing)
    written = writer(request)
    comparison = None
    if check is not None and scores is not None:
        # Plain weights leave the intercept out.
        shift = added - (_intercept(form) if folded else 0.0)
        X, names = _extended(check.X, form.names, written)
        key = canonical(target)
        comparison = compared(key, written.content, X, names, scores + shift, check.offsets)
    remarks = [
        *_about_sign(target, form, added, offset == "auto", comparison),
        *written.remarks,
        *codes,
        *_about_gaps(model),
    ]
    return Export(target, written.content, added, tuple(remarks), written.facts, comparison)


def _about_gaps(model: Ranker) -> list[str]:
    """What a target makes of a gap, where the model itself would fill it."""
    filling = model.filling_ or getattr(model.scorer_, "filling", None)
    if filling is None or not filling.fills:
        return []
    return ["The model fills a gap with the median of training, and the export does not: give it rows without gaps."]


def _category_codes(model: Ranker, target: str) -> list[str]:
    """The codes of categories, for targets that can split by them; the others know no names."""
    if model.schema_ is None or not model.schema_.categories:
        return []
    if target not in ("lightgbm", "python"):
        name = model.schema_.features[next(iter(model.schema_.categories))].name
        raise SettingError(
            f"The feature {name!r} is a category, whose names {target} cannot hold; export to python or lightgbm, or "
            "train without it."
        )
    return [
        f"Codes of {model.schema_.features[j].name}: " + ", ".join(f"{name} = {i}" for i, name in enumerate(names))
        for j, names in model.schema_.categories.items()
    ]


def _scores(model: Ranker, check: Groups) -> FloatArray:
    scores = model.predict(check)
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise DataError(
            f"The model gives row {row} of the check the score {scores[row]}, since it does not take missing "
            "values; check it on rows without them."
        )
    return scores


def _number(offset: Any) -> float:
    if isinstance(offset, bool) or not isinstance(offset, int | float) or not np.isfinite(offset):
        raise SettingError(f"offset is {offset!r}; it must be a finite number or 'auto'.")
    return float(offset)


def _intercept(form: Form) -> float:
    from luce.export.linear_terms import linear_terms

    terms = linear_terms(form)
    return 0.0 if terms is None else terms.linear.intercept


def _extended(
    X: NDArray[np.float32], names: tuple[str, ...], written: Written
) -> tuple[NDArray[np.float32], list[str]]:
    """The rows with the products that the target is to be given as features."""
    place = {name: i for i, name in enumerate(names)}
    columns = [X[:, place[a]] * X[:, place[b]] for a, b in written.products.values()]
    return np.column_stack([X, *columns]) if columns else X, [*names, *written.products]


def _about_sign(target: str, form: Form, added: float, bounded: bool, comparison: ExportDifference | None) -> list[str]:
    trees_only = all(isinstance(part, Trees) for part in form.parts)
    if bounded:
        twice = any(isinstance(part, SecondOrder) for part in form.parts)
        ranges = (
            "while scores range at most twice as far as in the check" if twice else "within the ranges of the check"
        )
        scope = "whatever the document" if trees_only else ranges
        return [f"{added:.6g} is added to every score: none is negative, {scope}."]
    if canonical(target) not in _NEVER_NEGATIVE:
        return []
    if comparison is not None and comparison.lowest < 0:
        return [f"Scores go down to {comparison.lowest:.4g}, and {target} rejects negative ones: give --offset auto."]
    if not trees_only or auto_offset(form, None) > added:
        return [f"Scores may be negative, which {target} rejects: give --offset auto."]
    return []
