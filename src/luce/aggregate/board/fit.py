"""`leaderboard`: from a table of battles or races to strengths with intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from luce.aggregate.board.battles import Battles, by_category, find_columns, read_battles
from luce.aggregate.board.fitting_problem import FittingProblem
from luce.aggregate.board.hodge import HodgeParts, decompose
from luce.aggregate.board.inference import RankSets, draw_normal, no_sets, rank_sets, ranks
from luce.aggregate.board.likelihood import Model, get_model
from luce.aggregate.board.options import (
    Columns,
    Inference,
    Scale,
    Treatment,
    check_together,
    kept_options,
    sort_options,
)
from luce.aggregate.board.problem_intake import Intake, battle_intake, take
from luce.aggregate.board.races import find_race_columns
from luce.aggregate.board.result import Board, Effect
from luce.aggregate.board.separation import profile_ends
from luce.aggregate.board.solve import Estimate, Near, bootstrap, estimate
from luce.checks import generator
from luce.data.table import Table
from luce.errors import DataError, SettingError
from luce.numerics.blas import one_blas_thread
from luce.types import FloatArray, IntArray, Progress

if TYPE_CHECKING:
    from luce.aggregate.board.categories import CategoryBoards
    from luce.aggregate.history.result import History

RANK_DRAWS = 999


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
        The fields of `Columns`, `Treatment`, `Inference` and `Scale` of `luce.aggregate.board.options`:

        a, b, outcome, race, competitor, place, weight, count, group, neutral, covariates
            Names of columns, where they are not the usual ones. `count`: battles that a row stands for. `weight`: how
            much each counts. `group`: who judged; rows of one group are resampled together, and errors allow for
            their dependence. `covariates`: numbers, a minus b (for races: of the competitor).
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
            Precision of a normal prior on the strengths. None: maximum likelihood, with 0.1 only where the likelihood
            has no finite maximum, for the items that are at fault, which `Board.notes` and `Board.separated` name.
        errors
            "sandwich" (right also where the model is not) or "curvature" (inverse Hessian).
        bootstrap
            Number of bootstrap samples; 0 takes normal intervals from `errors`.
        level
            Level of the intervals.
        id
            Column that tells battles apart: a board that is kept remembers it, and an update leaves out what it has
            seen. Default: a column named id, battle_id or question_id whose values differ.
        time, drift
            Column of the time: strengths are random walks, and the result is a `History`. `drift` is fitted unless
            it is given.
        by, pool
            Column of a category: the result has one `Board` a category, by default shrunk towards that of all battles.
        scale, anchor, anchor_at
            "elo": 400 points are odds of ten to one, with mean 1000. An anchor shifts all strengths so that this item
            has the strength `anchor_at`; it changes no standard error and no width of an interval, because they are of
            the difference from the mean of the component, weighted by information. `Board.differences` has those
            to an anchor.

    Examples
    --------
    >>> battles = {"a": ["x", "y", "x", "z"], "b": ["y", "z", "z", "x"], "outcome": ["a", "a", "tie", "a"]}
    >>> board = leaderboard(battles, model="davidson")
    >>> board.names[0], round(board.win_probability("x", "y") + board.win_probability("y", "x")
    ...     + board.draw_probability("x", "y"), 12)
    ('x', 1.0)
    """
    columns, treatment, how, scale = sort_options("leaderboard", options, Columns, Treatment, Inference, Scale)
    check_together(columns, treatment, how)
    chosen = get_model(model, treatment.draws)
    scale.factor(chosen.elo, chosen.name)
    source = Table.open(data)
    rng = generator(random_state)
    if columns.time is not None:
        return replace(_history(source, columns, treatment, chosen, how, scale, rng), options=kept_options(options))
    with one_blas_thread():
        if columns.by is not None:
            return _categories(source, columns, treatment, chosen, how, scale, rng)
        intake = take(source, columns, treatment, chosen)
        return replace(_fitted(intake, chosen, how, scale, source, rng, progress), options=kept_options(options))


def _fitted(
    intake: Intake,
    model: Model,
    how: Inference,
    scale: Scale,
    source: Table,
    rng: np.random.Generator,
    progress: Progress | None = None,
    *,
    ranked: bool = True,
    near: Near | None = None,
) -> Board:
    """The board of a problem; without `ranked` nothing is said of ranks, which costs more than a small fit."""
    factor = scale.factor(model.elo, model.name)
    found = estimate(intake.problem, how, near)
    spread = _spread(intake, how, found, rng, progress)
    sets = _rank_sets(intake.problem, how, found, spread, rng) if ranked else no_sets(intake.problem.component)
    shown = _Shown(factor, _shift(intake.problem, scale, factor, found.x))
    return _board(intake, model, how, found, spread, sets, shown, source)


