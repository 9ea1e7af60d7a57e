"""How the bytes of a request become rows of features: its form, as OpenAPI shows it, and what values mean to a model.

Whatever is wrong is said at the first place, so that no body takes long to refuse. Rows that hold numbers alone, which
nearly all do, become one array at once; texts and truth values of others are looked up first.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Annotated, Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from luce.serve.beside import Also, base_scores, check_fields, read_arrow, relations, text_features, texts_of_documents
from luce.serve.errors import Refused, invalid, shown
from luce.serve.settings import Limits
from luce.types import FloatArray

_LARGEST = float(np.finfo(np.float32).max)
_NUMBERS = {float, int, type(None)}
_SIGNS = (b",", b":", b"[", b"{")
_FEW = 100_000
"""So many values need no counting."""
_LAST_DAY = 2_932_896
"""9999-12-31."""
_NOTHING = Also()

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
        default=[], description="null is a missing value; a category is given by its name, a date as 2026-11-16."
    )
    text: dict[str, str | None] = Field(default={}, description="Texts by field, for models that compare them.")
    score: Number = Field(default=None, description="Of another system, for models that add to it.")


class WantedProbabilities(_Strict):
    """Probabilities to answer with; the model's loss must be a likelihood that has them."""

    top_k: int | None = Field(default=None, ge=1, description="Chance of being among the first k.")
    pairs: bool = Field(default=False, description="Chances of every pair: better, tied.")


class RankRequest(_Strict):
    """Documents of one query, as `documents`, or as a matrix of `features` with lists beside it (quicker to read)."""

    documents: list[Document] | None = None
    features: list[list[Number]] | None = None
    ids: list[StrictStr | StrictInt] | None = None
    texts: dict[str, list[str | None]] | None = Field(default=None, description="Beside `features`: texts by field.")
    scores: list[float] | None = Field(default=None, description="Beside `features`: scores of another system.")
    query: str | None = Field(default=None, description="The text of the query, for models that compare texts.")
    relations: dict[str, list[tuple[Id, Id, float]]] | None = Field(
        default=None, description="By name: documents and the weight between them, for models that look at relations."
    )
    explain: bool = Field(default=False, description="Also answer what each feature adds to each score.")
    top: int | None = Field(default=None, ge=1, description="Answer with the best so many only.")
    probabilities: WantedProbabilities = WantedProbabilities()


_KEYS: dict[type[BaseModel], frozenset[str]] = {
    form: frozenset(form.model_fields) for form in (Document, WantedProbabilities, RankRequest)
}


@dataclass(frozen=True)
class Ask:
    """A request understood: one row of features a document, NaN where one is missing."""

    X: NDArray[np.float32]
    ids: list[Id]
    top: int | None
    top_k: int | None
    pairs: bool
    explain: bool
    scores: FloatArray | None = None
    relations: Mapping[str, Any] = field(default_factory=dict)


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
        raise invalid(f"Document {document!r} has {shown(value)} as feature {feature!r}; it must be {wanted}.")

    def check_codes(self, rows: list[list[Any]], ids: list[Id], names: Sequence[str] | None = None) -> None:
        """Refuse a number for a category: it would be taken for a code, which nobody outside the model knows."""
        for column, name in enumerate(self.names if names is None else names):
            for document, row in zip(ids, rows, strict=True) if name in self.codes else ():
                if type(row[column]) in (int, float):
                    what = f"Document {document!r} has {row[column]:g} as feature {name!r}, a category"
                    raise invalid(f"{what}; give documents by name, and categories as text.")

    def check_dates(self, rows: NDArray[np.float64], ids: list[Id]) -> None:
        """Refuse days beyond the year 9999: such a number is a date without dashes, or counts seconds."""
        for column, name in enumerate(self.names):
            if self.types.get(name) == "date" and np.any(np.abs(rows[:, column]) > _LAST_DAY):
                row = int(np.flatnonzero(np.abs(rows[:, column]) > _LAST_DAY)[0])
                raise invalid(
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
    also: Also = _NOTHING,
    said: Mapping[str, str] | None = None,
    arrow: bool = False,
) -> Ask:
    """Read a request for a model with features `names`; whatever is wrong raises `Refused`.

    Features that `also.text` makes are the last of `names`, and no part of the request. `said` stands in the address,
    as in `?explain=true`; `arrow` says that the body is a table of Arrow.
    """
    made = 0 if also.text is None else len(also.text.names)
    words = Words(names[: len(names) - made], codes or {}, types or {})
    if arrow:
        ids, rows, request = _table(read_arrow(body), words, limits, also)
    else:
        _check_values(body, len(names), limits)
        request = _json(body)
        _check_keys(body, request)
    options = _options(_with_said(request, said or {}))
    if not arrow:
        odd = any(word in body for word in (b"true", b"false", b"null"))
        ids, rows = _rows(request, words, limits, odd)
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        what = f"Two documents have the id {twice!r}, and the answer names documents by it"
        raise invalid(f"{what}; give each its own, or leave all ids out.", "document_twice")
    words.check_dates(rows, ids)
    X, texts = _checked(rows, ids, words.names, takes_missing), _texts(request, ids, also, limits)
    if also.text is not None:
        X = np.concatenate([X, text_features(request.get("query"), texts, ids, also.text, limits)], axis=1)
    documents = request.get("documents")
    scores = request.get("scores") if documents is None else [document.get("score") for document in documents]
    if scores is not None and not isinstance(scores, list | np.ndarray):
        raise invalid(f"scores is {shown(scores)}; it must be a list.")
    given = None if scores is None or (documents is not None and all(s is None for s in scores)) else list(scores)
    return Ask(X, ids, *options, base_scores(given, ids, also), relations(request.get("relations"), ids, also))


