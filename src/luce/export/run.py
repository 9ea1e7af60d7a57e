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
from luce.export.engine_terms import for_engine
from luce.export.evaluate import ExportDifference, compared
from luce.export.request import Request, Written, renamed
from luce.export.texts import CHECK, check_lines, elasticsearch_queries, solr_queries
from luce.form import Form, Linear, Network, Part, SecondOrder, Term, Trees, form_of
from luce.registry import Registry, canonical
from luce.storage import atomic_write
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.ranker import Ranker


_TARGETS = Registry(
    "export target",
    {
        "elasticsearch": "luce.export.search_engines:write_elasticsearch",
        "lightgbm": "luce.export.libraries:write_lightgbm",
        "onnx": "luce.export.programs:write_onnx",
        "opensearch": "luce.export.search_engines:opensearch",
        "python": "luce.export.programs:write_python",
        "ranklib": "luce.export.search_engines:write_ranklib",
        "solr": "luce.export.search_engines:write_solr",
        "xgboost-dump": "luce.export.libraries:write_dump",
        "xgboost-json": "luce.export.libraries:write_xgboost",
    },
)
_NEVER_NEGATIVE = ("elasticsearch", "opensearch")
_ENGINES = (*_NEVER_NEGATIVE, "solr")


targets, resolve = _TARGETS.names, _TARGETS.resolve


@dataclass(frozen=True, eq=False, kw_only=True)
class Export(Written):
    """An exported model: the content of its file, and what its user must know."""

    target: str
    offset: float
    """What was added to every score."""
    comparison: ExportDifference | None
    """How it does on the data that were given to check it."""

    @property
    def content(self) -> str | bytes:
        """The first model."""
        return self.models[0]

    def files(self, path: str | Path, what: str = "all") -> dict[Path, str | bytes]:
        """What is written where: the first model as `path`, others beside it.

        `what` is "all", "model", or what stands beside it: "features", "query", "index" or "check".
        """
        models = {f"-{i}" if i > 1 else "": model for i, model in enumerate(self.models, 1)}
        parts: dict[str, dict[str, Any]] = {"all": {**models, **self.beside}, "model": models}
        for end, content in self.beside.items():
            parts.setdefault(end.strip("-").partition(".")[0], {})[end] = content
        if what not in parts:
            raise SettingError(f"{self.target} has no {what!r} to write for this model; it has {', '.join(parts)}.")
        return {_beside(path, end): content for end, content in parts[what].items()}

    def save(self, path: str | Path, what: str = "all") -> None:
        """Write the model, and what goes with it beside it, or one of these, each file atomically."""
        for place, content in self.files(path, what).items():
            with atomic_write(place) as stream:
                stream.write(content.encode() if isinstance(content, str) else content)

    def remarks_on(self, path: str | Path) -> list[str]:
        """The remarks with the file in the place of FILE: ready for a shell after @, as a Python string elsewhere."""
        return [_with_file(remark, str(path)) for remark in self.remarks]


def _beside(path: str | Path, end: str) -> Path:
    """The file beside another with something after its name: model.json and "-query" are model-query.json."""
    ending = "" if "." in end else Path(path).suffix
    return Path(path) if not end else Path(path).with_name(f"{Path(path).stem}{end}{ending}")


