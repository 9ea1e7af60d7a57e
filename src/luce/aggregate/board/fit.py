"""`leaderboard`: from a table of battles or races to strengths with intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from luce.aggregate.board.battles import Battles, by_category
from luce.aggregate.board.categories import CategoryBoards, join_categories
from luce.aggregate.board.fitting_problem import FittingProblem, Request, battle_problem, take
from luce.aggregate.board.hodge import decompose
from luce.aggregate.board.likelihood import Hodge, Model
from luce.aggregate.board.pooling import pool
from luce.aggregate.board.posterior import RANK_DRAWS, Posterior, draw_normal, normal_ends, rank_sets
from luce.aggregate.board.result import Board, Effect
from luce.aggregate.board.separation import Profile
from luce.aggregate.board.solve import Estimate, bootstrap, estimate, start_near
from luce.errors import DataError, SettingError
from luce.numerics.threads import one_blas_thread
from luce.types import FloatArray, Progress


@one_blas_thread()
def leaderboard(
    data: Any,
    model: str = "davidson",
    *,
    random_state: int | np.random.Generator | None = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Any:
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
    random_state
        Seed of the bootstrap and of the simulation behind rank intervals.
    options
        The fields of `Columns`, `Treatment`, `Inference` and `Scale` of `luce.aggregate.board.options`, which say what
        they are. With `time` the result is a `History`, with `by` one `Board` a category.

    Examples
    --------
    >>> battles = {"a": ["x", "y", "x", "z"], "b": ["y", "z", "z", "x"], "outcome": ["a", "a", "tie", "a"]}
    >>> board = leaderboard(battles, model="davidson")
    >>> board.names[0], round(board.win_probability("x", "y") + board.win_probability("y", "x")
    ...     + board.draw_probability("x", "y"), 12)
    ('x', 1.0)
    """
    asked = Request.of(data, model, options, random_state)
    if asked.columns.time is not None:
        from luce.aggregate.history.result import fit_history

        return fit_history(asked)
    by = asked.columns.by
    if by is not None and asked.holds_races:
        raise SettingError(f"by is {by!r}, but {asked.source.label} holds races; boards by category need battles.")
    if by is not None:
        return fit_battles(asked, asked.battles())
    problem = take(asked)
    return _board(asked, problem, estimate(problem, asked.how), progress)


@one_blas_thread()
def fit_battles(asked: Request, battles: Battles) -> Board | CategoryBoards:
    """The board of battles that were read, or the boards of their categories."""
    if battles.category is not None:
        return _categories(asked, battles)
    problem = battle_problem(asked, battles)
    return _board(asked, problem, estimate(problem, asked.how))


def _categories(asked: Request, battles: Battles) -> CategoryBoards:
    """One board a category and one of all."""
    by, how, scale = asked.columns.by, asked.how, asked.scale
    problem = battle_problem(asked, battles)
    found = estimate(problem, how)
    whole = _board(asked, problem, found)
    boards: dict[str, FittingProblem | Board | str] = {}
    for name, part in by_category(battles).items():
        try:
            boards[name] = replace(battle_problem(asked, replace(part, notes=())), kept=None)
        except DataError as error:
            boards[name] = str(error)
    problems = {name: part for name, part in boards.items() if isinstance(part, FittingProblem)}
    starts = [start_near(part, problem, found) for part in problems.values()]
    pooled, spread = (
        pool(problem, found, list(problems.values()), starts) if how.pool and len(problems) > 1 else ([], None)
    )
    for k, (name, mine) in enumerate(problems.items()):
        own_scale, lost = scale.of(mine.names)
        own, mine = replace(asked, scale=own_scale), replace(mine, said=(*mine.said, *lost))
        try:
            boards[name] = _board(own, mine, pooled[k] if pooled else estimate(mine, how, starts[k]))
        except DataError as error:
            boards[name] = str(error)
    return join_categories(
        str(by), whole, boards, None if spread is None else scale.factor(asked.model.elo, "") * spread
    )


class _Spread(NamedTuple):
    """How sure all parameters are: covariance and intervals; `samples` where there was a bootstrap."""

    covariance: FloatArray
    low: FloatArray
    high: FloatArray
    samples: FloatArray | None = None
    notes: tuple[str, ...] = ()
    shown: FloatArray | None = None
    """Strengths to show, NaN but for the separated items that something bounds."""
    profile: Profile | None = None


