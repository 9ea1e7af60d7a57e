"""What a client may ask, and how the bytes of a request become rows of features."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from luce.serve.errors import Refused
from luce.serve.numbers import lift_numbers
from luce.serve.settings import Limits

__all__ = ["Ask", "RankRequest", "parse"]

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)] | None
_LARGEST = float(np.finfo(np.float32).max)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Document(_Strict):
    """One document: a list of all its features in the order of the model, or an object of features by name."""

    id: str | int | None = Field(default=None, description="Name of the document; its position where there is none.")
    features: list[Number] | dict[str, Number | Annotated[str, Field(strict=True)]] = Field(
        description="null is a missing value; a category is given by its name."
    )


class WantedProbabilities(_Strict):
    """Probabilities to answer with; the model's loss must be a likelihood that has them."""

    top_k: int | None = Field(default=None, ge=1, strict=True, description="Chance of being among the first k.")
    pairs: bool = Field(default=False, strict=True, description="Chances of every pair: better, tied.")


class _Options(_Strict):
    top: int | None = Field(default=None, ge=1, strict=True, description="Answer with the best so many only.")
    probabilities: WantedProbabilities = WantedProbabilities()


class RankRequest(_Options):
    """Documents of one query, as `documents`, or as a matrix of `features` with `ids` beside it (quicker to read)."""

    documents: list[Document] | None = None
    features: list[list[Number]] | None = None
    ids: list[str | int] | None = None


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
) -> Ask:
    """Read a request for a model with features `names`; whatever is wrong raises `Refused`.

    `codes` are those of categories, by feature and name; one that the model does not know has the code after the last.
    """
    found: tuple[_Options, list[str | int], NDArray[np.float64]] | None
    try:
        found = _quick_rows(body, names, limits)
        if found is None:
            asked = RankRequest.model_validate(_json(body))
            found = (asked, *_plain_rows(asked, names, limits, codes or {}))
    except ValidationError as error:
        raise _invalid(error) from None
    options, ids, rows = found
    X = _checked(rows, ids, names, takes_missing)
    return Ask(X, ids, options.top, options.probabilities.top_k, options.probabilities.pairs)


