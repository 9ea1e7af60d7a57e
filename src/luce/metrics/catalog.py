"""Metrics by name: `ndcg@10` is a formula, a cut-off and conventions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import isclass, signature
from typing import Any, NamedTuple

from luce.errors import SettingError
from luce.metrics.conventions import Conventions, conventions
from luce.metrics.kernel import Kind
from luce.registry import Registry
from luce.types import FloatArray


class Formula(NamedTuple):
    """What a name stands for. `kind` None: computed by the model itself, or from subtopics."""

    kind: Kind | None
    takes_cutoff: bool = False
    position_aware: bool = False
    greater_is_better: bool = True
    needs_subtopics: bool = False
    hears: tuple[str, ...] = ()
    """The conventions that make a difference to it; the others would be set in vain."""
    function: Callable[[FloatArray, FloatArray], float] | None = None
    """A metric of one's own: a function of the scores and labels of one query."""


_PAIRS = ("score_precision",)
_PLACES = ("ties", *_PAIRS)
_LIST = ("empty", *_PLACES)
_KAPPA = ("top_k", "label_ties", *_LIST)
ndcg_metric = Formula(Kind.NDCG, takes_cutoff=True, hears=("gain", "discount", "shortfall", *_LIST))
dcg_metric = Formula(Kind.DCG, takes_cutoff=True, hears=("gain", "discount", *_LIST))
mean_ndcg_metric = Formula(Kind.MEAN_NDCG, hears=("gain", "discount", *_LIST))
err_metric = Formula(Kind.ERR, takes_cutoff=True, hears=("rmax", "err_probability", *_LIST))
map_metric = Formula(
    Kind.AVERAGE_PRECISION,
    takes_cutoff=True,
    hears=("relevance", "empty_map", "map_denominator", "map_ties", *_LIST),
)
precision_metric = Formula(
    Kind.PRECISION, takes_cutoff=True, hears=("relevance", "precision_denominator", "shortfall", *_LIST)
)
recall_metric = Formula(Kind.RECALL, takes_cutoff=True, hears=("relevance", *_LIST))
mrr_metric = Formula(Kind.RECIPROCAL_RANK, takes_cutoff=True, hears=("relevance", *_LIST))
rbp_metric = Formula(Kind.RBP, takes_cutoff=True, hears=("relevance", "persistence", "rbp_gain", *_LIST))
kappa_ndcg_metric = Formula(Kind.NDCG, takes_cutoff=True, position_aware=True, hears=("discount", "shortfall", *_KAPPA))
kappa_err_metric = Formula(Kind.ERR, takes_cutoff=True, position_aware=True, hears=_KAPPA)
kendall_tau_metric = Formula(Kind.KENDALL_TAU, hears=_PAIRS)
footrule_metric = Formula(Kind.FOOTRULE, greater_is_better=False, hears=_PLACES)
pairwise_accuracy_metric = Formula(Kind.PAIRWISE_ACCURACY, hears=_PAIRS)
tie_precision_metric = Formula(Kind.TIE_PRECISION, hears=("tie_margin", *_PAIRS))
log_likelihood_metric = Formula(None)
alpha_ndcg_metric = Formula(
    None, takes_cutoff=True, needs_subtopics=True, hears=("alpha", "discount", "shortfall", *_LIST)
)

_HERE = "luce.metrics.catalog"
METRICS = Registry(
    "metric",
    {
        "ndcg": f"{_HERE}:ndcg_metric",
        "dcg": f"{_HERE}:dcg_metric",
        "mean_ndcg": f"{_HERE}:mean_ndcg_metric",
        "err": f"{_HERE}:err_metric",
        "map": f"{_HERE}:map_metric",
        "p": f"{_HERE}:precision_metric",
        "recall": f"{_HERE}:recall_metric",
        "mrr": f"{_HERE}:mrr_metric",
        "rbp": f"{_HERE}:rbp_metric",
        "kappa_ndcg": f"{_HERE}:kappa_ndcg_metric",
        "kappa_err": f"{_HERE}:kappa_err_metric",
        "kendall_tau": f"{_HERE}:kendall_tau_metric",
        "spearman_footrule": f"{_HERE}:footrule_metric",
        "pairwise_accuracy": f"{_HERE}:pairwise_accuracy_metric",
        "tie_precision": f"{_HERE}:tie_precision_metric",
        "alpha_ndcg": f"{_HERE}:alpha_ndcg_metric",
        "log_likelihood": f"{_HERE}:log_likelihood_metric",
    },
    "luce.metrics",
)
register = METRICS.register


