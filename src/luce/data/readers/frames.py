"""Any data frame (pandas, polars, pyarrow) as judged documents, through narwhals and Arrow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from luce.data.groups import Groups
from luce.data.readers.border import reason
from luce.data.readers.tables import JudgedTable
from luce.data.schema import TableWords
from luce.data.tables import check_names
from luce.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 16_384


def from_frame(frame: Any, **said: Unpack[TableWords]) -> Groups:
    """Judged documents from any data frame: a row a document, a column a feature.

    Parameters
    ----------
    qid, label, doc, weight
        Columns of query ids, of any type and in any order (by default `qid` or `query_id`), labels (`label`; without
        it all labels are 0: data to predict), document ids (`document_id`) and query weights (`query_weight`; the
        same in all rows of a query). `document_id` and `query_weight` are also words for `doc` and `weight`.
    features
        Columns, in the order wanted. None takes every other column that can be a feature: numbers, truth values, dates
        (days since 1970-01-01 UTC), durations (days), and texts of at most 1,000 values as categories. Left out are
        the index of a pandas frame, texts that are different in every row, and, from 10 rows on, columns that equal
        the label or the number of the row.
    drop
        Columns that are no features.
    categorical
        Columns whose values are names, even if they look like numbers or are many.
    label_map
        The number of every value of a label column that holds text: `{"good": 2, "ok": 1, "bad": 0}`.
    subtopics
        Column with the subtopics of a document: a list, or a text with blanks between their names; may be empty.
    schema
        That of other data (`Groups.schema`): the same features, types and codes of categories.
    allow_nan
        False refuses gaps (NaN and nulls) among the features, which else are NaN: models fill them, or take them as
        they are.

    >>> import pyarrow as pa
    >>> frame = pa.table({"qid": ["a", "a", "b"], "label": [1, 0, 2], "bm25": [0.5, 0.25, 3], "brand": ["x", "y", "x"]})
    >>> data = from_frame(frame)
    >>> data.feature_names, data.X.tolist()
    (('bm25', 'brand'), [[0.5, 0.0], [0.25, 1.0], [3.0, 0.0]])
    >>> data.schema.remark()
    'Features: bm25, brand (2 categories). Query: qid. Label: label.'
    """
    return frame_groups(frame, {}, None, said)


def frame_groups(frame: Any, beside: Mapping[str, Any], keep: Sequence[str] | None, said: Mapping[str, Any]) -> Groups:
    """`from_frame` with columns that stand beside the frame, and of its own only those to `keep`."""
    return replace(JudgedTable(None, _FrameTable(frame, beside, keep), said).read(), frame=frame_kind(frame))


def frame_kind(X: Any) -> str | None:
    """One of "pandas", "polars" and "pyarrow"; None for what is no data frame."""
    from narwhals import dependencies as known

    tests = {
        "pandas": known.is_pandas_dataframe,
        "polars": known.is_polars_dataframe,
        "pyarrow": known.is_pyarrow_table,
    }
    return next((kind for kind, test in tests.items() if test(X)), None)


class _FrameTable:
    """A data frame that gives its columns batch by batch, as a `TableFile` does."""

    kind = "frame"

    def __init__(self, frame: Any, beside: Mapping[str, Any], keep: Sequence[str] | None) -> None:
        import narwhals as nw
        import pyarrow as pa

        try:
            table = nw.from_native(frame, eager_only=True)
        except TypeError as error:
            kind = type(frame).__name__
            raise DataError(f"Got {kind}, which is no data frame that narwhals knows; use luce.from_arrays.") from error
        except nw.exceptions.DuplicateError as error:
            raise DataError(f"{reason(error)}; every column needs a name of its own.") from error
        check_names([str(name) for name in table.columns])
        if keep is not None:
            table = table.select([name for name in table.columns if str(name) in keep])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # names that are numbers become text, as everywhere here
                arrow = table.to_arrow()
                for name, values in beside.items():
                    arrow = arrow.append_column(name, pa.array(values))
                self._table = arrow
        except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
            raise DataError(f"A column of the frame cannot be read: {reason(error)}.") from error
        self.names = [str(name) for name in self._table.column_names]
        self.schema = self._table.schema
        self.rows = len(self._table)

    def batches(
        self,
        columns: Sequence[str],
        rows: int | None = None,
        types: Mapping[str, pa.DataType] | None = None,
        coded: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """These columns, some rows at a time."""
        yield from self._table.select([self.names.index(name) for name in columns]).to_batches(rows or _BATCH_ROWS)