def _with_file(remark: str, path: str) -> str:
    """The remark about a file.

    >>> _with_file("curl --data-binary @FILE-features", "my model.json")
    "curl --data-binary '@my model-features.json'"
    >>> _with_file("lightgbm.Booster(model_file=FILE)", "model.txt")
    "lightgbm.Booster(model_file='model.txt')"
    """
    sent = re.search(r"@FILE(-\w+)?$", remark)
    if sent:
        return remark[: sent.start()] + shlex.quote(f"@{_beside(path, sent[1] or '')}")
    return re.sub(
        r"\bFILE(-features|-index)?\b",
        lambda found: repr(path) if not found[1] else str(_beside(path, found[1])),
        remark,
    )


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
    queries: Mapping[str, Mapping[str, Any]] | None = None,
    texts: Any = None,
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
    queries
        Search engines: features (as renamed) that are no stored field, and what the engine takes for each, such as
        `{"template": {"match": {"title": "{{words}}"}}, "params": ["words"]}` for Elasticsearch. Features of texts
        have theirs.
    texts
        The table or file of `check`, with its texts: 200 rows of it become a file that an engine is checked with.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "scorer_")
    writer, target = _TARGETS.get(target), _TARGETS.resolve(target)
    form = form_of(model)
    text = None if model.schema_ is None else model.schema_.text
    engine = canonical(target) in _ENGINES
    scores = None if check is None else _scores(model, check)
    if texts is not None and (text is None or check is None or not engine):
        raise SettingError("texts go with check, a model of texts, and a search engine; leave texts out.")
    names_before = form.names
    form = replace(form, names=renamed(form.names, feature_names))
    if engine:
        form = for_engine(form)
    if text is not None and engine:
        used = {column.feature for term in form.terms for column in term.columns}
        if python := text.python_only([names_before[j] for j in sorted(used)]):
            listed = ", ".join(python[:5]) + (", ..." if len(python) > 5 else "")
            raise SettingError(
                f"The model uses {len(python)} features that only Python computes and {target} does not ({listed}); "
                "train it with --text-features engine (features='engine'), or export to python or onnx."
            )
        called = dict(zip(names_before, form.names, strict=True))
        own = (solr_queries if canonical(target) == "solr" else elasticsearch_queries)(text, called)
        queries = {**own, **(queries or {})}
    unknown = next((name for name in queries or {} if name not in form.names), None)
    if unknown is not None:
        raise SettingError(f"queries describe {unknown!r}, which is not a feature of the model as exported.")
    X = None if check is None else check.X
    bounded = offset == "auto"
    if offset == "auto":
        constants = [auto_offset(term, X) for term in form.terms]
    elif isinstance(offset, bool) or not isinstance(offset, int | float) or not np.isfinite(offset):
        raise SettingError(f"offset is {offset!r}; it must be a finite number or 'auto'.")
    else:
        constants = [float(offset), *[0.0] * (len(form.terms) - 1)]
    added = sum(constants)
    if folded and added:
        raise SettingError("An offset goes into the normalizers of a linear model; leave folded (--folded) out.")
    written = writer(Request(form.shifted(constants), name, store, folded, ignore_missing, text, queries or {}))
    comparison = None
    if check is not None and scores is not None:
        # Plain weights leave the intercept out.
        linear = [part for part in form.parts if isinstance(part, Linear)] if folded else []
        shift = added - sum(part.intercept for part in linear)
        X, names = check.X, list(form.names)
        if written.columns is not None:  # what the target is to be given is made of the features
            X, names = np.column_stack([c.values(X) for c in written.columns.values()]), list(written.columns)
        comparison = compared(canonical(target), written.models, X, names, scores + shift, check.offsets)
        if text is not None and texts is not None:
            order = np.arange(len(X)) if check.row_order is None else check.row_order
            lines = check_lines(text, texts, order, check.document_ids, X, names, scores + shift)
            written.beside["-check.jsonl"] = lines
            written.beside.update({} if canonical(target) == "solr" else {"-check.py": CHECK})
    remarks = [*_about_sign(target, form, constants, bounded, comparison), *written.remarks]
    for j, known in {} if canonical(target) in (*_ENGINES, "python") else form.categories.items():
        codes = ", ".join(f"{name} = {code}" for code, name in enumerate(known))
        remarks.append(f"Codes of {form.names[j]}: {codes}")  # for targets that know no names
    if text is not None and not engine and not (canonical(target) == "python" and text.features == "engine"):
        remarks.append(
            f"The features of texts ({', '.join(text.fields)} against {text.query}) are expected as numbers, under "
            "the names that luce.Text gives them"
        )
    return Export(
        **vars(written) | {"models": tuple(written.models), "remarks": tuple(remarks)},
        target=target,
        offset=added,
        comparison=comparison,
    )


def _scores(model: Ranker, check: Groups) -> FloatArray:
    scores = model.predict(check)
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise DataError(
            f"The model gives row {row} of the check the score {scores[row]}, since it does not take missing "
            "values; check it on rows without them."
        )
    return scores


