"""What there is to blend, how much of it data and budget allow, and the record of what was tried."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from luce.auto.crossfit import MEMBERS, Pace, informative, suited
from luce.data.groups import Groups
from luce.errors import LuceWarning, SettingError

_LARGE = 20_000_000
"""Entries of X from which on folds are fewer, and the stronger members come alone."""
_MANY_ROWS = 10_000
"""Documents from which on steps are longer, bins wider and trees counted, unless the best is asked for."""
_STRONG = ("luce-linear", "regression", "lambdarank", "luce-gains", "luce")
_FINE, _LONG, _LONGEST = 0.05, 0.1, 0.15
_PATIENCE, _LESS_PATIENCE, _ROUNDS = 3.0, 2.0, 50.0
"""Times 1/step: rounds without a better metric that end a way (the less where documents are many), and the most."""
_MOST_TREES = 1000
"""Of a member in all its folds where documents are many. Judged data have enough of them; simulated ones, with less
noise, would gain from more (two thirds of these lose .004 of NDCG@10 there, half as many again win .002)."""
_FINE_BINS, _WIDE_BINS = 255, 63
"""Of a feature at most, and where documents are many."""
_MOST_REPEATS = 100


@dataclass(frozen=True)
class Job:
    """One member on the folds of one draw of them."""

    member: str
    repeat: int

    @property
    def name(self) -> str:
        """As a plan names it.

        >>> Job("ties", 0).name, Job("ties", 1).name
        ('ties', 'ties#2')
        """
        return self.member if self.repeat == 0 else f"{self.member}#{self.repeat + 1}"

    @classmethod
    def named(cls, name: Any) -> Job:
        """The job of a name."""
        member, _, number = str(name).partition("#")
        if number and (not number.isdigit() or int(number) < 1):
            raise SettingError(f"plan holds {name!r}; a job is a member, or a member and its turn, as in 'ties#2'.")
        return cls(member, int(number) - 1 if number else 0)


@dataclass(frozen=True)
class Plan:
    """Jobs in their order, on how many folds, and how trees are grown."""

    jobs: tuple[Job, ...]
    folds: int
    pace: Pace
    seconds: float | None = None
    remarks: tuple[str, ...] = ()


class OutOfTime(Exception):
    """A job has not ended in time; nothing of it is kept."""


@dataclass
class Clock:
    """How long a training has taken, and whether there is time for one more job."""

    seconds: float | None
    begun: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        """Seconds up to now."""
        return time.monotonic() - self.begun

    def allows(self, longest: float) -> bool:
        """Whether a job that takes as long as the longest up to now would end in time."""
        return self.seconds is None or self.spent + longest <= self.seconds

    def check(self) -> None:
        """Give a job up where the time is over."""
        if not self.allows(0.0):
            raise OutOfTime


ExportTarget = Literal[
    "elasticsearch", "lightgbm", "onnx", "opensearch", "python", "ranklib", "solr", "xgboost-dump", "xgboost-json"
]
_ONE_TERM = ("lightgbm", "ranklib", "solr", "xgboost-dump", "xgboost-json")
"""Targets that hold trees or a linear model, and no sum of the two."""
_ENGINES = ("elasticsearch", "opensearch", "solr")


def for_target(target: str | None, members: tuple[str, ...] | None, data: Groups) -> tuple[str, ...] | None:
    """The members that a target of export can hold together, said before they are trained; others are refused."""
    if target is None:
        return members
    text = None if data.schema is None else data.schema.text
    own = [] if text is None or target not in _ENGINES else text.python_only(data.feature_names)
    if own:
        raise SettingError(f"export_to is {target!r}, and only Python computes {own[0]!r}; take features='engine'.")
    if data.schema is not None and data.schema.categories and target.startswith("xgboost"):
        raise SettingError(f"export_to is {target!r}, which takes no categories; leave them out, or take 'lightgbm'.")
    chosen = suited(members, data)
    linear = [name for name in chosen if MEMBERS[name].linear]
    if target not in _ONE_TERM or not linear or len(linear) == len(chosen):
        return members
    if members is not None:
        raise SettingError(
            f"{target} holds no sum of trees and a linear model; take {', '.join(linear)} or the others as members."
        )
    warnings.warn(
        f"{target} holds no sum of trees and a linear model: the blend is trained without {', '.join(linear)}.",
        LuceWarning,
        stacklevel=5,
    )
    return tuple(name for name in chosen if name not in linear)


def make_plan(
    budget: str | float, folds: int | None, members: tuple[str, ...] | None, jobs: Sequence[str] | None, data: Groups
) -> Plan:
    """What is to be done with these data; `jobs` carries out again what a budget in seconds had time for."""
    large = data.X.size >= _LARGE
    chosen, remarks = suited(members, data), []
    if large and members is None and budget != "best":
        chosen = tuple(name for name in chosen if name in _STRONG)
        remarks.append("large data: fewer members, 3 folds and few trees of long steps; budget='best' takes all")
    if data.n_features > data.n_rows:
        remarks.append(
            f"{data.n_features:,} features of {data.n_rows:,} documents can fit anything; go by what is expected of "
            "new queries"
        )
    many = (large or data.n_rows >= _MANY_ROWS) and budget != "best"
    step = _FINE if not many else _LONGEST if large else _LONG
    count = (3 if large and budget != "best" else 5) if folds is None else folds
    speaking = len(informative(data))
    if speaking < count:
        if folds is not None and speaking > 1:
            remarks.append(f"{speaking} queries have more than one grade, so that there are {speaking} folds")
        count = speaking
    rounds = _MOST_TREES // max(count, 1) if many else round(_ROUNDS / step)
    pace = Pace(step, rounds, round((_LESS_PATIENCE if many else _PATIENCE) / step), _WIDE_BINS if many else _FINE_BINS)
    seconds = None if isinstance(budget, str) else float(budget)
    repeats = {"fast": 1, "best": 3}[budget] if isinstance(budget, str) else _MOST_REPEATS
    listed = tuple(Job(name, repeat) for repeat in range(repeats) for name in chosen)
    if jobs is not None:
        listed, seconds = tuple(map(Job.named, jobs)), None
        suited(tuple(dict.fromkeys(job.member for job in listed)), data)
    return Plan(listed, count, pace, seconds, tuple(remarks))


def tried(model: Any) -> list[dict[str, Any]]:
    """What a fitted `auto` tried, the heaviest member first: one row a member, for any data frame.

    `alone` is the metric of the member on queries that it did not see, `steps` its trees a fold (or the number of its
    penalty). The weight comes of `chosen`, its share in the blends that were best on halves of the queries, and of
    `kept`, whether it counts as much as others there; `note` says why in words.

    >>> import luce
    >>> from luce.data.simulate import simulate
    >>> model = luce.model("auto", members=["regression", "luce-linear"], random_state=0)
    >>> sorted(row["member"] for row in tried(model.fit(simulate(queries=30, features=5, seed=0))))
    ['luce-linear', 'regression']
    """
    record = getattr(model, "history_", {}).get("blend")
    if not record:
        raise SettingError("This model is no blend; luce.model('auto') makes one.")
    return as_rows(record)


def as_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The members of a record, the heaviest first, then those that were left out."""
    rows = []
    for row in sorted(record["members"], key=lambda row: -row["weight"]):
        # Where its weight comes from, which there are files that do not say.
        note = f"{row['chosen']:.0%} of the best blends" if "chosen" in row else ""
        rows.append({**row, "note": note + ("" if row.get("kept", True) else "; clearly worse than the best")})
    for member, reason in record["failed"].items():
        rows.append({"member": member, "about": "", "weight": 0.0, "alone": None, "steps": [], "note": reason})
    return rows


