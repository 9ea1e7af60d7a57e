"""A board on disk, to which new battles can be added without reading the old ones again.

A board of counts is kept as its counts, so that an update is the refit. A board that moves in time is kept as the
distribution of now, and new battles are filtered.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from luce.aggregate.board.battles import Battles, find_columns, read_battles
from luce.aggregate.board.categories import CategoryBoards
from luce.aggregate.board.fitting_problem import Request
from luce.aggregate.board.ids import NO_IDS, Ids, leave_out_seen
from luce.aggregate.board.likelihood import get_model
from luce.aggregate.board.options import kept_options
from luce.aggregate.board.result import Board
from luce.aggregate.history.result import History, read_history, save_history, stored_options, update_history
from luce.checks import generator
from luce.data.names import one_form
from luce.errors import DataError, ModelFormatError, SettingError
from luce.storage import container_kind, read_container, restoring, write_container

_KIND = "board"


def save_board(board: Board | History | CategoryBoards, path: str | Path) -> None:
    """Write what an update needs."""
    if isinstance(board, History):
        save_history(board, path)
        return
    if isinstance(board, CategoryBoards) or board.kept is None:
        raise SettingError(
            "Only boards of battles without teams, covariates, judges, weights and categories can be kept for updates "
            "(with time also those with covariates, judges and weights): their errors need every battle; fit all."
        )
    cells = _cells(board.kept)
    settings = {"model": board.model.name, "names": list(cells.names), "side": cells.side is not None}
    settings["options"] = stored_options(board.options)
    read = board.kept.read_ids
    arrays = {"a": cells.a, "b": cells.b, "outcome": cells.outcome, "count": cells.count}
    arrays |= {"side": cells.side, "share": cells.share, "ids": None if read is None else read()}
    write_container(path, _KIND, settings, {k: np.asarray(v) for k, v in arrays.items() if v is not None})


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
    are given.
    """
    if not Path(path).is_file():
        raise DataError(f"{path}: there is no such board to update.")
    rng = generator(random_state)
    if container_kind(path) == "history":
        history = replace(read_history(path), seed=int(rng.integers(2**31)))
        _same_model(history.model.name, model)
        return update_history(history, data, **options)
    kept, name, before = _read(path)
    _same_model(name, model)
    stays = kept_options(options, before)
    asked = Request.of(data, name, options | stays, rng)
    columns, treatment = asked.columns, asked.treatment
    if columns.time is not None or columns.by is not None or columns.group is not None:
        raise SettingError(f"{path} is a board without time, categories and judges; leave them out.")
    found = find_columns(asked.source, columns)
    if treatment.side != (kept.side is not None):
        raise SettingError(
            f"{path} has {'no' if kept.side is None else 'a'} side effect; give side (--side) as it was."
        )
    unseen = leave_out_seen(asked.source, columns.id, NO_IDS if kept.read_ids is None else kept.read_ids())
    fresh = None if unseen.source is None else read_battles(unseen.source, found, treatment)
    joined = replace(kept if fresh is None else _joined(kept, fresh), read_ids=Ids(unseen.ids))
    from luce.aggregate.board.fit import fit_battles

    board = fit_battles(asked, joined)
    added = f"{0 if fresh is None else fresh.n_battles:,.0f} battles were added to {kept.n_battles:,.0f}."
    return replace(board, notes=(added, unseen.note, *asked.said, *board.notes), options=stays)


def _same_model(kept: str, asked: str | None) -> None:
    if asked is not None and get_model(asked).name != kept:
        raise SettingError(f"The board was made with the model {kept!r}, not {asked!r}; leave the model out.")


def _read(path: str | Path) -> tuple[Battles, str, dict[str, Any]]:
    kept = read_container(path, _KIND)
    with restoring(path):
        names, arrays = tuple(kept.settings.get("names", ())), kept.arrays
        rows = len(arrays.get("a", ()))
        whole = all(len(arrays.get(k, ())) == rows for k in ("a", "b", "outcome", "count")) and rows > 0
        if not whole or max(arrays["a"].max(), arrays["b"].max()) >= len(names) or arrays["outcome"].max() > 2:
            raise ModelFormatError(f"{path}: the arrays of this board do not fit its names; write it anew.")
        side = arrays["side"] if kept.settings.get("side") else None
        share, count = arrays.get("share"), arrays["count"]
        cells = Battles(names, arrays["a"], arrays["b"], arrays["outcome"], count=count, share=share, side=side)
        if "ids" in arrays:
            cells = replace(cells, read_ids=Ids(arrays["ids"].copy()))
        return cells, str(kept.settings["model"]), dict(kept.settings.get("options", {}))


def _joined(old: Battles, new: Battles) -> Battles:
    shown, notes = one_form((*old.names, *new.names))
    names = tuple(sorted(set(shown.values())))
    number = {name: i for i, name in enumerate(names)}
    parts = []
    for battles in (old, new):
        if any(v is not None for v in (battles.weight, battles.teams, battles.covariates)):
            raise SettingError("An update has no weights, teams or covariates; fit all battles instead.")
        if (old.share is None) != (new.share is None):
            raise SettingError(
                "Either the board or the update has parts of wins, and the other has not; fit all battles."
            )
        code = np.array([number[shown[name]] for name in battles.names])
        parts.append(_cells(replace(battles, names=names, a=code[battles.a], b=code[battles.b])))
    a, b, outcome, count = (np.concatenate([getattr(p, k) for p in parts]) for k in ("a", "b", "outcome", "count"))
    side = None if old.side is None else np.concatenate([p.side for p in parts if p.side is not None])
    return Battles(
        names,
        a,
        b,
        outcome,
        count=count if old.share is None else None,
        share=None if old.share is None else np.concatenate([p.share for p in parts if p.share is not None]),
        side=side,
        both_bad=new.both_bad,
        notes=tuple(dict.fromkeys((*new.notes, *notes))),
    )
