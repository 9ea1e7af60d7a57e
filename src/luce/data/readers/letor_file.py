"""A LETOR text file with its options, passed over once by `read_letor` and twice by `luce convert`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from luce.checks import is_whole, truth
from luce.data.outline import Outline, outline_of_rows
from luce.data.readers.compressed import open_text
from luce.data.readers.letor_errors import MAX_INDEX, letor_error
from luce.data.readers.letor_plain import Parsed, parse_plain
from luce.data.readers.lines import line_batches, split_lines
from luce.data.readers.side_files import find_query_file, read_query_file
from luce.data.readers.texts import cut_texts, join_texts
from luce.errors import DataError, ParseError, SettingError
from luce.numerics.segments import Chunk, map_chunks
from luce.types import FloatArray, IntArray

_SMALL = 7 << 20
"""Files up to this size are read without compiled code; it takes about a tenth of a second a megabyte."""


@dataclass(frozen=True)
class LetorOptions:
    """How the text is to be understood."""

    absent: Literal["zero", "nan"] = "zero"
    allow_nan: bool = False
    n_features: int | None = None
    query_file: str | Path | None = None
    missing: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.absent not in ("zero", "nan"):
            raise SettingError(f"absent is {self.absent!r}; it must be 'zero' or 'nan'.")
        truth("allow_nan", self.allow_nan)
        if self.n_features is not None and not is_whole(self.n_features, 1, MAX_INDEX):
            raise SettingError(
                f"n_features is {self.n_features!r}; it must be None or a whole number between 1 and {MAX_INDEX}."
            )
        if isinstance(self.missing, str) or any(not word or set(word) & set(" \t\n#") for word in self.missing):
            raise SettingError(f"missing is {self.missing!r}; it must be a list of words such as ('NULL',).")


class Sink(Protocol):
    """Where parsed rows go. A sink of width 0 takes none, and learns how wide they are."""

    @property
    def width(self) -> int:
        """Number of columns."""
        ...

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """Room for the rows `first` to `last`."""
        ...

    def widen(self, width: int, used: int) -> bool:
        """Ask for more columns; False leaves the features beyond the width out."""
        ...

    def keep(self, first: int, last: int) -> None:
        """The rows `first` to `last` are complete."""
        ...


class _WidthOnly:
    """Takes no rows: the first of two passes."""

    width = 0

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        return np.empty((last - first, 0), dtype=np.float32)

    def widen(self, width: int, used: int) -> bool:
        return False

    def keep(self, first: int, last: int) -> None: ...


class _OneBatch:
    """Keeps the rows of the current batch: the second of two passes."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.block = np.empty((0, width), dtype=np.float32)
        self._first = -1

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        if first != self._first:
            self._first, self.block = first, np.empty((last - first, self.width), dtype=np.float32)
        return self.block

    def widen(self, width: int, used: int) -> bool:
        return False

    def keep(self, first: int, last: int) -> None:
        self.block = self.block[: last - first]


@dataclass
class _Columns:
    """Everything but X, collected block by block."""

    rows: int = 0
    width: int = 0
    has_documents: bool = False
    y: list[FloatArray] = field(default_factory=list)
    run_starts: list[IntArray] = field(default_factory=list)
    run_ids: list[NDArray[Any]] = field(default_factory=list)
    documents: list[NDArray[Any]] = field(default_factory=list)