def as_text(record: Mapping[str, Any]) -> str:
    """What the blend will be worth, in a sentence.

    >>> as_text({"metric": "ndcg@10", "estimate": {"value": 0.5, "low": 0.4, "high": 0.6}, "queries": 60, "folds": 5})
    'ndcg@10 of 0.5000 is to be expected on queries like these (95%: 0.4000 to 0.6000; 60 queries, 5 folds)'
    """
    found = record.get("estimate")
    if found is None:
        return "too few queries to say what it will be worth"
    text = (
        f"{record['metric']} of {found['value']:.4f} is to be expected on queries like these (95%: {found['low']:.4f} "
        f"to {found['high']:.4f}; {record['queries']:,} queries, {record['folds']} folds)"
    )
    if "random" in found:
        text += f", where a random order has {found['random']:.4f}"
    if "feature" in found:
        text += f" and the best feature alone, {found['feature']}, {found['feature_value']:.4f}"
    return text


def as_lines(record: Mapping[str, Any]) -> list[str]:
    """The whole record for a reader at a terminal."""
    lines = [f"{'blend':<24} {as_text(record)}"]
    if record.get("yardstick") is not None:
        value = f"{record['metric']} {record['yardstick']:.4f}"
        lines.append(f"{'validation queries':<24} a yardstick, nothing was learned from them: {value}")
    elif record.get("valid"):
        lines.append(f"{'validation queries':<24} learned from as well; use_valid=yardstick keeps them apart")
    lines.append(f"  {'member':<14} {'weight':>7} {'alone':>8}  what it is, and why it counts")
    for row in as_rows(record):
        alone = "" if row["alone"] is None else f"{row['alone']:.4f}"
        what = "; ".join(text for text in (row["about"], row["note"]) if text)
        lines.append(f"  {row['member']:<14} {row['weight']:>7.3f} {alone:>8}  {what}")
    lines.append(f"{'plan':<24} {', '.join(record['plan'])}")
    return lines + [f"{'remark':<24} {remark}" for remark in record["remarks"]]
