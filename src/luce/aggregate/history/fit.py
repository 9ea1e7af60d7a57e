"""From battles with times to a `History`, and its file, to which new battles can be added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from luce.aggregate.board.battles import YEAR, Battles, find_columns, read_battles
from luce.aggregate.board.fitting_problem import Request
from luce.aggregate.board.ids import NO_IDS, Ids, leave_out_seen
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
from luce.aggregate.board.separation import linked
from luce.aggregate.history.result import History
from luce.aggregate.history.walks import Games, Parameters, Present, fit_parameters, most_probable
from luce.data.names import one_form, plain
from luce.data.table import Table
from luce.errors import DataError, ModelFormatError, SettingError
from luce.storage import read_container, restoring, write_container

_KIND = "history"


def fit_history(asked: Request) -> History:
    """The most probable history of all battles; the drift is fitted unless it is given."""
    if asked.scale != Scale():
        raise SettingError("Strengths that move have the scale 'log' and no anchor; leave scale and anchor out.")
    source, columns, treatment, model, how = asked.source, asked.columns, asked.treatment, asked.model, asked.how
    _check(model, columns, treatment, how)
    battles = asked.battles()
    dates = _are_dates(source, columns)
    names, games, notes = _games(battles, (), dates=dates)
    notes += _say(games)
    link = model.link
    assert link is not None
    if not np.any(games.games[:, 2] == 2) or np.all(games.games[:, 2] == 2):
        raise DataError("Strengths that move need wins and draws; without draws leave time out, or add draws.")
    step = None if how.drift is None else max(how.drift, 1e-9) ** 2
    fitted = fit_parameters(games, link, {"step": step, "start": None, "t": None, "home": None}, treatment.side)
    mode = most_probable(games, link, fitted)
    played = np.bincount(games.games[:, :2].ravel(), minlength=len(names)).astype(np.float64)
    return History(
        model=model,
        players=names,
        parameters=fitted,
        present=mode.present,
        games=played,
        now=float(games.times[-1]),
        level=how.level,
        mode=mode,
        dates=dates,
        log_likelihood=mode.log_marginal,
        notes=notes,
        seed=int(asked.rng.integers(2**31)),
        build=source.build,
        read_ids=Ids(source=source, given=columns.id),
    )


def _check(model: Model, columns: Columns, treatment: Treatment, how: Inference) -> None:
    if model.link is None or model.draws != "model":
        raise SettingError(
            f"Strengths that move need a model with draws; {model.name!r} has none: use 'davidson', 'rao_kupper' or "
            "'thurstone_mosteller'."
        )
    _check_columns(columns, treatment)
    usual = Inference()
    for name in ("prior", "errors", "bootstrap", "pool"):
        if getattr(how, name) != getattr(usual, name):
            raise SettingError(f"{name} does nothing for strengths that move; leave it or time out.")


def _check_columns(columns: Columns, treatment: Treatment) -> None:
    given: dict[str, Any] = {"weight": columns.weight, "count": columns.count, "group": columns.group, "by": columns.by}
    given |= {"team_separator": treatment.team_separator, "covariates": columns.covariates or None}
    used = [name for name, value in given.items() if value is not None]
    if used:
        raise SettingError(f"{used[0]} does nothing for strengths that move; leave it or time out.")


def _say(games: Games) -> tuple[str, ...]:
    """What a prior decides, because the battles cannot."""
    notes = []
    if games.times[0] == games.times[-1]:
        notes.append("All battles are at one time, so that nothing tells how fast strengths move.")
    groups = int(linked(games.players, games.games[:, 0], games.games[:, 1]).max()) + 1
    if groups > 1:
        notes.append(
            f"The battles fall into {groups} components without a link; between them strengths are compared by the "
            "prior of newcomers alone."
        )
    return tuple(notes)


def _are_dates(source: Table, columns: Columns) -> bool:
    assert columns.time is not None
    return source.read([columns.time])[columns.time].times()[1]


def _games(battles: Battles, known: tuple[str, ...], *, dates: bool) -> tuple[tuple[str, ...], Games, tuple[str, ...]]:
    """Battles in order of time, with players numbered by their first game after those that are known."""
    assert battles.time is not None
    order = np.argsort(battles.time, kind="stable")
    notes = list(battles.notes)
    if np.any(np.diff(battles.time) < 0):
        notes.append("The rows were not in order of time; they were sorted.")
    today = datetime.now(UTC).timestamp() / (86_400.0 * YEAR)
    future = int(np.sum(battles.time > today + 1.0 / YEAR)) if dates else 0
    if future:
        notes.append(f"{future} battles lie in the future.")
    shown, said = one_form((*known, *battles.names))
    number = {shown[name]: i for i, name in enumerate(known)}
    if len(number) < len(known):
        raise DataError("The board has two forms of one name; fit all battles instead of an update.")
    for i in np.column_stack([battles.a, battles.b])[order].ravel():
        number.setdefault(shown[battles.names[i]], len(number))
    code = np.array([number.get(shown[name], -1) for name in battles.names])
    rows = np.column_stack([code[battles.a], code[battles.b], battles.outcome])[order]
    sides = np.zeros(len(order)) if battles.side is None else battles.side[order]
    games = Games(len(number), np.ascontiguousarray(rows), sides, battles.time[order])
    return tuple(number), games, tuple(dict.fromkeys((*notes, *said)))


def stored_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON holds them: the keys of the names are texts."""
    stored = dict(options)
    if "names" in stored:
        stored["names"] = {str(plain(key)): str(name) for key, name in stored["names"].items()}
    return stored


