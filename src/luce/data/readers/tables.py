"""Judged documents from tables: Parquet, Arrow, CSV and JSON files, and data frames, batch by batch through Arrow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from luce.data.column import Column, as_text
from luce.data.groups import Groups
from luce.data.late import pa
from luce.data.named_rows import subtopic_matrix
from luce.data.outline import GrowingMatrix, Outline, outline_of_rows
from luce.data.readers.columns import DISGUISED, FEW_ROWS, LIKE_ID, Encoder, frame_index, type_name
from luce.data.schema import LEFT_OUT, Schema, TableWords, choose, words
from luce.data.table import Rows, Table, frame_kind
from luce.data.table_file import TableFile
from luce.data.text_files import border, table_kind
from luce.errors import DataError, LuceWarning, ParseError
from luce.types import FloatArray, IntArray

_BLOCK = 8192


def read_parquet(path: str | Path, **said: Unpack[TableWords]) -> Groups:
    """Read judged documents from a Parquet or Arrow (Feather, IPC) file; what may be said is in `luce.from_frame`."""
    kind = table_kind(path)
    if kind not in ("parquet", "feather"):
        raise ParseError(
            path, "this is neither a Parquet nor an Arrow file; use luce.read to find the format by itself."
        )
    return JudgedTable(path, TableFile(path, kind), said).read()


def read_csv(path: str | Path, **said: Unpack[TableWords]) -> Groups:
    """Read judged documents from CSV with a header line, plain or packed; what may be said is in `luce.from_frame`.

    Commas, semicolons, tabs and bars are told apart by the first two lines. Ids are read as text; an empty cell is a
    null.
    """
    return JudgedTable(path, TableFile(path, "csv"), said).read()


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
    table = Table(frame, beside, index=True)
    if keep is not None:
        table.names = [name for name in table.names if name in keep or name in beside]
    return replace(JudgedTable(None, table, said).read(), frame=frame_kind(frame))


class JudgedTable:
    """A table and what was said of its columns; passed over once by `read`, and twice by `luce convert`."""

    def __init__(self, path: str | Path | None, table: Table, said: Mapping[str, Any]) -> None:
        self.path = Path("" if path is None else path)
        self._border = partial(border, None if path is None else self.path, "a table")
        self._table = table
        with self._border():
            given = words(said)
            self._allow_nan = bool(given.pop("allow_nan", True))
            known: Schema | None = given.pop("schema", None)
            arrow = dict(zip(table.names, table.schema.types, strict=True))
            types = {name: type_name(type_) for name, type_ in arrow.items()}
            self._fixed, self._automatic = known is not None, given.get("features") is None
            if known is None:
                self.schema = choose(types, given, frame_index(table.schema))
            else:
                self.schema = known.for_table(types, given)
            self._types = _csv_types(self.schema, arrow) if table.kind == "csv" else {}
            self._coded = [column.name for column in self.schema.cells if types[column.name] == "text"]

    def outline(self) -> Outline:
        """Pass over the table for everything but the features; the schema is complete afterwards."""
        with self._border():
            parts = _Parts(self._table, self.schema)
            encoder = None if self._fixed else self._encoder()
            for batch in self._batches(encoder is not None):
                parts.add(batch)
                if encoder is not None:
                    scratch = np.empty((len(batch), len(self.schema.cells)), dtype=np.float32)
                    encoder.fill(scratch, batch, parts.labels)
            if encoder is not None and parts.rows:
                self.schema, self._fixed = encoder.finish()[0], True
                self._warn(encoder)
            return parts.outline(self.schema)

    def blocks(self, width: int) -> Iterator[NDArray[np.float32]]:
        """The features, batch by batch, in the order of the table."""
        if self.schema.text is not None:
            raise DataError(
                "texts need the whole table at once; train from it, or write another format than .lucedata."
            )
        if not self._fixed:  # the codes of categories are known at the end of a pass
            self.outline()
        with self._border():
            encoder = self._encoder()
            names = [column.name for column in self.schema.features]
            for batch in self._table.batches(names, types=self._types, coded=self._coded):
                X = np.empty((len(batch), width), dtype=np.float32)
                encoder.fill(X, batch, None)
                yield X

    def read(self) -> Groups:
        """Everything, into memory."""
        with self._border():
            parts, encoder = _Parts(self._table, self.schema), self._encoder()
            matrix = GrowingMatrix(len(self.schema.cells), np.nan)
            matrix.reserve(self._table.rows or 0, 0)
            for batch in self._batches(True):
                first = parts.rows
                parts.add(batch)
                matrix.reserve(parts.rows, first)
                encoder.fill(matrix.rows(first, parts.rows), batch, parts.labels)
            if parts.rows:
                X = matrix.finish(parts.rows, matrix.width)
                # With the codes and columns that the whole table decided on.
                self.schema, codes, kept = encoder.finish()
                self._warn(encoder)
                changed = [(j, new) for j, new in enumerate(codes) if new is not None and j in kept]
                for first in range(0, len(X) if changed else 0, _BLOCK):
                    block = X[first : first + _BLOCK]
                    for j, new in changed:
                        block[:, j] = new[np.nan_to_num(block[:, j], nan=len(new) - 1).astype(np.int32)]
                X = X if len(kept) == X.shape[1] else np.ascontiguousarray(X[:, kept])
                if self.schema.text is not None:
                    X = np.concatenate([X, self._of_texts(parts)], axis=1)
            outline = parts.outline(self.schema)
        return outline.groups(X)

    def _of_texts(self, parts: _Parts) -> NDArray[np.float32]:
        """The features of texts; words are counted here where that was not done before."""
        from sklearn.base import clone

        from luce.data.text.transformer import texts_of

        text = self.schema.text
        assert text is not None
        columns = {name: parts.column(name) for name in text.columns}
        for name, column in columns.items():
            if type_name(column.coded.type) == "other":
                raise DataError(f"the column {name!r} holds lists or other values; a text is one string: join them.")
        found = {name: texts_of(column.texts()) for name, column in columns.items()}
        fields = {name: found[name] for name in text.fields}
        if not self._fixed:
            parts.warn_of_texts(text.query, found[text.query].rows)
            text = clone(text)
            self.schema = replace(self.schema, text=text)
            text.fit(None) if text.corpus is not None else text.learn(fields, parts.ids(text.doc))
        return text.of_texts(found[text.query], fields)

    def _warn(self, encoder: Encoder) -> None:
        said = []
        for column in self.schema.columns:
            left_out = column.role == LEFT_OUT
            if column.why in ("equal to the label", "the number of the row"):
                back = " and left out (features=, --features take it back)" if left_out else ""
                said.append(f"the column {column.name!r} is {column.why}{back}")
            elif column.why == LIKE_ID and not left_out:
                said.append(f"the column {column.name!r} is {LIKE_ID} (drop=, --drop leave it out)")
            elif column.why.startswith(DISGUISED):
                said.append(f"the column {column.name!r} holds {column.why}")
        said += [
            f"the column {name!r} is empty in all {encoder.rows:,} rows, and was not in the data before"
            for name in encoder.without_values()
        ]
        for name, (strange, values) in encoder.unknown().items():
            if strange == values >= FEW_ROWS:
                raise DataError(
                    f"None of the values of the column {name!r} was seen in the data before; is it another column?"
                )
            said.append(f"{strange:,} of {values:,} values of the column {name!r} were not seen in the data before")
        if said:
            where = f"{self.path}: " if self.path.name else ""
            warnings.warn(where + "; ".join(said) + ".", LuceWarning, stacklevel=4)

    def _encoder(self) -> Encoder:
        return Encoder(self.schema, fixed=self._fixed, allow_nan=self._allow_nan, automatic=self._automatic)

    def _batches(self, with_features: bool) -> Iterator[pa.RecordBatch]:
        roles = [column.name for column in self.schema.columns if column.role not in ("feature", "left out")]
        features = [column.name for column in self.schema.cells] if with_features else []
        return self._table.batches([*roles, *features], types=self._types, coded=self._coded)


def _csv_types(schema: Schema, arrow: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The type of a CSV column shows only at its end (1, 2, 0.5): numbers are float64, ids and categories text."""
    types = {}
    for column in schema.columns:
        if column.name not in arrow:
            continue
        found = arrow[column.name]
        if column.role in ("qid", "doc", "subtopics") or column.type in ("text", "category") or column.role == "text":
            types[column.name] = pa.string()
        elif column.type in ("number", "boolean") and not pa.types.is_boolean(found):
            types[column.name] = pa.float64()
        elif column.type != "other":
            types[column.name] = found
    return types