def _spread(asked: Request, problem: FittingProblem, found: Estimate, progress: Progress | None) -> _Spread:
    how, samples, covariance, notes = asked.how, None, found.covariance, list[str]()
    low, high = normal_ends(found.x, np.sqrt(np.maximum(np.diagonal(covariance), 0.0)), how.level)
    separation = None if how.prior is not None else found.prior.separation
    if found.errors == "pooled":
        # What nothing but the prior bounds has one open end, or two.
        if separation is not None:
            low[np.flatnonzero(~separation.main & ~separation.bounded_below)] = -np.inf
            high[np.flatnonzero(~separation.main & ~separation.bounded_above)] = np.inf
        return _Spread(covariance, low, high)
    if how.bootstrap:
        samples, remark = bootstrap(problem, found, how.bootstrap, asked.rng, progress)
        # Results that never vary do not vary when they are resampled either.
        samples += draw_normal(found.of_few, how.bootstrap, asked.rng)
        covariance = np.cov(samples, rowvar=False)
        low, high = np.quantile(samples, [0.5 - how.level / 2, 0.5 + how.level / 2], axis=0)
        notes += [remark] if remark else []
    if separation is None:
        return _Spread(covariance, low, high, samples, tuple(notes))
    # One end from the profile of the likelihood, the other open.
    profile = Profile(problem, separation, found.x, how.level, found.factor)
    shown, lower, upper, remark = profile.ends(found.weights)
    outside = separation.outside
    low[outside], high[outside] = lower[outside], upper[outside]
    notes += [remark] if remark else []
    return _Spread(covariance, low, high, samples, tuple(notes), shown, profile)


def _board(asked: Request, problem: FittingProblem, found: Estimate, progress: Progress | None = None) -> Board:
    spread, model, how = _spread(asked, problem, found, progress), asked.model, asked.how
    n, component = len(problem.names), problem.component
    factor = asked.scale.factor(model.elo, model.name)
    shift = asked.scale.shift(problem.names, factor * found.x)
    x, samples, profile = found.x[:n], None if spread.samples is None else spread.samples[:, :n], spread.profile
    covariance, separation = spread.covariance[:n, :n], found.prior.separation
    # An item without a link to any other has no scale to be sure or unsure on.
    unknown, low, high = np.bincount(component)[component] == 1, spread.low[:n].copy(), spread.high[:n].copy()
    low[unknown] = high[unknown] = np.nan
    drawn = draw_normal(covariance, RANK_DRAWS, asked.rng) if samples is None else samples - x
    exact = None if profile is None else profile.statistics
    sets = rank_sets(x, covariance, drawn, component, how.level, exact)
    if separation is not None and how.prior is None:
        unknown[separation.outside] = True
    if spread.shown is not None:
        x = np.where(np.isnan(spread.shown), x, spread.shown)
    posterior = Posterior.of(
        *(problem.names, x, covariance, component, how.level),
        sets=sets,
        ends=(low, high),
        unknown=unknown,
        profile=None if profile is None else profile.difference,
    )
    order, hodge = posterior.order, None
    if isinstance(problem.likelihood, Hodge):
        hodge = decompose(problem.likelihood.counts, found.x, np.argsort(order))
    beside, said = _beside(problem, model, found.x, spread), list[str]()
    if component.max():
        sizes = np.bincount(component)
        said.append(
            f"The battles fall into {len(sizes)} components without a link ({', '.join(map(str, sizes[:10]))} items); "
            "strengths and ranks can be compared within a component only."
        )
    hardly = "tie" in beside and not np.isfinite(beside["tie"].upper)
    bound = ["The results hardly bound the tie parameter: its interval is open above."] if hardly else []
    return Board(
        model=model,
        posterior=posterior.shown(factor, shift),
        games=problem.games[order],
        logits=x[order],
        weights=found.weights[order, component[order]],
        separated={} if separation is None else separation.kinds(problem.names, order),
        log_likelihood=found.log_likelihood,
        n_parameters=len(found.x) - problem.null.shape[1],
        n_battles=problem.n_results,
        treatment=problem.draws,
        prior=found.prior.strength,
        errors="bootstrap" if samples is not None else found.errors,
        iterations=found.iterations,
        converged=found.converged,
        draws=None if samples is None else (factor * samples + shift)[:, order],
        hodge=hodge,
        notes=(*problem.said, *spread.notes, *said, *found.notes, *bound),
        kept=problem.kept,
        options=asked.kept,
        build=asked.source.build,
        **beside,
    )


def _beside(problem: FittingProblem, model: Model, x: FloatArray, spread: _Spread) -> dict[str, Any]:
    """Side effect, covariates and the tie parameter, on their own scales."""
    span = slice(len(problem.names), len(problem.names) + len(problem.effects))
    se = np.sqrt(np.maximum(np.diagonal(spread.covariance), 0.0))
    values = ((v[span] / problem.effect_scale).tolist() for v in (x, se, spread.low, spread.high))
    effects = {name: Effect(*row) for name, *row in zip(problem.effects, *values, strict=True)}
    if model.link is None or problem.draws != "model":
        return {"effects": effects}
    t, natural = float(x[-1]), model.link.natural
    slope = (natural(t + 1e-5) - natural(t - 1e-5)) / 2e-5
    low, high = natural(float(spread.low[-1])), natural(float(spread.high[-1]))
    return {"effects": effects, "t": t, "tie": Effect(natural(t), slope * float(se[-1]), low, high)}