def save_history(board: History, path: str | Path) -> None:
    """Keep what an update needs: the distribution of now, the parameters, and how often each has played."""
    settings = {
        "model": board.model.name,
        "players": list(board.players),
        "parameters": list(board.parameters),
        "now": board.now,
        "level": board.level,
        "dates": board.dates,
        "options": stored_options(board.options),
    }
    arrays = {"mean": board.present.mean, "covariance": board.present.covariance, "last": board.present.last}
    write_container(path, _KIND, settings, arrays | {"games": board.games, "ids": board.read_ids()})


def read_history(path: str | Path) -> History:
    """A board that `save_history` wrote."""
    kept = read_container(path, _KIND)
    with restoring(path):
        settings, arrays = kept.settings, kept.arrays
        n = len(settings.get("players", ()))
        shapes = {"mean": (n,), "covariance": (n, n), "last": (n,), "games": (n,)}
        if n < 2 or any(arrays.get(k, np.empty(0)).shape != shape for k, shape in shapes.items()):
            raise ModelFormatError(f"{path}: the arrays of this board do not fit its names; write it anew.")
        return History(
            model=get_model(settings["model"]),
            players=tuple(settings["players"]),
            parameters=Parameters(*settings["parameters"]),
            present=Present(arrays["mean"].copy(), arrays["covariance"].copy(), arrays["last"].copy()),
            games=arrays["games"].copy(),
            now=float(settings["now"]),
            level=float(settings["level"]),
            mode=None,
            dates=bool(settings["dates"]),
            options=dict(settings.get("options", {})),
            build=pa.table,
            read_ids=Ids(arrays.get("ids", NO_IDS).copy()),
        )


def update_history(board: History, data: Any, **options: Any) -> History:
    """The board after new battles, which are read with the same options as the old ones.

    A filter passes over the new battles only. Battles that are older than what their players have played count as if
    they were played at that time, which the notes say.
    """
    names = {name: board.options[name] for name in ("names", "both_bad") if name in board.options}
    columns, treatment = sort_options("leaderboard", options | kept_options(options, names), Columns, Treatment)
    check_together(columns, treatment)
    _check_columns(columns, treatment)
    if columns.time is None:
        raise SettingError("An update needs the column of the time; give time (--time).")
    if treatment.side != bool(board.side):
        raise SettingError(f"The board has {'a' if board.side else 'no'} side effect; give side (--side) as it was.")
    source = Table.open(data)
    if board.dates != _are_dates(source, columns):
        raise DataError("The board and the update measure time in different units: dates here, numbers there.")
    found, unseen = find_columns(source, columns), leave_out_seen(source, columns.id, board.read_ids())
    board = replace(board, read_ids=Ids(unseen.ids), notes=(unseen.note,))
    if unseen.source is None:
        return board
    battles = read_battles(unseen.source, found, treatment)
    players, games, notes = _games(battles, board.players, dates=board.dates)
    late = games.times < board.now
    if late.any():
        notes = (
            *notes,
            f"{int(late.sum())} of {len(late)} battles are older than the last one of the board.",
        )
    return board.after(players, games, (unseen.note, *notes))
