"""`History`: strengths that move, with their past, their present, what they foretell, and a file for updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import roots_hermitenorm

from luce.aggregate.board.battles import YEAR, Battles, by_category, select
from luce.aggregate.board.categories import CategoryBoards, join_categories
from luce.aggregate.board.fitting_problem import Request, battle_problem, check_size, unit_sizes
from luce.aggregate.board.ids import Ids
from luce.aggregate.board.likelihood import Model
from luce.aggregate.board.newton import add_up
from luce.aggregate.board.options import Inference, Scale, Treatment
from luce.aggregate.board.outcomes import TIE
from luce.aggregate.board.posterior import (
    RANK_DRAWS,
    Posterior,
    centre,
    centre_covariance,
    difference_variances,
    draw_normal,
    mean_weights,
    normal_ends,
    rank_sets,
)
from luce.aggregate.board.result import Battled, Side
from luce.aggregate.board.separation import linked
from luce.aggregate.board.solve import estimate
from luce.aggregate.history.walks import Games, Mode, Parameters, Present, filtered, fit_parameters, most_probable
from luce.data.names import one_form
from luce.errors import DataError, SettingError
from luce.types import FloatArray

_NODES, _WEIGHTS = roots_hermitenorm(15)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class Line(NamedTuple):
    """The strength of one player over time, with an interval."""

    time: FloatArray
    strength: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class History(Battled):
    """What `luce.aggregate.leaderboard(..., time=)` returns: a board of now, and the way there.

    Strengths are those at the time of the last game of all; who has not played for long has a wider interval. `drift`
    is the standard deviation of a walk after one unit of time (a year for dates), `start` that of a newcomer.
    """

    model: Model
    players: tuple[str, ...]
    """In order of their first game, as in `present` and `mode`."""
    parameters: Parameters
    present: Present
    games: FloatArray
    now: float
    level: float
    mode: Mode | None
    """The most probable history; None after an update."""
    scale: Scale = field(default_factory=Scale)
    modelled: bool = True
    """Whether draws have a probability of their own."""
    covariates: tuple[str, ...] = ()
    """Names of the covariates, in the order of `parameters.effects`."""
    judged: bool = False
    """Whether there were judges."""
    factor: float = 1.0
    """How much of the log-likelihood of a battle counts, where battles depend on each other or are weighted."""
    dates: bool = False
    log_likelihood: float = float("nan")
    """Laplace's approximation of the marginal likelihood."""
    notes: tuple[str, ...] = ()
    read_ids: Ids = field(default=Ids(), repr=False)
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Settings that an update takes over."""
    build: Callable[[dict[str, Any]], Any] = field(default=dict, repr=False)

    @property
    def drift(self) -> float:
        """Standard deviation of the change of a strength in one unit of time."""
        return float(np.sqrt(self.parameters.step))

    @property
    def start(self) -> float:
        """Standard deviation of the strength of a newcomer."""
        return float(np.sqrt(self.parameters.start))

    @property
    def tie(self) -> float | None:
        """The tie parameter; None where draws are not modelled."""
        assert self.model.link is not None
        return self.model.link.natural(self.parameters.t) if self.modelled else None

    @property
    def slopes(self) -> dict[str, float]:
        """The coefficients of covariates."""
        return dict(zip(self.covariates, self.parameters.effects, strict=True))

    @property
    def effects(self) -> dict[str, float]:
        """The side effect and the coefficients of covariates, on the scale of the linear predictor."""
        return ({"side": self.side} if self.side else {}) | self.slopes

    @property
    def side(self) -> float:
        """The advantage of being a."""
        return self.parameters.home

    @cached_property
    def posterior(self) -> Posterior:  # type: ignore[override]
        """The distribution of the strengths of now, on the scale that was asked for."""
        wider, one = self._wider, np.zeros(len(self.players), dtype=np.int64)
        weights = mean_weights(1.0 / np.diagonal(wider), one)
        mean, covariance = centre(self.present.mean, weights, one), centre_covariance(wider, weights, one)
        drawn = draw_normal(covariance, RANK_DRAWS, np.random.default_rng(self.seed))
        sets = rank_sets(mean, covariance, drawn, one, self.level)
        found = Posterior.of(self.players, mean, covariance, one, self.level, sets=sets)
        factor = self.scale.factor(self.model.elo, self.model.name)
        return found.shown(factor, self.scale.shift(found.names, factor * found.strength))

    @property
    def weights(self) -> FloatArray:
        """How much every item weighs in the mean that strengths are measured from."""
        known = 1.0 / np.diagonal(self._wider)[self.posterior.order]
        return np.asarray(known / known.sum())

    @property
    def _wider(self) -> FloatArray:
        """The covariance at the last game of all."""
        return np.asarray(self.present.covariance + np.diag(self.parameters.step * (self.now - self.present.last)))

    @property
    def title(self) -> str:
        """Model, results and intervals."""
        until = f"{self.games.sum() / 2:,.0f} results up to {self._moment(self.now)}"
        return f"{self.model.name}, {until}, {self.level:.0%} intervals"

    @property
    def lines(self) -> list[str]:
        """How fast strengths move, and the other parameters."""
        unit = "a year" if self.dates else "a unit of time"
        said = [f"drift {self.drift:.4g} {unit}, newcomers {self.start:.4g}"]
        said += [] if self.tie is None else [f"tie parameter {self.tie:.4f}"]
        return [", ".join([*said, *(f"{name} {value:.4f}" for name, value in self.effects.items())])]

    def columns(self) -> dict[str, list[Any]]:
        """One row an item, best first; a list a column."""
        return super().columns() | {"last": [self._moment(self.present.last[i]) for i in self.posterior.order]}

    @property
    def played(self) -> FloatArray:
        """How many battles every item has, in the order of `names`."""
        return self.games[self.posterior.order]

    def _moment(self, time: float) -> Any:
        return str(np.datetime64(round(time * 365.25 * 86_400), "s").astype("datetime64[D]")) if self.dates else time

    def history(self, name: str) -> Line:
        """The most probable past of one item; intervals take the other players as known."""
        if self.mode is None:
            raise DataError("An updated board knows the present only; fit all battles for the past.")
        rows = self.mode.player == self.posterior.order[self.posterior.index(name)]
        # On the scale of the board, and from the same zero.
        unit, first = self.posterior.unit, self.posterior.order[0]
        strength = unit * (self.mode.strength[rows] - self.present.mean[first]) + self.strength[0]
        ends = normal_ends(strength, unit * np.sqrt(self.mode.variance[rows]), self.level)
        return Line(self.mode.time[rows], strength, *ends)

    def _chances(self, a: Side, b: Side, effect: float) -> tuple[float, float]:
        """Over what is not known of the difference."""
        i, j, unit = self.posterior.index(a), self.posterior.index(b), self.posterior.unit  # type: ignore[arg-type]
        d = (self.strength[i] - self.strength[j]) / unit + effect
        spread = math.sqrt(difference_variances(self.covariance[np.ix_([i, j], [i, j])])[0, 1]) / unit
        win, draw = self.outcomes(d + spread * _NODES)
        return float(_WEIGHTS @ win), float(_WEIGHTS @ draw)

    def outcomes(self, d: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(a wins) and P(draw) at a difference that is known."""
        return self.model.chances(d, self.parameters.t, self.modelled)

    def after(self, battles: Battles, notes: tuple[str, ...]) -> History:
        """The board after more battles, by the filter."""
        if self.model.draws == "model" and not self.modelled and battles.has_draws:
            raise DataError(
                "The board had no draw, and the update has some: its tie parameter is not known; fit all battles."
            )
        settings: Any = {"modelled": self.modelled, "factor": self.factor}
        names, games, played, said = games_of(battles, self.model, self.players, **settings)
        assert self.model.link is not None
        present, _ = filtered(games, self.model.link, self.parameters, self.present)
        played[: len(self.games)] += self.games
        late, now = int(np.sum(games.times < self.now)), max(self.now, float(games.times[-1]))
        old = [f"{late} of {len(games.times)} battles are older than the last one of the board."] if late else []
        notes = (*notes, *said, *old)
        return replace(self, players=names, present=present, games=played, now=now, mode=None, notes=notes)

    def as_dict(self) -> dict[str, Any]:
        """Everything a machine wants."""
        return super().as_dict() | {
            "model": self.model.name,
            "drift": self.drift,
            "start": self.start,
            "tie": self.tie,
            "side": self.side,
            "effects": self.effects,
            "now": self._moment(self.now),
            "battles": float(self.games.sum() / 2),
        }