@dataclass(frozen=True)
class Metric:
    """A formula with its cut-off and conventions; `luce.metrics.get` makes one."""

    name: str
    formula: Formula
    cutoff: int | None = None
    conventions: Conventions = field(default_factory=Conventions)

    @property
    def greater_is_better(self) -> bool:
        """False for distances."""
        return self.formula.greater_is_better

    @property
    def settings(self) -> dict[str, Any]:
        """The conventions that it hears; a metric of one's own has none."""
        return {name: getattr(self.conventions, name) for name in self.formula.hears}

    def with_settings(self, **settings: Any) -> Metric:
        """The same metric under these conventions."""
        return replace(self, conventions=replace(self.conventions, **settings))


def names() -> list[str]:
    """All metric names, without cut-offs.

    >>> "ndcg" in names()
    True
    """
    return METRICS.names()


def get(name: str, *, preset: str | None = None, **settings: Any) -> Metric:
    """A metric by name, such as `ndcg@10`, under a preset and further conventions.

    >>> get("NDCG@10", preset="lightgbm", gain="linear").name
    'ndcg@10'
    >>> get("kappa-ndcg@5").cutoff
    5
    """
    return parse(name, conventions(preset, **settings))


def of(part: Any) -> Metric:
    """The metric of what a user gives: a name, a metric, or a function (scores, labels) of one query.

    `greater_is_better` of the function or object says whether high values are good, which they are unless it does.
    """
    if isinstance(part, str):
        return get(part)
    if isinstance(part, Metric):
        return part
    if isclass(part):
        raise SettingError(f"The metric is the class {part.__name__}; give an object: {part.__name__}().")
    if not callable(part):
        raise SettingError(
            f"The metric is {part!r}; give a name, such as 'ndcg@10', or a function (scores, labels) of one query that "
            "gives a number."
        )
    name = getattr(part, "name", None) or getattr(part, "__name__", type(part).__name__)
    _check_arguments(part, str(name))
    return Metric(str(name), Formula(None, greater_is_better=getattr(part, "greater_is_better", True), function=part))


def _check_arguments(function: Any, name: str) -> None:
    """Refuse a function that cannot be called with scores and labels."""
    try:
        signature(function).bind(None, None)
    except TypeError as error:
        raise SettingError(
            f"The metric {name!r} takes {signature(function)}; a metric is a function (scores, labels) of one query."
        ) from error
    except ValueError:  # compiled functions need not say
        return


def parse(name: str, chosen: Conventions) -> Metric:
    """The metric of a name with an optional cut-off `@k`."""
    if not isinstance(name, str):
        raise SettingError(f"The metric is {name!r}; give a name, such as 'ndcg@10'.")
    base, at, cut = name.partition("@")
    known = METRICS.resolve(base)
    found = METRICS.get(known)
    formula: Formula = found if isinstance(found, Formula) else of(found() if isclass(found) else found).formula
    if not at:
        return Metric(known, formula, None, chosen)
    if not formula.takes_cutoff:
        raise SettingError(f"The metric {known!r} takes no cut-off; write {known!r} instead of {name!r}.")
    if not re.fullmatch(r"[0-9]{1,9}", cut.strip()) or int(cut) < 1:
        raise SettingError(f"The cut-off of {name!r} must be a whole number of at least 1, as in '{known}@10'.")
    return Metric(f"{known}@{int(cut)}", formula, int(cut), chosen)
