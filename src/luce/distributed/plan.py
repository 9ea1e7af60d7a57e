"""How a data set of many files is cut into partitions: at query boundaries, and at those of the fixed blocks.

A model must not depend on how many machines made it. So the files are laid end to end, as if they were one, the
queries of that whole are cut into the blocks of `luce.data.blocks`, and a partition is a run of whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from luce.data.blocks import cut_blocks
from luce.data.outline import Outline
from luce.errors import DataError
from luce.numerics.segments import Chunk
from luce.types import FloatArray, IntArray


class FileOutline(NamedTuple):
    """One file without its features."""

    name: str
    format: str
    outline: Outline


class Piece(NamedTuple):
    """Rows of one file, counted in the order in which its queries are whole."""

    name: str
    first: int
    last: int
    order: IntArray | None
    """Where the file keeps these rows, if elsewhere."""


class Partition(NamedTuple):
    """A run of whole queries: where its rows are, and everything about them but the features."""

    queries: Chunk
    pieces: tuple[Piece, ...]
    y: FloatArray
    offsets: IntArray
    query_weight: FloatArray | None


@dataclass(frozen=True, eq=False)
class Layout:
    """All files laid end to end."""

    files: list[FileOutline]
    outline: Outline
    starts: IntArray
    """The first row of every file, and the number of all rows."""
    repaired: list[Any]
    """Ids of queries that go from one file into the next, and are made whole."""

    def partitions(self, unit: int, wanted: int) -> list[Partition]:
        """Runs of whole units of `unit` blocks: one a file at least, and about `wanted` in all where that is cheap.

        Only the binary form can be entered anywhere; a file of another format is one partition.
        """
        blocks = cut_blocks(self.outline.offsets, self.outline.n_features)
        units = [(blocks[i][0], blocks[min(i + unit, len(blocks)) - 1][1]) for i in range(0, len(blocks), unit)]
        owner = np.searchsorted(self.starts, self.outline.offsets[[u[0] for u in units]], side="right") - 1
        cuts = []
        for file in np.unique(owner):
            own = [u for u, o in zip(units, owner, strict=True) if o == file]
            share = max(1, round(wanted * len(own) / len(units))) if self.files[file].format == "lucedata" else 1
            edges = np.unique(np.linspace(0, len(own), share + 1).astype(int))
            cuts += [(own[a][0], own[b - 1][1]) for a, b in pairwise(edges.tolist())]
        return [self._partition(cut) for cut in cuts]

    def _partition(self, cut: Chunk) -> Partition:
        outline = self.outline
        offsets = outline.offsets[cut[0] : cut[1] + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        pieces = []
        for number, (start, end) in enumerate(pairwise(self.starts.tolist())):
            a, b = max(first, start) - start, min(last, end) - start
            if a < b:
                file = self.files[number]
                order = file.outline.row_order
                moved = None if order is None or file.format == "lucedata" else order[a:b]
                pieces.append(Piece(file.name, a, b, moved))
        weight = None if outline.query_weight is None else outline.query_weight[cut[0] : cut[1]]
        return Partition(cut, tuple(pieces), outline.y[first:last], offsets - first, weight)


def join_files(files: Sequence[FileOutline]) -> Layout:
    """Lay files end to end; a query that goes from one file into the next is made whole, any other repetition refused.

    >>> def file(name, ids, y):
    ...     offsets = np.arange(len(ids) + 1)
    ...     return FileOutline(name, "csv", Outline(np.array(y), offsets, np.array(ids), None, None, ("f",), None))
    >>> whole = join_files([file("a", ["q", "r"], [1.0, 2.0]), file("b", ["r", "s"], [0.0, 3.0])])
    >>> whole.outline.query_ids.tolist(), whole.outline.offsets.tolist(), whole.repaired
    (['q', 'r', 's'], [0, 1, 3, 4], ['r'])
    """
    names = _feature_names(files)
    weighted = [f.outline.query_weight is not None for f in files]
    if any(weighted) and not all(weighted):
        raise DataError(f"{files[weighted.index(False)].name} has no query weights, and other files have; add them.")
    ids: list[Any] = []
    sizes: list[int] = []
    weights: list[float] = []
    repaired: list[Any] = []
    home: dict[Any, str] = {}
    for file in files:
        own = file.outline
        own_ids, own_sizes = own.query_ids.tolist(), np.diff(own.offsets).tolist()
        weight = [1.0] * len(own_ids) if own.query_weight is None else own.query_weight.tolist()
        for number, (query, size) in enumerate(zip(own_ids, own_sizes, strict=True)):
            if number == 0 and ids and query == ids[-1]:
                sizes[-1] += size
                repaired += [] if repaired and repaired[-1] == query else [query]
                continue
            if query in home:
                raise DataError(
                    f"Query {query!r} is in {home[query]} and again in {file.name}, not at the end of one file and the "
                    "start of the next; sort the rows by query, or give queries that differ different ids."
                )
            ids.append(query)
            sizes.append(size)
            weights.append(weight[number])
            home[query] = file.name
    outline = Outline(
        y=np.concatenate([file.outline.y for file in files]),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        query_ids=np.array(ids),
        document_ids=None,
        query_weight=np.array(weights) if all(weighted) else None,
        feature_names=names,
        row_order=None,
        schema=files[0].outline.schema,
    )
    starts = np.concatenate([[0], np.cumsum([file.outline.n_rows for file in files])]).astype(np.int64)
    return Layout(list(files), outline, starts, repaired)


def _feature_names(files: Sequence[FileOutline]) -> tuple[str, ...]:
    """The features of all files; text that leaves its last features out everywhere is as wide as the widest file."""
    widest = max(files, key=lambda file: file.outline.n_features)
    names = widest.outline.feature_names
    for file in files:
        own = file.outline.feature_names
        same = own == names[: len(own)] if file.format == "letor" else own == names
        if not same:
            raise DataError(
                f"{file.name} has other features than {widest.name}; all files need the same, in one order."
            )
    return names
