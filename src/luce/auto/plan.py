"""How much is tried: by the budget, and by how large the data are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from luce.auto.folds import informative
from luce.auto.members import suited
from luce.auto.paths import Pace
from luce.data.groups import Groups
from luce.errors import SettingError

BUDGETS = ("fast", "best")
_LARGE = 20_000_000
"""Entries of X from which on folds are fewer, and the stronger members come alone."""
_MANY_ROWS = 20_000
"""Documents from which on steps are longer, unless the best is asked for."""
_STRONG = ("luce-linear", "regression", "lambdarank", "luce-gains", "luce")
_FINE, _LONG, _LONGEST = 0.05, 0.1, 0.15
_PATIENCE, _ROUNDS = 3.0, 50.0
"""Times 1/step: rounds without a better metric that end a way, and rounds at the most."""
_MOST_TREES = 200
"""Of large data, so that all folds of all members take less than ten times one LightGBM training of 300 trees."""
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


def check_budget(budget: Any) -> None:
    """Refuse what is neither a name nor a time."""
    if budget in BUDGETS if isinstance(budget, str) else _is_time(budget):
        return
    raise SettingError(f"budget is {budget!r}; it must be 'fast', 'best', or seconds, a number above 0.")


def _is_time(budget: Any) -> bool:
    return isinstance(budget, Real) and not isinstance(budget, bool) and 0 < float(budget) < float("inf")


def make_plan(
    budget: str | float, folds: int | None, members: tuple[str, ...] | None, jobs: Sequence[str] | None, data: Groups
) -> Plan:
    """What is to be done with these data; `jobs` carries out again what a budget in seconds had time for."""
    large = data.X.size >= _LARGE
    chosen, remarks = suited(members, data), []
    if large and members is None and budget != "best":
        chosen = tuple(name for name in chosen if name in _STRONG)
        remarks.append(
            "large data: fewer members, 3 folds and at most 200 trees of long steps; budget='best' takes all"
        )
    if data.n_features > data.n_rows:
        remarks.append(
            f"{data.n_features:,} features of {data.n_rows:,} documents can fit anything; go by what is expected of "
            "new queries"
        )
    step = _FINE if data.n_rows < _MANY_ROWS or budget == "best" else _LONGEST if large else _LONG
    count = (3 if large and budget != "best" else 5) if folds is None else folds
    speaking = len(informative(data))
    if speaking < count:
        if folds is not None and speaking > 1:
            remarks.append(f"{speaking} queries have more than one grade, so that there are {speaking} folds")
        count = speaking
    pace = Pace(step, _MOST_TREES if step == _LONGEST else round(_ROUNDS / step), round(_PATIENCE / step))
    seconds = None if isinstance(budget, str) else float(budget)
    repeats = {"fast": 1, "best": 3}[budget] if isinstance(budget, str) else _MOST_REPEATS
    listed = tuple(Job(name, repeat) for repeat in range(repeats) for name in chosen)
    if jobs is not None:
        listed, seconds = tuple(map(Job.named, jobs)), None
        suited(tuple(dict.fromkeys(job.member for job in listed)), data)
    return Plan(listed, count, pace, seconds, tuple(remarks))
