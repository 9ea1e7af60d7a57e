"""LETOR and SVMlight text: `read_letor` into memory, and `LetorFile`, which `luce convert` passes over twice.

The text is cut into blocks of whole lines, which the compiled parser (`letor_kernel`) reads on threads; what is wrong
with a line is said here.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.data.outline import GrowingMatrix, Outline, outline_of_rows
from luce.data.readers.letor_kernel import LARGEST, Form, Parsed, parse_lines
from luce.data.text_files import SUFFIXES, ByteStream, numbered_lines, open_text
from luce.errors import DataError, ParseError
from luce.numerics.segments import Chunk, map_chunks
from luce.numerics.threads import n_threads
from luce.settings import MAX_INDEX, LetorOptions
from luce.types import FloatArray, IntArray

_FORM = "`<label> qid:<query> <index>:<value> ...`"
_LONGEST_TOKEN = 40
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_NAN, _INFINITE = re.compile(rb"[+-]?nan", re.IGNORECASE), re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
_BLOCK = 1 << 21
_FIRST = 1 << 16
_LONGEST_LINE = 1 << 28
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\v\f\x1b"))

_LARGE, _THIN = 1 << 30, 10_000
"""Bytes of a matrix, and bytes of it for one of the text, beyond both of which a text is refused as too sparse."""


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
    return LetorFile(path, LetorOptions(absent, allow_nan, n_features, query_file, missing)).read()


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

    def add(self, text: NDArray[np.uint8], block: Parsed) -> None:
        """Take over what goes with the rows of a block."""
        self.y.append(block.y)
        self.run_starts.append(block.runs[:, 0] + self.rows)
        self.run_ids.append(cut_texts(text, block.runs[:, 1:]))
        self.documents.append(cut_texts(text, block.documents))
        self.has_documents |= bool(np.any(block.documents[:, 1] > block.documents[:, 0]))
        self.rows += len(block.y)


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
        return self._scan(GrowingMatrix(0, self.absent), whole=False)

    def read(self) -> Groups:
        """Everything, into memory."""
        matrix = GrowingMatrix(self.options.n_features or 0, self.absent)
        outline = self._scan(matrix, whole=True)
        return outline.groups(matrix.finish(outline.n_rows, outline.n_features))

    def blocks(self, width: int) -> Iterator[NDArray[np.float32]]:
        """Pass over the file for the features, batch by batch, in the order of the file."""
        matrix, columns, first = GrowingMatrix(width, self.absent), _Columns(width=width), 0
        for _ in self._passes(matrix, columns, whole=False):
            columns.y, columns.run_starts, columns.run_ids, columns.documents = [], [], [], []
            yield matrix.rows(0, columns.rows - first)
            first = columns.rows

    def _scan(self, matrix: GrowingMatrix, whole: bool) -> Outline:
        """Pass over the file: rows go to the matrix, everything else comes back."""
        columns = _Columns(width=self.options.n_features or 0)
        query_file = None
        for found in self._passes(matrix, columns, whole):
            query_file = found
        if columns.rows == 0:
            raise ParseError(self.path, f"the file is empty; expected lines {_FORM}.")
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

    def _passes(self, matrix: GrowingMatrix, columns: _Columns, whole: bool) -> Iterator[Path | None]:
        """Parse batch after batch; yields the side file of query sizes, where there is one.

        The `whole` matrix grows by the rows of each batch, and by columns; else it holds one batch at a time, and
        features beyond its width are only counted.
        """
        line, query_file = 0, None
        with open_text(self.path) as stream:
            for number, batch in enumerate(line_batches(stream)):
                if number == 0:
                    query_file = find_query_file(self.path, self.options.query_file, batch)
                line += self._batch(batch, line, query_file is None, matrix, columns, whole)
                yield query_file

    def _batch(
        self, batch: bytes, line: int, want_qid: bool, matrix: GrowingMatrix, columns: _Columns, whole: bool
    ) -> int:
        """Parse a batch of lines on threads; returns its number of lines."""
        text, blocks, first = np.frombuffer(batch, dtype=np.uint8), split_lines(batch), columns.rows if whole else 0
        starts = np.cumsum([0, *(batch.count(b"\n", *block) for block in blocks)])
        limit = self.options.n_features or MAX_INDEX
        form = Form(self.absent, limit, want_qid, self._missing, self._missing_ends)
        try:
            while True:  # and once more with more columns where a row is wider than all before it
                matrix.reserve(first + int(starts[-1]), first)
                X = matrix.rows(first, first + int(starts[-1]))
                rooms = [X[a:b] for a, b in pairwise(starts)]
                parsed = map_chunks(partial(parse_lines, batch, form, rooms), blocks)
                columns.width = max(columns.width, *(block.width for block in parsed))
                if columns.width <= matrix.width:
                    break
                needed = 4 * columns.width * int(starts[-1])
                if self.options.n_features is None and needed > max(_LARGE, _THIN * len(batch)):
                    raise DataError(
                        f"{starts[-1]:,} lines of {len(batch):,} bytes name feature {columns.width:,}, and a matrix of "
                        f"so many columns needs {needed / 2**30:,.1f} GB of memory, nearly all of it zeros; number the "
                        "features without gaps."
                    )
                if not whole:
                    break
                matrix.widen(columns.width, first)
        except DataError as error:  # a matrix beyond memory
            raise ParseError(self.path, str(error)) from error
        for i, block in enumerate(parsed):
            if block.wrong is not None:
                where, begin = line + int(starts[i]) + block.wrong[0], block.wrong[1]
                wrong = batch[begin : batch.index(b"\n", begin)]
                raise letor_error(self.path, where, wrong, want_qid, self._missing_words, limit)
        before = columns.rows
        for i, block in enumerate(parsed):
            rows, start, target = len(block.y), int(starts[i]), columns.rows - before
            if start != target:  # blank lines left a gap before this block
                X[target : target + rows] = X[start : start + rows]
            columns.add(text, block)
        return int(starts[-1])


def line_batches(stream: ByteStream) -> Iterator[bytes]:
    """Whole lines, each with its newline, a few blocks at a time.

    The first batch is short, so that it can tell how wide the rows are.
    """
    tail, size = b"", _FIRST
    first = True
    while data := stream.read(size):
        if first:
            if data[:4096].translate(None, _CONTROL) != data[:4096]:
                raise ParseError(stream.path, f"this is a binary file, not text; expected lines {_FORM}.")
            data = data.removeprefix(b"\xef\xbb\xbf")
            first = False
        cut = data.rfind(b"\n") + 1
        if cut == 0:
            tail += data
            if len(tail) > _LONGEST_LINE:
                raise ParseError(stream.path, f"a line is longer than {_LONGEST_LINE >> 20} MB; this is no LETOR text.")
            size = max(size, len(tail))  # doubles, so that a long line is not copied once a block
            continue
        yield b"".join((tail, memoryview(data)[:cut]))
        tail, size = data[cut:], _BLOCK * 4 * min(n_threads(), 8)
    if tail:
        yield tail + b"\n"


def split_lines(batch: bytes) -> list[Chunk]:
    """Cut a batch into blocks of about `_BLOCK` bytes that end with a newline.

    >>> split_lines(b"a\\nb\\n")
    [(0, 4)]
    """
    blocks, begin = [], 0
    while begin < len(batch):
        end = batch.index(b"\n", min(begin + _BLOCK, len(batch)) - 1) + 1
        blocks.append((begin, end))
        begin = end
    return blocks


def cut_texts(text: NDArray[np.uint8], spans: IntArray) -> NDArray[Any]:
    """The texts `text[start:stop]` of each (start, stop): bytes of fixed width, or objects where that would waste."""
    lengths = spans[:, 1] - spans[:, 0]
    width = max(int(lengths.max(initial=0)), 1)
    if width * len(spans) > 8 * int(lengths.sum()) + (1 << 20):
        return np.array([bytes(text[a:b]) for a, b in spans], dtype=object)
    place = np.arange(width)
    found = text.take(spans[:, :1] + place, mode="clip")
    found[place >= lengths[:, None]] = 0
    return np.asarray(found.view(f"S{width}")[:, 0])


def join_texts(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """All parts as one vector of str; the stream has checked that they are UTF-8."""
    widest = max((part.dtype.itemsize for part in parts if part.dtype != object), default=1)
    rows = sum(map(len, parts))
    waste = sum(part.nbytes for part in parts)
    if any(part.dtype == object for part in parts) or widest * rows > 8 * waste + (1 << 20):
        return np.array([t.decode() for part in parts for t in part.tolist()], dtype=object)
    joined = np.concatenate(parts).astype(f"S{widest}", copy=False)
    if joined.view(np.uint8).max(initial=0) < 128:
        return joined.astype(f"U{widest}")
    return np.char.decode(joined, "utf-8")


def find_query_file(path: Path, given: str | Path | None, batch: bytes) -> Path | None:
    """The file of query sizes: the one given, else `rank.train.query` for a `rank.train` without query ids."""
    if given is not None:
        return Path(given)
    rows = (line.partition(b"#")[0] for line in batch.split(b"\n"))
    if b"qid:" in next(filter(bytes.strip, rows), b""):
        return None
    plain = path.with_suffix("") if path.suffix in SUFFIXES else path
    candidates = (Path(f"{plain}.query{suffix}") for suffix in ("", *SUFFIXES))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def read_query_file(path: str | Path, data: str | Path, rows: int) -> IntArray:
    """Sizes of queries whose rows lie side by side; they must sum to the rows of the data."""
    sizes = []
    for line, text in ((line, text.strip()) for line, text in numbered_lines(path)):
        if not (text.isascii() and text.isdigit()) or len(text) > 15 or int(text) == 0:
            raise ParseError(path, f"the query size {text[:40]!r} is not a whole number of at least 1.", line)
        sizes.append(int(text))
    if sum(sizes) != rows:
        raise ParseError(
            path, f"the query sizes sum to {sum(sizes)}; {data} has {rows} documents, and both must agree."
        )
    return np.array(sizes, dtype=np.int64)


def letor_error(path: Path, line: int, text: bytes, want_qid: bool, missing: set[bytes], limit: int) -> ParseError:
    """The error of a line of which the kernel says that it is wrong, with file, what was found and what was expected.

    `limit` is the number of features where that was given, else `MAX_INDEX`.
    """
    token, message = next(_faults(text.partition(b"#")[0].split(), want_qid, missing, limit))
    shown = token.decode("utf-8", "backslashreplace")
    shown = repr(shown if len(shown) <= _LONGEST_TOKEN else shown[:_LONGEST_TOKEN] + "...")
    return ParseError(path, message.format(token=shown), line)


def _faults(tokens: list[bytes], want_qid: bool, missing: set[bytes], limit: int) -> Iterator[tuple[bytes, str]]:
    """(token, message) of everything that is wrong, from left to right."""
    label = tokens[0]
    if not (_NUMBER.fullmatch(label) or _NAN.fullmatch(label) or _INFINITE.fullmatch(label)):
        yield label, "the label {token} is not a number; expected `<label> qid:<query> <index>:<value> ...`."
    elif not math.isfinite(float(label)):
        yield label, "the label {token} is not finite; expected a finite number."
    seen: set[int] = set()
    qids = 0
    for token in tokens[1:]:
        if token[:1] == b"q" and token[:4].lower() == b"qid:":
            qids += 1
            if len(token) == len(b"qid:"):
                yield token, "`qid:` without a query; expected `qid:<query>`."
            if not want_qid:
                yield token, "{token} although a file of query sizes is used; expected one of the two."
            if qids > 1:
                yield token, "a second query id, {token}; expected one `qid:` a line."
        elif fault := _feature_fault(token, missing, limit, seen):
            yield token, fault
    if want_qid and not qids:
        yield b"", "no `qid:`; expected `<label> qid:<query> <index>:<value> ...`, or a file of query sizes."
    yield b"", "the line is not `<label> qid:<query> <index>:<value> ...`."


def _feature_fault(token: bytes, missing: set[bytes], limit: int, seen: set[int]) -> str | None:
    index, colon, value = token.partition(b":")
    if not colon or not index.isdigit():
        return "{token} is not a feature; expected `<index>:<value>` with a whole number as index."
    if int(index) == 0:
        return "{token} has the index 0; features are numbered from 1."
    if int(index) > limit:
        most = str(limit) if limit == MAX_INDEX else f"{limit}, as n_features says"
        return f"the index in {{token}} is too large; expected at most {most}."
    if value not in missing:
        if _NAN.fullmatch(value):
            return "the value in {token} is NaN; expected a number (allow_nan=True, --allow-nan admits NaN)."
        beyond = _NUMBER.fullmatch(value) and abs(float(value)) >= LARGEST
        if beyond or _INFINITE.fullmatch(value):
            return "the value in {token} is infinite or beyond float32; expected a finite number."
        if not _NUMBER.fullmatch(value):
            return "the value in {token} is not a number; expected `<index>:<number>`."
    if int(index) in seen:
        return "the feature of {token} occurs twice; expected each index at most once a line."
    seen.add(int(index))
    return None
