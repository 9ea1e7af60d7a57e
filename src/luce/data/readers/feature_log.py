"""Features that a search engine logged: responses of Elasticsearch, OpenSearch and Solr, joined with judgements.

Elasticsearch and OpenSearch put the features of a hit into `fields._ltrlog`, as lists of name and value; Solr into a
field `[features]`, as `name=value,name=value`. A response belongs to one query and says which by an
entry `qid` beside it.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from luce.checks import one_of
from luce.data.groups import Groups, from_arrays
from luce.data.text_files import read_text, reader, reason
from luce.data.trec import Judgements, read_judgements
from luce.errors import DataError, LuceWarning, ParseError

_QUERY_KEYS = ("qid", "query_id", "query", "keywords")
_SOLR_FIELDS = ("[features]", "features", "fv")


Logged = dict[str, dict[str, float]]
"""Features by name, by document."""
FeatureLog = list[tuple[str | None, Logged]]
"""The documents of every response, and its query; None where it names none."""
_Pairs = Iterator[tuple[Any, Any]]


@reader
def read_log(
    path: str | Path,
    *,
    judgements: str | Path | None = None,
    absent: str = "nan",
    features: Sequence[str] | None = None,
    log_name: str | None = None,
) -> Groups:
    """Judged documents from logged features and a judgement list.

    Parameters
    ----------
    judgements
        A file for `luce.data.trec.read_judgements`. Documents without a judgement, and judged ones without
        logged features, are left out, and a warning says how many. None keeps all documents, with the grade 0.
    absent
        A feature that the log leaves out for a document is "nan" or "zero".
    features
        The features wanted, in this order; None takes all.
    log_name
        The log to take where hits carry several (`log_specs.name` of the request); None takes the features of all.
    """
    one_of("absent", absent, ("zero", "nan"))
    log = parse_log(path, log_name)
    logged = list(dict.fromkeys(name for _, documents in log for found in documents.values() for name in found))
    names = logged if features is None else list(features)
    unknown = sorted(set(names) - set(logged))
    if unknown or not names:
        raise ParseError(path, f"the feature {unknown[0]!r} is not in the log." if unknown else "no feature is logged.")
    rows = list(_joined(path, log, None if judgements is None else read_judgements(judgements), judgements))
    if not rows:
        raise DataError(f"No document of the log is judged in {judgements}; check that queries and ids agree.")
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused below
        X = np.array([[found.get(name, math.nan) for name in names] for *_, found in rows], dtype=np.float32)
    if absent == "zero":
        X[np.isnan(X)] = 0.0
    query, document, grade = zip(*(row[:3] for row in rows), strict=True)
    return from_arrays(
        X, grade, qid=np.array(query), document_ids=np.array(document), feature_names=names, allow_nan=True
    )


_Row = tuple[str, str, float, dict[str, float]]


def _joined(path: str | Path, log: FeatureLog, judged: Judgements | None, where: str | Path | None) -> Iterator[_Row]:
    """Query, document, grade and features of all documents that are in both; a document logged again counts once."""
    if judged is None:
        for number, (query, documents) in enumerate(log, 1):
            for document, logged in documents.items():
                yield query or str(number), document, 0.0, logged
        return
    merged: dict[str, Logged] = {}
    unjudged = 0
    for query, documents in _by_judged_query(path, log, judged):
        merged.setdefault(query, {}).update(documents)
    for query, documents in merged.items():
        grades = judged.grades.get(query, {})
        for document, logged in documents.items():
            if document in grades:
                yield query, document, grades[document], logged
            else:
                unjudged += 1
    unlogged = sum(len(set(grades) - set(merged.get(query, {}))) for query, grades in judged.grades.items())
    if unlogged or unjudged:
        warnings.warn(
            f"{unlogged:,} of {len(judged):,} documents judged in {where} are not in {path}, and {unjudged:,} "
            "documents there are not judged; both are left out.",
            LuceWarning,
            stacklevel=4,
        )


def _by_judged_query(path: str | Path, log: FeatureLog, judged: Judgements) -> Iterator[tuple[str, Logged]]:
    """The responses under the query ids of the judgements: by id, by the words of the query, else one by one."""
    by_words = {words: query for query, words in judged.texts.items()}
    nameless = sum(query is None for query, _ in log)
    if nameless and not nameless == len(log) == len(judged.grades):
        raise ParseError(
            path,
            f"{nameless} of {len(log)} responses name no query, and {len(judged.grades)} queries are judged; "
            'write each as {"qid": "...", "response": {...}}, or one for every judged query in the same order.',
        )
    order = list(judged.grades)
    for place, (query, documents) in enumerate(log):
        name = order[place] if query is None else query
        yield (name if name in judged.grades else by_words.get(name, name)), documents


def parse_log(path: str | Path, log_name: str | None = None) -> FeatureLog:
    """Read the responses: one JSON text (a response, a list of them, or the answer of `_msearch`), or one a line."""
    log: FeatureLog = []
    for line, response in _responses(path):
        try:
            documents = dict(_documents(response, log_name))
            for name in (*documents, *{name for features in documents.values() for name in features}):
                # JSON can spell half a character, which no file can hold; and NUL, which some formats drop.
                if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
                    raise DataError(f"the name {name!a} holds something that is no character; mend it.")
        except (DataError, RecursionError) as error:
            raise ParseError(path, reason(error), line) from error
        log.append((_query(response), documents))
    if not any(documents for _, documents in log):
        raise ParseError(path, "no response has a document with logged features.")
    return log


def _responses(path: str | Path) -> Iterator[tuple[int | None, Any]]:
    text = read_text(path)
    try:
        whole = json.loads(text)
    except RecursionError as error:
        raise ParseError(path, "the JSON is nested too deeply for a log.") from error
    except ValueError:  # one a line
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ParseError(path, f"this is no valid JSON ({reason(error)}).", number) from error
                yield from ((number, response) for response in _unpacked(found))
        return
    yield from ((None, response) for response in _unpacked(whole))


def _unpacked(found: Any) -> list[Any]:
    if isinstance(found, dict) and isinstance(found.get("responses"), list):
        return list(found["responses"])
    return found if isinstance(found, list) else [found]


def _query(response: dict[str, Any]) -> str | None:
    """The query of a response: its own entry, else the parameters that Solr repeats."""
    header = response.get("responseHeader")
    parameters = header.get("params") if isinstance(header, dict) else None
    places = ((response, _QUERY_KEYS), (parameters if isinstance(parameters, dict) else {}, ("qid", "q")))
    for place, keys in places:
        for key in keys:
            if isinstance(place.get(key), str | int):
                return str(place[key])
    inner = response.get("response")
    return _query(inner) if isinstance(inner, dict) else None


def _documents(response: Any, log_name: str | None) -> Iterator[tuple[str, dict[str, float]]]:
    if not isinstance(response, dict):
        raise DataError("expected a response as a JSON object with hits.hits or response.docs.")
    if "error" in response:
        raise DataError(f"the response is an error of the engine: {json.dumps(response['error'])[:200]}.")
    hits = response.get("hits")
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        yield from (_document(hit, "_id", partial(_elasticsearch, log_name), True) for hit in hits["hits"])
    elif isinstance(response.get("docs"), list):
        yield from (_document(document, "id", _solr) for document in response["docs"])
    elif isinstance(response.get("response"), dict):
        yield from _documents(response["response"], log_name)
    else:
        raise DataError("expected a response with hits.hits (Elasticsearch, OpenSearch) or response.docs (Solr).")


def _document(
    found: Any, key: str, logged: Callable[[dict[str, Any], Any], _Pairs], twice_is_wrong: bool = False
) -> tuple[str, dict[str, float]]:
    """The id of a document, which stands under this key, and its features; a value of null is missing.

    Of two values of a feature the last one counts, unless that is wrong: logs of several names may differ.
    """
    document = found.get(key) if isinstance(found, dict) else None
    if not isinstance(document, str | int):
        raise DataError(f"a document has no {key}; every document needs one.")
    features: dict[str, float] = {}
    for name, value in logged(found, document):
        if not isinstance(name, str):
            raise DataError(f"document {document!r} has a log entry that is no object with a name.")
        try:
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.inf
        if math.isinf(number) or (isinstance(value, str) and (not value.isascii() or "_" in value)):
            raise DataError(f"document {document!r} has the value {value!r} of {name!r}; a finite number was expected.")
        known = features.get(name, number)
        if twice_is_wrong and known != number and not (math.isnan(known) and math.isnan(number)):
            way = "say which log to take by log_name, or leave one value out"
            raise DataError(f"document {document!r} has two values of {name!r}; {way}.")
        features[name] = number
    return str(document), features


def _elasticsearch(log_name: str | None, hit: dict[str, Any], document: Any) -> _Pairs:
    fields = hit.get("fields")
    logs = fields.get("_ltrlog") if isinstance(fields, dict) else None
    if not isinstance(logs, list) or not all(isinstance(log, dict) for log in logs):
        raise DataError(f"document {document!r} has no fields._ltrlog; ask for it by ext.ltr_log in the search.")
    for log in logs:
        for entries in (entries for name, entries in log.items() if log_name in (None, name)):
            for entry in entries if isinstance(entries, list) else [entries]:
                yield (entry.get("name"), entry.get("value")) if isinstance(entry, dict) else (None, None)


def _solr(found: dict[str, Any], document: Any) -> _Pairs:
    """`a=1.0,b=2.0` (dense) or `a:1.0 b:2.0` (sparse)."""
    text = next((found[key] for key in _SOLR_FIELDS if isinstance(found.get(key), str)), None)
    if text is None:
        raise DataError(f"document {document!r} has no field [features]; ask for it in fl.")
    dense = "=" in text
    for pair in text.split(",") if dense else text.split():
        name, sign, value = pair.strip().rpartition("=" if dense else ":")
        if not sign or not name:
            raise DataError(f"document {document!r} has {pair!r} among its features; name=value was expected.")
        yield name, value
