"""`ClickCounts`: a click log, aggregated to how often each document was shown and clicked in each place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.data.late import pa
from luce.data.mapped import pack_texts, unpack_texts, wide_first
from luce.data.named_rows import RowNames, check_missing, without_decimals
from luce.errors import DataError, SettingError
from luce.numerics.segments import query_index
from luce.storage import check_output, read_container, restoring, write_container
from luce.types import FloatArray, IntArray

KIND = "clicks"


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Clicks of one session seen together, for unbiased pairs; documents are numbered as in `ClickCounts`.

    `with_shown` counts the sessions in which `clicked` was clicked at `clicked_at` and `other` was shown anywhere;
    `both` those in which it was clicked as well, at `other_at`, each pair of documents once, the smaller first.
    """

    clicked: IntArray
    clicked_at: IntArray
    other: IntArray
    with_shown: FloatArray
    first: IntArray
    first_at: IntArray
    second: IntArray
    second_at: IntArray
    both: FloatArray


@dataclass(frozen=True, eq=False)
class ClickCounts:
    """Counts of a click log: a cell is a document in a place, and holds how often it was shown and clicked there.

    Parameters
    ----------
    query_ids, offsets, document_ids
        Names; query q owns the documents `offsets[q]:offsets[q + 1]`.
    sessions
        Impressions of each query.
    document, position, after
        Of every cell: the number of its document, the position (1 at the top), and the position of the last click
        above it in the session, 0 where there was none.
    shown, clicked
        How often, for every cell.
    propensity_sums
        (cells, 4) sums of 1/p, 1/p^2, c/p and c/p^2 over the rows of a cell, where the log says with which probability
        p its policy showed the document there; else None.
    pairs
        What happened to two documents in one session, where that was asked for.
    notes
        What was left out or merged on the way.
    """

    query_ids: NDArray[Any]
    offsets: IntArray
    document_ids: NDArray[Any]
    sessions: FloatArray
    document: IntArray
    position: IntArray
    after: IntArray
    shown: FloatArray
    clicked: FloatArray
    propensity_sums: FloatArray | None = None
    pairs: PairCounts | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not len(self.document):
            raise DataError("The log shows no document; at least one impression is needed.")
        if np.any(self.clicked > self.shown) or np.any(self.clicked < 0):
            raise DataError("A document was clicked more often than it was shown in one place; counts must agree.")

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def n_documents(self) -> int:
        """Number of documents, counted in each query that showed them."""
        return len(self.document_ids)

    @property
    def positions(self) -> IntArray:
        """The positions that were shown, ascending."""
        return np.unique(self.position)

    @property
    def document_query(self) -> IntArray:
        """The query of every document."""
        return query_index(self.offsets)

    def __repr__(self) -> str:
        return (
            f"ClickCounts({self.sessions.sum():.0f} sessions, {self.n_queries} queries, {self.n_documents} documents, "
            f"{self.clicked.sum():.0f} clicks at {len(self.positions)} positions)"
        )

    def by_position(self) -> ClickCounts:
        """The same without what was clicked above: cells are documents at positions."""
        if not self.after.any():
            return self
        new = np.ones(len(self.document), dtype=bool)
        new[1:] = (np.diff(self.document) != 0) | (np.diff(self.position) != 0)
        first = np.flatnonzero(new)
        sums = None if self.propensity_sums is None else np.add.reduceat(self.propensity_sums, first)
        return replace(
            self,
            document=self.document[first],
            position=self.position[first],
            after=np.zeros(len(first), dtype=np.int64),
            shown=np.add.reduceat(self.shown, first),
            clicked=np.add.reduceat(self.clicked, first),
            propensity_sums=sums,
        )

    def rows_in(self, data: Groups, missing: str = "error") -> IntArray:
        """The row of every document in `data`, -1 for those that it lacks and `missing="skip"` leaves out."""
        check_missing(missing)
        queries = np.repeat(self.query_ids.astype(str), np.diff(self.offsets))
        named = pa.array(queries), pa.array(self.document_ids.astype(str))
        rows = RowNames(data).rows(*named)
        if np.all(rows < 0):  # ids that went through a column of decimals on one side: 12.0 is 12
            rows = RowNames(data, plain=True).rows(*map(without_decimals, named))
        unknown = np.flatnonzero(rows < 0)
        if len(unknown) == len(rows):
            assert data.document_ids is not None
            raise DataError(
                f"No document of the click log is in the data: the log has document {str(self.document_ids[0])!r} of "
                f"query {str(queries[0])!r}, the data begin with document {str(data.document_ids[0])!r} of query "
                f"{str(data.query_ids[0])!r}; both must use the same ids."
            )
        if len(unknown) and missing == "error":
            raise DataError(
                f"{len(unknown)} of {len(rows)} documents of the click log are not in the data, the first is document "
                f"{str(self.document_ids[unknown[0]])!r} of query {str(queries[unknown[0]])!r}; add them, or leave "
                "them out by missing='skip' (--missing-documents skip)."
            )
        return rows

    def save(self, path: str | Path) -> None:
        """Write the counts to one file; `luce.clicks.read` reads it back."""
        check_counts_output(path)
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if self.propensity_sums is not None:
            arrays["propensity_sums"] = self.propensity_sums
        if self.pairs is not None:
            arrays |= {f"pairs.{name}": value for name, value in vars(self.pairs).items()}
        arrays |= pack_texts("query_ids", self.query_ids) | pack_texts("document_ids", self.document_ids)
        write_container(path, KIND, {"notes": list(self.notes)}, wide_first(arrays))


