"""How the bytes of a request become rows of features: its form, as OpenAPI shows it, and what values mean to a model.

Whatever is wrong is said at the first place, so that no body takes long to refuse. Rows that hold numbers alone, which
nearly all do, become one array at once; texts and truth values of others are looked up first.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Annotated, Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from luce.serve.errors import Refused
from luce.serve.settings import Limits

_LARGEST = float(np.finfo(np.float32).max)
_NUMBERS = {float, int, type(None)}
_SIGNS = (b",", b":", b"[", b"{")
_FEW = 100_000
"""So many values need no counting."""
_LAST_DAY = 2_932_896
"""9999-12-31."""

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)] | None
Id = str | int


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Document(_Strict):
    """One document: a list of all its features in the order of the model, or an object of features by name."""

    id: StrictStr | StrictInt | None = Field(
        default=None, description="Name of the document; its position where there is none."
    )
    features: list[Number] | dict[str, Number | StrictStr | bool] = Field(
        description="null is a missing value; a category is given by its name, a date as 2026-11-16."
    )


class WantedProbabilities(_Strict):
    """Probabilities to answer with; the model's loss must be a likelihood that has them."""

    top_k: int | None = Field(default=None, ge=1, description="Chance of being among the first k.")
    pairs: bool = Field(default=False, description="Chances of every pair: better, tied.")


class RankRequest(_Strict):
    """Documents of one query, as `documents`, or as a matrix of `features` with `ids` beside it (quicker to read)."""

    documents: list[Document] | None = None
    features: list[list[Number]] | None = None
    ids: list[StrictStr | StrictInt] | None = None
    top: int | None = Field(default=None, ge=1, description="Answer with the best so many only.")
    probabilities: WantedProbabilities = WantedProbabilities()


@dataclass(frozen=True)
class Ask:
    """A request understood: one row of features a document, NaN where one is missing."""

    X: NDArray[np.float32]
    ids: list[Id]
    top: int | None
    top_k: int | None
    pairs: bool


class Words(NamedTuple):
    """The features of a model, and what texts and truth values mean to it.

    `codes` are those of categories, by feature and name; one that the model does not know has the code after the last.
    `types` are those of the columns that the model was trained on: dates may then be texts, and booleans true or false.
    """

    names: Sequence[str]
    codes: Mapping[str, Mapping[str, int]]
    types: Mapping[str, str]

    def number(self, value: str | bool, feature: str, document: Id) -> float:
        """A category's code, a date in days since 1970-01-01 UTC, 0 or 1 for a truth value."""
        type_ = self.types.get(feature, "number")
        if isinstance(value, bool):
            if type_ == "boolean":
                return float(value)
        elif feature in self.codes:
            return self.codes[feature].get(value, len(self.codes[feature]))
        elif type_ == "date":
            return _days(value, feature, document)
        wanted = {"boolean": "true or false", "date": "a date such as '2026-11-16'"}.get(type_, "a number")
        raise _invalid(f"Document {document!r} has {_shown(value)} as feature {feature!r}; it must be {wanted}.")

    def check_codes(self, rows: list[list[Any]], ids: list[Id]) -> None:
        """Refuse a number for a category: it would be taken for a code, which nobody outside the model knows."""
        for column, name in enumerate(self.names):
            for document, row in zip(ids, rows, strict=True) if name in self.codes else ():
                if type(row[column]) in (int, float):
                    what = f"Document {document!r} has {row[column]:g} as feature {name!r}, a category"
                    raise _invalid(f"{what}; give documents by name, and categories as text.")

    def check_dates(self, rows: NDArray[np.float64], ids: list[Id]) -> None:
        """Refuse days beyond the year 9999: such a number is a date without dashes, or counts seconds."""
        for column, name in enumerate(self.names):
            if self.types.get(name) == "date" and np.any(np.abs(rows[:, column]) > _LAST_DAY):
                row = int(np.flatnonzero(np.abs(rows[:, column]) > _LAST_DAY)[0])
                raise _invalid(
                    f"Document {ids[row]!r} has {rows[row, column]:.15g} as feature {name!r}, a date; write it as "
                    "'2026-11-16', or in days since 1970-01-01 UTC."
                )