_SAID = ("explain", "query", "top", "top_k", "pairs")


def _with_said(request: dict[str, Any], said: Mapping[str, str]) -> dict[str, Any]:
    """A request with what stands in the address."""
    for name, text in said.items():
        if name not in _SAID:
            raise invalid(f"The address says {shown(name)}, which is not known; there are {', '.join(_SAID)}.")
        home = request.setdefault("probabilities", {}) if name in ("top_k", "pairs") else request
        if not isinstance(home, dict) or name in home:
            raise invalid(f"{name} stands in the address and in the body; give it once.")
        words: dict[str, Any] = {"true": True, "false": False}
        home[name] = text if name == "query" else int(text) if text.isdecimal() else words.get(text.lower(), text)
    return request


def _texts(request: Mapping[str, Any], ids: list[Id], also: Also, limits: Limits) -> Mapping[str, Sequence[Any]]:
    """The texts of a request by field, one a document."""
    documents, given = request.get("documents"), request.get("texts")
    if also.text is None:
        told = [key for key in ("query", "texts") if request.get(key) is not None]
        told += ["text"] if documents is not None and any("text" in document for document in documents) else []
        if told:
            raise invalid(f"{told[0]} was given, and this model compares no texts; leave it out.")
        return {}
    if documents is not None:
        if given is not None:
            raise invalid("texts go with a matrix of features; documents carry their own text.")
        return texts_of_documents(documents, ids, also.text, limits)
    if not isinstance(given, dict) or not all(isinstance(one, list) and len(one) == len(ids) for one in given.values()):
        raise invalid("texts must be an object from fields to lists, with a text for every document.")
    check_fields(given, "The request", also.text, limits)
    return {field: given.get(field, [""] * len(ids)) for field in also.text.fields}


def _table(
    columns: Mapping[str, Any], words: Words, limits: Limits, also: Also
) -> tuple[list[Id], NDArray[np.float64], dict[str, Any]]:
    """Ids, features and the rest of a table of Arrow, a row a document."""
    fields = () if also.text is None else also.text.fields
    known = {"id", *(["score"] if also.scores else []), *fields, *words.names}
    unknown = next((name for name in columns if name not in known), None)
    if unknown is not None:
        raise invalid(f"The table has a column {shown(unknown)}, which the model does not know.", "unknown_feature")
    count = len(next(iter(columns.values()))) if columns else 0
    _check_count(count, limits)
    named = columns.get("id")
    ids = _ids(named.astype(np.int64).tolist() if isinstance(named, np.ndarray) else named, count)
    _check_named([name for name in words.names if name in columns], "of the table", words.names, limits)
    rows = np.full((count, len(words.names)), np.nan)
    for j, name in enumerate(words.names):
        values = columns.get(name, [None] * count)
        if isinstance(values, np.ndarray):
            words.check_codes(values[:, None].tolist(), ids, [name])
            rows[:, j] = values
            continue
        pairs = zip(values, ids, strict=True)
        rows[:, j] = [np.nan if value is None else words.number(value, name, document) for value, document in pairs]
    rest: dict[str, Any] = {"texts": {name: columns[name] for name in fields if name in columns}} if fields else {}
    return ids, rows, rest | ({"scores": columns["score"]} if "score" in columns and also.scores else {})