def fit_battles(
    battles: Battles,
    model: Model,
    treatment: Treatment,
    how: Inference,
    scale: Scale,
    source: Table,
    rng: np.random.Generator,
) -> Board:
    """The board of battles that were read."""
    with one_blas_thread():
        return _fitted(battle_intake(battles, model, treatment), model, how, scale, source, rng)


def _history(
    source: Table,
    columns: Columns,
    treatment: Treatment,
    model: Model,
    how: Inference,
    scale: Scale,
    rng: np.random.Generator,
) -> History:
    from luce.aggregate.history.fit import fit_history

    if scale != Scale():
        raise SettingError("Strengths that move have the scale 'log' and no anchor; leave scale and anchor out.")
    return fit_history(source, columns, treatment, model, how, seed=int(rng.integers(2**31)))


def _categories(
    source: Table,
    columns: Columns,
    treatment: Treatment,
    model: Model,
    how: Inference,
    scale: Scale,
    rng: np.random.Generator,
) -> CategoryBoards:
    """One board a category and one of all, from one reading."""
    from luce.aggregate.board.categories import join_categories

    if find_race_columns(source, columns) is not None:
        raise SettingError(f"by is {columns.by!r}, but {source.label} holds races; boards by category need battles.")
    if columns.id is not None:
        raise SettingError("id does nothing with by: boards by category cannot be kept for updates; leave it out.")
    battles = read_battles(source, find_columns(source, columns), treatment)
    whole = _fitted(battle_intake(battles, model, treatment), model, how, scale, source, rng)

    near = Near(dict(zip(whole.names, whole.logits.tolist(), strict=True)), whole.t)

    def fit(part: Battles, *, ranked: bool) -> Board | str:
        part = replace(part, notes=())
        lost = scale.anchor is not None and scale.anchor not in part.names
        own = replace(scale, anchor=None, anchor_at=None) if lost else scale
        try:
            intake = battle_intake(part, model, treatment)
            intake.notes.extend(["The anchor has no battle here; the mean is in its place."] * lost)
            return _fitted(intake, model, how, own, source, rng, ranked=ranked, near=near)
        except DataError as error:
            return str(error)

    # Boards that are pooled get their ranks then.
    parts = by_category(battles)
    boards = {name: fit(part, ranked=not how.pool) for name, part in parts.items()}
    fitted = [name for name, board in boards.items() if isinstance(board, Board)]
    if how.pool and len(fitted) == 1:
        boards[fitted[0]] = fit(parts[fitted[0]], ranked=True)
    return join_categories(str(columns.by), whole, boards, pool=how.pool)


class _Spread(NamedTuple):
    """How sure the estimates are: covariance, standard errors and intervals; `samples` where there was a bootstrap."""

    covariance: FloatArray
    se: FloatArray
    low: FloatArray
    high: FloatArray
    samples: FloatArray | None


def _spread(
    intake: Intake, how: Inference, found: Estimate, rng: np.random.Generator, progress: Progress | None
) -> _Spread:
    problem, n = intake.problem, len(intake.problem.names)
    samples, covariance = None, found.covariance
    half = np.sqrt(np.maximum(np.diagonal(covariance), 0.0)) * float(ndtri(0.5 + how.level / 2))
    low, high = found.x - half, found.x + half
    if how.bootstrap:
        samples, remark = bootstrap(problem, found, how.bootstrap, rng, progress)
        # Results that never vary do not vary when they are resampled either.
        samples += draw_normal(found.of_few, how.bootstrap, rng)
        covariance = np.cov(samples, rowvar=False)
        low, high = np.quantile(samples, [0.5 - how.level / 2, 0.5 + how.level / 2], axis=0)
        intake.notes.extend([remark] if remark else [])
    if found.prior.separation is not None and how.prior is None:
        _open_intervals(intake, how, found, low, high)
    se = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    # An item without a link to any other has no scale to be sure or unsure on.
    alone = np.bincount(problem.component)[problem.component] == 1
    unknown = np.append(alone, np.zeros(len(se) - n, bool))
    se, low, high = (np.where(unknown, np.nan, v) for v in (se, low, high))
    return _Spread(covariance, se, low, high, samples)


def _open_intervals(intake: Intake, how: Inference, found: Estimate, low: FloatArray, high: FloatArray) -> None:
    """Separated items: one end from the profile of the likelihood, the other open."""
    separation = found.prior.separation
    assert separation is not None
    lower, upper, remark = profile_ends(intake.problem, separation, found.weights, found.x, how.level)
    for i in separation.outside:
        low[i], high[i] = lower[i], upper[i]
    intake.notes.extend([remark] if remark else [])