def parse(
    body: bytes,
    names: Sequence[str],
    takes_missing: bool,
    limits: Limits,
    codes: Mapping[str, Mapping[str, int]] | None = None,
    types: Mapping[str, str] | None = None,
) -> Ask:
    """Read a request for a model with features `names`; whatever is wrong raises `Refused`."""
    words = Words(names, codes or {}, types or {})
    _check_values(body, len(names), limits)
    request = _json(body)
    _check_keys(body, request)
    options = _options(request)
    odd = any(word in body for word in (b"true", b"false", b"null"))
    ids, rows = _rows(request, words, limits, odd)
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise Refused(
            422,
            "document_twice",
            f"Two documents have the id {twice!r}, and the answer names documents by it; give each its own, or leave "
            "all ids out.",
        )
    words.check_dates(rows, ids)
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


def _json(text: bytes) -> dict[str, Any]:
    try:
        request = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Refused(400, "invalid_json", f"The body is not JSON: {error}.") from None
    if not isinstance(request, dict):
        raise _invalid("The body must be a JSON object with `documents` or `features`.")
    return request


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


def _options(request: Mapping[str, Any]) -> tuple[int | None, int | None, bool]:
    """What is asked for beside the documents: top, top_k and pairs."""
    _only(request, RankRequest, "The body")
    wanted = request.get("probabilities", {})
    if not isinstance(wanted, dict):
        raise _invalid(f"probabilities is {_shown(wanted)}; it must be an object with top_k or pairs.")
    _only(wanted, WantedProbabilities, "probabilities")
    top, top_k, pairs = request.get("top"), wanted.get("top_k"), wanted.get("pairs", False)
    for name, value in (("top", top), ("probabilities.top_k", top_k)):
        if value is not None and (type(value) is not int or value < 1):
            raise _invalid(f"{name} is {_shown(value)}; it must be a whole number of at least 1.")
    if type(pairs) is not bool:
        raise _invalid(f"probabilities.pairs is {_shown(pairs)}; it must be true or false.")
    return top, top_k, pairs


def _only(given: Mapping[str, Any], form: type[BaseModel], what: str) -> None:
    unknown = next((key for key in given if key not in form.model_fields), None)
    if unknown is not None:
        known = ", ".join(form.model_fields)
        raise _invalid(f"{what} has the key {_shown(unknown)}, which is not known; there are {known}.")


def _rows(request: Mapping[str, Any], words: Words, limits: Limits, odd: bool) -> tuple[list[Id], NDArray[np.float64]]:
    """Ids and features of the documents; `odd` says that there may be null or truth values among them."""
    documents, features = request.get("documents"), request.get("features")
    if (documents is None) == (features is None):
        raise _invalid("Give either documents, or features as a matrix; one of the two.")
    key, given = ("features", features) if documents is None else ("documents", documents)
    if not isinstance(given, list):
        raise _invalid(f"{key} is {_shown(given)}; it must be a list.")
    _check_count(len(given), limits)
    if documents is None:
        ids = _ids(request.get("ids"), len(given))
    else:
        if request.get("ids") is not None:
            raise _invalid("ids go with a matrix of features; documents carry their own id.")
        ids = [_checked_document(document, i) for i, document in enumerate(documents)]
        given = [document["features"] for document in documents]
    form = _Form(words, limits, key, documents is not None)
    rows = list(form.in_order(given, ids))
    words.check_codes(rows, ids)
    found = _numbers(rows, odd or limits.missing_features)
    if found is None:
        found = _numbers([form.read(*row) for row in zip(range(len(ids)), given, rows, ids, strict=True)], True)
        assert found is not None
    return ids, found


