"""A board on disk, to which new battles can be added without reading the old ones again.

A board is kept as its battles, equal ones as counts, so that an update is the refit. A board that moves in time is kept
as the distribution of now, and new battles are filtered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from luce.aggregate.board.battles import Battles, find_columns, read_battles
from luce.aggregate.board.categories import CategoryBoards, join_categories
from luce.aggregate.board.fit import fit_battles
from luce.aggregate.board.fitting_problem import Request
from luce.aggregate.board.ids import NO_IDS, Ids, leave_out_seen
from luce.aggregate.board.likelihood import get_model
from luce.aggregate.board.options import Inference, Scale, kept_options
from luce.aggregate.board.result import Board
from luce.aggregate.history.result import History, check_teams, update_histories
from luce.aggregate.history.walks import Parameters, Present
from luce.checks import generator
from luce.data.names import one_form, plain
from luce.errors import DataError, ModelFormatError, SettingError
from luce.storage import container_kind, read_container, restoring, write_container


def save_board(board: Board | History | CategoryBoards, path: str | Path) -> None:
    """Write what an update needs: the battles, equal ones as counts; or the distribution of now with its parameters."""
    whole: Any = board.overall if isinstance(board, CategoryBoards) else board
    if isinstance(whole, Board) and whole.kept is None:
        raise SettingError(
            "Only boards of battles without teams can be kept for updates, and those of categories all together; fit "
            "all races, or all battles of teams, again."
        )
    options = dict(whole.options)
    if "names" in options:
        options["names"] = {str(plain(key)): str(name) for key, name in options["names"].items()}
    if isinstance(whole, History):
        parts: dict[str, Any] = dict(board.items()) if isinstance(board, CategoryBoards) else {}
        kind, ids, (settings, arrays) = "history", whole.read_ids, _moving(whole)
        if isinstance(board, CategoryBoards):
            settings["categories"] = []
        for k, (name, part) in enumerate(parts.items()):
            more, own = _moving(part)
            settings["categories"].append([name, more])
            arrays |= {f"{column} {k}": values for column, values in own.items()}
    else:
        kind, ids, cells = "board", whole.kept.read_ids, _cells(whole.kept)
        settings = {name: list(getattr(cells, name)) for name in _NAMES} | {"side": cells.side is not None}
        arrays = {name: getattr(cells, name) for name in _BY_ROW if getattr(cells, name) is not None}
    settings |= {"model": whole.model.name, "options": options}
    write_container(path, kind, settings, {k: np.asarray(v) for k, v in (arrays | {"ids": ids()}).items()})


_NAMES = ("names", "category_names", "group_names", "covariate_names")
_CODED = {"a": "names", "b": "names", "category": "category_names", "group": "group_names"}
_BY_ROW = ("a", "b", "outcome", "count", "side", "share", "weight", "covariates", "category", "group")
_OF_PLAYERS = (*Present._fields, "games")


def _moving(board: History) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings and the arrays of one history."""
    kept = {name: getattr(board, name) for name in ("modelled", "factor", "judged", "now", "level", "dates")}
    kept |= {"players": list(board.players), "parameters": list(board.parameters[:4]), "effects": board.slopes}
    return kept, board.present._asdict() | {"games": board.games}


def _cells(battles: Battles) -> Battles:
    """Equal battles joined into one row with a count; those with more to tell stay a row each, as errors need them."""
    rows = {name: getattr(battles, name) for name in (*_NAMES, *_BY_ROW)}
    if battles.count is None:
        rows["count"] = np.ones(len(battles.a))
    if all(rows[name] is None for name in ("share", "weight", "covariates", "group")):
        keys = [name for name in ("a", "b", "outcome", "side", "category") if rows[name] is not None]
        alike = pa.table({name: rows[name] for name in (*keys, "count")}).group_by(keys, use_threads=False)
        cells = alike.aggregate([("count", "sum")]).sort_by([(name, "ascending") for name in keys])
        rows |= {name: cells[name].to_numpy() for name in keys} | {"count": cells["count_sum"].to_numpy()}
    return Battles(**rows)