def _about_sign(
    target: str, form: Form, added: Sequence[float], bounded: bool, comparison: ExportDifference | None
) -> list[str]:
    trees_only = all(isinstance(part, Trees) for part in form.parts)
    if bounded:
        twice = any(isinstance(part, SecondOrder) for part in form.parts)
        ranges = (
            "while scores range at most twice as far as in the check" if twice else "within the ranges of the check"
        )
        scope = "whatever the document" if trees_only else ranges
        return [f"{sum(added):.6g} is added to every score: none is negative, {scope}."]
    if canonical(target) not in _NEVER_NEGATIVE:
        return []
    if comparison is not None and comparison.lowest < 0:
        return [f"Scores go down to {comparison.lowest:.4g}, and {target} rejects negative ones: give --offset auto."]
    if not trees_only or auto_offset(form.terms[0], None) > added[0]:
        return [f"Scores may be negative, which {target} rejects: give --offset auto."]
    return []


_UNIT = 2.0**-24
"""The relative error of one float32 operation."""


def auto_offset(term: Term, X: NDArray[np.float32] | None) -> float:
    """A constant that brings every score of a term to 0 or above, 0 where none is needed, rounding in float32 included.

    Trees: the sum of the smallest leaves bounds every score, whatever the document. A linear model has no bound of its
    own: X says the range of every feature, 0 always in it since an engine takes 0 for a feature that does not match;
    the bound holds for all documents whose features lie within these ranges. Second order: see `_second_order`.
    """
    low, size, count = _range(term.part, None if X is None else term.matrix(X))
    terms = count + 1
    if low >= 0:
        return 0.0
    # Every partial sum is at most |low| + size; adding `terms` of them in float32 loses at most this much.
    slack = 4 * terms * _UNIT * (size - low)
    return float(np.nextafter(np.float32(slack - low), np.float32(np.inf)))


def _range(part: Part, X: NDArray[np.float32] | None) -> tuple[float, float, int]:
    """A lower bound of the scores, one of the sum of all absolute terms, and the number of terms."""
    if isinstance(part, Trees):
        forest = part.forest
        starts = forest.leaves[:-1]
        least, largest = np.minimum.reduceat(forest.value, starts), np.maximum.reduceat(np.abs(forest.value), starts)
        return float(least.sum()), float(largest.sum()), forest.n_trees
    if isinstance(part, Network):
        raise SettingError("How low a neural network can score is not known; give a number as offset.")
    if X is None:
        raise SettingError(
            f"How low {part.kind} can score depends on the features; give --check DATA (check=), which then "
            "gives a bound, or a number as offset."
        )
    if isinstance(part, Linear):
        ends = part.weights * np.stack([np.minimum(np.fmin.reduce(X), 0.0), np.maximum(np.fmax.reduce(X), 0.0)])
        size = float(np.abs(ends).max(axis=0).sum()) + abs(part.intercept)
        return float(ends.min(axis=0).sum()) + part.intercept, size, len(part.weights) + 1
    return _second_order_bounds(part, X)


def _second_order_bounds(part: SecondOrder, X: NDArray[np.float32]) -> tuple[float, float, int]:
    """The lowest score of the rows and of a document that matches nothing, less the range of these scores once more.

    The ranges of products allow for scores far below any that occurs (on OHSUMED twenty times the range of all scores),
    and so large a constant costs the digits that tell documents apart; so this is no bound, but twice what was seen.
    """
    products = part.products
    rows = np.concatenate([X, np.zeros((1, X.shape[1]), np.float32)])
    scores = products.scores(rows, part.weights, part.pair_weights, precise=True) + part.intercept
    weights, pair_weights, intercept = part.expanded()
    reach = np.abs(X).max(axis=0).astype(np.float64)
    pairs = reach[products.left] * reach[products.right]
    size = float(np.abs(weights) @ reach + np.abs(pair_weights) @ pairs) + abs(intercept)
    return float(scores.min() - np.ptp(scores)), size, len(weights) + len(pairs) + 1
