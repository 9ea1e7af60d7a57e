"""Metrics by name: `ndcg@10` is a formula, a cut-off and conventions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from inspect import isclass, signature
from typing import TYPE_CHECKING, Any, NamedTuple

from luce.errors import SettingError
from luce.metrics.conventions import Conventions, conventions
from luce.registry import Registry
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.metrics.lists import Lists


class Formula(NamedTuple):
    """What a name stands for. `home` None: computed by the model itself, or by a function of one's own."""

    home: str | Callable[[Lists, int], FloatArray] | None
    """What measures lists: a function, or the module of this package and its name, imported when first asked for."""
    takes_cutoff: bool = False
    greater_is_better: bool = True
    needs_subtopics: bool = False
    hears: tuple[str, ...] = ()
    """The conventions that make a difference to it; the others would be set in vain."""
    function: Callable[[FloatArray, FloatArray], float] | None = None
    """A metric of one's own: a function of the scores and labels of one query."""

    @property
    def of_labels(self) -> bool:
        """Whether scores and labels are all that it needs."""
        return self.home is not None and not self.needs_subtopics

    def measure(self, lists: Lists, k: int) -> FloatArray:
        """One value a list, of its first k documents."""
        assert self.home is not None
        if not isinstance(self.home, str):
            return self.home(lists, k)
        module, _, name = self.home.partition(":")
        return getattr(import_module(f"luce.metrics.{module}"), name)(lists, k)


def _cut(home: str, *hears: str) -> Formula:
    """A metric of the first k documents."""
    return Formula(home, takes_cutoff=True, hears=hears)


_PAIRS = ("score_precision",)
_PLACES = ("ties", *_PAIRS)
_LIST = ("empty", *_PLACES)
_KAPPA = ("top_k", "label_ties", *_LIST)
FORMULAS = {
    "ndcg": _cut("discounted:ndcg", "gain", "discount", "shortfall", *_LIST),
    "dcg": _cut("discounted:dcg", "gain", "discount", *_LIST),
    "mean_ndcg": Formula("discounted:mean_ndcg", hears=("gain", "discount", *_LIST)),
    "err": _cut("discounted:err", "rmax", "err_probability", *_LIST),
    "map": _cut("binary:average_precision", "relevance", "empty_map", "map_denominator", "map_ties", *_LIST),
    "p": _cut("binary:precision", "relevance", "precision_denominator", "shortfall", *_LIST),
    "recall": _cut("binary:recall", "relevance", *_LIST),
    "mrr": _cut("binary:reciprocal_rank", "relevance", *_LIST),
    "rbp": _cut("binary:rank_biased_precision", "relevance", "persistence", "rbp_gain", *_LIST),
    "kappa_ndcg": _cut("discounted:position_ndcg", "discount", "shortfall", *_KAPPA),
    "kappa_err": _cut("discounted:position_err", *_KAPPA),
    "kendall_tau": Formula("concordance:kendall_tau", hears=_PAIRS),
    "spearman_footrule": Formula("concordance:footrule", greater_is_better=False, hears=_PLACES),
    "pairwise_accuracy": Formula("concordance:pairwise_accuracy", hears=_PAIRS),
    "tie_precision": Formula("concordance:tie_precision", hears=("tie_margin", *_PAIRS)),
    "alpha_ndcg": _cut("novelty:alpha_ndcg", "alpha", "discount", "shortfall", *_LIST)._replace(needs_subtopics=True),
    "log_likelihood": Formula(None),
}
METRICS = Registry("metric", dict.fromkeys(FORMULAS, "luce.metrics.catalog:FORMULAS"), "luce.metrics")
names, register = METRICS.names, METRICS.register


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
    name = str(getattr(part, "name", None) or getattr(part, "__name__", type(part).__name__))
    try:
        signature(part).bind(None, None)
    except TypeError as error:
        what = f"The metric {name!r} takes {signature(part)}"
        raise SettingError(f"{what}; a metric is a function (scores, labels) of one query.") from error
    except ValueError:  # compiled functions need not say what they take
        pass
    return Metric(name, Formula(None, greater_is_better=getattr(part, "greater_is_better", True), function=part))


def parse(name: str, chosen: Conventions) -> Metric:
    """The metric of a name with an optional cut-off `@k`."""
    if not isinstance(name, str):
        raise SettingError(f"The metric is {name!r}; give a name, such as 'ndcg@10'.")
    base, at, cut = name.partition("@")
    known = METRICS.resolve(base)
    found = METRICS.get(known)
    formula = FORMULAS[known] if found is FORMULAS else of(found() if isclass(found) else found).formula
    if not at:
        return Metric(known, formula, None, chosen)
    if not formula.takes_cutoff:
        raise SettingError(f"The metric {known!r} takes no cut-off; write {known!r} instead of {name!r}.")
    if not re.fullmatch(r"[0-9]{1,9}", cut.strip()) or int(cut) < 1:
        raise SettingError(f"The cut-off of {name!r} must be a whole number of at least 1, as in '{known}@10'.")
    return Metric(f"{known}@{int(cut)}", formula, int(cut), chosen)