def read_board(path: str | Path) -> tuple[Battles | History | CategoryBoards, str, dict[str, Any]]:
    """What `save_board` wrote: the battles, or the board that moves; its model, and the settings that stay."""
    kind = "history" if container_kind(path) == "history" else "board"
    kept = read_container(path, kind)
    with restoring(path):
        settings, arrays = kept.settings, {name: values.copy() for name, values in kept.arrays.items()}
        ids = Ids(arrays.pop("ids", NO_IDS))
        found: Any = _battles(settings, arrays, ids) if kind == "board" else _history(settings, arrays, "", ids)
        if "categories" in settings:
            parts = enumerate(dict(settings["categories"]).items())
            boards: Any = {name: _history({**settings, **own}, arrays, f" {k}", ids) for k, (name, own) in parts}
            found = CategoryBoards("", found, boards, None)
        return found, str(settings["model"]), dict(settings.get("options", {}))


_WRONG = "the arrays of this board do not fit its names; write it anew."


def _battles(settings: Mapping[str, Any], arrays: dict[str, Any], ids: Ids) -> Battles:
    names: dict[str, Any] = {name: tuple(settings.get(name, ())) for name in _NAMES}
    if not settings.get("side"):
        arrays.pop("side", None)
    rows, wide = len(arrays.get("a", ())), len(names["covariate_names"])
    shapes = {name: (rows, wide) if name == "covariates" else (rows,) for name in arrays}
    there = {"a", "b", "outcome", "count"} <= set(arrays) <= set(_BY_ROW) and rows > 0 and len(names["names"]) > 1
    if not there or any(arrays[name].shape != shape for name, shape in shapes.items()):
        raise ModelFormatError(_WRONG)
    most = {name: len(names[of]) for name, of in _CODED.items() if name in arrays} | {"outcome": 3}
    if any(arrays[name].min() < 0 or arrays[name].max() >= many for name, many in most.items()):
        raise ModelFormatError(_WRONG)
    return Battles(**names, **arrays, read_ids=ids)


def _history(settings: Mapping[str, Any], arrays: dict[str, Any], end: str, ids: Ids) -> History:
    options, effects, players = settings.get("options", {}), settings.get("effects", {}), tuple(settings["players"])
    n, own = len(players), {name: arrays.get(name + end, np.empty(0)) for name in _OF_PLAYERS}
    if n < 2 or any(own[name].shape != ((n, n) if name == "covariance" else (n,)) for name in own):
        raise ModelFormatError(_WRONG)
    scale = Scale(**{name: options[name] for name in Scale().settings if name in options})
    return History(
        model=get_model(settings["model"], options.get("draws")),
        players=players,
        parameters=Parameters(*settings["parameters"][:4])._replace(effects=tuple(map(float, effects.values()))),
        covariates=tuple(effects),
        modelled=bool(settings.get("modelled", True)),
        factor=float(settings.get("factor", 1.0)),
        judged=bool(settings.get("judged", False)),
        scale=scale if not end else scale.of(players)[0],
        present=Present(*(own[name] for name in Present._fields)),
        games=own["games"],
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
) -> Board | History | CategoryBoards:
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
    # Without the column of the categories, which is asked for below, pool would be refused first.
    still = {key: value for key, value in stays.items() if key != "pool" or options.get("by") is not None}
    asked = replace(Request.of(data, name, options | still, rng), kept=stays)
    _check(asked, kept, path)
    whole: Any = kept.overall if isinstance(kept, CategoryBoards) else kept
    # Wrong columns are wrong also where every battle is known.
    find_columns(asked.source, asked.columns)
    source, ids, note = leave_out_seen(asked.source, asked.columns.id, whole.read_ids())
    fresh = None if source is None else read_battles(source, asked.columns, asked.treatment)
    said = (note, *asked.said)
    if not isinstance(kept, Battles):
        return _moved(asked, kept, fresh, Ids(ids), said)
    battles = replace(kept if fresh is None else _joined(kept, fresh), read_ids=Ids(ids))
    board = fit_battles(asked, battles)
    added = f"{0 if fresh is None else fresh.n_battles:,.0f} battles were added to {kept.n_battles:,.0f}."
    return replace(board, notes=(added, *said, *board.notes))