def _json(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Refused(400, "invalid_json", f"The body is not JSON: {error}.") from None


def _invalid(error: ValidationError) -> Refused:
    first = error.errors(include_url=False, include_input=False)[0]
    if not first["loc"]:
        return Refused(422, "invalid_request", "The body must be a JSON object with `documents` or `features`.")
    # Branches of a union stand in the place as list[...] or dict[...]; they are types, and no part of the body.
    where = ".".join(str(part) for part in first["loc"] if "[" not in str(part))
    return Refused(422, "invalid_request", f"{where}: {first['msg']}.")


def _quick_rows(
    body: bytes, names: Sequence[str], limits: Limits
) -> tuple[_Options, list[str | int], NDArray[np.float64]] | None:
    """Options, ids and features of a request whose numbers were lifted; None leaves it to the general reader.

    Only the arrays that were lifted, all of them in their order, are taken for features: a client may write a number
    where the lifted text has one, under a key such as "feature\\u0073" that the compiled reader passes by.
    """
    lifted = lift_numbers(body)
    if lifted is None:
        return None
    request = _json(lifted.text)
    count = len(lifted.ends)
    found = _lifted_ids(request, count) if isinstance(request, dict) else None
    if found is None:
        return None
    ids, others = found
    try:
        options = _Options.model_validate(others)
    except ValidationError:
        return None
    _check_count(count, limits)
    if lifted.names is not None:
        given = _json(b"[%b]" % b",".join(lifted.names))
        named = _named_rows(lifted.values.reshape(count, len(lifted.names)), given, names)
        if named is None:
            return None
        _check_named(given, ids[0], names, limits)
        return options, ids, named
    lengths = np.diff(lifted.ends, prepend=0)
    for i in np.flatnonzero(lengths != len(names))[:1]:
        raise _wrong_width(ids[i], int(lengths[i]), len(names))
    return options, ids, lifted.values.reshape(count, len(names))


def _named_rows(values: NDArray[np.float64], given: list[str], names: Sequence[str]) -> NDArray[np.float64] | None:
    """Columns that are named `given` in the order of the model; NaN where there is none, None where one is unknown."""
    where = {name: i for i, name in enumerate(names)}
    if len(set(given)) < len(given) or not where.keys() >= set(given):
        return None
    rows = np.full((len(values), len(names)), np.nan)
    rows[:, [where[name] for name in given]] = values
    return rows


def _lifted_ids(request: dict[str, Any], count: int) -> tuple[list[str | int], dict[str, Any]] | None:
    """Names of the documents of a lifted request, and what else it holds; None where it is no such request.

    Checked by list and set rather than by a model of each document, which takes as long as reading its numbers.
    """
    documents, features, ids = (request.pop(key, None) for key in ("documents", "features", "ids"))
    if documents is None:
        if features != [0, count] or not (ids is None or isinstance(ids, list)):
            return None
        names = list(range(count)) if ids is None else ids
    else:
        if features is not None or ids is not None or not isinstance(documents, list):
            return None
        if not all(type(document) is dict for document in documents):
            return None
        names = [document.get("id") for document in documents]
        if [document.get("features") for document in documents] != list(range(count)):
            return None
        if sum(map(len, documents)) != count + sum("id" in document for document in documents):
            return None
        if None in names:
            names = [i if name is None else name for i, name in enumerate(names)]
    if len(names) != count or not set(map(type, names)) <= {str, int}:
        return None
    return names, request


def _plain_rows(
    request: RankRequest, names: Sequence[str], limits: Limits, codes: Mapping[str, Mapping[str, int]]
) -> tuple[list[str | int], NDArray[np.float64]]:
    if (request.documents is None) == (request.features is None):
        raise _one_of_two()
    if request.documents is None:
        assert request.features is not None
        given: list[Any] = request.features
        ids = _ids(request.ids, len(given))
    else:
        _refuse_ids(request)
        given = [document.features for document in request.documents]
        ids = [i if document.id is None else document.id for i, document in enumerate(request.documents)]
    _check_count(len(given), limits)
    where = {name: i for i, name in enumerate(names)}
    rows = np.full((len(given), len(names)), np.nan)
    for row, document, features in zip(rows, ids, given, strict=True):
        if isinstance(features, Mapping):
            for name, value in features.items():
                if name not in where:
                    raise Refused(
                        422,
                        "unknown_feature",
                        f"Document {document!r} has a feature {name!r}, which the "
                        "model does not know; GET /models lists its features.",
                    )
                row[where[name]] = _coded(value, name, document, codes) if isinstance(value, str) else _float(value)
            _check_named(features, document, names, limits)
        elif len(features) != len(names):
            raise _wrong_width(document, len(features), len(names))
        else:
            row[:] = [_float(value) for value in features]
    return ids, rows


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


def _float(value: float | None) -> float:
    return np.nan if value is None else value


def _coded(name: str, feature: str, document: str | int, codes: Mapping[str, Mapping[str, int]]) -> float:
    if feature not in codes:
        raise Refused(
            422,
            "invalid_request",
            f"Document {document!r} has the text {name[:40]!r} as feature {feature!r}, a number; give one.",
        )
    return codes[feature].get(name, len(codes[feature]))


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


def _ids(given: list[str | int] | None, count: int) -> list[str | int]:
    if given is None:
        return list(range(count))
    if len(given) != count:
        raise Refused(
            422, "invalid_request", f"There are {len(given)} ids for {count} rows of features; give one each."
        )
    return given


def _check_count(count: int, limits: Limits) -> None:
    if count == 0:
        raise Refused(422, "no_documents", "There are no documents to rank; give at least one.")
    if count > limits.documents:
        raise Refused(
            413,
            "too_many_documents",
            f"The request has {count} documents and this service takes {limits.documents}; send fewer.",
        )


def _refuse_ids(request: RankRequest) -> None:
    if request.ids is not None:
        raise Refused(422, "invalid_request", "ids go with a matrix of features; documents carry their own id.")


def _one_of_two() -> Refused:
    return Refused(422, "invalid_request", "Give either documents, or features as a matrix; one of the two.")


def _wrong_width(document: str | int, given: int, expected: int) -> Refused:
    return Refused(
        422,
        "wrong_number_of_features",
        f"Document {document!r} has {given} features and the model takes {expected}; GET /models lists them.",
    )
