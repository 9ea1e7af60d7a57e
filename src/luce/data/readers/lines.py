"""A stream of bytes as batches of whole lines, so that a file of any length passes in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

from luce.data.readers.compressed import ByteStream
from luce.errors import ParseError
from luce.numerics.segments import Chunk, n_threads

_BLOCK = 1 << 21
_FIRST = 1 << 16
_LONGEST_LINE = 1 << 28
_BOM = b"\xef\xbb\xbf"
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\v\f\x1b"))


def line_batches(stream: ByteStream) -> Iterator[bytes]:
    """Whole lines, each with its newline, a few blocks at a time.

    The first batch is short, so that it can tell how wide the rows are.
    """
    tail, size = b"", _FIRST
    first = True
    while data := stream.read(size):
        if first:
            _check_text(stream, data[:4096])
            data = data.removeprefix(_BOM)
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


def _check_text(stream: ByteStream, head: bytes) -> None:
    if head.translate(None, _CONTROL) != head:
        raise ParseError(
            stream.path, "this is a binary file, not text; expected lines `<label> qid:<query> <index>:<value> ...`."
        )


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
