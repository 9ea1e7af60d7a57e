"""From a table to the problem to solve: the likelihood of battles or races, and what in it can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import linalg

from luce.aggregate.board.battles import Battles, read_battles
from luce.aggregate.board.design import Counts, Design, collapse
from luce.aggregate.board.likelihood import BattleLikelihood, Draws, Hodge, Likelihood, Model, get_model
from luce.aggregate.board.newton import add_up, constant_on, inverse
from luce.aggregate.board.options import (
    Columns,
    Inference,
    Scale,
    Treatment,
    check_together,
    kept_options,
    sort_options,
)
from luce.aggregate.board.race_likelihood import RaceLikelihood
from luce.aggregate.board.races import Races, find_race_columns, from_battles, read_races
from luce.aggregate.board.separation import Results, linked
from luce.checks import generator
from luce.data.table import Table
from luce.errors import DataError, SettingError
from luce.types import FloatArray, IntArray

FEW_JUDGES = 20
MOST_ITEMS = 10_000
"""The Hessian is dense: 10,000 items need 0.8 GB."""


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked for: a table, its columns and what they mean, a model, how to infer and what to show."""

    source: Table
    columns: Columns
    treatment: Treatment
    model: Model
    how: Inference
    scale: Scale
    rng: np.random.Generator
    said: tuple[str, ...] = ()
    """What there is to say of how the table was read."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """Settings that an update of the board takes over."""

    @staticmethod
    def of(data: Any, model: str, options: Mapping[str, Any], random_state: Any) -> Request:
        """The settings, checked before anything is read."""
        columns, treatment, how, scale = sort_options("leaderboard", options, Columns, Treatment, Inference, Scale)
        check_together(columns, treatment, how)
        chosen = get_model(model, treatment.draws)
        scale.factor(chosen.elo, chosen.name)
        source, said = open_table(data, treatment.short_rows)
        rng, kept = generator(random_state), kept_options(options)
        return Request(source, columns, treatment, chosen, how, scale, rng, said, kept)

    def battles(self) -> Battles:
        """The battles of the table."""
        found = read_battles(self.source, self.columns, self.treatment)
        return replace(found, notes=(*self.said, *found.notes))

    @property
    def holds_races(self) -> bool:
        """Whether the columns say races."""
        return find_race_columns(self.source, self.columns) is not None


def open_table(data: Any, short_rows: str) -> tuple[Table, tuple[str, ...]]:
    """The table of results, and what became of its short rows."""
    from luce.data.table_file import TableFile

    source = Table.open(data)
    if short_rows == "error":
        if isinstance(source, TableFile):
            source.way_with_short_rows = "mend the row, or say what becomes of it by short_rows=, --short-rows"
        return source, ()
    if not isinstance(source, TableFile):
        raise SettingError(f"short_rows is {short_rows!r}, and {source.label} is no file; leave it out.")
    return source.settle_short_rows(short_rows)


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
    likelihood: Likelihood
    effects: tuple[str, ...] = ()
    """Names of the coefficients behind the strengths."""
    effect_scale: FloatArray = field(default_factory=lambda: np.empty(0))
    """A column of the design was divided by this."""
    draws: Draws = "model"
    notes: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    """What there is to say of the data."""
    n_results: float = 0.0
    """How many battles or races."""
    kept: Battles | None = None
    """The battles, where a file of the board can be updated."""
    alike: bool = True
    """Results are independent and count alike: no judges, no weights, no parts of wins."""


def take(asked: Request) -> FittingProblem:
    """Read battles or races, whichever the columns say."""
    races = find_race_columns(asked.source, asked.columns)
    if races is None:
        return battle_problem(asked, asked.battles())
    model, columns, treatment, label = asked.model, asked.columns, asked.treatment, asked.source.label
    if model.family != "races":
        raise SettingError(
            f"The model {model.name!r} compares two sides, and {label} holds races; use 'plackett_luce' "
            "or, with shared places, 'pmop'."
        )
    given = (columns.a, columns.b, columns.outcome, columns.count, columns.id, treatment.team_separator)
    meanings = (treatment.both_bad, treatment.self_battles, treatment.strong)
    if treatment.side or meanings != ("tie", "error", 1.0) or any(value is not None for value in given):
        raise SettingError(
            f"{label} holds races, which have no counts, sides, neutral ground, ids, teams, ties that are bad "
            "on both sides, battles against oneself, strong verdicts, or a, b and outcome; leave these settings out "
            "(weight takes the weight of a race)."
        )
    results = read_races(asked.source, *races, asked.treatment.names)
    problem = race_problem(results, asked.model)
    return replace(problem, n_results=float(np.sum(results.times)), said=(*asked.said, *results.notes))


def battle_problem(asked: Request, pairs: Battles) -> FittingProblem:
    """The problem of battles that were read."""
    if not len(pairs.a):
        raise DataError("No battle of two sides is left; at least one is needed.")
    said = list(pairs.notes)
    if pairs.both_bad:
        done = "count as ties" if asked.treatment.both_bad == "tie" else "are left out"
        said.append(f"{pairs.both_bad:g} battles were bad on both sides; they {done}.")
    of_two = asked.model.family == "races"
    problem = race_problem(from_battles(pairs), asked.model) if of_two else paired_problem(pairs, asked.model)
    return replace(problem, n_results=pairs.n_battles, said=tuple(said), kept=pairs if pairs.teams is None else None)


def check_size(names: tuple[str, ...]) -> int:
    """How many items there are, if they are not too many for a dense matrix."""
    if len(names) > MOST_ITEMS:
        raise DataError(f"The data have {len(names)} items; a leaderboard takes at most {MOST_ITEMS}.")
    return len(names)


def paired_problem(battles: Battles, model: Model) -> FittingProblem:
    """Battles of two sides."""
    check_size(battles.names)
    effects, counts = (*(() if battles.side is None else ("side",)), *battles.covariate_names), collapse(battles)
    extra = counts.design.extra
    scale = unit_sizes(np.einsum("rc,rc->c", extra, extra) / len(extra), effects)
    counts = replace(counts, design=replace(counts.design, extra=extra / scale))
    draws, notes = _draws(counts, model)
    used = counts.total[:, :2].sum(axis=1) > 0 if draws == "drop" else counts.total.sum(axis=1) > 0
    component, null, unseen = _identify(counts.design, used, effects)
    if model.family == "paired" and draws == "model":
        null = np.vstack([null, np.zeros((1, null.shape[1]))])
    count = np.ones(len(battles.a)) if battles.count is None else battles.count
    twice = count * (battles.a != battles.b)
    games = add_up(battles.a, count, battles.n_sides) + add_up(battles.b, twice, battles.n_sides)
    return FittingProblem(
        names=battles.names,
        games=games if battles.teams is None else np.asarray(battles.teams.T @ games),
        component=component,
        null=null,
        results=None if model.family == "hodge" else _results(counts, draws),
        likelihood=Hodge(counts) if model.link is None else BattleLikelihood(counts, model.link, draws),
        effects=effects,
        effect_scale=scale,
        draws=draws,
        notes=(*_judges(battles.group), *notes, *unseen),
        alike=all(values is None for values in (battles.group, battles.weight, battles.share)),
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


def unit_sizes(mean_squares: FloatArray, effects: tuple[str, ...]) -> FloatArray:
    """Roots by which columns are divided, so that no unit of measurement spoils the Hessian."""
    sizes: FloatArray = np.sqrt(mean_squares)
    if not sizes.all():
        name = effects[int(np.argmin(sizes))]
        raise DataError(f"The effect {name!r} is 0 in every battle; it cannot be estimated, so leave it out.")
    return sizes


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


def _identify(
    design: Design, used: FloatArray, effects: tuple[str, ...]
) -> tuple[IntArray, FloatArray, tuple[str, ...]]:
    """Components, the null space of the design, and remarks about items that cannot be told apart."""
    n, gram = design.n_items, design.gram(used.astype(np.float64)) if effects or design.teams is not None else None
    if design.teams is None:
        component = linked(n, design.first[used], design.second[used])
        null = constant_on(component, design.n_parameters)
        if gram is not None:
            rest = gram[n:, n:] - gram[n:, :n] @ inverse(gram[:n, :n], null[:n]) @ gram[:n, n:]
            values, vectors = np.linalg.eigh(rest)
            if values[0] < 1e-9 * np.max(np.diagonal(gram)[n:]):
                raise _confounded(effects, np.abs(vectors[:, 0]))
        return component, null, ()
    met = abs(design.teams[used])
    met = (met.T @ met).tocoo()
    component = linked(n, met.row, met.col)
    values, vectors = linalg.eigh(gram)
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


def race_problem(races: Races, model: Model) -> FittingProblem:
    """Races of several competitors."""
    n, order, sizes = check_size(races.names), races.tiers, np.diff(races.offsets)
    ties = bool(np.any(np.diff(order.starts) > 1))
    if model.name == "plackett_luce" and ties:
        raise DataError("Some competitors share a place, which 'plackett_luce' cannot express; use the model 'pmop'.")
    ordered = np.diff(order.queries) > 1
    if not ordered.any():
        raise DataError(
            "In every race all competitors share one place, so no strength can be estimated; add races with an order."
        )
    scaled, scale = races, np.empty(0)
    if races.covariates is not None:
        # A covariate acts by its differences inside a race; one that never differs there cannot be seen.
        flat = np.all(races.covariates == np.repeat(races.covariates[races.offsets[:-1]], sizes, axis=0), axis=0)
        if flat.any():
            name = races.covariate_names[int(np.argmax(flat))]
            raise DataError(f"The effect {name!r} is the same for all competitors of every race; leave it out.")
        scale = unit_sizes(np.mean(races.covariates**2, axis=0), races.covariate_names)
        scaled = replace(races, covariates=races.covariates / scale)
    # Every competitor and the next one of its race are enough for the components, since 'better' carries over. A race
    # in which all share one place has the same probability whatever the strengths.
    item = races.item[order.order]
    same = (races.race[1:] == races.race[:-1]) & ordered[races.race[1:]]
    better, worse = item[:-1][same], item[1:][same]
    component = linked(n, better, worse)
    return FittingProblem(
        names=races.names,
        games=add_up(races.item, np.repeat(races.times, sizes), n),
        component=component,
        null=constant_on(component, n + len(scale)),
        results=None if ties else Results(n, better, worse),
        likelihood=RaceLikelihood(scaled),
        effects=races.covariate_names,
        effect_scale=scale,
        notes=_judges(races.group),
        alike=races.group is None and bool(np.all(races.squares == races.count)),
    )
