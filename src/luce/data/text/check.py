"""Features of texts as an engine logged them beside those that are computed: how far, and where, they part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from luce.data.table import Table
from luce.data.text.transformer import Text
from luce.result import Result, Sheet


@dataclass(frozen=True)
class TextCheck(Result):
    """One row a feature, the farthest first."""

    rows: list[dict[str, Any]]
    documents: int
    worst: float
    notes: tuple[str, ...] = ()

    @property
    def parted(self) -> list[str]:
        """The features that differ by more than is allowed."""
        return [row["feature"] for row in self.rows if row["largest"] > self.worst]

    def sheets(self) -> list[Sheet]:
        """The table."""
        columns = {name: [row[name] for row in self.rows] for name in ("feature", "largest", "median", "differ")}
        return [Sheet(f"Logged against computed, {self.documents:,} documents", columns, 6)]

    @property
    def lines(self) -> list[str]:
        """The verdict."""
        parted = self.parted
        if not parted:
            return [f"All {len(self.rows)} features agree to {self.worst:g}."]
        return [
            f"{len(parted)} of {len(self.rows)} features differ by more than {self.worst:g}: other analyzers, a corpus "
            "that grew, or several shards, which count words each for itself."
        ]


def text_check(text: Text, logged: Any, worst: float = 1e-4) -> TextCheck:
    """Compare the columns of a table that have the names of features with the features of its texts.

    Differences are relative, |logged - computed| / max(1, |computed|); an empty cell did not match and is 0.
    """
    table = Table.open(logged)
    there = [name for name in text.names if name in table.names]
    if not there:
        raise table.wrong(f"no column is a feature of the model, such as {text.names[0]}; name them so.")
    computed = dict(zip(text.names, text.transform(logged).T.astype(np.float64), strict=True))
    rows = table.read(there)
    found = []
    for name in there:
        given = np.nan_to_num(np.asarray(rows[name].number(), dtype=np.float64))
        apart = np.abs(given - computed[name]) / np.maximum(1.0, np.abs(computed[name]))
        differ = int(np.count_nonzero(apart > worst))
        largest, median = (float(f(apart)) if len(apart) else 0.0 for f in (np.max, np.median))
        found.append({"feature": name, "largest": largest, "median": median, "differ": differ})
    absent = len(text.names) - len(there)
    notes = (f"{absent} features of the model are no columns of the table, and were not compared.",) if absent else ()
    return TextCheck(sorted(found, key=lambda row: -row["largest"]), len(rows), worst, notes)
