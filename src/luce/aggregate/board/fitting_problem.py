"""One fitting problem, whatever the data: how to build the objective, what is comparable, how to resample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from luce.aggregate.board.battles import Battles
from luce.aggregate.board.design import Counts, Design, collapse
from luce.aggregate.board.hodge import Hodge
from luce.aggregate.board.inference import Results, cluster_meat, linked
from luce.aggregate.board.likelihood import BattleLikelihood, Draws, Likelihood, Model, RaceLikelihood, prepare
from luce.aggregate.board.newton import add_up, inverse
from luce.aggregate.board.races import Races, split
from luce.errors import DataError
from luce.types import FloatArray, IntArray

_MANY_ROWS, _SAMPLE = 200_000, 16
FEW_JUDGES = 20


@dataclass(frozen=True, eq=False)
class FittingProblem:
    """What `fit` needs to know of battles or races."""

    names: tuple[str, ...]
    games: FloatArray
    component: IntArray
    """Component of the graph of games; strengths of different components cannot be compared."""
    null: FloatArray
    """(parameters, k) orthonormal: directions that the likelihood does not see, such as adding a constant."""
    results: Results | None
    """Who beat whom; None where that cannot tell whether there is a finite maximum."""
    likelihood: Callable[[FloatArray | None], Likelihood]
    """(weights of a bootstrap sample or None) -> likelihood."""
    within: Callable[[IntArray], Likelihood]
    """(label of every item) -> the likelihood of what happened between items with one label."""
    resample: Callable[[np.random.Generator], FloatArray]
    meat: Callable[[Any, FloatArray], FloatArray]
    effects: tuple[str, ...] = ()
    """Names of the coefficients behind the strengths."""
    effect_scale: FloatArray = field(default_factory=lambda: np.empty(0))
    """A column of the design was divided by this."""
    draws: Draws = "model"
    notes: tuple[str, ...] = ()
    counts: Counts | None = None
    sample: Callable[[], Likelihood] | None = None
    """The likelihood of a small sample, whose maximum is a good start; None where there is no need."""


def paired_problem(battles: Battles, model: Model) -> FittingProblem:
    """Battles of two sides."""
    by_group = battles.group is not None
    counts = collapse(battles, keep_cells=by_group or battles.weight is not None)
    counts, scale = _scaled(counts, _effects(battles))
    draws, notes = _draws(counts, model)
    n = len(battles.names)
    used = counts.total[:, :2].sum(axis=1) > 0 if draws == "drop" else counts.total.sum(axis=1) > 0
    component, null, unseen = _identify(counts.design, used, _effects(battles))
    if model.family == "paired" and draws == "model":
        null = np.vstack([null, np.zeros((1, null.shape[1]))])
    cells = _by_group(battles, counts) if by_group else None

    def of_counts(some: Counts) -> Hodge | BattleLikelihood:
        return Hodge(some) if model.link is None else BattleLikelihood(some, model.link, draws)

    def within(label: IntArray) -> Likelihood:
        same = label[counts.design.first] == label[counts.design.second]
        return of_counts(replace(counts, total=counts.total * same[:, None], squares=counts.squares * same[:, None]))

    def meat(likelihood: Hodge | BattleLikelihood, x: FloatArray) -> FloatArray:
        if cells is None:
            return likelihood.meat(x)
        used = (likelihood.counts.total.ravel() > 0).astype(np.float64)
        return cluster_meat(counts, sparse.csr_array(cells.multiply(used[None, :])), likelihood.scores(x))

    return FittingProblem(
        names=battles.names,
        games=_games(battles, n),
        component=component,
        null=null,
        results=None if model.family == "hodge" else _results(counts, draws),
        likelihood=lambda total: of_counts(counts if total is None else counts.with_totals(total)),
        within=within,
        resample=_resampler(battles, counts, cells),
        meat=meat,
        effects=_effects(battles),
        effect_scale=scale,
        draws=draws,
        notes=(*_judges(battles.group), *notes, *unseen),
        counts=counts,
        sample=(lambda: of_counts(counts.every(_SAMPLE))) if len(counts.total) > _MANY_ROWS else None,
    )


def _judges(group: IntArray | None) -> tuple[str, ...]:
    """A word on errors by judge where there are few; one judge has no scatter, and the sandwich would be 0."""
    if group is None:
        return ()
    count = len(np.unique(group))
    if count < 2:
        raise DataError("There is one judge, and errors by judge need several; leave group out.")
    if count >= FEW_JUDGES:
        return ()
    return (f"There are {count} judges, and with fewer than {FEW_JUDGES} errors by judge come out too small.",)


def _effects(battles: Battles) -> tuple[str, ...]:
    return (*(() if battles.side is None else ("side",)), *battles.covariate_names)


def _scaled(counts: Counts, effects: tuple[str, ...]) -> tuple[Counts, FloatArray]:
    """Columns of the design with a mean square of 1, so that no unit of measurement spoils the Hessian."""
    scale = (
        np.sqrt(np.einsum("rc,rc->c", counts.design.extra, counts.design.extra) / len(counts.total))
        if effects
        else np.empty(0)
    )
    for name, size in zip(effects, scale, strict=True):
        if size == 0.0:
            raise DataError(f"The effect {name!r} is 0 in every battle; it cannot be estimated, so leave it out.")
    design = replace(counts.design, extra=counts.design.extra / scale) if effects else counts.design
    return replace(counts, design=design), scale


def _draws(counts: Counts, model: Model) -> tuple[Draws, list[str]]:
    wins, ties = float(counts.total[:, :2].sum()), float(counts.total[:, 2].sum())
    if model.family == "hodge" or model.draws == "half":
        return model.draws, []
    if wins == 0.0:
        raise DataError(
            "Every battle is a draw, so no probability of a win can be estimated; use the model 'hodge', or "
            "'bradley_terry' with draws='half'."
        )
    if model.draws == "model" and ties == 0.0:
        return "drop", ["No battle is a draw: the tie parameter is at its limit, where draws have probability 0."]
    return model.draws, []


def _games(battles: Battles, n: int) -> FloatArray:
    a, b = (add_up(side, battles.count, battles.n_sides) for side in (battles.a, battles.b))
    by_side = a + b
    if battles.teams is None:
        return by_side
    side = np.repeat(np.arange(battles.n_sides), np.diff(battles.teams.starts))
    return add_up(battles.teams.members, by_side[side], n)


def _identify(
    design: Design, used: FloatArray, effects: tuple[str, ...]
) -> tuple[IntArray, FloatArray, tuple[str, ...]]:
    """Components, the null space of the design, and remarks about items that cannot be told apart."""
    n, p = design.n_items, design.n_parameters
    if design.teams is None:
        component = linked(n, design.first[used], design.second[used])
        null = np.zeros((p, component.max() + 1))
        null[np.arange(n), component] = 1.0
        null /= np.sqrt(np.sum(null**2, axis=0))
        if effects:
            _check_effects(design.gram(used.astype(np.float64)), n, null[:n], effects)
        return component, null, ()
    rows = sparse.csr_array(design.teams[used])
    inside = np.flatnonzero(np.diff(np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))) == 0)
    component = linked(n, rows.indices[inside].astype(np.int64), rows.indices[inside + 1].astype(np.int64))
    values, vectors = linalg.eigh(design.gram(used.astype(np.float64)))
    null = vectors[:, values < 1e-10 * values[-1]]
    if np.any(np.abs(null[n:]) > 1e-6):
        raise _confounded(effects, np.max(np.abs(null[n:]), axis=1))
    spare = null.shape[1] - int(component.max() + 1)
    if spare <= 0:
        return component, null, ()
    note = (
        f"{spare} differences between members cannot be estimated, because these members never play apart: they share "
        "the strength of their team."
    )
    return component, null, (note,)


def _check_effects(gram: FloatArray, n: int, null: FloatArray, effects: tuple[str, ...]) -> None:
    inside = inverse(gram[:n, :n], null)
    rest = gram[n:, n:] - gram[n:, :n] @ inside @ gram[:n, n:]
    values, vectors = np.linalg.eigh(rest)
    if values[0] < 1e-9 * np.max(np.diagonal(gram)[n:]):
        raise _confounded(effects, np.abs(vectors[:, 0]))


def _confounded(effects: tuple[str, ...], share: FloatArray) -> DataError:
    which = effects[int(np.argmax(share))]
    return DataError(
        f"The effect {which!r} cannot be told from the strengths or from another effect; leave it out, or add battles "
        "in which it varies."
    )


def _results(counts: Counts, draws: Draws) -> Results | None:
    design, total = counts.design, counts.total
    if design.teams is not None:
        return None
    wins, losses, ties = (total[:, k] > 0 for k in range(3))
    if draws == "drop":
        ties = np.zeros_like(ties)
    a, b = design.first, design.second
    wins_of, losers = np.concatenate([a[wins], b[losses]]), np.concatenate([b[wins], a[losses]])
    return Results(design.n_items, wins_of, losers, a[ties], b[ties], draws == "model")


def _by_group(battles: Battles, counts: Counts) -> sparse.csr_array:
    assert counts.cell is not None
    assert battles.group is not None
    weight = np.ones(len(battles.a)) if battles.weight is None else battles.weight
    weight = weight if battles.count is None else weight * battles.count
    shape = (int(battles.group.max()) + 1, counts.total.size)
    return sparse.csr_array((weight, (battles.group, counts.cell)), shape=shape)


def _resampler(
    battles: Battles, counts: Counts, by_group: sparse.csr_array | None
) -> Callable[[np.random.Generator], FloatArray]:
    """Dirichlet weights of battles (or of whole groups), summed by cell: the Bayesian bootstrap.

    Drawing battles with replacement was rejected: a sample may lose the only win of an item, and its estimate is then
    infinite. The sum of k exponential weights is Gamma(k), so that a cell needs one draw.
    """
    shape = counts.total.shape
    if by_group is not None:
        return lambda rng: (shares(np.ones(by_group.shape[0]), rng) @ by_group).reshape(shape)
    if battles.weight is None:
        return lambda rng: shares(counts.total.ravel(), rng).reshape(shape)
    count = np.ones(len(battles.a)) if battles.count is None else battles.count
    cell, weight = counts.cell, battles.weight
    assert cell is not None
    return lambda rng: add_up(cell, shares(count, rng) * weight, counts.total.size).reshape(shape)


def shares(count: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Weights with these means that add up to the same total: a Dirichlet draw times it."""
    drawn = rng.standard_gamma(count)
    scaled: FloatArray = drawn * (count.sum() / drawn.sum())
    return scaled


