"""Tables that name documents by query and document id, joined to the rows of a `Groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from luce.data.groups import Groups
from luce.data.table import Rows
from luce.errors import DataError
from luce.types import IntArray

if TYPE_CHECKING:
    from luce.data.trec import JudgedRun

_JOINT = "\x1f"
NO_IDS = (
    "The data have no document ids, so no document can be named; say which column holds them by doc= (--doc, or "
    "--data-doc where --data names the documents), or give document_ids."
)


class RowNames:
    """Finds the row of a document by the id of its query and its own; `plain` spells ids as 12.0 without decimals."""

    def __init__(self, data: Groups | JudgedRun, plain: bool = False) -> None:
        import pyarrow as pa

        if data.document_ids is None:
            raise DataError(NO_IDS)
        queries = np.repeat(data.query_ids.astype(str), np.diff(data.offsets))
        self._queries = pa.array(data.query_ids.astype(str))
        names = pa.array(queries), pa.array(data.document_ids.astype(str))
        self._names = _join(*map(without_decimals, names)) if plain else _join(*names)
        self.data = data
        if len(self._names.unique()) < len(self._names):
            seen: set[str] = set()
            twice = next(name for name in self._names.to_pylist() if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            query, document = twice.split(_JOINT)
            raise DataError(f"Document {document!r} stands twice in query {query!r}; ids must be unique in a query.")

    def __call__(self, row: int) -> str:
        """The document of a row, for messages."""
        assert self.data.document_ids is not None
        return str(self.data.document_ids[row])

    def rows(self, table: Rows, query: str, document: str) -> IntArray:
        """Rows of the documents that two columns of a table name, -1 where the data do not have them."""
        import pyarrow.compute as pc

        names = _join(table[query].texts(), table[document].texts())
        found = pc.fill_null(pc.index_in(names, value_set=self._names), -1)
        result: IntArray = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return result

    def in_known_query(self, table: Rows, query: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """True for the rows of a table whose query the data have."""
        import pyarrow.compute as pc

        found = pc.is_in(table[query].texts(), value_set=self._queries)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)

    def unknown(self, table: Rows, row: int, query: str, document: str) -> DataError:
        """The error for a row of a table that names a document that the data do not have."""
        import pyarrow.compute as pc

        in_query, wanted = table[query].texts()[row], table[document].texts()[row]
        what = f"query {in_query.as_py()!r} is not in the data"
        if pc.is_in(in_query, value_set=self._queries).as_py():
            what = f"document {wanted.as_py()!r} is not in query {in_query.as_py()!r} of the data"
        return table.error(row, f"{what}; mend the file, or leave such rows out in Python by missing='skip'.")


def without_decimals(texts: Any) -> Any:
    """The same texts, whole numbers with decimals such as 12.0 as 12."""
    import pyarrow.compute as pc

    return pc.replace_substring_regex(texts, pattern=r"^(-?[0-9]+)\.0+$", replacement=r"\1")


def _join(queries: Any, documents: Any) -> Any:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(queries, documents, _JOINT)