def _check_values(text: bytes, features: int, limits: Limits) -> None:
    """Refuse, before anything is made of it, a text with more values than the documents of a request have.

    A value of two bytes takes forty times its place in memory; two bytes it has at least, with the comma before it.
    """
    most = max(_FEW, limits.documents * (2 * features + 8))
    if len(text) > 2 * most and sum(map(text.count, _SIGNS)) > most and _outside(text, b"".join(_SIGNS)) > most:
        what = f"The body has more values than {limits.documents} documents of {features} features"
        raise Refused(413, "too_many_values", f"{what}, the most that this service takes; send fewer.")


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
        raise invalid("The body must be a JSON object with `documents` or `features`.")
    return request


def _check_keys(text: bytes, request: Mapping[str, Any]) -> None:
    """Refuse a text where an object has a key twice, of which two readers might take one each.

    Every key has a colon, and others stand in strings only.
    """
    documents = request.get("documents")
    listed = documents if isinstance(documents, list) else []
    parts = [document for document in listed if type(document) is dict]
    inner = [one for part in parts for one in (part, part.get("features"), part.get("text"))]
    beside = [request.get(name) for name in ("probabilities", "texts", "relations")]
    quick = len(request) + sum(len(one) for one in (*inner, *beside) if type(one) is dict)
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


def _options(request: Mapping[str, Any]) -> tuple[int | None, int | None, bool, bool]:
    """What is asked for beside the documents: top, top_k, pairs and explain."""
    _only(request, RankRequest, "The body")
    wanted = request.get("probabilities", {})
    if not isinstance(wanted, dict):
        raise invalid(f"probabilities is {shown(wanted)}; it must be an object with top_k or pairs.")
    _only(wanted, WantedProbabilities, "probabilities")
    top, top_k, pairs = request.get("top"), wanted.get("top_k"), wanted.get("pairs", False)
    for name, value in (("top", top), ("probabilities.top_k", top_k)):
        if value is not None and (type(value) is not int or value < 1):
            raise invalid(f"{name} is {shown(value)}; it must be a whole number of at least 1.")
    explain = request.get("explain", False)
    for name, value in (("probabilities.pairs", pairs), ("explain", explain)):
        if type(value) is not bool:
            raise invalid(f"{name} is {shown(value)}; it must be true or false.")
    return top, top_k, pairs, explain


def _only(given: Mapping[str, Any], form: type[BaseModel], what: str) -> None:
    if not _KEYS[form].issuperset(given):
        unknown = next(key for key in given if key not in _KEYS[form])
        known = ", ".join(form.model_fields)
        raise invalid(f"{what} has the key {shown(unknown)}, which is not known; there are {known}.")


