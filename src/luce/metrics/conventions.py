"""Every convention on which ranking metrics disagree, as an explicit setting, and presets that follow other tools."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal

from luce.registry import canonical, unknown_name
from luce.spec import Spec, option

Empty = Literal[0, 1, "skip"]


class Conventions(Spec):
    """How metrics are computed where tools differ; the defaults are luce's own.

    Parameters
    ----------
    gain
        Gain of grade r in DCG: `exponential` 2^r - 1, or `linear` r. Negative grades gain 0.
    discount
        `log2`: 1 / log2(1 + position). `letor`: 1 at positions 1 and 2, then 1 / log2(position).
    empty
        A query without a relevant document. 0 or 1 is the value of the metrics that would be 0/0 there (NDCG, MAP,
        recall and their kin; the others are 0 by themselves); `skip` leaves the query out of every metric.
    empty_map
        The same for MAP alone; None follows `empty`.
    ties
        Documents of equal score: `average` is the expected value over all orders of the tied documents, exact;
        `stable` keeps the input's order, `docid` puts the larger document id first, `best` and `worst` put the
        better and the worse labels first.
    relevance
        Binary metrics count grades of at least this as relevant.
    rmax
        Highest grade of the scale, in V(r) = (2^r - 1) / 2^rmax of ERR. None: that of the model's training data where
        the model says it (`max_grade_`), else the highest label of the data handed in.
    err_probability
        Probability that a document satisfies: `exponential`, the V above, or `label`, the label itself in [0, 1].
    persistence
        The p of RBP.
    rbp_gain
        RBP counts relevant documents (`binary`) or their grades (`grade`).
    shortfall
        A query with fewer than k documents: `truncate` at its length, `zero_ndcg` gives NDCG@k = 0 there, and
        `zero` gives P@k = 0 too.
    map_denominator
        MAP@k divides by the number of relevant documents (`relevant`) or by at most k (`cutoff`).
    map_ties
        `ties` follows the rule for ties; `threshold` gives every relevant document of a tied block the precision at
        the block's end, as curves over thresholds do.
    precision_denominator
        P@k divides by `k`, or by the documents that are there where these are fewer (`retrieved`).
    score_precision
        Scores are compared as they are (`double`), or rounded to `single` precision first, which makes more ties.
    top_k
        k of the kappa metrics: the first k documents of the true order are the ones to find, the relevant among them
        (grade above 0).
    label_ties
        Equal labels in the kappa metrics: `extend` gives all of them the label of their best position, so that a
        tie at the cut is kept whole; `stable` takes the input's order; `error` refuses them.
    tie_margin
        `tie_precision`: two scores at most this far apart predict a tie.
    alpha
        alpha-NDCG: what a document loses of the gain of a subtopic for every one before it that is about it.
    """

    gain: Literal["exponential", "linear"] = "exponential"
    discount: Literal["log2", "letor"] = "log2"
    empty: Empty = 0
    empty_map: Empty | None = None
    ties: Literal["average", "stable", "docid", "best", "worst"] = "average"
    relevance: float = 1.0
    rmax: float | None = option(default=None, least=0, most=500)
    err_probability: Literal["exponential", "label"] = "exponential"
    persistence: float = option(default=0.8, above=0, below=1)
    rbp_gain: Literal["binary", "grade"] = "binary"
    shortfall: Literal["truncate", "zero_ndcg", "zero"] = "truncate"
    map_denominator: Literal["relevant", "cutoff"] = "relevant"
    map_ties: Literal["ties", "threshold"] = "ties"
    precision_denominator: Literal["k", "retrieved"] = "k"
    score_precision: Literal["double", "single"] = "double"
    top_k: int = option(default=10, least=1, most=500)
    label_ties: Literal["extend", "stable", "error"] = "extend"
    tie_margin: float = option(default=0.0, least=0)
    alpha: float = option(default=0.5, least=0, most=1)


_OWN = Conventions()
_LETOR4 = Conventions(discount="letor", shortfall="zero_ndcg", ties="stable")

PRESETS: dict[str, Conventions] = {
    "lightgbm": Conventions(ties="stable", empty=1, map_denominator="cutoff"),
    "xgboost": Conventions(
        ties="stable",
        empty=1,
        map_denominator="cutoff",
        precision_denominator="retrieved",
        score_precision="single",
    ),
    "catboost": Conventions(
        gain="linear",
        ties="worst",
        empty=1,
        empty_map=0,
        err_probability="label",
        map_denominator="cutoff",
        precision_denominator="retrieved",
    ),
    "sklearn": Conventions(gain="linear", map_ties="threshold"),
    "trec_eval": Conventions(gain="linear", ties="docid", score_precision="single"),
    "ranx": Conventions(gain="linear", ties="stable", rbp_gain="grade"),
    "letor3": replace(_LETOR4, shortfall="zero"),
    "letor4": _LETOR4,
}
"""Settings that reproduce another tool's figures; see the documentation page on metrics for what each covers."""


def conventions(preset: str | None = None, **settings: Any) -> Conventions:
    """Conventions of a preset (default: luce's own), changed where `settings` say so.

    >>> conventions("lightgbm", gain="linear").empty
    1
    """
    base = _OWN
    if preset is not None:
        if canonical(preset) not in PRESETS:
            raise unknown_name("preset", preset, PRESETS)
        base = PRESETS[canonical(preset)]
    if not settings:
        return base  # checked when it was made; training asks for it after every iteration
    known = [field.name for field in fields(Conventions)]
    for name in settings:
        if name not in known:
            raise unknown_name("convention", name, known)
    return replace(base, **settings)
