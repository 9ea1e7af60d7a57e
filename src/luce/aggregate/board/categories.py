"""Boards of several categories and the board of all battles, together."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.aggregate.board.result import Board
from luce.aggregate.plots import plot_categories
from luce.errors import DataError
from luce.result import Result, Sheet
from luce.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class CategoryBoards(Result):
    """One board a category, by name, and the board of all battles.

    `spread` is the standard deviation of the strength of an item between categories; None where they are not pooled.
    """

    by: str
    overall: Board
    boards: dict[str, Board]
    spread: float | None
    notes: tuple[str, ...] = ()
    build: Any = field(default=dict, repr=False)

    def __getitem__(self, category: str) -> Board:
        if category not in self.boards:
            raise DataError(f"There is no board of {category!r}; there are {', '.join(self.boards)}.")
        return self.boards[category]

    def __iter__(self) -> Iterator[str]:
        return iter(self.boards)

    def __len__(self) -> int:
        return len(self.boards)

    def items(self) -> ItemsView[str, Board]:
        """Categories with their boards."""
        return self.boards.items()

    def __repr__(self) -> str:
        return f"CategoryBoards({len(self)} boards by {self.by!r}, {self.overall!r})"

    def columns(self) -> dict[str, list[Any]]:
        """Rows of all boards, with their category."""
        columns: dict[str, list[Any]] = {self.by: [], **{column: [] for column in self.overall.columns()}}
        for category, board in self.boards.items():
            columns[self.by] += [category] * len(board.names)
            for name, values in board.columns().items():
                columns[name] += values
        return columns

    @cached_property
    def table(self) -> Any:
        """Rows of all boards, with their category, as a frame of the same kind as the input."""
        return self.overall.build(self.columns())

    def sheets(self) -> list[Sheet]:
        """Ranks in every category beside the rank over all."""
        ranks = {c: dict(zip(b.names, b.rank.tolist(), strict=True)) for c, b in self.boards.items()}
        names = self.overall.names
        by = {category: [found.get(name) for name in names] for category, found in ranks.items()}
        return [Sheet(f"ranks by {self.by}", {"name": names, "all": self.overall.rank.tolist(), **by})]

    def matrix(self) -> FloatArray:
        """(items, categories) strengths, items in the order of the board of all; NaN where an item did not play.

        The mean of a board weighs the items by what its own battles tell of them, and so lies elsewhere in every
        category. Here the differences of a column from the board of all have the mean 0, with the weights of the board
        of all (by component), so that the cells of a row compare.
        """
        overall = self.overall
        result = np.full((len(overall.names), len(self.boards)), np.nan)
        for k, board in enumerate(self.boards.values()):
            rows = np.array([overall.posterior.index(name) for name in board.names])
            for c in np.unique(board.component):
                part = board.component == c
                known, gap = overall.weights[rows[part]], board.strength[part] - overall.strength[rows[part]]
                shift = gap @ known / known.sum() if known.sum() > 0 else gap.mean()
                result[rows[part], k] = board.strength[part] - shift
        return result

    def plot(self, path: str | Path | None = None, *, top: int | None = None) -> Figure:
        """A heat map of items and categories; written where a path is given, its ending says how."""
        return plot_categories(self, path, top=top)

    def as_dict(self) -> dict[str, Any]:
        """Everything a machine wants."""
        return {
            "by": self.by,
            "spread": self.spread,
            "overall": self.overall.as_dict(),
            "boards": {name: board.as_dict() for name, board in self.boards.items()},
            "notes": list(self.notes),
        }


def join_categories(by: str, overall: Any, found: Mapping[str, Any], spread: float | None) -> CategoryBoards:
    """Boards that could be fitted; the others are named in the notes with their reason."""
    boards = {name: board for name, board in found.items() if not isinstance(board, str)}
    notes = [*overall.notes, *(f"No board of {name!r}: {why}" for name, why in found.items() if isinstance(why, str))]
    if not boards:
        raise DataError(f"No category of {by!r} has enough battles for a board; leave by out.")
    for name, board in boards.items():
        notes += [f"{name}: {note}" for note in board.notes]
    if spread is not None:
        notes.append(
            f"Boards of categories borrow from each other: the strengths of an item differ by {spread:.3g} (standard "
            "deviation) between categories."
        )
        if getattr(overall, "errors", None) == "bootstrap":
            notes.append("The bootstrap is of the board of all; those of categories have errors by Laplace's method.")
    return CategoryBoards(by, overall, boards, spread, tuple(notes))