def fit_history(asked: Request) -> History | CategoryBoards:
    """The most probable history of all battles, and of those of every category where there are categories."""
    _check_settings(asked)
    battles = asked.battles()
    whole, by = _history(asked, battles), asked.columns.by
    if by is None:
        return whole
    boards: dict[str, History | str] = {}
    for name, part in by_category(battles).items():
        scale, lost = asked.scale.of(part.names)
        own = replace(asked, scale=scale, kept={**asked.kept, **scale.settings} if lost else asked.kept)
        try:
            boards[name] = _history(own, replace(part, notes=lost), whole.parameters)
        except DataError as error:
            boards[name] = str(error)
    joined = join_categories(by, whole, boards, None)
    said = "Categories share the drift and the start of all battles and borrow nothing else from each other."
    return replace(joined, notes=(*joined.notes, said))


def update_histories(kept: CategoryBoards, battles: Battles, notes: tuple[str, ...]) -> CategoryBoards:
    """The histories of categories after more battles; a category without one so far begins with newcomers alone."""
    whole: Any = kept.overall
    none = Present(np.empty(0), np.empty((0, 0)), np.empty(0))
    newcomers = replace(whole, players=(), present=none, games=np.empty(0), now=-math.inf, mode=None, notes=())
    shown, _ = one_form((*kept.boards, *battles.category_names))
    boards: dict[str, Any] = {shown[name]: board for name, board in kept.items()}
    for name, part in by_category(battles).items():
        before = boards.get(shown[name], newcomers)
        scale, lost = whole.scale.of((*before.players, *part.names))
        if whole.modelled and not before.modelled and part.has_draws:
            before = replace(before, modelled=True, parameters=before.parameters._replace(t=whole.parameters.t))
            lost = (*lost, "Its first draws have the tie parameter of all battles.")
        try:
            boards[shown[name]] = replace(before, scale=scale).after(replace(part, notes=()), lost)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
    return join_categories(kept.by, whole.after(battles, notes), boards, None)