def _rank_sets(
    problem: FittingProblem, how: Inference, found: Estimate, spread: _Spread, rng: np.random.Generator
) -> RankSets:
    n = len(problem.names)
    x, covariance = found.x[:n], spread.covariance[:n, :n]
    deviations = draw_normal(covariance, RANK_DRAWS, rng) if spread.samples is None else spread.samples[:, :n] - x
    return rank_sets(x, covariance, deviations, problem.component, how.level)


def _say_components(problem: FittingProblem) -> list[str]:
    if not problem.component.max():
        return []
    sizes = np.bincount(problem.component)
    return [
        f"The battles fall into {len(sizes)} components without a link ({', '.join(map(str, sizes[:10]))} items); "
        "strengths and ranks can be compared within a component only."
    ]


def _say_open(tie: Effect | None) -> list[str]:
    if tie is None or np.isfinite(tie.upper):
        return []
    return ["The results hardly bound the tie parameter: its interval is open above."]


class _Shown(NamedTuple):
    """Points in one unit of strength, and what is added to them."""

    factor: float
    shift: float

    def __call__(self, values: FloatArray) -> FloatArray:
        return self.factor * values + self.shift


def _shift(problem: FittingProblem, scale: Scale, factor: float, x: FloatArray) -> float:
    if scale.anchor is None:
        return scale.zero
    if scale.anchor not in problem.names:
        raise DataError(f"The anchor {scale.anchor!r} is not among the {len(problem.names)} items of the data.")
    at = scale.zero if scale.anchor_at is None else scale.anchor_at
    return at - factor * float(x[problem.names.index(scale.anchor)])


def _board(
    intake: Intake,
    model: Model,
    how: Inference,
    found: Estimate,
    spread: _Spread,
    sets: RankSets,
    shown: _Shown,
    source: Table,
) -> Board:
    problem, n = intake.problem, len(intake.problem.names)
    order = np.lexsort((np.array(problem.names), -found.x[:n], problem.component))
    separation = found.prior.separation
    outside = set() if separation is None else set(separation.outside.tolist())
    beside = _beside(problem, model, found, spread)
    return Board(
        model=model,
        names=tuple(problem.names[i] for i in order),
        strength=shown(found.x[:n])[order],
        se=shown.factor * spread.se[:n][order],
        lower=shown(spread.low[:n])[order],
        upper=shown(spread.high[:n])[order],
        rank=ranks(found.x[:n], problem.component)[order],
        rank_lower=sets.lower[order],
        rank_upper=sets.upper[order],
        games=problem.games[order],
        logits=found.x[:n][order],
        component=problem.component[order],
        covariance=shown.factor**2 * spread.covariance[np.ix_(order, order)],
        surely_better=sets.surely_better[np.ix_(order, order)],
        weights=found.weights[order, problem.component[order]],
        separated={problem.names[i]: separation.kind(i) for i in order if i in outside and separation is not None},
        log_likelihood=found.log_likelihood,
        n_parameters=len(found.x) - problem.null.shape[1],
        n_battles=intake.battles,
        level=how.level,
        treatment=problem.draws,
        prior=found.prior.strength,
        errors="bootstrap" if how.bootstrap else found.errors,
        iterations=found.iterations,
        converged=found.converged,
        draws=None if spread.samples is None else shown(spread.samples[:, :n])[:, order],
        hodge=_hodge(problem, model, found, order),
        notes=(*intake.notes, *_say_components(problem), *found.notes, *_say_open(beside.get("tie"))),
        kept=intake.kept,
        build=source.build,
        **beside,
    )


def _beside(problem: FittingProblem, model: Model, found: Estimate, spread: _Spread) -> dict[str, Any]:
    """Side effect, covariates and the tie parameter, on their own scales."""
    n, k = len(problem.names), len(problem.effects)
    span = slice(n, n + k)
    values = (v[span] / problem.effect_scale for v in (found.x, spread.se, spread.low, spread.high))
    effects = {
        name: Effect(*map(float, row)) for name, row in zip(problem.effects, zip(*values, strict=True), strict=True)
    }
    if model.link is None or problem.draws != "model":
        return {"effects": effects}
    t, natural = float(found.x[-1]), model.link.natural
    slope = (natural(t + 1e-5) - natural(t - 1e-5)) / 2e-5
    low, high = natural(float(spread.low[-1])), natural(float(spread.high[-1]))
    return {"effects": effects, "t": t, "tie": Effect(natural(t), slope * float(spread.se[-1]), low, high)}


def _hodge(problem: FittingProblem, model: Model, found: Estimate, order: IntArray) -> HodgeParts | None:
    if model.family != "hodge" or problem.counts is None:
        return None
    parts = decompose(problem.counts, found.x)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    named = tuple((int(place[i]), int(place[j]), int(place[k]), curl) for i, j, k, curl in parts.triangles)
    return HodgeParts(parts.gradient, parts.curl, parts.harmonic, parts.cyclic, named)
