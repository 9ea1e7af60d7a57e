"""Boards of several categories: each by itself, or shrunk towards the board of all battles."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.aggregate.board.newton import inverse
from luce.aggregate.board.plots import plot_categories
from luce.aggregate.board.posterior import Posterior
from luce.aggregate.board.result import Board
from luce.errors import DataError
from luce.result import Result, Sheet
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class CategoryBoards(Result):
    """One board a category, by name, and the board of all battles.

    `spread` is the standard deviation of the difference between an item's strength in a category and its strength over
    all, estimated from the boards; None where they are not pooled.
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
            rows = _rows(overall, board)
            for c in np.unique(board.component):
                part = board.component == c
                known, gap = overall.weights[rows[part]], board.strength[part] - overall.strength[rows[part]]
                shift = gap @ known / known.sum() if known.sum() > 0 else gap.mean()
                result[rows[part], k] = board.strength[part] - shift
        return result

    def plot(self, path: str | Path | None = None, *, top: int | None = None) -> Figure:
        """A heat map of items and categories: .png, .svg or .pdf."""
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


def join_categories(by: str, overall: Board, found: dict[str, Board | str], *, pool: bool) -> CategoryBoards:
    """Boards that could be fitted, pooled where asked; the others are named in the notes with their reason."""
    boards = {name: board for name, board in found.items() if isinstance(board, Board)}
    notes = [*overall.notes, *(f"No board of {name!r}: {why}" for name, why in found.items() if isinstance(why, str))]
    if not boards:
        raise DataError(f"No category of {by!r} has enough battles for a board; leave by out.")
    for name, board in boards.items():
        notes += [f"{name}: {note}" for note in board.notes]
    spread = None
    if pool and len(boards) > 1:
        spread = _spread(overall, boards)
        boards = {name: _pooled(overall, board, spread) for name, board in boards.items()}
        notes.append(
            f"Boards of categories are shrunk towards that of all battles: strengths differ by {spread:.3g} (standard "
            "deviation) between an item's categories."
        )
    return CategoryBoards(by, overall, boards, spread, tuple(notes))


def _rows(overall: Board, board: Board) -> IntArray:
    """Where the items of a category stand on the board of all."""
    return np.array([overall.posterior.index(name) for name in board.names])


def _targets(overall: Board, board: Board) -> FloatArray:
    """Overall strengths of the items of a category, measured from the same mean as there."""
    target = overall.strength[_rows(overall, board)]
    for c in range(int(board.component.max()) + 1):
        rows = board.component == c
        target[rows] += board.weights[rows] @ (board.strength[rows] - target[rows])
    return target


def _spread(overall: Board, boards: dict[str, Board]) -> float:
    """Method of moments: the mean square of the differences, by precision, less what their errors explain."""
    top, total = 0.0, 0.0
    for board in boards.values():
        usable = np.isfinite(board.se) & ~np.isin(board.names, list(board.separated))
        gap, variance = (board.strength - _targets(overall, board))[usable], board.se[usable] ** 2
        weight = 1.0 / np.maximum(variance, 1e-12)
        top += float(weight @ (gap**2 - variance))
        total += float(weight.sum())
    return float(np.sqrt(max(top / total, 0.0))) if total else 0.0


def _pooled(overall: Board, board: Board, spread: float) -> Board:
    """The posterior of a category's strengths, normal around the overall ones with this standard deviation.

    That the battles of the category are among those of the overall board is left out of account: the errors are a
    little too large.
    """
    n, target = len(board.names), _targets(overall, board)
    covariance = board.covariance
    known = board.se[board.se > 0.0]
    if not len(known):
        return board
    # Not quite 0: the covariance is singular along a common shift.
    prior = max(spread, 1e-3 * float(np.median(known))) ** 2 * np.eye(n)
    shift = 1e3 * float(np.max(np.diagonal(covariance))) * (board.component[:, None] == board.component[None, :])
    gain = prior @ inverse(prior + covariance + shift, np.empty((n, 0)))
    strength = target + gain @ (board.strength - target)
    rows = _rows(overall, board)
    # The overall strengths are known only so well; and this form stays definite where there is no spread at all.
    left = np.eye(n) - gain
    posterior = gain @ covariance @ gain.T + left @ (prior + overall.covariance[np.ix_(rows, rows)]) @ left.T
    found = Posterior.of(
        *(board.names, strength, 0.5 * (posterior + posterior.T), board.component, board.level),
        sets=np.random.default_rng(0),
    )
    # Best first again: shrinking may change the order.
    order = found.order
    return replace(
        board,
        posterior=found,
        games=board.games[order],
        logits=(board.logits + (strength - board.strength) * _logit_scale(board))[order],
        weights=board.weights[order],
        errors="pooled",
        draws=None,
    )


def _logit_scale(board: Board) -> float:
    """Logits in one point of the scale that is shown."""
    points = np.ptp(board.strength)
    return float(np.ptp(board.logits) / points) if points > 0 else 1.0
