"""A board on disk, to which new battles can be added without reading the old ones again.

A board of counts is kept as its counts, so that an update is the refit. A board that moves in time is kept as the
distribution of now, and new battles are filtered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from luce.aggregate.board.battles import Battles, find_columns, read_battles
from luce.aggregate.board.categories import CategoryBoards
from luce.aggregate.board.fitting_problem import Request
from luce.aggregate.board.ids import NO_IDS, Ids, leave_out_seen
from luce.aggregate.board.likelihood import get_model
from luce.aggregate.board.options import Inference, Scale, kept_options
from luce.aggregate.board.result import Board
from luce.aggregate.history.result import History, are_dates, check_teams
from luce.aggregate.history.walks import Parameters, Present
from luce.checks import generator
from luce.data.names import one_form, plain
from luce.errors import DataError, ModelFormatError, SettingError
from luce.storage import container_kind, read_container, restoring, write_container


def save_board(board: Board | History | CategoryBoards, path: str | Path) -> None:
    """Write what an update needs: counts of equal battles, or the distribution of now with its parameters."""
    if isinstance(board, CategoryBoards) or (isinstance(board, Board) and board.kept is None):
        raise SettingError(
            "Only boards of battles without teams, covariates, judges, weights and categories can be kept for updates "
            "(with time also those with covariates, judges and weights): their errors need every battle; fit all."
        )
    options = dict(board.options)
    if "names" in options:
        options["names"] = {str(plain(key)): str(name) for key, name in options["names"].items()}
    settings: dict[str, Any] = {"model": board.model.name, "options": options}
    arrays: dict[str, Any]
    if isinstance(board, History):
        kind, ids, arrays = "history", board.read_ids, board.present._asdict() | {"games": board.games}
        settings |= {name: getattr(board, name) for name in ("modelled", "factor", "judged", "now", "level", "dates")}
        settings |= {"players": list(board.players), "parameters": list(board.parameters[:4]), "effects": board.slopes}
    else:
        assert board.kept is not None
        kind, ids, cells = "board", board.kept.read_ids or Ids(), _cells(board.kept)
        settings |= {"names": list(cells.names), "side": cells.side is not None}
        arrays = {name: getattr(cells, name) for name in ("a", "b", "outcome", "count", "side", "share")}
    arrays["ids"] = ids()
    write_container(path, kind, settings, {k: np.asarray(v) for k, v in arrays.items() if v is not None})


def _cells(battles: Battles) -> Battles:
    """Equal battles joined into one row with a count; parts of wins stay a row each, since errors are by battle."""
    if battles.share is not None:
        kept = Battles(battles.names, battles.a, battles.b, battles.outcome, share=battles.share, side=battles.side)
        return replace(kept, count=np.ones(len(battles.a)))
    side = np.zeros(len(battles.a)) if battles.side is None else battles.side
    n = len(battles.names)
    key = ((battles.a * n + battles.b) * 3 + battles.outcome) * 2 + side.astype(np.int64)
    keys, row = np.unique(key, return_inverse=True)
    count = np.bincount(row, battles.count).astype(np.float64)
    pair = keys // 6
    own = None if battles.side is None else (keys % 2).astype(np.float64)
    return Battles(battles.names, pair // n, pair % n, keys // 2 % 3, count=count, side=own)


def read_board(path: str | Path) -> tuple[Battles | History, str, dict[str, Any]]:
    """What `save_board` wrote: the battles, or the board that moves; its model, and the settings that stay."""
    kind = "history" if container_kind(path) == "history" else "board"
    kept = read_container(path, kind)
    with restoring(path):
        settings, arrays = kept.settings, {name: values.copy() for name, values in kept.arrays.items()}
        names, options = (
            tuple(settings.get("players" if kind == "history" else "names", ())),
            settings.get("options", {}),
        )
        n, rows = len(names), len(arrays.get("a", ()))
        shapes = {"mean": (n,), "covariance": (n, n), "last": (n,), "games": (n,)}
        if kind == "board":
            shapes = dict.fromkeys(("a", "b", "outcome", "count"), (rows,))
        fits = n > 1 and all(arrays.get(name, np.empty(0)).shape == shape for name, shape in shapes.items())
        if kind == "board":
            least = fits and rows > 0 and max(arrays["a"].max(), arrays["b"].max()) < n and arrays["outcome"].max() < 3
            fits = bool(least)
        if not fits:
            raise ModelFormatError(f"{path}: the arrays of this board do not fit its names; write it anew.")
        ids = Ids(arrays.pop("ids", NO_IDS))
        make = _history if kind == "history" else _battles
        return make(names, settings, arrays, ids), str(settings["model"]), dict(options)


def _battles(names: tuple[str, ...], settings: Mapping[str, Any], arrays: dict[str, Any], ids: Ids) -> Battles:
    if not settings.get("side"):
        arrays.pop("side", None)
    return Battles(names, **arrays, read_ids=ids)


def _history(names: tuple[str, ...], settings: Mapping[str, Any], arrays: dict[str, Any], ids: Ids) -> History:
    options, effects = settings.get("options", {}), settings.get("effects", {})
    return History(
        model=get_model(settings["model"], options.get("draws")),
        players=names,
        parameters=Parameters(*settings["parameters"][:4])._replace(effects=tuple(map(float, effects.values()))),
        covariates=tuple(effects),
        modelled=bool(settings.get("modelled", True)),
        factor=float(settings.get("factor", 1.0)),
        judged=bool(settings.get("judged", False)),
        scale=Scale(**{name: options[name] for name in Scale().settings if name in options}),
        present=Present(*(arrays[name] for name in Present._fields)),
        games=arrays["games"],
        now=float(settings["now"]),
        level=float(settings["level"]),
        mode=None,
        dates=bool(settings["dates"]),
        build=pa.table,
        read_ids=ids,
    )


def update_board(
    path: str | Path,
    data: Any,
    model: str | None = None,
    *,
    random_state: int | np.random.Generator | None = 0,
    **options: Any,
) -> Board | History:
    """The board of a file after new battles; columns are given as to `leaderboard`.

    What else the board was made with (draws, names, prior, errors, level, scale, anchor) stays, unless other settings
    are given. Of a board that moves a filter passes over the new battles only. Battles that are older than what their
    players have played count as if they were played at that time, which the notes say.
    """
    if not Path(path).is_file():
        raise DataError(f"{path}: there is no such board to update.")
    kept, name, before = read_board(path)
    if model is not None and get_model(model).name != name:
        raise SettingError(f"The board was made with the model {name!r}, not {model!r}; leave the model out.")
    stays, rng = kept_options(options, before), generator(random_state)
    asked = Request.of(data, name, options | stays, rng)
    _check(asked, kept, path)
    known = NO_IDS if kept.read_ids is None else kept.read_ids()
    found = find_columns(asked.source, asked.columns)
    source, ids, note = leave_out_seen(asked.source, asked.columns.id, known)
    fresh = None if source is None else read_battles(source, found, asked.treatment)
    if isinstance(kept, History):
        history = replace(kept, scale=asked.scale, level=asked.how.level, options=stays, seed=int(rng.integers(2**31)))
        history = replace(history, read_ids=Ids(ids), notes=(note,))
        return history if fresh is None else history.after(fresh, (note, *asked.said))
    from luce.aggregate.board.fit import fit_battles

    board = fit_battles(asked, replace(kept if fresh is None else _joined(kept, fresh), read_ids=Ids(ids)))
    added = f"{0 if fresh is None else fresh.n_battles:,.0f} battles were added to {kept.n_battles:,.0f}."
    return replace(board, notes=(added, note, *asked.said, *board.notes), options=stays)


def _check(asked: Request, kept: Battles | History, path: str | Path) -> None:
    """Refuse an update with other settings than the board was made with."""
    columns, treatment = asked.columns, asked.treatment
    side = bool(kept.side) if isinstance(kept, History) else kept.side is not None
    if isinstance(kept, Battles):
        if columns.time is not None or columns.by is not None or columns.group is not None:
            raise SettingError(f"{path} is a board without time, categories and judges; leave them out.")
    else:
        _check_moving(asked, kept)
    if treatment.side != side:
        raise SettingError(f"{path} has {'a' if side else 'no'} side effect; give side (--side) as it was.")


def _check_moving(asked: Request, board: History) -> None:
    columns = asked.columns
    check_teams(asked.treatment)
    if asked.how != Inference(level=asked.how.level) or asked.model.draws != board.model.draws:
        raise SettingError("An update keeps the drift, the draws and the errors of its board; leave them out.")
    if columns.time is None:
        raise SettingError("An update needs the column of the time; give time (--time).")
    if columns.by is not None:
        raise SettingError("The board is without categories; leave by out, or fit all battles.")
    if columns.group is not None and not board.judged:
        raise SettingError("group does nothing: the board was made without judges; leave it out, or fit all battles.")
    if isinstance(columns.covariates, Mapping) or tuple(columns.covariates) != board.covariates:
        raise SettingError(
            f"The board has {', '.join(board.covariates) or 'no'} covariates; an update names the same columns of "
            "differences (pairs of columns are in units of their own data)."
        )
    if board.dates != are_dates(asked):
        raise DataError("The board and the update measure time in different units: dates here, numbers there.")


def _joined(old: Battles, new: Battles) -> Battles:
    if any(v is not None for v in (new.weight, new.teams, new.covariates)):
        raise SettingError("An update has no weights, teams or covariates; fit all battles instead.")
    if (old.share is None) != (new.share is None):
        raise SettingError("Either the board or the update has parts of wins, and the other has not; fit all battles.")
    shown, notes = one_form((*old.names, *new.names))
    names = tuple(sorted(set(shown.values())))
    number = {name: i for i, name in enumerate(names)}
    parts = []
    for battles in (old, new):
        code = np.array([number[shown[name]] for name in battles.names])
        parts.append(_cells(replace(battles, names=names, a=code[battles.a], b=code[battles.b])))
    by_row = ("a", "b", "outcome", "side", *(["count"] if old.share is None else ["share"]))
    rows = {name: [getattr(part, name) for part in parts] for name in by_row}
    joined = {name: None if values[0] is None else np.concatenate(values) for name, values in rows.items()}
    said = tuple(dict.fromkeys((*new.notes, *notes)))
    return Battles(names, **joined, both_bad=new.both_bad, notes=said)  # type: ignore[arg-type]