def _history(asked: Request, battles: Battles, like: Parameters | None = None) -> History:
    """The most probable history; the drift is fitted unless it is given, or taken over with the start from `like`."""
    columns, model, how = asked.columns, asked.model, asked.how
    factor, notes = 1.0, list[str]()
    if any(values is not None for values in (battles.group, battles.weight, battles.share)):
        problem = battle_problem(asked, battles)
        factor = estimate(problem, Inference()).factor
        notes += problem.notes
    if battles.share is None and np.all(battles.outcome == TIE):
        raise DataError("Every battle is a draw, so nothing tells how strengths move; add battles that were won.")
    modelled = model.draws == "model" and battles.has_draws
    if model.draws == "model" and not modelled and battles.share is None:
        notes.append("No battle is a draw: the tie parameter is at its limit, where draws have probability 0.")
    names, games, played, said = games_of(battles, model, modelled=modelled, factor=factor)
    link = model.link
    assert link is not None
    step = None if how.drift is None else max(how.drift, 1e-9) ** 2
    given = {"step": step if like is None else like.step, "start": None if like is None else like.start}
    unit, size = games, np.ones(0)
    if games.covariates is not None:
        size = unit_sizes(np.mean(games.covariates**2, axis=0), battles.covariate_names)
        unit = replace(games, covariates=games.covariates / size)
    fitted = fit_parameters(unit, link, {**given, "t": None, "home": None}, asked.treatment.side)
    fitted = fitted._replace(effects=tuple((np.array(fitted.effects) / size).tolist()))
    mode = most_probable(games, link, fitted)
    # What a prior decides, because the battles cannot.
    if games.times[0] == games.times[-1]:
        notes.append("All battles are at one time, so that nothing tells how fast strengths move.")
    groups = int(linked(games.players, games.games[:, 0], games.games[:, 1]).max()) + 1
    if groups > 1:
        notes.append(
            f"The battles fall into {groups} components without a link; between them strengths are compared by the "
            "prior of newcomers alone."
        )
    return History(
        model=model,
        players=names,
        parameters=fitted,
        present=mode.present,
        games=played,
        now=float(games.times[-1]),
        level=how.level,
        mode=mode,
        scale=asked.scale,
        modelled=modelled,
        covariates=battles.covariate_names,
        factor=factor,
        judged=battles.group is not None,
        dates=battles.dated,
        log_likelihood=mode.log_marginal,
        notes=(*said, *notes),
        seed=int(asked.rng.integers(2**31)),
        options=asked.kept,
        build=asked.source.build,
        read_ids=Ids(source=asked.source, given=columns.id),
    )


