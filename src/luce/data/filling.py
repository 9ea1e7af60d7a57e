"""What is done to features before a scorer sees them: gaps and categories as numbers, and scales within each query.

What was learned from the training data is kept with the model and applied to whatever it scores. Scorers that handle
gaps or categories by themselves, as trees do, are given them as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.data.outline import check_memory
from luce.errors import DataError, LuceWarning, SettingError
from luce.types import IntArray

_ROWS = 1_000_000
"""Medians are exact up to so many rows; beyond that they are those of rows at equal distances."""
_BLOCK = 8192


@dataclass(frozen=True)
class Filling:
    """How the columns of a table become those that a scorer sees.

    Numbers come first, then indicators of gaps, then indicators of categories: 1 where the code is that of the
    category, so that one that training did not see, or a gap, is 0 in all of them.

    Parameters
    ----------
    medians
        What stands for a gap, by column; None leaves gaps as they are.
    marked
        Columns whose gaps have an indicator: those that had some in training.
    categories
        Number of categories that become indicators, by column; 0 for numbers.
    """

    medians: tuple[float | None, ...]
    marked: tuple[int, ...]
    categories: tuple[int, ...]

    def __post_init__(self) -> None:
        width = len(self.medians)
        whole = all(type(c) is int and c >= 0 for c in (*self.categories, *self.marked))
        if len(self.categories) != width or not whole or any(c >= width or self.categories[c] for c in self.marked):
            raise DataError("what stands for gaps and categories does not fit the features")

    @classmethod
    def learn(cls, data: Groups, *, fill: bool, expand: bool, later: bool = False) -> Filling | None:
        """What these data need: gaps filled where `fill`, categories as indicators where `expand`; None for nothing.

        With `later`, medians are learned from data without gaps too: what is scored later may have some.

        >>> import pyarrow as pa, luce
        >>> table = pa.table({"qid": [1] * 3, "price": [4.0, None, 6.0], "brand": ["a", "b", "a"]})
        >>> data = luce.from_frame(table, allow_nan=True)
        >>> filled = Filling.learn(data, fill=True, expand=True).applied(data)
        >>> filled.feature_names, filled.X.tolist()[1]
        (('price', 'price is missing', 'brand = a', 'brand = b'), [5.0, 1.0, 0.0, 1.0])
        """
        known = {} if data.schema is None else data.schema.categories
        categories = [len(known[j]) if expand and j in known else 0 for j in range(data.n_features)]
        gaps = _gaps(data)
        marked = [j for j in np.flatnonzero(gaps).tolist() if not categories[j]] if fill else []
        if not any(categories) and not marked and not later and (data.schema is None or not fill):
            return None
        sample = data.X[:: -(-data.n_rows // _ROWS)]
        medians = [_median(sample[:, j]) if fill and not count else None for j, count in enumerate(categories)]
        return cls(tuple(medians), tuple(marked), tuple(categories))

    @property
    def fills(self) -> bool:
        """Whether gaps are filled."""
        return any(median is not None for median in self.medians)

    @property
    def is_plain(self) -> bool:
        """Whether a scorer sees the features themselves, at least where there are no gaps."""
        return not self.marked and not any(self.categories)

    @property
    def width(self) -> int:
        """Number of columns that a scorer sees."""
        return self.categories.count(0) + len(self.marked) + sum(self.categories)

    @property
    def owners(self) -> IntArray:
        """The feature that every column stands for.

        >>> Filling((0.0, None, 1.0), (2,), (0, 2, 0)).owners.tolist()
        [0, 2, 2, 1, 1]
        """
        numbers = [j for j, count in enumerate(self.categories) if not count]
        codes = [j for j, count in enumerate(self.categories) for _ in range(count)]
        return np.array([*numbers, *self.marked, *codes], dtype=np.int64)

    def names(self, features: Sequence[str], categories: dict[int, tuple[str, ...]]) -> tuple[str, ...]:
        """The columns that a scorer sees."""
        numbers = [name for name, count in zip(features, self.categories, strict=True) if not count]
        gaps = [f"{features[j]} is missing" for j in self.marked]
        return (
            *numbers,
            *gaps,
            *(f"{features[j]} = {name}" for j, c in enumerate(self.categories) if c for name in categories[j]),
        )

    def applied(self, data: Groups) -> Groups:
        """The data as a scorer sees them; the same object where nothing changes."""
        if self.is_plain and not np.isnan(data.X).any():
            return data
        self._warn_of_gaps(data)
        known = {} if data.schema is None else data.schema.categories
        categories = {j: known.get(j) or tuple(map(str, range(c))) for j, c in enumerate(self.categories) if c}
        names = self.names(data.feature_names, categories)
        return replace(data, X=self.matrix(data.X), feature_names=names, schema=None)

    def _warn_of_gaps(self, data: Groups) -> None:
        """Name the features that had no gaps in training, and have some here: the model knows nothing of them."""
        if not self.fills:
            return
        gaps = _gaps(data)
        new = [j for j in np.flatnonzero(gaps).tolist() if not self.categories[j] and j not in self.marked]
        if new:
            more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
            warnings.warn(
                f"The feature {data.feature_names[new[0]]!r}{more} has gaps, and had none in training; the median of "
                "training stands for them.",
                LuceWarning,
                stacklevel=5,
            )

    def matrix(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """The same for a matrix."""
        check_memory(len(X), self.width)
        result = np.empty((len(X), self.width), dtype=np.float32)
        numbers = [j for j, count in enumerate(self.categories) if not count]
        medians = np.array(self.medians, dtype=np.float32)[numbers]
        for first in range(0, len(X), _BLOCK):
            found, block = result[first : first + _BLOCK], X[first : first + _BLOCK]
            kept, at = block[:, numbers], len(numbers) + len(self.marked)
            found[:, : len(numbers)] = np.where(np.isnan(kept), medians, kept)
            found[:, len(numbers) : at] = np.isnan(block[:, list(self.marked)])
            for j, count in enumerate(self.categories):
                found[:, at : at + count] = block[:, j, None] == np.arange(count, dtype=np.float32)
                at += count
        return result

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"medians": list(self.medians), "marked": list(self.marked), "categories": list(self.categories)}

    @classmethod
    def from_dict(cls, record: Any) -> Filling:
        """What `to_dict` gave; anything else is a `DataError`."""
        try:
            medians = tuple(None if median is None else float(median) for median in record["medians"])
            made = cls(medians, tuple(record["marked"]), tuple(record["categories"]))
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise DataError("what stands for gaps and categories is damaged") from error
        if not all(median is None or np.isfinite(median) for median in medians):
            raise DataError("what stands for gaps and categories is damaged")
        return made


def _gaps(data: Groups) -> NDArray[np.bool_]:
    """Which features have gaps."""
    gaps = np.zeros(data.n_features, dtype=bool)
    for first in range(0, data.n_rows, _BLOCK):
        gaps |= np.isnan(data.X[first : first + _BLOCK]).any(axis=0)
    return gaps


def _median(values: NDArray[np.float32]) -> float:
    """The median of what is there, 0 where nothing is."""
    there = values[~np.isnan(values)]
    return float(np.float32(np.median(there))) if len(there) else 0.0


KINDS = ("minmax", "zscore")


def normalise_within_queries(X: NDArray[np.float32], offsets: IntArray, kind: str) -> NDArray[np.float32]:
    """A copy of X with every feature on one scale in every query; a feature that is constant there becomes 0.

    `minmax` maps to [0, 1] as LETOR's QueryLevelNorm does, `zscore` to mean 0 and variance 1.

    >>> normalise_within_queries(np.array([[1], [3], [7]], dtype=np.float32), np.array([0, 2, 3]), "minmax").tolist()
    [[0.0], [1.0], [0.0]]
    """
    if kind not in KINDS:
        raise SettingError(f"query_norm is {kind!r}; it must be None, 'minmax' or 'zscore'.")
    starts, sizes = offsets[:-1], np.diff(offsets)
    result = np.empty_like(X)
    block = max(1, 8_000_000 // max(len(X), 1))
    for first in range(0, X.shape[1], block):
        columns = X[:, first : first + block].astype(np.float64)
        if kind == "minmax":
            centre = np.minimum.reduceat(columns, starts)
            spread = np.maximum.reduceat(columns, starts) - centre
        else:
            centre = np.add.reduceat(columns, starts) / sizes[:, None]
            squares = np.add.reduceat((columns - np.repeat(centre, sizes, axis=0)) ** 2, starts)
            spread = np.sqrt(squares / sizes[:, None])
        factor = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
        columns -= np.repeat(centre, sizes, axis=0)
        result[:, first : first + block] = columns * np.repeat(factor, sizes, axis=0)
    return result
