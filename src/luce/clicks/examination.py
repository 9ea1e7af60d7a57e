r"""Examination: how likely a user looks at each place, from clicks on documents that were shown in several places.

A document is clicked where it is examined and attracts: $P(\text{click}) = \theta_k \gamma_d$. A place is a position,
or a position and the position of the last click above it (users who go down the list and stop).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from luce.clicks.choice import (
    LEAST_PLACES,
    ChoiceFit,
    Places,
    clustered,
    combined,
    conditional_choice,
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
from luce.types import FloatArray, IntArray

KINDS = ("position", "trust", "cascade")


@dataclass(frozen=True)
class Users:
    r"""A kind of users, and how fast their attention falls.

    Examination of position $k$ is $\theta_k = k^{-\eta}$.

    - "position": a click with probability $\theta_k \gamma_d$, independently;
    - "trust": $\theta_k (\gamma_d + (1 - \gamma_d)\, \tau / k)$: what stands high is clicked for that alone;
    - "cascade": from the top down, clicking what is looked at with probability $\gamma_d$; on from $k$ with probability
      $(k / (k + 1))^\eta$, times `after_click` after a click.
    """

    kind: str = "position"
    eta: float = 1.0
    trust: float = 0.3
    after_click: float = 0.5

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SettingError(f"users is {self.kind!r}; it must be one of {', '.join(KINDS)}.")
        for name, value, right, allowed in (
            ("eta", self.eta, 0 <= self.eta < np.inf, "a finite number of at least 0"),
            ("trust", self.trust, 0 <= self.trust <= 1, "between 0 and 1"),
            ("after_click", self.after_click, 0 <= self.after_click <= 1, "between 0 and 1"),
        ):
            if not right:
                raise SettingError(f"{name} is {value}; it must be {allowed}.")

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
class Examination:
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

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row a place."""
        low, high = self.interval()
        names = ["position", "after", "theta", "low", "high", "standard_error"]
        columns = [self.position, self.after, self.theta, low, high, self.standard_error]
        if self.trust is not None:
            names, columns = [*names, "trust"], [*columns, self.trust]
        return [
            {name: value.item() for name, value in zip(names, row, strict=True)} for row in zip(*columns, strict=True)
        ]

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
    if method not in METHODS:
        raise SettingError(f"method is {method!r}; it must be one of {', '.join(METHODS)}.")
    if users not in USERS:
        raise SettingError(f"users is {users!r}; it must be one of {', '.join(USERS)}.")
    if method == "joint" and data is None:
        raise SettingError("method='joint' learns from features; give the documents as data.")
    if users == "trust" and (data is None or method != "auto"):
        raise SettingError("users='trust' has a method of its own and learns from features; give data and no method.")
    used = counts if users == "last_click" else counts.by_position()
    _check_clicks(used)
    places = places_of(used)
    rows = None if data is None else used.rows_in(data, missing)
    if users == "trust":
        assert data is not None
        assert rows is not None
        return _trusting(used, places, data, rows)
    if method == "joint":
        assert data is not None
        assert rows is not None
        return _joint(used, places, data, rows)
    islands, problem = linked(used, places)
    notes: list[str] = []
    if problem:
        if users == "last_click":
            places, share = places.only(islands[0], used)
            notes.append(f"{share:.2%} of the clicks are in places that are not linked to the others, and left out.")
        elif method == "auto" and data is not None and rows is not None:
            found = _joint(used, places, data, rows)
            return _smooth(replace(found, notes=(f"{problem} Joint choice was taken.", *found.notes)))
        else:
            raise DataError(problem + " Give the documents with their features for joint choice (luce clicks --data).")
    found = _conditional(used, places, tuple(notes))
    if method != "auto" or users != "position":
        return found
    if data is not None and rows is not None:
        found = _together(found, _joint(used, places, data, rows))
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
    return Examination(
        places.position,
        places.after,
        values / values[0],
        np.zeros((n, n)),
        "given",
        "none",
        np.zeros((len(used.document), n)),
        used,
        places.of_cell,
    )


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


def _conditional(counts: ClickCounts, places: Places, notes: tuple[str, ...]) -> Examination:
    fit = conditional_choice(counts, places)
    return _made(counts, places, fit, "conditional", notes)


def _joint(counts: ClickCounts, places: Places, data: Groups, rows: IntArray) -> Examination:
    lost = int((rows < 0).sum())
    notes = (f"{lost:,} documents are not in the data; joint choice takes them as average ones.",) if lost else ()
    return _made(counts, places, joint_choice(counts, places, data, rows), "joint", (*notes, _ASTRAY))


def _trusting(counts: ClickCounts, places: Places, data: Groups, rows: IntArray) -> Examination:
    start = joint_choice(counts, places, data, rows)
    fit = fit_trust(counts, places, standardised(data, rows), start.log_theta)
    nothing = np.zeros((len(counts.document), len(places)))
    found = _made(counts, places, ChoiceFit(np.log(fit.theta), fit.covariance, fit.errors, nothing), "trust", ())
    unknown = found.standard_error > _WIDE
    which = ", ".join(map(str, found.position[unknown]))
    said = f"The log tells hardly anything of examination beside trust at position {which}; give a longer one."
    return replace(found, trust=fit.trust, notes=(said,) if unknown.any() else ())


def _made(counts: ClickCounts, places: Places, fit: ChoiceFit, method: str, notes: tuple[str, ...]) -> Examination:
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
