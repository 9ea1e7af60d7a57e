"""Who won: the words, numbers, names and goals that a table writes into the column of the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from luce.aggregate.board.names import plain_form
from luce.data.column import Column
from luce.data.table import Rows
from luce.data.text_files import number
from luce.types import IntArray

A_WINS, B_WINS, TIE, BOTH_BAD = range(4)

_WORDS: dict[str, int] = {
    **dict.fromkeys(("a", "model_a", "left", "home", "win", "won", "w", "1-0"), A_WINS),
    **dict.fromkeys(("b", "model_b", "right", "away", "loss", "lose", "lost", "l", "0-1"), B_WINS),
    **dict.fromkeys(("tie", "tied", "t", "draw", "drawn", "d", "1/2-1/2", "½-½"), TIE),
    **dict.fromkeys(("tie (bothbad)", "bothbad", "both_bad"), BOTH_BAD),
}
_SCORES = {1.0: A_WINS, 0.0: B_WINS, 0.5: TIE}
_ALLOWED = (
    "'a', 'model_a', 'left', 'home' or 'win', 'b', 'model_b', 'right', 'away' or 'loss', 'tie' or 'draw', "
    "'tie (bothbad)', the score of a (1, 0, 0.5), or the name of the winner"
)


class Sides(NamedTuple):
    """Who met, row by row: numbers into the names of the items."""

    a: IntArray
    b: IntArray
    names: Sequence[str]


def read_outcomes(column: Column, sides: Sides | None) -> tuple[IntArray, str]:
    """An outcome a row and what there is to say of them; `sides` is None where they are teams.

    Words and numbers are of the sides: 'a' is the item in the first column, whatever it is called. Where an outcome is
    no such word, all may be names of winners. What could be both, with different winners, is refused.
    """
    codes, found = column.codes()
    words = np.array([_meaning(value) for value in found], dtype=np.int64)
    named = None if sides is None else _by_name(codes, found, words, sides)
    if np.all(words >= 0):
        if named is not None and np.all(named >= 0) and np.any(named != words[codes]):
            row = int(np.flatnonzero(named != words[codes])[0])
            raise column.error(
                row,
                f"is {found[codes[row]]!r}, which is both a side and the name of an item; write 'left' or 'right' for "
                "the side that won, or give the items other names.",
            )
        return words[codes], ""
    if named is not None and np.all(named >= 0):
        return named, f"The column {column.name!r} names the winners."
    row = int(np.flatnonzero(words[codes] < 0)[0])
    raise column.error(row, f"is {found[codes[row]]!r}; allowed are {_ALLOWED}.")


def _meaning(word: str) -> int:
    """The outcome that a word or number means, -1 where it is none."""
    text = word.strip().lower()
    return _WORDS.get(text, _SCORES.get(number(text), -1))


def _by_name(codes: IntArray, found: Sequence[str], words: IntArray, sides: Sides) -> IntArray | None:
    """The outcomes if they name the winner, -1 where one names neither side; None where none is the name of an item."""
    index = {plain_form(item): i for i, item in enumerate(sides.names)}
    item = np.array([index.get(plain_form(value), -1) for value in found], dtype=np.int64)
    if not np.any(item >= 0):
        return None
    undecided = np.where(words >= TIE, words, -1)[codes]
    winner = item[codes]
    return np.where(winner == sides.a, A_WINS, np.where(winner == sides.b, B_WINS, undecided))


def from_goals(rows: Rows, columns: tuple[str, str]) -> IntArray:
    """The side with more goals (points, votes) wins."""
    a, b = (rows[name].number() for name in columns)
    return np.where(a > b, A_WINS, np.where(a < b, B_WINS, TIE)).astype(np.int64)
