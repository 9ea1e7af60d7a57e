"""Who won: what the words, numbers and names in a column of outcomes mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.column import Column
from luce.data.names import plain_form
from luce.data.text_files import number
from luce.types import FloatArray, IntArray

A_WINS, B_WINS, TIE, BOTH_BAD = range(4)

_WORDS: dict[str, int] = {
    **dict.fromkeys(("a", "model_a", "left", "home", "win", "won", "w", "1-0"), A_WINS),
    **dict.fromkeys(("b", "model_b", "right", "away", "loss", "lose", "lost", "l", "0-1"), B_WINS),
    **dict.fromkeys(("tie", "tied", "t", "draw", "drawn", "d", "1/2-1/2", "½-½"), TIE),
    **dict.fromkeys(("tie (bothbad)", "bothbad", "both_bad"), BOTH_BAD),
    **dict.fromkeys(("a>b", "b<a", "a>>b", "b<<a"), A_WINS),
    **dict.fromkeys(("b>a", "a<b", "b>>a", "a<<b"), B_WINS),
    **dict.fromkeys(("a=b", "b=a"), TIE),
}
_VERDICTS = {word for word in _WORDS if set(word) & set("<>=")}
_SCORES = {1.0: A_WINS, 0.0: B_WINS, 0.5: TIE}
_ALLOWED = (
    "'a', 'model_a', 'left', 'home' or 'win', 'b', 'model_b', 'right', 'away' or 'loss', 'tie' or 'draw', "
    "'tie (bothbad)', the verdicts A>>B, A>B, A=B, B>A, B>>A, the name of the winner, or numbers alone: the score of a "
    "from 0 to 1, or from 1 (a wins) to 2 (b wins)"
)


class Outcomes(NamedTuple):
    """Who won, row by row."""

    won: IntArray
    share: FloatArray | None = None
    """Of a win, the part of a, where outcomes are graded; `won` says nothing then."""
    strong: NDArray[np.bool_] | None = None
    """Which are strong verdicts, where there are any."""
    notes: tuple[str, ...] = ()


def read_outcomes(column: Column, a: IntArray, b: IntArray, items: Sequence[str]) -> Outcomes:
    """An outcome a row and what there is to say of them; a and b number the items, of which teams have none.

    Words and numbers are of the sides: 'a' is the item in the first column, whatever it is called. Where an outcome is
    no such word, all may be names of winners, or all numbers. What could be both a word and a name, with different
    winners, is refused.
    """
    codes, found = column.codes()
    words = np.array([_meaning(value) for value in found], dtype=np.int64)
    # The outcomes if they name the winner, -1 where one names neither side; None where none is the name of an item.
    index, named = {plain_form(item): i for i, item in enumerate(items)}, None
    item = np.array([index.get(plain_form(value), -1) for value in found], dtype=np.int64)
    if np.any(item >= 0):
        undecided = np.where(words >= TIE, words, -1)[codes]
        named = np.where(item[codes] == a, A_WINS, np.where(item[codes] == b, B_WINS, undecided))
    if np.all(words >= 0):
        if named is not None and np.all(named >= 0) and np.any(named != words[codes]):
            row = int(np.flatnonzero(named != words[codes])[0])
            raise column.error(
                row,
                f"is {found[codes[row]]!r}, which is both a side and the name of an item; write 'left' or 'right' for "
                "the side that won, or give the items other names.",
            )
        strong = np.array([">>" in value or "<<" in value for value in found], dtype=bool)
        return Outcomes(words[codes], strong=strong[codes] if strong.any() else None)
    if named is not None and np.all(named >= 0):
        return Outcomes(named, notes=(f"The column {column.name!r} names the winners.",))
    graded = _graded(np.array([number(value) for value in found], dtype=np.float64), column.name)
    if graded is not None:
        share, note = graded
        exact = np.array([_SCORES.get(value, -1) for value in share.tolist()], dtype=np.int64)
        decided = bool(np.all(exact >= 0))
        return Outcomes(np.maximum(exact, 0)[codes], None if decided else share[codes], notes=(note,))
    row = int(np.flatnonzero(words[codes] < 0)[0])
    raise column.error(row, f"is {found[codes[row]]!r}; allowed are {_ALLOWED}.")


def _meaning(word: str) -> int:
    """The outcome that a word or number means, -1 where it is none."""
    text = word.strip().lower()
    verdict = text.removeprefix("[[").removesuffix("]]").replace(" ", "")
    return _WORDS.get(text, _WORDS[verdict] if verdict in _VERDICTS else _SCORES.get(number(text), -1))


def _graded(values: FloatArray, name: str) -> tuple[FloatArray, str] | None:
    """The share of a in every value and how it was read; None where they are not all from 0 to 1, or from 1 to 2."""
    if np.all((values >= 0.0) & (values <= 1.0)):
        read = "0 to 1: the part of a win that goes to a, and the rest to b"
        return values, f"The column {name!r} was read as numbers from {read}."
    drawn = values == 0.0
    if not np.all(drawn | ((values >= 1.0) & (values <= 2.0))):
        return None
    read = f"1 (a wins) to 2 (b wins), in between a part of a win for each{', and 0 as a draw' if drawn.any() else ''}"
    return np.where(drawn, 0.5, 2.0 - values), f"The column {name!r} was read as numbers from {read}."
