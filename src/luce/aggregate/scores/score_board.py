"""`score_board`: ranks with confidence from a table of models x tasks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from luce.aggregate.board.fitting_problem import open_table
from luce.aggregate.board.options import Inference, sort_options
from luce.aggregate.board.posterior import Posterior, centre, mean_weights, ranks
from luce.aggregate.board.races import Races
from luce.aggregate.board.result import RANKS, Ranked, of_posterior
from luce.aggregate.board.separation import describe
from luce.aggregate.scores.methods import METHODS, Fit
from luce.aggregate.scores.shuffles import FEW_TASKS, covariance_of, shuffled_sets
from luce.aggregate.scores.table import ScoreColumns, ScoreTable, open_scores, races_of, read_scores
from luce.checks import generator, is_whole
from luce.errors import DataError, SettingError
from luce.numerics.threads import one_blas_thread
from luce.registry import canonical, unknown_name
from luce.types import FloatArray, IntArray


class Influence(NamedTuple):
    """What changes when a task is left out."""

    task: str
    shift: float
    """Greatest change of a strength, in standard errors."""
    moved: int
    """Models whose rank changes."""
    best: str
    """The first model without the task."""


@dataclass(frozen=True, eq=False, repr=False)
class ScoreBoard(Ranked):
    """What `luce.aggregate.score_board` returns. Models are in order of strength, best first.

    Attributes
    ----------
    names, strength, se, rank, rank_lower, rank_upper, rank_each_lower, rank_each_upper
        The columns of `table`, as arrays. Rank sets hold for all models at once at the level, those of each by itself.
    by_method
        Ranks by all four methods.
    separated
        Models that are below or above the others in every task.
    influence
        What each task does to the board, the greatest first.
    """

    model: str
    posterior: Posterior
    tasks: tuple[str, ...]
    n_tasks: IntArray
    by_method: dict[str, IntArray]
    influence: tuple[Influence, ...]
    separated: dict[str, str] = field(default_factory=dict)
    log_likelihood: float = float("nan")
    notes: tuple[str, ...] = ()
    build: Callable[[dict[str, Any]], Any] = field(default=dict, repr=False)
    level = of_posterior("level")
    shown = ("strength", "se", *RANKS)

    def __repr__(self) -> str:
        return f"ScoreBoard({self.model}, {len(self.names)} models, {len(self.tasks)} tasks, best {self.names[0]!r})"

    @property
    def title(self) -> str:
        """Model, tasks and rank sets."""
        return f"{self.model}, {len(self.tasks)} tasks, rank sets at {self.level:.0%} for all models at once"

    @property
    def lines(self) -> list[str]:
        """Who may be best, how the tiers are cut, and which tasks move the board most."""
        best, more = self.may_be_best, len(self.may_be_best) - 10
        said = [f"May be best: {', '.join(best[:10])}{f' and {more} more' if more > 0 else ''}"]
        said.append(f"Tiers that do not overlap: {', '.join(str(len(tier)) for tier in self.tiers)} models")
        for row in self.influence[:3]:
            shift = f"{row.shift:.1f} standard errors" if math.isfinite(row.shift) else "an unknown amount"
            said.append(
                f"Without {row.task}: {row.moved} ranks change, a strength by up to {shift}; first is {row.best}"
            )
        return said

    def columns(self) -> dict[str, list[Any]]:
        """One row a model, best first; a list a column."""
        return super().columns() | {"tasks": self.n_tasks.tolist()}

    def as_dict(self) -> dict[str, Any]:
        """Everything a machine wants; what cannot be told is None."""
        return super().as_dict() | {
            "model": self.model,
            "by_method": {name: dict(zip(self.names, r.tolist(), strict=True)) for name, r in self.by_method.items()},
            "influence": [row._asdict() for row in self.influence],
            "separated": self.separated,
            "tasks": list(self.tasks),
        }


@one_blas_thread()
def score_board(
    data: Any,
    model: str = "plackett_luce",
    *,
    level: float = 0.95,
    resamples: int = 499,
    random_state: int | np.random.Generator | None = 0,
    **columns: Any,
) -> ScoreBoard:
    """Ranks of models from their scores on tasks, with confidence sets that hold for all models at once.

    Parameters
    ----------
    data
        A data frame, a mapping of columns or the path of a file. Wide: a column of names (or an index of them) and one
        a task. Long: columns of the model, the task and the score. Cells may be missing.
    model
        plackett_luce (a task is a race with ties), davidson (pairs within a task), borda, or z_score.
    resamples
        How often the labels of models are shuffled within the tasks for the rank sets.
    columns
        Fields of `ScoreColumns`: item (once called name), task, score, score_se, where, drop, lower (tasks where lower
        is better), tolerance (differences up to it are ties), task_weights.

    Examples
    --------
    >>> scores = {"model": ["x", "y", "z"], "maths": [90, 70, 65], "code": [80, 85, 30], "prose": [7.1, 7.1, 6.0]}
    >>> score_board(scores, resamples=100).names[-1]
    'z'
    """
    if canonical(model) not in METHODS:
        raise unknown_name("score board model", model, METHODS)
    Inference(level=level)  # refuses what is no level
    if not is_whole(resamples, 100):
        raise SettingError(f"resamples is {resamples!r}; rank sets need a whole number of at least 100.")
    if {"name", "item"} <= set(columns):
        raise SettingError("name is the old word for item; give item alone.")
    named = {"item" if name == "name" else name: value for name, value in columns.items()}
    (given,) = sort_options("score board", named, ScoreColumns)
    opened, short = open_table(data, given.short_rows)
    from_file = isinstance(data, str | Path) or given.short_rows != "error"
    source = open_scores(opened if from_file else data, given.item)
    scores = read_scores(source, given)
    races = races_of(scores, level)
    if np.all(np.diff(races.tiers.queries) == 1):
        raise DataError(
            f"No task of {source.label} tells two models apart: all scores of a task are equal, or as near as the "
            "tolerance and their errors allow; a board needs one difference at least."
        )
    method = canonical(model)
    fit = METHODS[method](scores, races)
    main = None if fit.separation is None else fit.separation.main
    at = fit.method.terms(fit.x, races.item)
    mean = mean_weights(np.diagonal(at.hessian)[: len(scores.names)], fit.component, main)
    if method in ("borda", "z_score"):
        mean = np.zeros_like(mean)
    one = len(scores.tasks) == 1
    covariance = covariance_of(fit, mean) * (np.nan if one else 1.0)
    sets = shuffled_sets(fit, level, resamples, generator(random_state))
    strength = centre(fit.strength, mean, fit.component)
    # No error of a strength that only the prior keeps finite, whatever the tasks do.
    posterior = Posterior.of(
        *(scores.names, strength, covariance, fit.component, level),
        sets=sets,
        unknown=None if fit.separation is None else fit.separation.outside,
    )
    order = posterior.order
    fits = {name: fit if name == method else make(scores, races) for name, make in METHODS.items()}
    by_method = {name: ranks(other.strength, other.component) for name, other in fits.items()}
    return ScoreBoard(
        model=method,
        posterior=posterior,
        tasks=scores.tasks,
        n_tasks=np.isfinite(scores.scores).sum(axis=1)[order],
        by_method={name: found[order] for name, found in by_method.items()},
        influence=_influence(scores, fit, np.sqrt(np.diagonal(covariance))),
        separated={} if fit.separation is None else fit.separation.kinds(scores.names, range(len(scores.names))),
        log_likelihood=fit.log_likelihood,
        notes=(*short, *scores.notes, *_remarks(scores, races, fit), *_disagreement(scores, by_method)),
        build=source.build,
    )


def _remarks(scores: ScoreTable, races: Races, fit: Fit) -> list[str]:
    notes = []
    flat = [task for task, tiers in zip(scores.tasks, np.diff(races.tiers.queries), strict=True) if tiers == 1]
    if flat:
        notes.append(f"{len(flat)} tasks tell no two models apart and say nothing: {', '.join(flat[:5])}.")
    if len(scores.tasks) == 1:
        notes.append("There is one task, which has no scatter: no errors, and every rank is possible.")
    few = np.sum(np.isfinite(scores.scores), axis=1) < FEW_TASKS
    if few.any() and not few.all():
        notes.append(f"{few.sum()} models have fewer than {FEW_TASKS:g} tasks; their errors lean on the curvature.")
    if fit.component.max():
        notes.append(f"The models fall into {fit.component.max() + 1} groups without a task in common; each has ranks.")
    if fit.separation is not None:
        said = describe(fit.separation, scores.names)
        notes.append(f"{said}; a normal prior with precision 0.1 around the mean of the others makes it finite.")
    return notes


def _disagreement(scores: ScoreTable, table: dict[str, IntArray]) -> list[str]:
    """Which method names another first model, and the model whose rank depends most on the method."""
    best = {name: scores.names[int(np.argmin(r))] for name, r in table.items()}
    notes = []
    if len(set(best.values())) > 1:
        notes.append("The methods differ on the first model: " + ", ".join(f"{m}: {n}" for m, n in best.items()) + ".")
    spread = np.ptp(np.array(list(table.values())), axis=0)
    if spread.max():
        i = int(np.argmax(spread))
        said = ", ".join(f"{name} {r[i]}" for name, r in table.items())
        notes.append(f"The rank of {scores.names[i]} depends most on the method: {said}.")
    return notes


def _influence(scores: ScoreTable, fit: Fit, se: FloatArray) -> tuple[Influence, ...]:
    """One Newton step without each task in turn."""
    method, tasks, n = fit.method, len(scores.tasks), len(scores.names)
    if tasks < 2:
        return ()
    at = method.terms(fit.x, method.races.item)
    whole, total = method.kept(at.hessian)[:n, :n] + fit.prior, at.bends[:, :n].sum(axis=0)
    before, rows = ranks(fit.strength, fit.component), []
    for t in range(tasks):
        # Models that only this task has stay where they are; a unit of curvature keeps the system regular.
        gone = total - at.bends[t, :n] <= 1e-9 * np.max(total)
        shift = np.linalg.solve(whole - fit.hessian_of(t) + np.diag(1.0 * gone), at.gradients[t, :n])
        # Where one task tells everything, nothing moves without it.
        middle = 0.0 if gone.all() else np.median(shift[~gone])
        moved = np.where(gone, 0.0, shift - middle)
        after = fit.strength + moved
        size = float(np.max(np.abs(moved) / np.where(se > 1e-9, se, np.inf)))
        changed = int(np.sum(ranks(after, fit.component) != before))
        rows.append(Influence(scores.tasks[t], size, changed, scores.names[int(np.argmax(after))]))
    return tuple(sorted(rows, key=lambda row: -row.shift))