class _Parts:
    """What plays a part besides the features, batch by batch."""

    def __init__(self, table: Table, schema: Schema) -> None:
        self._table = table
        self._roles, texts = schema.roles, [] if schema.text is None else schema.text.columns
        self._names = list(dict.fromkeys([name for role, name in self._roles.items() if role != "label"] + texts))
        self._grades = next((dict(column.grades) for column in schema.columns if column.grades), None)
        self._kept: list[pa.RecordBatch] = []
        self._y: list[FloatArray] = []
        self.rows = 0
        self.labels: FloatArray | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take over a batch; `labels` are those of its rows."""
        self._kept.append(batch.select(self._names))
        if (label := self._roles.get("label")) is not None:
            self.labels = _labels(Rows(self._table, batch, self.rows)[label], self._grades)
            self._y.append(self.labels)
        self.rows += len(batch)

    def column(self, name: str) -> Column:
        """A column from end to end."""
        return Rows(self._table, pa.Table.from_batches([batch.select([name]) for batch in self._kept]))[name]

    def _coded(self, role: str) -> tuple[IntArray, NDArray[Any]]:
        return self.column(self._roles[role]).ids()

    def warn_of_texts(self, name: str, texts: IntArray) -> None:
        """Say it where a query has several texts: each row is compared with its own."""
        query = self._coded("qid")[0]
        several = len(np.unique(np.stack([query, texts]), axis=1).T) - len(np.unique(query))
        if several:
            warnings.warn(
                f"The text {name!r} differs within query ids ({several:,} texts more than ids); each row is compared "
                "with its own.",
                LuceWarning,
                stacklevel=6,
            )

    def ids(self, name: str | None) -> IntArray | None:
        """A number for every document, where a column has their ids."""
        return None if name is None or name != self._roles.get("doc") else self._coded("doc")[0]

    def outline(self, schema: Schema) -> Outline:
        """Everything but the features."""
        if not self.rows:
            raise DataError("the table has no rows; at least one document is needed.")
        query, ids = self._coded("qid")
        if ids.dtype.kind == "U":
            _warn_of_blanks(ids, self._roles["qid"])
        y = np.concatenate(self._y) if self._y else np.zeros(self.rows)
        documents = weight = about = None
        if "doc" in self._roles:
            documents = self.column(self._roles["doc"]).names()
        if "weight" in self._roles:
            weight = self.column(self._roles["weight"]).floats()
        if "subtopics" in self._roles:
            about = subtopic_matrix(self.column(self._roles["subtopics"]).array.to_pylist())
        names = tuple(column.name for column in schema.features)
        return outline_of_rows(y, query, ids, documents, names, weight, about)._replace(schema=schema)


def _labels(column: Column, grades: Mapping[str, float] | None) -> FloatArray:
    """Labels as numbers: themselves, or what the map gives for them."""
    kind = type_name(column.coded.type)
    if grades is not None or kind == "text":
        values = _text_labels(column.array, column.name, grades)
    elif kind in ("number", "boolean", "empty"):
        values = column.floats()
    else:
        held = "lists or other values" if kind == "other" else f"{kind}s"
        raise DataError(
            f"The label column {column.name!r} holds {held}; labels are numbers, higher is better: convert it first."
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise column.error(int(bad[0]), "is empty or not finite; a label must be a finite number.")
    return values


def _text_labels(array: pa.ChunkedArray, name: str, grades: Mapping[str, float] | None) -> FloatArray:
    """The number of every text, NaN where there is none; by value, not row by row."""
    from luce.data.text_files import number

    texts = as_text(array).dictionary_encode()
    words = texts.dictionary.to_pylist()
    found = [number(word) if grades is None else grades.get(word, np.nan) for word in words]
    strange = [word for word, value in zip(words, found, strict=True) if np.isnan(value)]
    if strange and grades is not None:
        raise DataError(
            f"The label {strange[0]!r} in the column {name!r} has no number in the label map, which has "
            f"{', '.join(map(repr, grades))}; add it."
        )
    if strange:
        offer = ",".join(f"{word}={grade}" for word, grade in offered_grades(words))
        raise DataError(
            f"The label column {name!r} holds text ({', '.join(map(repr, strange[:3]))}); labels are numbers, higher "
            f"is better: give each of its values one by label_map={{...}} in Python or --label-map {offer}."
        )
    places = texts.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(np.array(found, dtype=np.float64), np.nan)[places])


_SCALE = (
    ("irrelevant", "not relevant", "bad", "no", "false", "none"),
    ("poor", "weak", "marginal"),
    ("fair", "ok", "okay", "partial", "partially relevant", "maybe"),
    ("good", "relevant", "yes", "true"),
    ("very good", "great", "highly relevant", "excellent"),
    ("perfect", "exact", "ideal"),
)


def offered_grades(words: Sequence[str]) -> list[tuple[str, int | str]]:
    """Words of a usual scale with numbers from 0, the best first; any other word with a number to be filled in.

    >>> offered_grades(["bad", "good", "ok"])
    [('good', 2), ('ok', 1), ('bad', 0)]
    >>> offered_grades(["red", "bad"])
    [('red', 'NUMBER'), ('bad', 'NUMBER')]
    """
    place = {word: i for i, level in enumerate(_SCALE) for word in level}
    if not all(word.strip().lower() in place for word in words):
        return [(word, "NUMBER") for word in words[:6]]
    levels = sorted({place[word.strip().lower()] for word in words})
    best_first = sorted(words, key=lambda word: -place[word.strip().lower()])
    return [(word, levels.index(place[word.strip().lower()])) for word in best_first]


def _warn_of_blanks(ids: NDArray[Any], name: str) -> None:
    """Say so where ids are different only because of blanks around them."""
    known: dict[str, str] = {}
    for each in ids.tolist():
        if (first := known.setdefault(each.strip(), each)) != each:
            warnings.warn(
                f"The ids {first!r} and {each!r} of the column {name!r} differ in blanks alone and count as different "
                "queries; strip them if they are one.",
                LuceWarning,
                stacklevel=6,
            )
            return
