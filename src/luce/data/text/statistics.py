"""What is known of a corpus, by field and view: in how many documents terms stand, how many documents and tokens.

They are what Lucene takes from an index: documents without a token of the view do not count, and a term counts once a
document. A term that is not known has the frequency 1: in an engine, the document that it stands in has it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from luce.data.text.analyzer import Tokens
from luce.errors import DataError
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray

MOST_TERMS, MOST_BYTES = 20_000_000, 1 << 29
"""What a model file may hold of one field and view."""


@kernel
def _frequencies(ids, offsets, found):  # type: ignore[no-untyped-def]
    """Count each term once a document."""
    last = np.full(len(found), -1, dtype=np.int64)
    for document in range(len(offsets) - 1):
        for place in range(offsets[document], offsets[document + 1]):
            term = ids[place]
            if last[term] != document:
                last[term] = document
                found[term] += 1


@dataclass(frozen=True)
class Frequencies:
    """The statistics of one field and view."""

    documents: int
    tokens: int
    counts: Mapping[str, int]
    """In how many documents a term stands."""

    @classmethod
    def learn(cls, tokens: Tokens, terms: Sequence[str], min_df: int) -> Frequencies:
        """Those of documents; terms of fewer than `min_df` of them are forgotten."""
        found = np.zeros(len(terms), dtype=np.int64)
        _frequencies(tokens.ids, tokens.offsets, found)
        kept = np.flatnonzero(found >= max(min_df, 1)).tolist()
        counts = {terms[i]: n for i, n in zip(kept, found[kept].tolist(), strict=True)}
        return cls(int(np.count_nonzero(tokens.lengths)), len(tokens.ids), dict(sorted(counts.items())))

    @property
    def mean_length(self) -> float:
        """Tokens a document; 1 where there are none."""
        return self.tokens / self.documents if self.tokens else 1.0

    def idf(self, terms: Sequence[str]) -> FloatArray:
        """ln(1 + (N - n + .5) / (n + .5)) of every term."""
        n = np.fromiter((self.counts.get(term, 1) for term in terms), np.float64, len(terms))
        return np.log1p((np.maximum(self.documents, n) - n + 0.5) / (n + 0.5))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: terms and counts packed."""
        import pyarrow as pa

        raw = "\n".join(self.counts).encode() + b"\0" + np.fromiter(self.counts.values(), "<u4").tobytes()
        packed = pa.compress(raw, codec="zstd", asbytes=True)
        sizes = {"terms": len(self.counts), "bytes": len(raw)}
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            **sizes,
            "packed": base64.b64encode(packed).decode(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Frequencies:
        """What `to_dict` gave, within limits; anything else is a `DataError`."""
        import pyarrow as pa

        damaged = "what it knows of the words of its corpus is damaged"
        try:
            sizes = [record[name] for name in ("documents", "tokens", "terms", "bytes")]
            if not all(type(size) is int and 0 <= size < 2**48 for size in sizes):
                raise DataError(damaged)
            if sizes[2] > MOST_TERMS or sizes[3] > MOST_BYTES:
                raise DataError(f"its corpus has {sizes[2]:,} terms of {sizes[3]:,} bytes, more than a model may have")
            packed = base64.b64decode(record["packed"], validate=True)
            raw = pa.decompress(packed, decompressed_size=sizes[3], codec="zstd", asbytes=True)
            text, _, rest = raw.partition(b"\0")
            terms, counts = text.decode().split("\n") if text else [], np.frombuffer(rest, "<u4").tolist()
        except (KeyError, TypeError, ValueError, UnicodeError, binascii.Error, pa.ArrowException, OSError) as error:
            raise DataError(damaged) from error
        if not len(terms) == len(counts) == sizes[2] == len(set(terms)) or any(n > sizes[0] for n in counts):
            raise DataError(damaged)
        return cls(sizes[0], sizes[1], dict(zip(terms, counts, strict=True)))


def stored_length(length: IntArray) -> IntArray:
    """The length of a document as Lucene keeps it in a byte: exact to 39, then with four significant bits.

    >>> stored_length(np.array([0, 39, 40, 41, 100, 1000])).tolist()
    [0, 39, 40, 40, 96, 984]
    """
    above = np.maximum(length - 24, 0)
    shift = np.maximum(np.frexp(above.astype(np.float64))[1] - 4, 0)
    return np.where(length < 24, length, 24 + (above >> shift << shift))