def _moved(
    asked: Request, kept: History | CategoryBoards, fresh: Battles | None, ids: Ids, notes: tuple[str, ...]
) -> History | CategoryBoards:
    """What moves in time, after the new battles; of the settings the level and the scale may change."""

    def changed(board: Any) -> Any:
        scale, lost = asked.scale.of(board.players) if isinstance(kept, CategoryBoards) else (asked.scale, ())
        seed = int(asked.rng.integers(2**31))
        return replace(
            board, scale=scale, level=asked.how.level, options=asked.kept, seed=seed, read_ids=ids, notes=lost
        )

    if isinstance(kept, History):
        history: History = changed(kept)
        return replace(history, notes=notes) if fresh is None else history.after(fresh, notes)
    whole, boards = replace(changed(kept.overall), scale=asked.scale), {c: changed(b) for c, b in kept.items()}
    by = str(asked.columns.by)
    if fresh is None:
        return join_categories(by, replace(whole, notes=notes), boards, None)
    return update_histories(CategoryBoards(by, whole, boards, None), fresh, notes)


def _check(asked: Request, kept: Battles | History | CategoryBoards, path: str | Path) -> None:
    """Refuse an update with other settings than the board was made with."""
    columns = asked.columns
    whole: Any = kept.overall if isinstance(kept, CategoryBoards) else kept
    if isinstance(kept, Battles):
        side, by, covariates = kept.side is not None, kept.category is not None, kept.covariate_names
        if columns.time is not None:
            raise SettingError(f"{path} is a board without time; leave time (--time) out.")
        _check_same(path, "judges", kept.group is not None, "group", columns.group is not None)
    else:
        check_teams(asked.treatment)
        if asked.how != Inference(level=asked.how.level, pool=asked.how.pool) or asked.model.draws != whole.model.draws:
            raise SettingError("An update keeps the drift, the draws and the errors of its board; leave them out.")
        if columns.time is None:
            raise SettingError("An update needs the column of the time; give time (--time).")
        if columns.group is not None and not whole.judged:
            raise SettingError(
                "group does nothing: the board was made without judges; leave it out, or fit all battles."
            )
        if whole.dates != asked.source.read([columns.time])[columns.time].times()[1]:
            raise DataError("The board and the update measure time in different units: dates here, numbers there.")
        side, by, covariates = bool(whole.side), isinstance(kept, CategoryBoards), whole.covariates
    _check_same(path, "categories", by, "by", columns.by is not None)
    if isinstance(columns.covariates, Mapping) or tuple(columns.covariates) != covariates:
        raise SettingError(
            f"The board has {', '.join(covariates) or 'no'} covariates; an update names the same columns of "
            "differences (pairs of columns are in units of their own data)."
        )
    if asked.treatment.side != side:
        raise SettingError(f"{path} has {'a' if side else 'no'} side effect; give side (--side) as it was.")


def _check_same(path: str | Path, what: str, was: bool, name: str, given: bool) -> None:
    if was != given:
        then = "name their column" if was else "leave it out, or fit all battles"
        raise SettingError(f"{path} is a board {'with' if was else 'without'} {what}; {then}: {name} (--{name}).")


def _joined(old: Battles, new: Battles) -> Battles:
    """The battles of both, with one list of names of each kind."""
    if new.teams is not None:
        raise SettingError("An update has no teams; fit all battles instead.")
    if (old.share is None) != (new.share is None):
        raise SettingError("Either the board or the update has parts of wins, and the other has not; fit all battles.")
    lists: dict[str, Any] = {"covariate_names": old.covariate_names}
    notes, parts = list(new.notes), [old, new]
    for of in ("names", "category_names", "group_names"):
        shown, said = one_form((*getattr(old, of), *getattr(new, of)))
        lists[of], notes = tuple(sorted(set(shown.values()))), [*notes, *said]
        number = {name: i for i, name in enumerate(lists[of])}
        for k, part in enumerate(parts):
            code = np.array([number[shown[name]] for name in getattr(part, of)], dtype=np.int64)
            coded = [c for c, names in _CODED.items() if names == of and getattr(part, c) is not None]
            parts[k] = replace(part, **{of: lists[of]}, **{c: code[getattr(part, c)] for c in coded})
    rows: dict[str, Any] = {}
    for name in _BY_ROW:
        both = [getattr(part, name) for part in parts]
        # A row without a count or a weight has 1.
        if any(values is not None for values in both):
            ones = (np.ones(len(part.a)) for part in parts)
            rows[name] = np.concatenate([one if v is None else v for v, one in zip(both, ones, strict=True)])
    return Battles(**lists, **rows, both_bad=new.both_bad, notes=tuple(dict.fromkeys(notes)))