def _rows(request: Mapping[str, Any], words: Words, limits: Limits, odd: bool) -> tuple[list[Id], NDArray[np.float64]]:
    """Ids and features of the documents; `odd` says that there may be null or truth values among them."""
    documents, features = request.get("documents"), request.get("features")
    texts = request.get("texts")
    if documents is None and features is None and not words.names and isinstance(texts, dict) and texts:
        first = next(iter(texts.values()))
        features = [[]] * len(first) if isinstance(first, list) else None
    if (documents is None) == (features is None):
        raise invalid("Give either documents, or features as a matrix; one of the two.")
    key, given = ("features", features) if documents is None else ("documents", documents)
    if not isinstance(given, list):
        raise invalid(f"{key} is {shown(given)}; it must be a list.")
    _check_count(len(given), limits)
    if documents is None:
        ids = _ids(request.get("ids"), len(given))
    else:
        for name in ("ids", "scores"):
            if request.get(name) is not None:
                raise invalid(f"{name} go with a matrix of features; documents carry their own {name[:-1]}.")
        ids = [_checked_document(document, i, not words.names) for i, document in enumerate(documents)]
        given = [document.get("features", []) for document in documents]
    form = _Form(words, limits, key, documents is not None)
    rows = list(form.in_order(given, ids))
    words.check_codes(rows, ids)
    if not words.names:
        return ids, np.empty((len(ids), 0))
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
                    what = f"Document {document!r} has a feature {shown(unknown)}, which the model does not know"
                    raise invalid(f"{what}; GET /models lists its features.", "unknown_feature")
                _check_named(values, document, names, self.limits)
                yield list(map(values.get, names))
            elif type(values) is not list:
                allowed = "a list of numbers or an object by name" if self.by_name else "a list of numbers"
                raise invalid(f"{self._place(i)} is {shown(values)}; it must be {allowed}.")
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
                raise invalid(f"{self._place(i)}.{place} is {shown(value)}; it must be a number or null.")
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


def _checked_document(document: Any, position: int, bare: bool = False) -> Id:
    """The name of a document that has the right keys; one of a model that reads texts alone has no features."""
    if not isinstance(document, dict) or ("features" not in document and not bare):
        raise invalid(f"documents.{position} must be an object with features.")
    _only(document, Document, f"documents.{position}")
    name = document.get("id")
    return position if name is None else _checked_id(name, f"documents.{position}.id")


def _checked_id(name: Any, place: str) -> Id:
    if type(name) is not str and type(name) is not int:
        raise invalid(f"{place} is {shown(name)}; it must be a text or a whole number.")
    return name


def _check_named(given: Collection[str], document: Id, names: Sequence[str], limits: Limits) -> None:
    """Refuse a document that leaves out features, unless the service allows it: a typing error looks the same."""
    if limits.missing_features or len(given) >= len(names):
        return
    left_out = next(name for name in names if name not in given)
    what = f"Document {document!r} leaves out the feature {left_out!r}; give its value, null where it is unknown and"
    raise invalid(f"{what} the model takes missing values, or serve with --missing-features.", "missing_feature")


def _checked(
    rows: NDArray[np.float64], ids: Sequence[Id], names: Sequence[str], takes_missing: bool
) -> NDArray[np.float32]:
    if not takes_missing and (missing := np.isnan(rows)).any():
        i, j = np.argwhere(missing)[0]
        what = f"Document {ids[i]!r} has no value of feature {names[j]!r}"
        raise invalid(f"{what}, and this model takes no missing values; give one.", "missing_feature")
    if (outside := np.abs(rows) > _LARGEST).any():
        i, j = np.argwhere(outside)[0]
        what = f"Document {ids[i]!r} has {rows[i, j]:g} as feature {names[j]!r}"
        raise invalid(f"{what}; features must be within {_LARGEST:.3g}.", "feature_too_large")
    return rows.astype(np.float32)


def _ids(given: Any, count: int) -> list[Id]:
    if given is None:
        return list(range(count))
    if not isinstance(given, list):
        raise invalid(f"ids is {shown(given)}; it must be a list.")
    if len(given) != count:
        raise invalid(f"There are {len(given)} ids for {count} rows of features; give one each.")
    return [_checked_id(name, f"ids.{i}") for i, name in enumerate(given)]


def _check_count(count: int, limits: Limits) -> None:
    if count == 0:
        raise invalid("There are no documents to rank; give at least one.", "no_documents")
    if count > limits.documents:
        what = f"The request has {count} documents and this service takes {limits.documents}; send fewer."
        raise Refused(413, "too_many_documents", what)


def _days(text: str, feature: str, document: Id) -> float:
    """Days since 1970-01-01 UTC, as dates are read from tables; a time without a zone is UTC.

    >>> _days("1970-01-02", "day", 0), _days("1970-01-02T06:00:00+06:00", "day", 0)
    (1.0, 1.0)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(
            f"Document {document!r} has {shown(text)} as feature {feature!r}, a date; write it as '2026-11-16', as "
            "'2026-11-16T12:30:00Z', or in days since 1970-01-01 UTC."
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)
