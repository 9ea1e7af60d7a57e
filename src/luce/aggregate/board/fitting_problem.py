"""One fitting problem, whatever the data: how to build the objective, what is comparable, how to resample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import linalg, sparse

from luce.aggregate.board import graph
from luce.aggregate.board.battle_likelihood import BattleLikelihood, Draws
from luce.aggregate.board.battles import Battles
from luce.aggregate.board.design import Counts, Design, collapse
from luce.aggregate.board.hodge import Hodge
from luce.aggregate.board.inference import Objective, cluster_meat
from luce.aggregate.board.intake import add_up
from luce.aggregate.board.models import Model
from luce.aggregate.board.newton import inverse
from luce.aggregate.board.race_likelihood import RaceLikelihood, prepare
from luce.aggregate.board.races import Races
from luce.errors import DataError
from luce.types import FloatArray, IntArray

__all__ = ["FittingProblem", "paired_problem", "race_problem"]

_MANY_ROWS, _SAMPLE = 200_000, 16


@dataclass(frozen=True, eq=False)
class FittingProblem:
    """What `fit` needs to know of battles or races."""

    names: tuple[str, ...]
    games: FloatArray
    component: IntArray
    """Component of the graph of games; strengths of different components cannot be compared."""
    null: FloatArray
    """(parameters, k) orthonormal: directions that the likelihood does not see, such as adding a constant."""
    strong: IntArray | None
    """Strong component of every item; None where the graph cannot tell whether there is a finite maximum."""
    build: Callable[[FloatArray | None, float], Objective]
    """(weights of a bootstrap sample or None, ridge) -> objective."""
    resample: Callable[[np.random.Generator], FloatArray]
    meat: Callable[[Objective, FloatArray], FloatArray]
    effects: tuple[str, ...] = ()
    """Names of the coefficients behind the strengths."""
    effect_scale: FloatArray = field(default_factory=lambda: np.empty(0))
    """A column of the design was divided by this."""
    draws: Draws = "model"
    notes: tuple[str, ...] = ()
    counts: Counts | None = None
    sample: Callable[[float], Objective] | None = None
    """(ridge) -> the objective of a small sample, whose minimum is a good start; None where there is no need."""


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

    def build(total: FloatArray | None, ridge: float) -> Objective:
        sample = counts if total is None else counts.with_totals(total)
        if model.link is None:
            return Hodge(sample, ridge)
        return BattleLikelihood(sample, model.link, draws, ridge)

    def sample(ridge: float) -> Objective:
        assert model.link is not None
        return BattleLikelihood(counts.every(_SAMPLE), model.link, draws, ridge)

    def meat(objective: Objective, x: FloatArray) -> FloatArray:
        return objective.meat(x) if cells is None else cluster_meat(counts, cells, objective.scores(x))

    return FittingProblem(
        names=battles.names,
        games=_games(battles, n),
        component=component,
        null=null,
        strong=component if model.family == "hodge" else _strong(counts, draws),
        build=build,
        resample=_resampler(battles, counts, cells),
        meat=meat,
        effects=_effects(battles),
        effect_scale=scale,
        draws=draws,
        notes=(*notes, *unseen),
        counts=counts,
        sample=sample if model.link is not None and len(counts.total) > _MANY_ROWS else None,
    )


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
        component = graph.linked(n, design.first[used], design.second[used])
        null = np.zeros((p, component.max() + 1))
        null[np.arange(n), component] = 1.0
        null /= np.sqrt(np.sum(null**2, axis=0))
        if effects:
            _check_effects(design.gram(used.astype(np.float64)), n, null[:n], effects)
        return component, null, ()
    rows = sparse.csr_array(design.teams[used])
    inside = np.flatnonzero(np.diff(np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))) == 0)
    component = graph.linked(n, rows.indices[inside].astype(np.int64), rows.indices[inside + 1].astype(np.int64))
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


def _strong(counts: Counts, draws: Draws) -> IntArray | None:
    design, total = counts.design, counts.total
    if design.teams is not None:
        return None
    wins, losses, ties = (total[:, k] > 0 for k in range(3))
    if draws == "drop":
        ties = np.zeros_like(ties)
    a, b = design.first, design.second
    better = np.concatenate([a[wins | ties], b[losses | ties]])
    worse = np.concatenate([b[wins | ties], a[losses | ties]])
    return graph.won_or_drawn(design.n_items, better, worse)


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
    """Draw battles (or whole groups) with replacement, as counts of cells."""
    shape = counts.total.shape
    if by_group is not None:
        groups = by_group.shape[0]
        return lambda rng: (rng.multinomial(groups, np.full(groups, 1.0 / groups)) @ by_group).reshape(shape)
    if battles.weight is None:
        occupied = np.flatnonzero(counts.total.ravel())
        share = counts.total.ravel()[occupied]
        number = int(share.sum())

        def of_cells(rng: np.random.Generator) -> FloatArray:
            total = np.zeros(counts.total.size)
            total[occupied] = rng.multinomial(number, share / share.sum())
            return total.reshape(shape)

        return of_cells
    count = np.ones(len(battles.a)) if battles.count is None else battles.count
    cell, weight = counts.cell, battles.weight
    assert cell is not None

    def of_rows(rng: np.random.Generator) -> FloatArray:
        times = rng.multinomial(int(count.sum()), count / count.sum())
        return add_up(cell, times * weight, counts.total.size).reshape(shape)

    return of_rows


def race_problem(races: Races, model: Model) -> FittingProblem:
    """Races of several competitors."""
    order = prepare(races)
    ties = bool(np.any(np.diff(order.starts) > 1))
    if model.name == "plackett_luce" and ties:
        raise DataError("Some competitors share a place, which 'plackett_luce' cannot express; use the model 'pmop'.")
    n = len(races.names)
    scaled, scale = _scaled_races(races)
    better, worse = _neighbours(races)
    component = graph.linked(n, better, worse)
    null = np.zeros((n + len(scale), component.max() + 1))
    null[np.arange(n), component] = 1.0
    null /= np.sqrt(np.sum(null**2, axis=0))

    def build(count: FloatArray | None, ridge: float) -> Objective:
        return RaceLikelihood(scaled if count is None else replace(scaled, count=count), ridge, order)

    def meat(objective: Objective, x: FloatArray) -> FloatArray:
        if races.group is None:
            return objective.meat(x)
        member = sparse.csr_array((races.count, (races.group, np.arange(len(races.count)))))
        sums = (member @ objective.scores(x)).toarray()
        return sums.T @ sums

    return FittingProblem(
        names=races.names,
        games=add_up(races.item, np.repeat(races.times, np.diff(races.offsets)), n),
        component=component,
        null=null,
        strong=None if ties else graph.won_or_drawn(n, better, worse),
        build=build,
        resample=_race_resampler(races),
        meat=meat,
        effects=races.covariate_names,
        effect_scale=scale,
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


def _neighbours(races: Races) -> tuple[IntArray, IntArray]:
    """Every competitor and the next one in its race: enough for the components, since 'better' carries over."""
    race = np.repeat(np.arange(len(races.count)), np.diff(races.offsets))
    order = np.lexsort((races.place, race))
    same = race[1:] == race[:-1]
    item = races.item[order]
    return item[:-1][same], item[1:][same]


def _race_resampler(races: Races) -> Callable[[np.random.Generator], FloatArray]:
    if races.group is not None:
        group, groups = races.group, int(races.group.max()) + 1
        return lambda rng: races.count * rng.multinomial(groups, np.full(groups, 1.0 / groups))[group]
    times = races.times
    weight = np.where(times > 0, races.count / np.maximum(times, 1e-300), 0.0)
    return lambda rng: weight * rng.multinomial(round(times.sum()), times / times.sum())