def race_problem(races: Races, model: Model) -> FittingProblem:
    """Races of several competitors."""
    order = prepare(races)
    ties = bool(np.any(np.diff(order.starts) > 1))
    if model.name == "plackett_luce" and ties:
        raise DataError("Some competitors share a place, which 'plackett_luce' cannot express; use the model 'pmop'.")
    ordered = np.diff(order.queries) > 1
    if not ordered.any():
        raise DataError(
            "In every race all competitors share one place, so no strength can be estimated; add races with an order."
        )
    n = len(races.names)
    scaled, scale = _scaled_races(races)
    better, worse = _neighbours(races, ordered)
    component = linked(n, better, worse)
    null = np.zeros((n + len(scale), component.max() + 1))
    null[np.arange(n), component] = 1.0
    null /= np.sqrt(np.sum(null**2, axis=0))

    def meat(likelihood: RaceLikelihood, x: FloatArray) -> FloatArray:
        run = likelihood.races
        if run.group is None:
            return likelihood.meat(x)
        member = sparse.csr_array((run.count, (run.group, np.arange(len(run.count)))))
        sums = (member @ likelihood.scores(x)).toarray()
        result: FloatArray = sums.T @ sums
        return result

    return FittingProblem(
        names=races.names,
        games=add_up(races.item, np.repeat(races.times, np.diff(races.offsets)), n),
        component=component,
        null=null,
        results=None if ties else Results(n, better, worse),
        likelihood=lambda count: RaceLikelihood(scaled if count is None else replace(scaled, count=count), order),
        within=lambda label: RaceLikelihood(split(scaled, label)),
        resample=_race_resampler(races),
        meat=meat,
        effects=races.covariate_names,
        effect_scale=scale,
        notes=_judges(races.group),
    )


