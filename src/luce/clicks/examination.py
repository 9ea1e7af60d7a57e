r"""Examination: how likely a user looks at each place, from clicks on documents that were shown in several places.

A document is clicked where it is examined and attracts: $P(\text{click}) = \theta_k \gamma_d$. A place is a position,
or a position and the position of the last click above it (users who go down the list and stop).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.checks import one_of
from luce.clicks import choice
from luce.clicks.counts import ClickCounts, kind_of
from luce.clicks.trust import fit_trust
from luce.data.clicks import Clicks, looked_up
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.result import Result, Sheet, records
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        width = choice.errors_wide(level) * self.standard_error
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
        return records(self.columns())

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

    def plot(self, path: str | Path | None = None) -> Figure:
        """Click rates and examination by position, on logarithmic axes with 95% bands; a line for each last click.

        The figure is written where a path is given (png, svg, pdf).
        """
        from luce.display import check_picture, finished, new_figure

        check_picture(path)
        figure = new_figure(6.0, 4.0)
        axis = figure.subplots()
        low, high = self.interval()
        for last in sorted(set(self.after.tolist())):
            at = self.after == last
            name = f"last click at {last}" if last else "no click above" if self.after.any() else "examination"
            axis.fill_between(self.position[at], low[at], high[at], alpha=0.25, lw=0)
            axis.plot(self.position[at], self.theta[at], "o-", ms=3, lw=1.2, label=name)
        of_position = self.counts.by_position()
        shown = np.bincount(of_position.position, of_position.shown)
        rate = np.bincount(of_position.position, of_position.clicked) / np.maximum(shown, 1.0)
        here = np.flatnonzero(rate > 0)
        axis.plot(here, rate[here] / rate[here[0]], "--", lw=0.9, color="#777777", label="click rate, first 1")
        if self.trust is not None:
            axis.plot(self.position[:-1], self.trust[:-1], ":", lw=1.2, color="#aa3333", label="trust")
        axis.set_xscale("log")
        axis.set_yscale("log")
        ticks = self.position[self.after == 0]
        axis.set_xticks(ticks, [str(k) for k in ticks], fontsize=8)
        axis.minorticks_off()
        axis.set_xlabel("position", fontsize=9)
        axis.set_ylabel("examination, first position 1 (95% bands)", fontsize=9)
        axis.set_title(f"{self.method} choice, {self.counts.clicked.sum():,.0f} clicks", fontsize=9)
        axis.legend(fontsize=7)
        axis.grid(lw=0.4)
        return finished(figure, path)


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
    places = choice.places_of(used)
    rows = None if data is None else used.rows_in(data, missing)
    features = None if data is None or rows is None else partial(choice.standardised, data, rows)
    lost = 0 if rows is None else int((rows < 0).sum())
    if features is not None and users == "trust":
        X = features()
        found = _made(used, places, fit_trust(used, places, X, choice.joint_choice(used, places, X).log_theta), "trust")
        unknown = found.standard_error > _WIDE
        which = ", ".join(map(str, found.position[unknown]))
        said = f"The log tells hardly anything of examination beside trust at position {which}; give a longer one."
        return replace(found, notes=(said,) if unknown.any() else ())
    if features is not None and method == "joint":
        return _joint(used, places, features(), lost)
    islands, problem = choice.linked(used, places)
    notes: tuple[str, ...] = ()
    if problem and users == "last_click":
        places, share = places.only(islands[0], used)
        notes = (f"{share:.2%} of the clicks are in places that are not linked to the others, and left out.",)
    elif problem and (method != "auto" or features is None):
        raise DataError(problem + " Give the documents with their features for joint choice (luce clicks --data).")
    elif problem and features is not None:
        found = _joint(used, places, features(), lost)
        return _smooth(replace(found, notes=(f"{problem} Joint choice was taken.", *found.notes)))
    found = _made(used, places, choice.Choices(used, places).fit(), "conditional", notes)
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
    places = choice.places_of(used)
    values = np.array([theta[int(k)] for k in places.position])
    n = len(values)
    known = choice.ChoiceFit(np.log(values), np.zeros((n, n)), "none", np.zeros((len(used.document), n)))
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


def _joint(counts: ClickCounts, places: choice.Places, X: FloatArray, lost: int) -> Examination:
    notes = (f"{lost:,} documents are not in the data; joint choice takes them as average ones.",) if lost else ()
    return _made(counts, places, choice.joint_choice(counts, places, X), "joint", (*notes, _ASTRAY))


def _made(
    counts: ClickCounts, places: choice.Places, fit: choice.ChoiceFit, method: str, notes: tuple[str, ...] = ()
) -> Examination:
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
    if len(found.position) < choice.LEAST_PLACES:
        return found
    log_theta = np.log(found.theta)
    lean, left = choice.smoothed(found.position.astype(np.float64), log_theta, found.covariance)
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
    gain, left = choice.combined(positions, z, other, choice.clustered(both, conditional.counts))
    return replace(
        conditional,
        theta=np.exp(z + gain @ (other - z)),
        covariance=left,
        method="combined",
        influence=conditional.influence @ (np.eye(len(z)) - gain).T + joint.influence @ gain.T,
        notes=conditional.notes + tuple(note for note in joint.notes if note != _ASTRAY),
    )


def pairs(examined: Examination, data: Groups, *, least_theta: float = 0.05, missing: str = "error") -> Comparisons:
    r"""Weighted wins and ties between rows of `data`, for davidson, rao_kupper, bradley_terry and thurstone_mosteller.

    [Ties] takes preferences and ties from clicks. With $\theta$ known, and positions examined independently,

    $$T_{ij} = \sum_s \frac{c_i c_j}{\theta_k \theta_l}, \qquad W_{ij} = \sum_s \frac{c_i}{\theta_k} - T_{ij}$$

    over the sessions that showed both have the means of "both attract" and "only $i$ attracts": unbiased before they
    are clipped at 0. Where examination is nested (users who go down the list and stop) they are not.

    The counts must have been read with `pairs=True`. Examination below `least_theta` counts as that much, so that one
    click far down does not outweigh all others. Weights are divided by their mean, so that they mean the same in a log
    of any size.

    >>> from luce.clicks import examination, read
    >>> import luce
    >>> log = {"session": [1, 1, 2, 2, 3, 3], "query": ["q"] * 6, "document": ["a", "b", "b", "a", "a", "b"],
    ...        "position": [1, 2] * 3, "clicked": [1, 0, 1, 1, 1, 0]}
    >>> counts = read(log, pairs=True)
    >>> data = luce.from_arrays(np.eye(2), qid=["q", "q"], document_ids=["a", "b"])
    >>> found = pairs(examination(counts), data)
    >>> found.wins.tolist(), found.ties.tolist()
    ([[0, 1]], [[0, 1]])
    """
    kind_of(examined, Examination, "luce.clicks.examination(counts, data)")
    counted = examined.counts.pairs
    if counted is None:
        raise DataError("The counts lack pairs of documents; read the log with pairs=True (luce clicks --pairs).")
    if examined.users != "position":
        raise SettingError("Unbiased pairs need positions that are examined independently; take users='position'.")
    if not 0 < least_theta <= 1:
        raise SettingError(f"least_theta is {least_theta}; it must be above 0 and at most 1.")
    # Positions that examination leaves out count for nothing.
    looks = np.zeros(int(examined.counts.position.max()) + 1)
    looks[examined.position] = 1.0 / np.maximum(examined.theta, least_theta)
    n = examined.counts.n_documents
    seen = counted.with_shown * looks[counted.clicked_at]
    seen_both = counted.both * (looks[counted.first_at] * looks[counted.second_at])
    win_key, wins = _summed(counted.clicked * n + counted.other, seen)
    tie_key, ties = _summed(counted.first * n + counted.second, seen_both)
    one, other = np.divmod(win_key, n)
    low = np.minimum(one, other) * n + np.maximum(one, other)
    both = looked_up(tie_key, ties, low)
    rows = examined.counts.rows_in(data, missing)
    won, only, tied = np.column_stack([one, other]), wins - both, np.column_stack(np.divmod(tie_key, n))
    known = (rows[won] >= 0).all(axis=1) & (only > 0)
    known_ties = (rows[tied] >= 0).all(axis=1) & (ties > 0)
    total = np.concatenate([only[known], ties[known_ties]])
    if not len(total):
        raise DataError("No click of the log tells two documents of the data apart; there is nothing to learn.")
    unit = total.mean()
    return Comparisons(
        wins=rows[won[known]],
        ties=rows[tied[known_ties]],
        win_weight=only[known] / unit,
        tie_weight=ties[known_ties] / unit,
        counted=True,
    )


def _summed(keys: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    found, index = np.unique(keys, return_inverse=True)
    return found, np.bincount(index, values, minlength=len(found)).astype(np.float64)
