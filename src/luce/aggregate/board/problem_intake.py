"""From a table to the problem to solve: battles or races, whichever its columns say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.aggregate.board.battles import Battles, find_columns, read_battles
from luce.aggregate.board.fitting_problem import FittingProblem, paired_problem, race_problem
from luce.aggregate.board.likelihood import Model
from luce.aggregate.board.options import Columns, Treatment
from luce.aggregate.board.races import find_race_columns, from_battles, read_races
from luce.data.table import Table
from luce.errors import DataError, SettingError

MOST_ITEMS = 10_000
"""The Hessian is dense: 10,000 items need 0.8 GB."""


class Intake(NamedTuple):
    """What was read: the problem to solve, how many battles or races it stands for, and what there is to say."""

    problem: FittingProblem
    battles: float
    notes: list[str]
    kept: Battles | None = None


def take(source: Table, columns: Columns, treatment: Treatment, model: Model) -> Intake:
    """Read battles or races, whichever the columns say."""
    races = find_race_columns(source, columns)
    if races is None:
        return battle_intake(read_battles(source, find_columns(source, columns), treatment), model, treatment)
    _check_race_settings(source, model, columns, treatment)
    results = read_races(source, races, treatment.names)
    problem = race_problem(results, model)
    _check_size(len(problem.names))
    return Intake(problem, float(np.sum(results.times)), list(results.notes))


def _check_race_settings(source: Table, model: Model, columns: Columns, treatment: Treatment) -> None:
    """Races need a model of races, and none of the settings that only battles have."""
    if model.family != "races":
        raise SettingError(
            f"The model {model.name!r} compares two sides, and {source.label} holds races; use 'plackett_luce' "
            "or, with shared places, 'pmop'."
        )
    given = (columns.a, columns.b, columns.outcome, columns.count, columns.id, treatment.team_separator)
    if treatment.side or treatment.both_bad != "tie" or any(value is not None for value in given):
        raise SettingError(
            f"{source.label} holds races, which have no counts, sides, neutral ground, ids, teams, ties that are bad "
            "on both sides, or a, b and outcome; leave these settings out (weight takes the weight of a race)."
        )


def battle_intake(pairs: Battles, model: Model, treatment: Treatment) -> Intake:
    """The problem of battles that were read."""
    notes = list(pairs.notes)
    if pairs.both_bad:
        done = "count as ties" if treatment.both_bad == "tie" else "are left out"
        notes.append(f"{pairs.both_bad:g} battles were bad on both sides; they {done}.")
    _check_size(len(pairs.names))
    of_two = model.family == "races"
    problem = race_problem(from_battles(pairs), model) if of_two else paired_problem(pairs, model)
    plain = pairs.teams is None and pairs.covariates is None and pairs.weight is None and pairs.group is None
    return Intake(problem, pairs.n_battles, notes, pairs if plain and not of_two else None)


def _check_size(n: int) -> None:
    if n > MOST_ITEMS:
        raise DataError(f"The data have {n} items; a leaderboard takes at most {MOST_ITEMS}.")