class LetorFile:
    """A text file with its options, ready to be passed over once or more."""

    def __init__(self, path: str | Path, options: LetorOptions) -> None:
        self.path = Path(path)
        self.options = options
        self.absent = np.nan if options.absent == "nan" else 0.0
        words = [word.encode() for word in options.missing]
        if options.allow_nan:
            letters = itertools.product(("", "+", "-"), "nN", "aA", "nN")
            words += ["".join(word).encode() for word in letters]
        self._missing_words = set(words)
        self._missing = np.frombuffer(b"".join(words), dtype=np.uint8)
        self._missing_ends = np.cumsum([len(word) for word in words], dtype=np.int64)

    def outline(self) -> Outline:
        """Pass over the file for everything but the features."""
        return self.scan(_WidthOnly())

    def blocks(self, width: int) -> Iterator[NDArray[np.float32]]:
        """Pass over the file for the features, batch by batch, in the order of the file."""
        sink = _OneBatch(width)
        columns = _Columns(width=width)
        for _ in self._passes(sink, columns):
            columns.y, columns.run_starts, columns.run_ids, columns.documents = [], [], [], []
            yield sink.block

    def scan(self, sink: Sink) -> Outline:
        """Pass over the file: rows go to the sink, everything else comes back."""
        columns = _Columns(width=self.options.n_features or 0)
        query_file = None
        for found in self._passes(sink, columns):
            query_file = found
        if columns.rows == 0:
            raise ParseError(self.path, "the file is empty; expected lines `<label> qid:<query> <index>:<value> ...`.")
        if columns.width == 0:
            raise ParseError(self.path, "no line has a feature; expected `<index>:<value>` after label and qid.")
        y = np.concatenate(columns.y)
        documents = join_texts(columns.documents) if columns.has_documents else None
        columns.documents.clear()
        names = tuple(str(i + 1) for i in range(columns.width))
        if query_file is not None:
            sizes = read_query_file(query_file, self.path, columns.rows)
            offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            return Outline(y, offsets, np.arange(len(sizes)), documents, None, names, None)
        starts = np.concatenate(columns.run_starts)
        ids, codes = np.unique(join_texts(columns.run_ids), return_inverse=True)
        query = np.repeat(codes.astype(np.int64), np.diff(np.append(starts, columns.rows)))
        return outline_of_rows(y, query, ids, documents, names)

    def _passes(self, sink: Sink, columns: _Columns) -> Iterator[Path | None]:
        """Parse batch after batch; yields the side file of query sizes, where there is one."""
        line, query_file = 0, None
        with open_text(self.path) as stream:
            for number, batch in enumerate(line_batches(stream)):
                if number == 0:
                    query_file = find_query_file(self.path, self.options.query_file, batch)
                small = number <= 1 and len(batch) <= _SMALL  # the first batch is short, and the second the rest
                line += self._batch(batch, line, query_file is None, small, sink, columns)
                yield query_file

    def _batch(self, batch: bytes, line: int, want_qid: bool, small: bool, sink: Sink, columns: _Columns) -> int:
        """Parse a batch of lines on threads; returns its number of lines."""
        text = np.frombuffer(batch, dtype=np.uint8)
        blocks = split_lines(batch)
        starts = np.cumsum([0, *(batch.count(b"\n", *block) for block in blocks)])
        try:
            X, parsed = self._fill(batch, blocks, starts, want_qid, small, sink, columns)
        except DataError as error:  # a matrix beyond memory
            raise ParseError(self.path, str(error)) from error
        for i, block in enumerate(parsed):
            if block.wrong is not None:
                where, begin = line + int(starts[i]) + block.wrong[0], block.wrong[1]
                wrong, limit = batch[begin : batch.index(b"\n", begin)], self.options.n_features or MAX_INDEX
                raise letor_error(self.path, where, wrong, want_qid, self._missing_words, limit)
        first = columns.rows
        for i, block in enumerate(parsed):
            self._collect(text, block, X, int(starts[i]), first, columns)
        sink.keep(first, columns.rows)
        return int(starts[-1])

    def _fill(
        self,
        batch: bytes,
        blocks: list[Chunk],
        starts: IntArray,
        want_qid: bool,
        small: bool,
        sink: Sink,
        columns: _Columns,
    ) -> tuple[NDArray[np.float32], list[Parsed]]:
        """Parse, and parse again with more columns where a row is wider than all before it."""
        while True:
            X = sink.rows(columns.rows, columns.rows + int(starts[-1]))
            parsed = self._parse(batch, blocks, X, starts, want_qid, small)
            columns.width = max(columns.width, *(block.width for block in parsed))
            if columns.width <= sink.width or not sink.widen(columns.width, columns.rows):
                return X, parsed

    def _parse(
        self, batch: bytes, blocks: list[Chunk], X: NDArray[np.float32], starts: IntArray, want_qid: bool, small: bool
    ) -> list[Parsed]:
        limit = self.options.n_features or MAX_INDEX

        def parse(i: int, block: Chunk) -> Parsed:
            place = batch, block, X[starts[i] : starts[i + 1]], self.absent, want_qid, limit
            plain = parse_plain(*place) if small else None
            if plain is not None:
                return plain
            from luce.data.readers.letor_kernel import parse_compiled  # Numba is loaded where it is needed

            return parse_compiled(*place, self._missing, self._missing_ends)

        return map_chunks(parse, blocks)

    def _collect(
        self, text: NDArray[np.uint8], block: Parsed, X: NDArray[np.float32], start: int, first: int, columns: _Columns
    ) -> None:
        """Close the gap that blank lines left before this block, and take over what goes with its rows."""
        rows, target = len(block.y), columns.rows - first
        if start != target:
            X[target : target + rows] = X[start : start + rows]
        columns.y.append(block.y)
        columns.run_starts.append(block.runs[:, 0] + columns.rows)
        columns.run_ids.append(cut_texts(text, block.runs[:, 1:]))
        columns.documents.append(cut_texts(text, block.documents))
        columns.has_documents |= bool(np.any(block.documents[:, 1] > block.documents[:, 0]))
        columns.rows += rows