def _scaled_races(races: Races) -> tuple[Races, FloatArray]:
    if races.covariates is None:
        return races, np.empty(0)
    scale = np.sqrt(np.mean(races.covariates**2, axis=0))
    # A covariate acts by its differences inside a race; one that never differs there cannot be seen.
    first = np.repeat(races.covariates[races.offsets[:-1]], np.diff(races.offsets), axis=0)
    for name, flat in zip(races.covariate_names, np.all(races.covariates == first, axis=0), strict=True):
        if flat:
            raise DataError(f"The effect {name!r} is the same for all competitors of every race; leave it out.")
    return replace(races, covariates=races.covariates / scale), scale


def _neighbours(races: Races, ordered: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Every competitor and the next one in its race: enough for the components, since 'better' carries over.

    Races in which all share one place are left out: their probability is the same whatever the strengths.
    """
    race = np.repeat(np.arange(len(races.count)), np.diff(races.offsets))
    order = np.lexsort((races.place, race))
    same = (race[1:] == race[:-1]) & ordered[race[1:]]
    item = races.item[order]
    return item[:-1][same], item[1:][same]


def _race_resampler(races: Races) -> Callable[[np.random.Generator], FloatArray]:
    if races.group is not None:
        group, groups = races.group, int(races.group.max()) + 1
        return lambda rng: races.count * shares(np.ones(groups), rng)[group]
    times = races.times
    weight = np.where(times > 0, races.count / np.maximum(times, 1e-300), 0.0)
    return lambda rng: weight * shares(times, rng)
