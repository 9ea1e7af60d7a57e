"""Clicks as a target: how often each row was clicked and how often looked at; and the old reading as comparisons."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from luce.checks import whole
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.data.named_rows import RowNames, check_missing
from luce.data.table import Source, Table
from luce.errors import DataError, LuceWarning, SettingError
from luce.types import FloatArray, IntArray

COLUMNS = ("query", "impression", "position", "document", "clicked")


@dataclass(frozen=True, eq=False)
class Clicks:
    """Clicks on the rows of a data set, and how often each row was looked at: a target of the loss `click_choice`.

    Parameters
    ----------
    clicks
        Clicks on each row.
    exposure
        Expected number of times that each row was examined, the sum over positions of times shown there times
        examination; 0 for rows that were never shown, which then say nothing.
    """

    clicks: FloatArray
    exposure: FloatArray

    def __post_init__(self) -> None:
        for name in ("clicks", "exposure"):
            values = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            if values.ndim != 1 or not np.isfinite(values).all() or np.any(values < 0):
                raise DataError(f"{name} must be a vector of finite numbers of at least 0, one a row.")
            object.__setattr__(self, name, values)
        if self.clicks.shape != self.exposure.shape:
            raise DataError(f"{len(self.clicks)} clicks and {len(self.exposure)} exposures were given; give one a row.")
        stray = np.flatnonzero((self.clicks > 0) & (self.exposure == 0))
        if len(stray):
            raise DataError(f"Row {stray[0]} was clicked and never looked at; give it an exposure above 0.")
        if not self.clicks.any():
            raise DataError("No row was clicked; a ranker learns nothing from that: check the ids of log and data.")

    def moved(self, row_order: IntArray | None) -> Clicks:
        """The same after rows were moved: row i is now what was row `row_order[i]`."""
        return self if row_order is None else Clicks(self.clicks[row_order], self.exposure[row_order])


class SessionRows(NamedTuple):
    """What was shown and clicked, row by row: the row of the document, its session, position and click."""

    row: IntArray
    session: IntArray
    position: IntArray
    clicked: FloatArray


def comparisons_from_clicks(
    log: Source,
    data: Groups,
    *,
    min_count: int = 1,
    min_share: float = 0.0,
    ties: bool = True,
    tie_count: int = 2,
    tie_share: float = 0.5,
    missing: str = "error",
) -> Comparisons:
    """Comparisons between documents from a click log, weighted by how often they were made: a baseline only.

    It learns the ranker that was logged upside down: users look less the further down, so nearly all wins go upwards.
    Take `luce.clicks` instead, which is right about where users look; this stays as the rule of the literature.

    In one impression a clicked document beats every document above it that was skipped, and the one just below it if
    that was not clicked. Two documents that are clicked together often are tied, and then neither beats the other.

    Parameters
    ----------
    log
        A CSV or Parquet file, data frame or mapping with the columns query, impression, position (1, 2, ... from the
        top), document and clicked (0 or 1).
    data
        The documents, with their ids.
    min_count
        A preference must have been shown at least this often.
    min_share
        And in at least this share of the cases in which either of the two beat the other; above 0.5 only the more
        frequent direction is left. 0 keeps both, weighted by their counts.
    ties, tie_count, tie_share
        Two documents are tied if they were clicked together in at least `tie_count` impressions, and these are at
        least `tie_share` of the impressions that showed both and in which at least one of them was clicked.
    missing
        "error", or "skip" to leave out documents that `data` does not have.

    >>> import luce
    >>> data = luce.from_arrays(np.eye(3), qid=["q"] * 3, document_ids=["a", "b", "c"])
    >>> log = {"query": ["q"] * 3, "impression": [1] * 3, "position": [1, 2, 3], "document": ["a", "b", "c"],
    ...        "clicked": [0, 1, 0]}
    >>> with warnings.catch_warnings(action="ignore"):
    ...     comparisons_from_clicks(log, data).wins.tolist()
    [[1, 0], [1, 2]]
    """
    for name, count in (("min_count", min_count), ("tie_count", tie_count)):
        whole(name, count, 1)
    for name, share in (("min_share", min_share), ("tie_share", tie_share)):
        if not 0 <= share <= 1:
            raise SettingError(f"{name} is {share}; it must be between 0 and 1.")
    check_missing(missing)
    warnings.warn(
        "comparisons_from_clicks is a baseline that ranks against the logged ranker; learn by luce.clicks instead.",
        LuceWarning,
        stacklevel=2,
    )
    shown = _read_log(log, data, missing)
    wins, win_count, both, either = _count_pairs(shown, data.n_rows)
    backwards = wins % data.n_rows * data.n_rows + wins // data.n_rows
    keep = (win_count >= min_count) & (win_count / (win_count + looked_up(wins, win_count, backwards)) >= min_share)
    tied = np.empty(0, dtype=np.int64)
    tied_count = np.empty(0)
    if ties:
        pairs, co_clicks = both
        often = (co_clicks >= tie_count) & (co_clicks >= tie_share * looked_up(*either, pairs))
        tied, tied_count = pairs[often], co_clicks[often]
        keep &= ~np.isin(np.minimum(wins, backwards), tied)
    return Comparisons(
        wins=np.column_stack(np.divmod(wins[keep], data.n_rows)),
        ties=np.column_stack(np.divmod(tied, data.n_rows)),
        win_weight=win_count[keep],
        tie_weight=tied_count,
    )


def _read_log(log: Source, data: Groups, missing: str) -> SessionRows:
    table = Table.open(log).choose([COLUMNS])
    names = RowNames(data)
    row = names.named(table, "query", ["document"], missing)[:, 0]
    position = table["position"].number("a whole number", least=1, whole=True)
    clicked = table["clicked"].flags("0 or 1").astype(np.float64)
    impression = np.unique(
        np.stack([table[name].codes()[0] for name in ("query", "impression")]), axis=1, return_inverse=True
    )[1].ravel()
    order = np.lexsort((position, impression))
    # Documents that are left out still fill their position: the one below them is not the next one.
    order = order[row[order] >= 0]
    shown = SessionRows(row[order], impression[order], position[order].astype(np.int64), clicked[order])
    _check_impressions(shown, names)
    return shown


def _check_impressions(shown: SessionRows, names: RowNames) -> None:
    together = shown.session[1:] == shown.session[:-1]
    twice = together & (shown.position[1:] == shown.position[:-1])
    if twice.any():
        at = int(np.flatnonzero(twice)[0])
        raise DataError(
            f"Documents {names(int(shown.row[at]))!r} and {names(int(shown.row[at + 1]))!r} have the same position, "
            f"{shown.position[at]}, in one impression; a position shows one document."
        )
    by_row = np.lexsort((shown.row, shown.session))
    again = (np.diff(shown.session[by_row]) == 0) & (np.diff(shown.row[by_row]) == 0)
    if again.any():
        document = names(int(shown.row[by_row][1:][again][0]))
        raise DataError(f"Document {document!r} stands twice in one impression; an impression shows it once.")


def _count_pairs(
    shown: SessionRows, n_rows: int
) -> tuple[IntArray, FloatArray, tuple[IntArray, FloatArray], tuple[IntArray, FloatArray]]:
    """Counts of preferences, of pairs clicked together, and of pairs shown together with a click on either.

    A pair is the number first * n_rows + second. One step a distance in the list: all impressions at once.
    """
    wins: list[IntArray] = []
    both: list[IntArray] = []
    either: list[IntArray] = []
    clicked = shown.clicked > 0
    longest = int(np.bincount(shown.session).max(initial=0)) if len(shown.row) else 0
    for lag in range(1, longest):
        upper = np.flatnonzero(shown.session[lag:] == shown.session[:-lag])
        lower = upper + lag
        above, below = shown.row[upper], shown.row[lower]
        skipped = ~clicked[upper] & clicked[lower]
        wins.append(below[skipped] * n_rows + above[skipped])
        next_below = clicked[upper] & ~clicked[lower] & (shown.position[lower] == shown.position[upper] + 1)
        wins.append(above[next_below] * n_rows + below[next_below])
        pair = np.minimum(above, below) * n_rows + np.maximum(above, below)
        both.append(pair[clicked[upper] & clicked[lower]])
        either.append(pair[clicked[upper] | clicked[lower]])
    return (*_counted(wins), _counted(both), _counted(either))


def _counted(parts: list[IntArray]) -> tuple[IntArray, FloatArray]:
    values, counts = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]), return_counts=True)
    return values, counts.astype(np.float64)


def looked_up(keys: IntArray, values: FloatArray, wanted: IntArray) -> FloatArray:
    """The value of each wanted key, 0 where there is none; keys ascend."""
    if not len(keys):
        return np.zeros(len(wanted))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0.0)