def _check_settings(asked: Request) -> None:
    if asked.model.link is None:
        raise SettingError(
            f"Strengths that move need a model of battles of two with a link; {asked.model.name!r} has none: use "
            "'davidson', 'bradley_terry', 'rao_kupper' or 'thurstone_mosteller'."
        )
    if asked.holds_races:
        raise SettingError(
            f"{asked.source.label} holds races; strengths that move need battles of two: leave time out."
        )
    check_teams(asked.treatment)
    usual = Inference()
    reasons = {"prior": "start is their prior", "errors": "their errors are those of the curvature"}
    for name, why in {**reasons, "bootstrap": "a battle that is drawn twice is not at two times"}.items():
        if getattr(asked.how, name) != getattr(usual, name):
            raise SettingError(f"{name} does nothing for strengths that move: {why}; leave it or time out.")


def check_teams(treatment: Treatment) -> None:
    """A game moves two strengths."""
    if treatment.team_separator is not None:
        raise SettingError(
            "team_separator does nothing for strengths that move: a game moves two strengths, and a team has several; "
            "leave it or time out."
        )


def games_of(
    battles: Battles, model: Model, known: tuple[str, ...] = (), *, modelled: bool, factor: float
) -> tuple[tuple[str, ...], Games, FloatArray, tuple[str, ...]]:
    """Battles in order of time, how many every player has, and what there is to say.

    Players are numbered by their first game after those that are known.
    """
    if np.any(battles.a == battles.b):
        raise SettingError("A battle of one against itself moves no strength; use self_battles='drop' with time.")
    check_size((*known, *battles.names))
    notes = list(battles.notes)
    if model.draws == "drop" and battles.has_draws:
        gone = int(np.sum(battles.outcome == TIE))
        notes.append(f"{gone:,} battles are draws and are left out.")
        battles = select(battles, battles.outcome != TIE)
    if not len(battles.a):
        raise DataError("No battle is left without draws; at least one that was won is needed.")
    time = np.asarray(battles.time)
    if np.any(np.diff(time) < 0):
        notes.append("The rows were not in order of time; they were sorted.")
        battles = select(battles, np.argsort(time, kind="stable"))
    today = datetime.now(UTC).timestamp() / (86_400.0 * YEAR)
    future = int(np.sum(time > today + 1.0 / YEAR)) if battles.dated else 0
    if future:
        notes.append(f"{future} battles lie in the future.")
    shown, said = one_form((*known, *battles.names))
    number = {shown[name]: i for i, name in enumerate(known)}
    if len(number) < len(known):
        raise DataError("The board has two forms of one name; fit all battles instead of an update.")
    for i in np.column_stack([battles.a, battles.b]).ravel():
        number.setdefault(shown[battles.names[i]], len(number))
    code = np.array([number.get(shown[name], -1) for name in battles.names])
    count = np.ones(len(battles.a)) if battles.count is None else battles.count
    outcome = battles.outcome if battles.share is None else np.full(len(battles.a), 3)
    games = Games(
        players=len(number),
        games=np.column_stack([code[battles.a], code[battles.b], outcome]),
        sides=np.zeros(len(battles.a)) if battles.side is None else battles.side,
        times=np.asarray(battles.time),
        covariates=battles.covariates,
        weight=factor * count * (1.0 if battles.weight is None else battles.weight),
        share=battles.share,
        modelled=modelled,
    )
    played = sum((add_up(games.games[:, side], count, len(number)) for side in (0, 1)), np.zeros(len(number)))
    return tuple(number), games, played, tuple(dict.fromkeys((*notes, *said)))