class _Form(NamedTuple):
    """How the rows of a request stand: under which key, and whether features may be given by name."""

    words: Words
    limits: Limits
    key: str
    by_name: bool

    def in_order(self, given: list[Any], ids: list[Id]) -> Iterator[list[Any]]:
        """The values of every row in the order of the model; null where a feature may be left out."""
        names = self.words.names
        known = set(names)
        for i, (values, document) in enumerate(zip(given, ids, strict=True)):
            if type(values) is dict and self.by_name:
                if not values.keys() <= known:
                    unknown = next(name for name in values if name not in known)
                    raise Refused(
                        422,
                        "unknown_feature",
                        f"Document {document!r} has a feature {_shown(unknown)}, which the model does not know; GET "
                        "/models lists its features.",
                    )
                _check_named(values, document, names, self.limits)
                yield list(map(values.get, names))
            elif type(values) is not list:
                allowed = "a list of numbers or an object by name" if self.by_name else "a list of numbers"
                raise _invalid(f"{self._place(i)} is {_shown(values)}; it must be {allowed}.")
            elif len(values) != len(names):
                what = f"Document {document!r} has {len(values)} features and the model takes {len(names)}"
                raise Refused(422, "wrong_number_of_features", f"{what}; GET /models lists them.")
            else:
                yield values

    def read(self, i: int, given: Any, row: list[Any], document: Id) -> list[Any]:
        """A row of numbers and null: what is given by name may be a text or a truth value."""
        names = self.words.names
        if type(given) is dict:
            pairs = zip(row, names, strict=True)
            row = [self.words.number(v, name, document) if type(v) in (str, bool) else v for v, name in pairs]
        for key, value in enumerate(row):
            if type(value) not in _NUMBERS:
                place = names[key] if type(given) is dict else key
                raise _invalid(f"{self._place(i)}.{place} is {_shown(value)}; it must be a number or null.")
        return row

    def _place(self, i: int) -> str:
        return f"{self.key}.{i}.features" if self.by_name else f"{self.key}.{i}"


def _numbers(rows: list[list[Any]], odd: bool) -> NDArray[np.float64] | None:
    """Rows of numbers as an array, NaN for null; None where there is anything else.

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


def _checked_document(document: Any, position: int) -> Id:
    """The name of a document that has the right keys."""
    if not isinstance(document, dict) or "features" not in document:
        raise _invalid(f"documents.{position} must be an object with features.")
    _only(document, Document, f"documents.{position}")
    name = document.get("id")
    return position if name is None else _checked_id(name, f"documents.{position}.id")


def _checked_id(name: Any, place: str) -> Id:
    if type(name) is not str and type(name) is not int:
        raise _invalid(f"{place} is {_shown(name)}; it must be a text or a whole number.")
    return name


def _check_named(given: Collection[str], document: Id, names: Sequence[str], limits: Limits) -> None:
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


def _checked(
    rows: NDArray[np.float64], ids: Sequence[Id], names: Sequence[str], takes_missing: bool
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


def _ids(given: Any, count: int) -> list[Id]:
    if given is None:
        return list(range(count))
    if not isinstance(given, list):
        raise _invalid(f"ids is {_shown(given)}; it must be a list.")
    if len(given) != count:
        raise _invalid(f"There are {len(given)} ids for {count} rows of features; give one each.")
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


def _days(text: str, feature: str, document: Id) -> float:
    """Days since 1970-01-01 UTC, as dates are read from tables; a time without a zone is UTC.

    >>> _days("1970-01-02", "day", 0), _days("1970-01-02T06:00:00+06:00", "day", 0)
    (1.0, 1.0)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _invalid(
            f"Document {document!r} has {_shown(text)} as feature {feature!r}, a date; write it as '2026-11-16', as "
            "'2026-11-16T12:30:00Z', or in days since 1970-01-01 UTC."
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)


def _invalid(message: str) -> Refused:
    """The answer to a request that is not as it must be."""
    return Refused(422, "invalid_request", message)


def _shown(value: Any) -> str:
    """A value as JSON, its beginning where it is long."""
    text = orjson.dumps(value).decode() if not isinstance(value, dict | list) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else text[:40] + "..."
