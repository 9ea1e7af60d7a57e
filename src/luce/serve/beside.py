"""What a request brings beside features: texts, scores of another system, relations; and bodies of Arrow."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.serve.errors import Refused, invalid, shown
from luce.serve.settings import Limits
from luce.types import FloatArray

if TYPE_CHECKING:
    from scipy import sparse

    from luce.data.text.transformer import Text

ARROW = ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file")
_DICTIONARY = 2


class Also(NamedTuple):
    """What a model takes beside features."""

    text: Text | None = None
    scores: bool = False
    """Whether it adds to scores of another system."""
    relations: bool = False
    """Whether it may look at relations between documents."""


def text_features(
    query: Any, texts: Mapping[str, Sequence[Any]], ids: Sequence[Any], text: Text, limits: Limits
) -> NDArray[np.float32]:
    """The features of the texts of documents, one list a field; null is an empty text."""
    from luce.data.text.features import Texts

    if not isinstance(query, str):
        what = "is missing" if query is None else f"is {shown(query)}"
        raise invalid(f"query {what}; this model compares texts: give that of the query, {text.query}, once.")
    _check_length(query, "The query", limits.query_characters)
    columns = {}
    for name in text.fields:
        values = ["" if value is None else value for value in texts[name]]
        for value, document in zip(values, ids, strict=True):
            if not isinstance(value, str):
                raise invalid(f"Document {document!r} has {shown(value)} as text {name!r}; it must be a text.")
            _check_length(value, f"The text {name!r} of document {document!r}", limits.text_characters)
        columns[name] = Texts.of(values)
    return text.of_texts(Texts([query], np.zeros(len(ids), dtype=np.int64)), columns)


def _check_length(value: str, what: str, most: int) -> None:
    if len(value) > most:
        said = f"{what} has {len(value):,} characters and this service takes {most:,}; send fewer."
        raise Refused(413, "text_too_long", said)


def texts_of_documents(
    documents: Sequence[Any], ids: Sequence[Any], text: Text, limits: Limits
) -> dict[str, list[Any]]:
    """The texts of documents by field; one that is left out is refused, unless features may be left out."""
    found: dict[str, list[Any]] = {name: [] for name in text.fields}
    for document, name in zip(documents, ids, strict=True):
        given = document.get("text", {})
        if not isinstance(given, dict):
            raise invalid(f"Document {name!r} has {shown(given)} as text; it must be an object from fields to texts.")
        check_fields(given, f"Document {name!r}", text, limits)
        for field, values in found.items():
            values.append(given.get(field))
    return found


def check_fields(given: Mapping[str, Any], what: str, text: Text, limits: Limits) -> None:
    """Refuse fields that the model does not know, and those that are left out."""
    if given.keys() == set(text.fields):
        return
    unknown = next((field for field in given if field not in text.fields), None)
    if unknown is not None:
        known = ", ".join(text.fields)
        raise invalid(f"{what} has a text {shown(unknown)}, which the model does not know; there are {known}.")
    absent = next((field for field in text.fields if field not in given), None)
    if absent is not None and not limits.missing_features:
        said = f"{what} leaves out the text {absent!r}; give it, an empty one where there is none"
        raise Refused(422, "missing_text", f"{said}, or serve with --missing-features.")


def base_scores(given: Sequence[Any] | None, ids: Sequence[Any], also: Also) -> FloatArray | None:
    """The scores of another system that a model adds to: one a document, or none at all."""
    if given is None or not also.scores:
        if also.scores:
            raise invalid("This model adds to scores of another system; give the score of every document.")
        if given is not None:
            raise invalid("This model adds to no scores of another system; leave score out.")
        return None
    if len(given) != len(ids):
        raise invalid(f"There are {len(given)} scores for {len(ids)} documents; give one each.")
    for value, document in zip(given, ids, strict=True):
        if type(value) not in (int, float) or not np.isfinite(value):
            raise invalid(f"Document {document!r} has {shown(value)} as score; it must be a number.")
    return np.array(given, dtype=np.float64)


def relations(given: Any, ids: Sequence[Any], also: Also) -> dict[str, sparse.csr_array]:
    """Relations between documents: by name a list of [document, document, weight]."""
    from scipy import sparse

    if given is None:
        return {}
    if not also.relations:
        raise invalid("This model looks at no relations between documents; leave relations out.")
    if not isinstance(given, dict):
        raise invalid(f"relations is {shown(given)}; it must be an object from names to lists.")
    place, found = {name: i for i, name in enumerate(ids)}, {}
    for name, links in given.items():
        if not isinstance(links, list):
            raise invalid(f"relations.{name} is {shown(links)}; it must be a list of [document, document, weight].")
        for i, link in enumerate(links):
            whole = isinstance(link, list) and len(link) == 3 and type(link[2]) in (int, float)
            if not whole or type(link[0]) not in (str, int) or type(link[1]) not in (str, int):
                raise invalid(f"relations.{name}.{i} must be [document, document, weight].")
            stranger = next((one for one in link[:2] if one not in place), None)
            if stranger is not None:
                raise invalid(f"relations.{name}.{i} names {shown(stranger)}, which is no document of the request.")
        rows, columns = ([place[link[side]] for link in links] for side in (0, 1))
        weights = np.array([link[2] for link in links], dtype=np.float64)
        found[name] = sparse.csr_array((weights, (rows, columns)), shape=(len(ids), len(ids)))
    return found


def read_arrow(body: bytes) -> dict[str, list[Any] | NDArray[np.float64]]:
    """The columns of a table of Arrow: numbers as an array, NaN for null, and anything else as a list."""
    import pyarrow as pa

    try:
        if body[:6] == b"ARROW1":
            body = body[8:]  # a file is a stream between two marks, with an index behind it
        stream = pa.BufferReader(body)
        _refuse_packed(pa.ipc.MessageReader.open_stream(stream))
        stream.seek(0)
        table = pa.ipc.open_stream(stream).read_all()
        table.validate(full=True)
        return {name: _values(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        raise Refused(400, "invalid_arrow", f"The body is no table of Arrow: {' '.join(str(error).split())}.") from None


def _refuse_packed(messages: Any) -> None:
    """Refuse buffers that are packed, whose size is not known before they are unpacked."""
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        if message.type in ("record batch", "dictionary") and _is_packed(message.metadata.to_pybytes()):
            raise Refused(415, "packed_body", "The buffers of the table are packed; send them without compression.")


def _is_packed(message: bytes) -> bool:
    """Whether the header of a batch names a compression: the fourth field of its table, in the format of Arrow."""

    def follow(table: int, slot: int) -> int:
        layout = table - struct.unpack_from("<i", message, table)[0]
        size = struct.unpack_from("<H", message, layout)[0]
        place = struct.unpack_from("<H", message, layout + 4 + 2 * slot)[0] if size > 4 + 2 * slot else 0
        return table + place if place else 0

    root = struct.unpack_from("<I", message, 0)[0]
    kind, header = message[follow(root, 1)], follow(root, 2)
    batch = header + struct.unpack_from("<I", message, header)[0]
    if kind == _DICTIONARY:
        header = follow(batch, 1)
        batch = header + struct.unpack_from("<I", message, header)[0]
    return bool(follow(batch, 3))


def _values(column: Any) -> list[Any] | NDArray[np.float64]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column.cast(pa.float64(), safe=False).to_numpy()
    return [value.isoformat() if isinstance(value, date) else value for value in column.to_pylist()]
