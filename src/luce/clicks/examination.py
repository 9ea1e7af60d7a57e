r"""Examination: how likely a user looks at each place, from clicks on documents that were shown in several places.

A document is clicked where it is examined and attracts: $P(\text{click}) = \theta_k \gamma_d$. A place is a position,
or a position and the position of the last click above it (users who go down the list and stop).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from luce.checks import one_of
from luce.clicks.choice import (
    LEAST_PLACES,
    ChoiceFit,
    Choices,
    Places,
    clustered,
    combined,
    errors_wide,
    joint_choice,
    linked,
    places_of,
    smoothed,
    standardised,
)
from luce.clicks.counts import ClickCounts, kind_of
from luce.clicks.trust import fit_trust
from luce.data.clicks import Clicks
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.result import Result, Sheet
from luce.spec import Spec, option
from luce.types import FloatArray, IntArray

KINDS = ("position", "trust", "cascade")


class Users(Spec):
    r"""A kind of users, and how fast their attention falls.

    Examination of position $k$ is $\theta_k = k^{-\eta}$.

    - "position": a click with probability $\theta_k \gamma_d$, independently;
    - "trust": $\theta_k (\gamma_d + (1 - \gamma_d)\, \tau / k)$: what stands high is clicked for that alone;
    - "cascade": from the top down, clicking what is looked at with probability $\gamma_d$; on from $k$ with probability
      $(k / (k + 1))^\eta$, times `after_click` after a click.
    """

    kind: str = option(default="position", convert=lambda _, kind: one_of("users", kind, KINDS))
    eta: float = option(default=1.0, least=0)
    trust: float = option(default=0.3, least=0, most=1)
    after_click: float = option(default=0.5, least=0, most=1)

    @property
    def stop(self) -> bool:
        """Whether they go down the list and stop."""
        return self.kind == "cascade"

    def theta(self, positions: FloatArray) -> FloatArray:
        """Examination of positions, the first 1."""
        return np.asarray(positions, dtype=np.float64) ** -self.eta

    def chance(self, k: int, attracted: FloatArray) -> FloatArray:
        """Probability of a click at position k; for cascading users, given that they got there."""
        if self.kind == "cascade":
            return attracted
        looked = float(k) ** -self.eta
        if self.kind == "trust":
            attracted = attracted + (1.0 - attracted) * self.trust / k
        result: FloatArray = looked * attracted
        return result

    def goes_on(self, k: int, clicked: bool) -> float:
        """Probability that a cascading user who is at position k looks at the next one."""
        return float((k / (k + 1)) ** self.eta) * (self.after_click if clicked else 1.0)


def attraction(grades: FloatArray, noise: float = 0.1) -> FloatArray:
    r"""How likely one who looks at a document clicks it, $\epsilon + (1 - \epsilon)(2^y - 1)/(2^{y_{\max}} - 1)$.

    >>> attraction(np.array([0.0, 1.0, 2.0])).round(12).tolist()
    [0.1, 0.4, 1.0]
    """
    if not 0 <= noise <= 1:
        raise SettingError(f"noise is {noise}; it must be between 0 and 1.")
    above = grades - grades.min()
    result: FloatArray = noise + (1 - noise) * (np.exp2(above) - 1) / max(float(np.exp2(above.max()) - 1), 1.0)
    return result


HEADINGS = {"after": "last click", "click_rate": "click rate", "theta": "examination"}
HEADINGS |= {"low": "95% from", "high": "to", "standard_error": "error of log"}
"""What people read over the columns of tables."""
METHODS = ("auto", "conditional", "joint")
USERS = ("position", "last_click", "trust")
_ASTRAY = (
    "Joint choice leans on the features: how far these lead it astray is in no error and no interval. Show some "
    "documents at several positions, and the log will tell."
)
_WIDE = 10.0
"""Standard error of log theta above which an estimate is said to be none."""
_MOST_POSITIONS = 1000
"""Tables of all pairs of positions are held."""


@dataclass(frozen=True, eq=False)
class Examination(Result):
    """Examination of places relative to the first, with the covariance of its logarithms.

    Parameters
    ----------
    position, after
        The places: a position, and the position of the last click above (0: none, or not told apart).
    theta
        How likely they are examined, the first place 1.
    covariance
        Of log theta, a row and column a place; that of the first is 0.
    method
        "conditional", "joint", "combined" (of both), "trust" or "given".
    errors
        What the covariance is computed from: queries, documents or clicks.
    influence
        (cells, places): what one more click in a cell of the counts adds to log theta.
    notes
        What was left out or found.
    """

    position: IntArray
    after: IntArray
    theta: FloatArray
    covariance: FloatArray
    method: str
    errors: str
    influence: FloatArray
    counts: ClickCounts
    place: IntArray
    notes: tuple[str, ...] = ()
    trust: FloatArray | None = None
    """By place, how likely one who looks at a document clicks it for its place alone; None: not estimated."""

    @property
    def users(self) -> str:
        """The model of users: "position", "last_click" or "trust"."""
        if self.trust is not None:
            return "trust"
        return "last_click" if self.after.any() else "position"

    @property
    def standard_error(self) -> FloatArray:
        """Of log theta."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Least and greatest theta at this level of confidence, place by place."""
        width = errors_wide(level) * self.standard_error
        with np.errstate(over="ignore"):  # an end that is infinite says that nothing is known
            return self.theta * np.exp(-width), self.theta * np.exp(width)

    def columns(self) -> dict[str, Any]:
        """A row a place."""
        low, high = self.interval()
        found = {"position": self.position, "after": self.after, "theta": self.theta, "low": low, "high": high}
        found |= {"standard_error": self.standard_error}
        return found if self.trust is None else found | {"trust": self.trust}

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row a place."""
        columns = self.columns()
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def sheets(self) -> list[Sheet]:
        """Examination of every place, with its interval."""
        found = self.columns()
        if self.users != "last_click":
            del found["after"]
        return [Sheet(f"Examination ({self.method})", {HEADINGS.get(name, name): found[name] for name in found})]

    @property
    def exposure(self) -> FloatArray:
        r"""$E_d = \sum_k N_{dk} \theta_k$, the expected number of times that each document was looked at.

        With trust $\sum_k N_{dk} \alpha_k$, $\alpha_k = \theta_k (1 - \tau_k)$: looks that the place does not decide.
        """
        used = self.place >= 0
        counts = self.counts
        open_to_it = self.theta if self.trust is None else self.theta * (1.0 - self.trust)
        weight = counts.shown[used] * open_to_it[self.place[used]]
        return np.bincount(counts.document[used], weight, minlength=counts.n_documents).astype(np.float64)

    @property
    def clicks(self) -> FloatArray:
        r"""Clicks on each document, in the places that are used; with trust less $\sum_k N_{dk} \theta_k \tau_k$."""
        used = self.place >= 0
        counts = self.counts
        clicked = counts.clicked[used]
        if self.trust is not None:
            clicked = clicked - counts.shown[used] * (self.theta * self.trust)[self.place[used]]
        total = np.bincount(counts.document[used], clicked, minlength=counts.n_documents)
        return np.maximum(total, 0.0).astype(np.float64)

    def target(self, data: Groups, missing: str = "error") -> Clicks:
        """Clicks and exposure of the rows of `data`: what the loss `click_choice` learns from."""
        rows = self.counts.rows_in(data, missing)
        known = rows >= 0
        clicks, exposure = np.zeros(data.n_rows), np.zeros(data.n_rows)
        clicks[rows[known]], exposure[rows[known]] = self.clicks[known], self.exposure[known]
        return Clicks(clicks, exposure)

    def plot(self, path: Any = None) -> Any:
        """Examination by position, with its 95% band, as a figure; written where a path is given (png, svg, pdf)."""
        from luce.clicks.plots import plot_examination

        return plot_examination(self, path)


def examination(
    counts: ClickCounts,
    data: Groups | None = None,
    *,
    method: str = "auto",
    users: str = "position",
    missing: str = "error",
) -> Examination:
    r"""Estimate examination from counts.

    "conditional" compares a document with itself: given a click on it, the place is $k$ with probability
    $N_{dk} \theta_k / \sum_j N_{dj} \theta_j$, whatever its attraction. It is consistent where what is shown does not
    depend on the same clicks, and needs places that are linked by documents shown in both; it is refused with the
    reason where they are not. "joint" also learns attraction from the features of `data`, log-linear: less noise, and
    no need of links, but it leans on the features. "auto" takes both where `data` are given, each as far as it is to
    be believed (`luce.clicks.choice`), "joint" where "conditional" is impossible, and "conditional" without `data`;
    what it takes is then smoothed along the positions, as far as its errors ask for it (`luce.clicks.examination`). The
    others are as they are.

    `users="last_click"` takes (position, position of the last click above) for a place. `users="trust"` also estimates
    clicks that the position alone explains (`luce.clicks.trust`); it leans on the features of `data`.

    >>> from luce.clicks import read
    >>> log = {"session": [1, 1, 2, 2, 3, 3], "query": ["q"] * 6, "document": ["a", "b", "b", "a", "a", "b"],
    ...        "position": [1, 2] * 3, "clicked": [1, 0, 1, 1, 1, 0]}
    >>> examination(read(log)).theta.round(4).tolist(), round((13**0.5 - 1) / 6, 4)
    ([1.0, 0.4343], 0.4343)
    """
    kind_of(counts, ClickCounts, "luce.clicks.read(log)")
    one_of("method", method, METHODS)
    one_of("users", users, USERS)
    if method == "joint" and data is None:
        raise SettingError("method='joint' learns from features; give the documents as data.")
    if users == "trust" and (data is None or method != "auto"):
        raise SettingError("users='trust' has a method of its own and learns from features; give data and no method.")
    used = counts if users == "last_click" else counts.by_position()
    _check_clicks(used)
    places = places_of(used)
    rows = None if data is None else used.rows_in(data, missing)
    features = None if data is None or rows is None else partial(standardised, data, rows)
    lost = 0 if rows is None else int((rows < 0).sum())
    if features is not None and users == "trust":
        return _trusting(used, places, features())
    if features is not None and method == "joint":
        return _joint(used, places, features(), lost)
    islands, problem = linked(used, places)
    notes: tuple[str, ...] = ()
    if problem and users == "last_click":
        places, share = places.only(islands[0], used)
        notes = (f"{share:.2%} of the clicks are in places that are not linked to the others, and left out.",)
    elif problem and (method != "auto" or features is None):
        raise DataError(problem + " Give the documents with their features for joint choice (luce clicks --data).")
    elif problem and features is not None:
        found = _joint(used, places, features(), lost)
        return _smooth(replace(found, notes=(f"{problem} Joint choice was taken.", *found.notes)))
    found = _made(used, places, Choices(used, places).fit(), "conditional", notes)
    if method != "auto" or users != "position":
        return found
    if features is not None:
        found = _together(found, _joint(used, places, features(), lost))
    return _smooth(found)


def given_examination(counts: ClickCounts, theta: Mapping[int, float]) -> Examination:
    """Examination that is known, by position; it has no error.

    >>> from luce.clicks import read
    >>> log = {"session": [1, 1], "query": ["q"] * 2, "document": ["a", "b"], "position": [1, 2], "clicked": [1, 0]}
    >>> given_examination(read(log), {1: 0.9, 2: 0.45}).theta.tolist()
    [1.0, 0.5]
    """
    used = counts.by_position()
    if not isinstance(theta, Mapping):
        raise DataError(f"Examination was given as a {type(theta).__name__}; give propensities by position.")
    for position, value in theta.items():
        if not isinstance(value, int | float | np.number) or not 0 < value <= 1:
            raise DataError(f"The propensity of position {position} is {value}; it must be above 0 and at most 1.")
    lacking = [int(k) for k in used.positions if int(k) not in theta]
    if lacking:
        raise DataError(f"No propensity is given for position {lacking[0]}, which the log shows; give one for each.")
    places = places_of(used)
    values = np.array([theta[int(k)] for k in places.position])
    n = len(values)
    known = ChoiceFit(np.log(values), np.zeros((n, n)), "none", np.zeros((len(used.document), n)))
    return replace(_made(used, places, known, "given"), theta=values / values[0])


def _check_clicks(counts: ClickCounts) -> None:
    total = counts.clicked.sum()
    if total == 0:
        raise DataError("The log has no click; examination is learned from clicks, so give a log that has some.")
    if total == counts.shown.sum():
        raise DataError("Every row of the log is clicked; give the log of what was shown, not of the clicks alone.")
    if len(counts.positions) < 2:
        raise DataError(
            f"The log shows position {counts.positions[0]} only; examination compares positions, so at least two are "
            "needed."
        )
    if len(counts.positions) > _MOST_POSITIONS:
        raise DataError(
            f"The log shows {len(counts.positions):,} positions; examination is told of {_MOST_POSITIONS:,} at most: "
            "read the log without what stands further down, by last_position= (luce clicks --last-position)."
        )


def _joint(counts: ClickCounts, places: Places, X: FloatArray, lost: int) -> Examination:
    notes = (f"{lost:,} documents are not in the data; joint choice takes them as average ones.",) if lost else ()
    return _made(counts, places, joint_choice(counts, places, X), "joint", (*notes, _ASTRAY))


def _trusting(counts: ClickCounts, places: Places, X: FloatArray) -> Examination:
    fit = fit_trust(counts, places, X, joint_choice(counts, places, X).log_theta)
    found = _made(counts, places, fit, "trust")
    unknown = found.standard_error > _WIDE
    which = ", ".join(map(str, found.position[unknown]))
    said = f"The log tells hardly anything of examination beside trust at position {which}; give a longer one."
    return replace(found, notes=(said,) if unknown.any() else ())


def _made(counts: ClickCounts, places: Places, fit: ChoiceFit, method: str, notes: tuple[str, ...] = ()) -> Examination:
    return Examination(
        places.position,
        places.after,
        np.exp(fit.log_theta),
        fit.covariance,
        method,
        fit.errors,
        fit.influence,
        counts,
        places.of_cell,
        notes,
        fit.trust,
    )


def _smooth(found: Examination) -> Examination:
    """Positions lean on their neighbours; the covariance is that of what is left unknown."""
    if len(found.position) < LEAST_PLACES:
        return found
    log_theta = np.log(found.theta)
    lean, left = smoothed(found.position.astype(np.float64), log_theta, found.covariance)
    note = (
        "Positions lean on their neighbours as far as their errors ask for it (method='conditional' or 'joint': not)."
    )
    return replace(
        found,
        theta=np.exp(lean @ log_theta),
        covariance=left,
        influence=found.influence @ lean.T,
        notes=(*found.notes, note),
    )


def _together(conditional: Examination, joint: Examination) -> Examination:
    """Both estimates, each as far as it is to be believed (`luce.clicks.choice`)."""
    both = np.hstack([conditional.influence, joint.influence])
    z, other = np.log(conditional.theta), np.log(joint.theta)
    positions = conditional.position.astype(np.float64)
    gain, left = combined(positions, z, other, clustered(both, conditional.counts))
    return replace(
        conditional,
        theta=np.exp(z + gain @ (other - z)),
        covariance=left,
        method="combined",
        influence=conditional.influence @ (np.eye(len(z)) - gain).T + joint.influence @ gain.T,
        notes=conditional.notes + tuple(note for note in joint.notes if note != _ASTRAY),
    )
