"""LETOR and SVMlight text into memory: `read_letor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.data.readers.letor_file import LetorFile, LetorOptions
from luce.data.readers.matrix import GrowingMatrix, permute_rows


def read_letor(
    path: str | Path,
    *,
    absent: Literal["zero", "nan"] = "zero",
    allow_nan: bool = False,
    n_features: int | None = None,
    query_file: str | Path | None = None,
    missing: Sequence[str] = (),
) -> Groups:
    """Read judged documents from LETOR/SVMlight text, plain or compressed (gzip, bzip2, zstd).

    A line is `<label> qid:<text> <index>:<value> ... # <comment>`. Features come in any order and with gaps, query ids
    are any text, and rows of a query that are apart are regrouped (`Groups.row_order` says how). The comment is kept
    as document id; of `#docid = GX008-86-4444840 inc = 1`, the id is `GX008-86-4444840`.

    Parameters
    ----------
    absent
        What a feature is that a row leaves out: "zero" or "nan".
    allow_nan
        Admit `nan` as a value; infinite values are always refused.
    n_features
        Number of columns; None takes the largest index in the file.
    query_file
        A LightGBM file of query sizes, a line each, for text without `qid:`. A file of the same name with `.query`
        appended is found by itself.
    missing
        Words that stand for a missing value, such as `("NULL",)` in the LETOR rank aggregation sets; read as NaN.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("2 qid:a 1:0.5 3:1 # first\\n0 qid:a 2:4\\n") and file.flush()
    ...     data = read_letor(file.name)
    >>> data.X.tolist(), data.y.tolist(), data.document_ids.tolist()
    ([[0.5, 0.0, 1.0], [0.0, 4.0, 0.0]], [2.0, 0.0], ['first', ''])
    """
    options = LetorOptions(absent, allow_nan, n_features, query_file, missing)
    file = LetorFile(path, options)
    matrix = GrowingMatrix(n_features or 0, file.absent)
    outline = file.scan(_MatrixSink(matrix))
    X = matrix.finish(outline.n_rows, outline.n_features)
    if outline.row_order is not None:
        permute_rows(X, outline.row_order)
    return outline.groups(X)


class _MatrixSink:
    """Rows into a matrix that grows."""

    def __init__(self, matrix: GrowingMatrix) -> None:
        self._matrix = matrix

    @property
    def width(self) -> int:
        return self._matrix.width

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        self._matrix.reserve(last, first)
        return self._matrix.rows(first, last)

    def widen(self, width: int, used: int) -> bool:
        self._matrix.widen(width, used)
        return True

    def keep(self, first: int, last: int) -> None: ...
