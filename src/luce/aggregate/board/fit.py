"""`leaderboard`: from a table of battles or races to strengths with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import ndtri

from luce.aggregate.board.battles import Battles, BothBad, find_columns, read_battles
from luce.aggregate.board.hodge import HodgeParts, decompose
from luce.aggregate.board.inference import RankSets, draw_normal, rank_sets, ranks
from luce.aggregate.board.intake import Source, open_source
from luce.aggregate.board.models import Model, get_model
from luce.aggregate.board.problem import Problem, paired_problem, race_problem
from luce.aggregate.board.races import Races, find_race_columns, from_battles, read_races
from luce.aggregate.board.result import Board, Effect
from luce.aggregate.board.solve import Errors, Estimate, bootstrap, estimate
from luce.errors import DataError, SettingError
from luce.numerics.blas import one_blas_thread
from luce.types import FloatArray, IntArray, Progress

__all__ = ["leaderboard"]

MOST_ITEMS = 10_000
"""The Hessian is dense: 10,000 items need 0.8 GB."""
RANK_DRAWS = 999


def leaderboard(
    data: Any,
    model: str = "davidson",
    *,
    a: str | None = None,
    b: str | None = None,
    outcome: str | None = None,
    race: str | None = None,
    competitor: str | None = None,
    place: str | None = None,
    weight: str | None = None,
    count: str | None = None,
    group: str | None = None,
    side: bool = False,
    neutral: str | None = None,
    covariates: Sequence[str] = (),
    team_separator: str | None = None,
    both_bad: BothBad = "tie",
    draws: str | None = None,
    names: Mapping[str, str] | None = None,
    prior: float | None = None,
    errors: Errors = "sandwich",
    bootstrap: int = 0,
    level: float = 0.95,
    scale: Literal["log", "elo"] = "log",
    anchor: str | None = None,
    anchor_at: float | None = None,
    random_state: int | np.random.Generator | None = 0,
    progress: Progress | None = None,
) -> Board:
    r"""A leaderboard from comparisons with draws, or from races with ties.

    Parameters
    ----------
    data
        A data frame (pandas, polars, Arrow, ...), a mapping of columns, or the path of a CSV, JSON, JSON lines or
        Parquet file. Battles: columns a, b, outcome ("a", "b", "tie"), or model_a, model_b, winner (LMSYS), or
        winner, loser (and tie). Races: race, competitor, place (equal places are ties), or one row a race with
        rank1, rank2, ...
    model
        bradley_terry, rao_kupper, davidson, thurstone_mosteller, plackett_luce, pmop, or hodge (least squares).
    a, b, outcome, race, competitor, place, weight, count, group, neutral, covariates
        Names of columns, where they are not the usual ones. `count`: battles that a row stands for. `weight`: how much
        each counts. `group`: who judged; rows of one group are resampled together, and errors allow for their
        dependence. `covariates`: numbers, a minus b (for races: of the competitor).
    side
        Estimate the advantage of being a (first position, home ground), except where `neutral` is true.
    team_separator
        Sides are teams: "x+y" with separator "+" (or cells that are lists). The strength of a team is the sum.
    both_bad
        What "tie (bothbad)" means: a "tie" as any other, or "drop".
    draws
        "model" (a probability of their own), "half" (half a win each) or "drop"; default "half" for bradley_terry.
    names
        Other names for competitors, by the id in the data.
    prior
        Precision of a normal prior on the strengths. None: maximum likelihood, with 0.1 only where the likelihood has
        no finite maximum, which `Board.notes` then says.
    errors
        "sandwich" (right also where the model is not) or "curvature" (inverse Hessian).
    bootstrap
        Number of bootstrap samples; 0 takes normal intervals from `errors`.
    level
        Level of the intervals.
    scale, anchor, anchor_at
        "elo": 400 points are odds of ten to one, with mean 1000. An anchor shifts all strengths so that this item has
        the strength `anchor_at`; it changes no standard error and no width of an interval, because they are of the
        difference from the mean of the component.
    random_state
        Seed of the bootstrap and of the simulation behind rank intervals.

    Examples
    --------
    >>> battles = {"a": ["x", "y", "x", "z"], "b": ["y", "z", "z", "x"], "outcome": ["a", "a", "tie", "a"]}
    >>> board = leaderboard(battles, model="davidson")
    >>> board.names[0], round(board.win_probability("x", "y") + board.win_probability("y", "x")
    ...     + board.draw_probability("x", "y"), 12)
    ('x', 1.0)
    """
    settings = _Settings(get_model(model, draws), level, scale, anchor, anchor_at, bootstrap)
    source = open_source(data)
    columns = find_race_columns(source, race, competitor, place, weight=weight, group=group, covariates=covariates)
    if columns is not None:
        of_battles = side or any(given is not None for given in (count, neutral, team_separator))
        _check_race_settings(source, settings.model, of_battles)
        intake = _race_intake(read_races(source, columns, names), settings.model)
    else:
        found = find_columns(
            source, a, b, outcome, weight=weight, count=count, group=group, neutral=neutral, covariates=covariates
        )
        pairs = read_battles(source, found, side=side, team_separator=team_separator, both_bad=both_bad, names=names)
        intake = _battle_intake(pairs, settings.model, both_bad)
    rng = np.random.default_rng(random_state)
    with one_blas_thread():
        return _board(intake, settings, source, prior, errors, rng, progress)


class _Intake(NamedTuple):
    """What was read: the problem to solve, how many battles or races it stands for, and what there is to say."""

    problem: Problem
    battles: float
    notes: list[str]


def _check_race_settings(source: Source, model: Model, of_battles: bool) -> None:
    """Races need a model of races, and none of the settings that only battles have."""
    if model.family != "races":
        raise SettingError(
            f"The model {model.name!r} compares two sides, and {source.label} holds races; use 'plackett_luce' "
            "or, with shared places, 'pmop'."
        )
    if of_battles:
        raise SettingError(
            f"{source.label} holds races, which have no counts, sides, neutral ground or teams; leave these "
            "settings out (weight takes the weight of a race)."
        )


def _race_intake(races: Races, model: Model) -> _Intake:
    problem = race_problem(races, model)
    _check_size(len(problem.names))
    return _Intake(problem, float(np.sum(races.times)), [])


def _battle_intake(pairs: Battles, model: Model, both_bad: BothBad) -> _Intake:
    notes = []
    if pairs.both_bad:
        done = "count as ties" if both_bad == "tie" else "are left out"
        notes.append(f"{pairs.both_bad:g} battles were bad on both sides; they {done}.")
    _check_size(len(pairs.names))
    of_two = model.family == "races"
    problem = race_problem(from_battles(pairs), model) if of_two else paired_problem(pairs, model)
    _check_size(len(problem.names))
    return _Intake(problem, pairs.n_battles, notes)


def _check_size(n: int) -> None:
    if n > MOST_ITEMS:
        raise DataError(f"The data have {n} items; a leaderboard takes at most {MOST_ITEMS}.")


@dataclass(frozen=True)
class _Settings:
    """The settings that shape the result, checked before anything is read."""

    model: Model
    level: float
    scale: str
    anchor: str | None
    anchor_at: float | None
    bootstrap: int

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise SettingError(f"level is {self.level}; it must lie between 0 and 1, such as 0.95.")
        if self.scale not in ("log", "elo"):
            raise SettingError(f"scale is {self.scale!r}; it must be 'log' or 'elo'.")
        if self.scale == "elo" and self.model.elo is None:
            raise SettingError(f"The model {self.model.name!r} has no odds, so there is no Elo scale; use scale='log'.")
        if self.anchor is None and self.anchor_at is not None:
            raise SettingError("anchor_at was given without an anchor; name the anchor item too.")
        if self.bootstrap != 0 and self.bootstrap < 20:
            raise SettingError(f"bootstrap is {self.bootstrap}; use 0 (normal intervals) or at least 20 samples.")

    @property
    def factor(self) -> float:
        """Points of the scale in one unit of strength."""
        return (self.model.elo or 1.0) if self.scale == "elo" else 1.0

    @property
    def zero(self) -> float:
        """Strength of the mean, or of the anchor where no value is given."""
        return 1000.0 if self.scale == "elo" else 0.0


class _Spread(NamedTuple):
    """How sure the estimates are: covariance, standard errors and intervals; `samples` where there was a bootstrap."""

    covariance: FloatArray
    se: FloatArray
    low: FloatArray
    high: FloatArray
    samples: FloatArray | None


def _spread(
    intake: _Intake, settings: _Settings, found: Estimate, rng: np.random.Generator, progress: Progress | None
) -> _Spread:
    problem, n = intake.problem, len(intake.problem.names)
    samples, covariance = None, found.covariance
    half = found.covariance.diagonal() ** 0.5 * float(ndtri(0.5 + settings.level / 2))
    low, high = found.x - half, found.x + half
    if settings.bootstrap:
        samples, remark = bootstrap(problem, found, settings.bootstrap, rng, progress)
        covariance = np.cov(samples, rowvar=False)
        low, high = np.quantile(samples, [0.5 - settings.level / 2, 0.5 + settings.level / 2], axis=0)
        intake.notes.extend([remark] if remark else [])
    se = np.sqrt(covariance.diagonal())
    # An item without a link to any other has no scale to be sure or unsure on.
    alone = (np.bincount(problem.component)[problem.component] == 1) & (found.ridge == 0.0)
    unknown = np.append(alone, np.zeros(len(se) - n, bool))
    se, low, high = (np.where(unknown, np.nan, v) for v in (se, low, high))
    return _Spread(covariance, se, low, high, samples)


def _rank_sets(
    problem: Problem, settings: _Settings, found: Estimate, spread: _Spread, rng: np.random.Generator
) -> RankSets:
    n = len(problem.names)
    x, covariance = found.x[:n], spread.covariance[:n, :n]
    deviations = draw_normal(covariance, RANK_DRAWS, rng) if spread.samples is None else spread.samples[:, :n] - x
    return rank_sets(x, covariance, deviations, problem.component, settings.level)


def _say_components(problem: Problem) -> list[str]:
    if not problem.component.max():
        return []
    sizes = np.bincount(problem.component)
    return [
        f"The battles fall into {len(sizes)} components without a link ({', '.join(map(str, sizes[:10]))} items); "
        "strengths and ranks can be compared within a component only."
    ]


def _board(
    intake: _Intake,
    settings: _Settings,
    source: Source,
    prior: float | None,
    errors: Errors,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Board:
    problem = intake.problem
    found = estimate(problem, prior, errors)
    n = len(problem.names)
    spread = _spread(intake, settings, found, rng, progress)
    covariance, se, low, high, samples = spread
    sets = _rank_sets(problem, settings, found, spread, rng)
    order = np.lexsort((np.array(problem.names), -found.x[:n], problem.component))
    shift = _shift(problem, settings, found.x)
    scale = settings.factor
    return Board(
        model=settings.model,
        names=tuple(problem.names[i] for i in order),
        strength=(scale * found.x[:n] + shift)[order],
        se=scale * se[:n][order],
        lower=(scale * low[:n] + shift)[order],
        upper=(scale * high[:n] + shift)[order],
        rank=ranks(found.x[:n], problem.component)[order],
        rank_lower=sets.lower[order],
        rank_upper=sets.upper[order],
        games=problem.games[order],
        logits=found.x[:n][order],
        component=problem.component[order],
        covariance=scale**2 * covariance[np.ix_(order, order)],
        log_likelihood=found.log_likelihood,
        n_parameters=len(found.x) - problem.null.shape[1],
        n_battles=intake.battles,
        level=settings.level,
        treatment=problem.draws,
        prior=found.ridge,
        errors="bootstrap" if settings.bootstrap else found.errors,
        iterations=found.iterations,
        converged=found.converged,
        draws=None if samples is None else (scale * samples[:, :n] + shift)[:, order],
        hodge=_hodge(problem, settings.model, found, order),
        notes=(*intake.notes, *_say_components(problem), *found.notes),
        build=source.build,
        **_beside(problem, settings.model, found, se, low, high),
    )


def _shift(problem: Problem, settings: _Settings, x: FloatArray) -> float:
    if settings.anchor is None:
        return settings.zero
    if settings.anchor not in problem.names:
        raise DataError(f"The anchor {settings.anchor!r} is not among the {len(problem.names)} items of the data.")
    at = settings.zero if settings.anchor_at is None else settings.anchor_at
    return at - settings.factor * float(x[problem.names.index(settings.anchor)])


def _beside(
    problem: Problem, model: Model, found: Estimate, se: FloatArray, low: FloatArray, high: FloatArray
) -> dict[str, Any]:
    """Side effect, covariates and the tie parameter, on their own scales."""
    n, k = len(problem.names), len(problem.effects)
    span = slice(n, n + k)
    values = (v[span] / problem.effect_scale for v in (found.x, se, low, high))
    effects = {
        name: Effect(*map(float, row)) for name, row in zip(problem.effects, zip(*values, strict=True), strict=True)
    }
    if model.link is None or problem.draws != "model":
        return {"effects": effects}
    t, natural = float(found.x[-1]), model.link.natural
    slope = (natural(t + 1e-5) - natural(t - 1e-5)) / 2e-5
    tie = Effect(natural(t), slope * float(se[-1]), natural(float(low[-1])), natural(float(high[-1])))
    return {"effects": effects, "t": t, "tie": tie}


def _hodge(problem: Problem, model: Model, found: Estimate, order: IntArray) -> HodgeParts | None:
    if model.family != "hodge" or problem.counts is None:
        return None
    parts = decompose(problem.counts, found.x)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    named = tuple((int(place[i]), int(place[j]), int(place[k]), curl) for i, j, k, curl in parts.triangles)
    return HodgeParts(parts.gradient, parts.curl, parts.harmonic, parts.cyclic, named)