def counted(
    table: FloatArray, query_ids: NDArray[Any], document_ids: NDArray[Any], sessions: FloatArray
) -> ClickCounts:
    """Counts of a sorted table: query, document, position, last click, shown, clicked, perhaps sums of propensities.

    Numbers of queries and documents are those of their names; `sessions` has an entry a query.
    """
    query, document, position, after = np.ascontiguousarray(table[:, :4].T).astype(np.int64)
    new = np.append(True, (np.diff(query) != 0) | (np.diff(document) != 0))
    queries, sizes = np.unique(query[new], return_counts=True)
    return ClickCounts(
        query_ids=query_ids[queries],
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        document_ids=document_ids[document[new]],
        sessions=sessions[queries],
        document=np.cumsum(new) - 1,
        position=position,
        after=after,
        shown=np.ascontiguousarray(table[:, 4]),
        clicked=np.ascontiguousarray(table[:, 5]),
        propensity_sums=np.ascontiguousarray(table[:, 6:]) if table.shape[1] > 6 else None,
    )


def kind_of(given: Any, kind: type, how: str) -> None:
    """Refuse what is of another kind, and say how the right one is made."""
    if not isinstance(given, kind):
        raise DataError(f"A {type(given).__name__} was given where {kind.__name__} is needed; make it by {how}.")


def check_counts_output(path: str | Path) -> Path:
    """Counts are no table: a name that says so is refused, and a folder that is not there."""
    path = check_output(path)
    if path.suffix in (".csv", ".tsv", ".parquet", ".json", ".jsonl"):
        raise SettingError(f"{path} is the name of a table; counts are written as .lucedata.")
    return path


_ARRAYS = {"offsets": np.int64, "sessions": np.float64}
_CELLS = {"document": np.int64, "position": np.int64, "after": np.int64, "shown": np.float64, "clicked": np.float64}
_ARRAYS |= _CELLS


def load_counts(path: str | Path) -> ClickCounts:
    """Counts that `ClickCounts.save` wrote."""
    _, settings, arrays = read_container(path, KIND)
    with restoring(path):
        ids = {name: unpack_texts(name, arrays) for name in ("query_ids", "document_ids")}
        pairs = {name.partition(".")[2]: value for name, value in arrays.items() if name.startswith("pairs.")}
        if any(value is None for value in ids.values()) or not set(_ARRAYS) <= set(arrays):
            raise DataError(f"{path} lacks some of the counts; aggregate the log again.")
        for name, type_ in _ARRAYS.items():
            if arrays[name].ndim != 1 or arrays[name].dtype != type_:
                raise DataError(f"{path}: the counts {name!r} are no row of numbers; aggregate the log again.")
        found = ClickCounts(
            **ids,  # type: ignore[arg-type]
            **{name: arrays[name] for name in _ARRAYS},
            propensity_sums=arrays.get("propensity_sums"),
            pairs=PairCounts(**pairs) if pairs else None,
            notes=tuple(map(str, settings.get("notes", []))),
        )
        fits = len({len(arrays[name]) for name in _CELLS}) == 1 and len(found.sessions) == found.n_queries
        fits = fits and found.offsets[-1] == found.n_documents
        if not (fits and 0 <= found.document.min() <= found.document.max() < found.n_documents):
            raise DataError(f"{path}: the arrays of counts do not fit together; aggregate the log again.")
        return found
