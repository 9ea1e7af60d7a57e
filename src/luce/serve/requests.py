"""How the bytes of a request become rows of features; `schema` describes what a client may ask.

Whatever is wrong is said at the first place, so that no body takes long to refuse. Rows that hold numbers alone, which
nearly all do, become one array at once; the others are read item by item.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from luce.serve.errors import Refused
from luce.serve.settings import Limits
from luce.serve.words import Words, invalid, shown

_LARGEST = float(np.finfo(np.float32).max)
_NUMBERS = {float, int, type(None)}
_KEYS = ("documents", "features", "ids", "top", "probabilities")
_SIGNS = (b",", b":", b"[", b"{")
_FEW = 100_000
"""So many values need no counting."""


class _Options(NamedTuple):
    top: int | None
    top_k: int | None
    pairs: bool


@dataclass(frozen=True)
class Ask:
    """A request understood: one row of features a document, NaN where one is missing."""

    X: NDArray[np.float32]
    ids: list[str | int]
    top: int | None
    top_k: int | None
    pairs: bool


def parse(
    body: bytes,
    names: Sequence[str],
    takes_missing: bool,
    limits: Limits,
    codes: Mapping[str, Mapping[str, int]] | None = None,
    types: Mapping[str, str] | None = None,
) -> Ask:
    """Read a request for a model with features `names`; whatever is wrong raises `Refused`.

    `codes` are those of categories, by feature and name; one that the model does not know has the code after the last.
    `types` are those of the columns that the model was trained on: dates may then be texts, and booleans true or false.
    """
    words = Words(codes or {}, types or {})
    _check_values(body, len(names), limits)
    request = _object(_json(body))
    _check_keys(body, request)
    options = _options(request)
    ids, rows = _rows(request, names, limits, words, any(word in body for word in (b"true", b"false", b"null")))
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise Refused(
            422,
            "document_twice",
            f"Two documents have the id {twice!r}, and the answer names documents by it; give each its own, or leave "
            "all ids out.",
        )
    words.check_dates(rows, ids, names)
    return Ask(_checked(rows, ids, names, takes_missing), ids, *options)


def _check_values(text: bytes, features: int, limits: Limits) -> None:
    """Refuse, before anything is made of it, a text with more values than the documents of a request have.

    A value of two bytes takes forty times its place in memory; two bytes it has at least, with the comma before it.
    """
    most = max(_FEW, limits.documents * (2 * features + 8))
    if len(text) > 2 * most and sum(map(text.count, _SIGNS)) > most and _outside(text, b"".join(_SIGNS)) > most:
        raise Refused(
            413,
            "too_many_values",
            f"The body has more values than {limits.documents} documents of {features} features, the most that this "
            "service takes; send fewer.",
        )


def _outside(text: bytes, signs: bytes) -> int:
    """How many of these signs stand outside of strings.

    >>> _outside(orjson.dumps({"a:" + chr(92): [1, 2], 'b"': 3}), b":,")
    4
    """
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    codes = np.frombuffer(text, dtype=np.uint8)
    wanted = np.zeros(256, dtype=bool)
    wanted[list(signs)] = True
    count, open_ = 0, False
    for start in range(0, len(codes), 1 << 20):  # in parts, so that a large body is not held several times
        part = codes[start : start + (1 << 20)]
        inside = np.logical_xor.accumulate(part == ord('"')) ^ open_
        count += int(np.count_nonzero(wanted[part] & ~inside))
        open_ = bool(inside[-1])
    return count


def _json(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Refused(400, "invalid_json", f"The body is not JSON: {error}.") from None


def _check_keys(text: bytes, request: Mapping[str, Any]) -> None:
    """Refuse a text where an object has a key twice, of which two readers might take one each.

    Every key has a colon, and others stand in strings only.
    """
    documents = request.get("documents")
    listed = documents if isinstance(documents, list) else []
    inner = [one for document in listed if type(document) is dict for one in (document, document.get("features"))]
    quick = len(request) + sum(len(one) for one in (*inner, request.get("probabilities")) if type(one) is dict)
    colons = text.count(b":")
    # Of a request that is not as it must be, and where strings hold colons, all keys are counted.
    if colons != quick and colons != (pairs := _pairs(request)) and _outside(text, b":") != pairs:
        raise Refused(400, "invalid_json", "An object of the body has a key twice; give each key once.")


def _pairs(value: Any) -> int:
    """Keys with values in all objects of a JSON value."""
    waiting: list[Any] = [[value]]
    count = 0
    while waiting:
        inner: Any = waiting.pop()
        if type(inner) is dict:
            count += len(inner)
            inner = inner.values()
        waiting += [one for one in inner if type(one) is dict or type(one) is list]
    return count


def _object(request: Any) -> dict[str, Any]:
    if not isinstance(request, dict):
        raise invalid("The body must be a JSON object with `documents` or `features`.")
    return request


def _options(request: Mapping[str, Any]) -> _Options:
    """What is asked for beside the documents."""
    _only(request, _KEYS, "The body")
    wanted = request.get("probabilities", {})
    if not isinstance(wanted, dict):
        raise invalid(f"probabilities is {shown(wanted)}; it must be an object with top_k or pairs.")
    _only(wanted, ("top_k", "pairs"), "probabilities")
    top, top_k, pairs = request.get("top"), wanted.get("top_k"), wanted.get("pairs", False)
    for name, value in (("top", top), ("probabilities.top_k", top_k)):
        if value is not None and (type(value) is not int or value < 1):
            raise invalid(f"{name} is {shown(value)}; it must be a whole number of at least 1.")
    if type(pairs) is not bool:
        raise invalid(f"probabilities.pairs is {shown(pairs)}; it must be true or false.")
    return _Options(top, top_k, pairs)


def _only(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    unknown = next((key for key in given if key not in known), None)
    if unknown is not None:
        raise invalid(f"{what} has the key {shown(unknown)}, which is not known; there are {', '.join(known)}.")


def _rows(
    request: Mapping[str, Any], names: Sequence[str], limits: Limits, words: Words, odd: bool
) -> tuple[list[str | int], NDArray[np.float64]]:
    """Ids and features of the documents."""
    documents, features = request.get("documents"), request.get("features")
    if (documents is None) == (features is None):
        raise invalid("Give either documents, or features as a matrix; one of the two.")
    listed = features if documents is None else documents
    key = "features" if documents is None else "documents"
    if not isinstance(listed, list):
        raise invalid(f"{key} is {shown(listed)}; it must be a list.")
    _check_count(len(listed), limits)
    if documents is None:
        ids = _ids(request.get("ids"), len(listed))
    else:
        if request.get("ids") is not None:
            raise invalid("ids go with a matrix of features; documents carry their own id.")
        ids = [_checked_document(document, i) for i, document in enumerate(documents)]
        listed = [document["features"] for document in documents]
    found = _at_once(listed, names, documents is not None, odd)
    if found is not None:
        for i in np.flatnonzero([len(row) < len(names) for row in listed])[:1]:
            _check_named(listed[i], ids[i], names, limits)
        words.check_codes(found, ids, names)
        return ids, found
    where = {name: i for i, name in enumerate(names)}
    rows = np.full((len(listed), len(names)), np.nan)
    for i, (row, document, values) in enumerate(zip(rows, ids, listed, strict=True)):
        place = f"{key}.{i}" if documents is None else f"{key}.{i}.features"
        if isinstance(values, dict) and documents is not None:
            unknown = next((name for name in values if name not in where), None)
            if unknown is not None:
                raise Refused(
                    422,
                    "unknown_feature",
                    f"Document {document!r} has a feature {shown(unknown)}, which the "
                    "model does not know; GET /models lists its features.",
                )
            words.check_numbers(values, document)
            said = {name: value for name, value in values.items() if type(value) in (str, bool)}
            known = values | {name: words.number(value, name, document) for name, value in said.items()}
            row[[where[name] for name in known]] = _floats(known.values(), place, list(known))
            _check_named(values, document, names, limits)
        elif not isinstance(values, list):
            allowed = "a list of numbers" if documents is None else "a list of numbers or an object by name"
            raise invalid(f"{place} is {shown(values)}; it must be {allowed}.")
        elif len(values) != len(names):
            raise _wrong_width(document, len(values), len(names))
        else:
            words.check_numbers(dict(zip(names, values, strict=True)), document)
            row[:] = _floats(values, place, range(len(values)))
    return ids, rows


def _at_once(listed: list[Any], names: Sequence[str], by_name: bool, odd: bool) -> NDArray[np.float64] | None:
    """All rows as one array; None unless all are lists of numbers and null, or objects of those with the same names.

    >>> _at_once([{"b": 1}, {"b": None}], ["a", "b"], True, True)
    array([[nan,  1.],
           [nan, nan]])
    """
    given = list(names)
    if by_name and all(type(row) is dict for row in listed):
        given = list(listed[0])
        if not set(given) <= set(names) or any(row.keys() != listed[0].keys() for row in listed):
            return None
        listed = [[row[name] for name in given] for row in listed]
    if any(type(row) is not list or len(row) != len(given) for row in listed):
        return None
    values = _numbers(listed, odd)
    if values is None or given == list(names):
        return values
    where = {name: i for i, name in enumerate(names)}
    rows = np.full((len(listed), len(names)), np.nan)
    rows[:, [where[name] for name in given]] = values
    return rows


def _numbers(rows: list[list[Any]], odd: bool) -> NDArray[np.float64] | None:
    """Rows of numbers as an array, NaN for null; None where there is anything else, or a number beyond all range.

    `odd` says that there may be null or truth values among them, which a plain array would not take, or take for 1.
    """
    try:
        if odd:
            known = set(map(type, chain.from_iterable(rows))) <= _NUMBERS
            return np.array(rows, dtype=np.float64) if known else None
        flat = array("d")
        for row in rows:
            flat.fromlist(row)
        return np.frombuffer(flat).reshape(len(rows), len(rows[0]))
    except (TypeError, OverflowError):
        return None


def _checked_document(document: Any, position: int) -> str | int:
    """The name of a document that has the right keys."""
    if not isinstance(document, dict) or "features" not in document:
        raise invalid(f"documents.{position} must be an object with features.")
    _only(document, ("id", "features"), f"documents.{position}")
    name = document.get("id")
    return position if name is None else _checked_id(name, f"documents.{position}.id")


def _checked_id(name: Any, place: str) -> str | int:
    if type(name) is not str and type(name) is not int:
        raise invalid(f"{place} is {shown(name)}; it must be a text or a whole number.")
    return name


def _check_named(given: Collection[str], document: str | int, names: Sequence[str], limits: Limits) -> None:
    """Refuse a document that leaves out features, unless the service allows it: a typing error looks the same."""
    if limits.missing_features or len(given) >= len(names):
        return
    left_out = next(name for name in names if name not in given)
    raise Refused(
        422,
        "missing_feature",
        f"Document {document!r} leaves out the feature {left_out!r}; give its value, null where it is unknown and the "
        "model takes missing values, or serve with --missing-features.",
    )


def _floats(values: Collection[Any], place: str, keys: Sequence[str | int]) -> list[float]:
    """Numbers, NaN for null; an error names the first that is none."""
    if not set(map(type, values)) <= _NUMBERS:
        key, wrong = next((k, v) for k, v in zip(keys, values, strict=True) if type(v) not in _NUMBERS)
        raise invalid(f"{place}.{key} is {shown(wrong)}; it must be a number or null.")
    return [np.nan if value is None else value for value in values]


def _checked(
    rows: NDArray[np.float64], ids: Sequence[str | int], names: Sequence[str], takes_missing: bool
) -> NDArray[np.float32]:
    if not takes_missing and (missing := np.isnan(rows)).any():
        i, j = np.argwhere(missing)[0]
        raise Refused(
            422,
            "missing_feature",
            f"Document {ids[i]!r} has no value of feature {names[j]!r}, and this "
            "model takes no missing values; give one.",
        )
    if (outside := np.abs(rows) > _LARGEST).any():
        i, j = np.argwhere(outside)[0]
        raise Refused(
            422,
            "feature_too_large",
            f"Document {ids[i]!r} has {rows[i, j]:g} as feature {names[j]!r}; features must be within {_LARGEST:.3g}.",
        )
    return rows.astype(np.float32)


def _ids(given: Any, count: int) -> list[str | int]:
    if given is None:
        return list(range(count))
    if not isinstance(given, list):
        raise invalid(f"ids is {shown(given)}; it must be a list.")
    if len(given) != count:
        raise invalid(f"There are {len(given)} ids for {count} rows of features; give one each.")
    return [_checked_id(name, f"ids.{i}") for i, name in enumerate(given)]


def _check_count(count: int, limits: Limits) -> None:
    if count == 0:
        raise Refused(422, "no_documents", "There are no documents to rank; give at least one.")
    if count > limits.documents:
        raise Refused(
            413,
            "too_many_documents",
            f"The request has {count} documents and this service takes {limits.documents}; send fewer.",
        )


def _wrong_width(document: str | int, given: int, expected: int) -> Refused:
    return Refused(
        422,
        "wrong_number_of_features",
        f"Document {document!r} has {given} features and the model takes {expected}; GET /models lists them.",
    )
