"""Features of texts outside of Python's luce: as a plain Python program, and as the index and queries of an engine.

A feature is a field, an analyzer and a similarity, so that an engine has a subfield for each: `title.word_bm25`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.data.text import tokens
from luce.data.text.features import QUERY, UNION, VIEWS, field_names
from luce.data.text.tokens import GRAM, NUMBER_PATTERN, PATTERN
from luce.result import json_text

if TYPE_CHECKING:
    from luce.data.text.transformer import Text
    from luce.types import FloatArray, IntArray

KEYWORDS = "keywords"
"""The parameter of an engine's queries that holds the text of the query."""
ROWS = 200
_FILTERS: dict[str, list[str]] = {
    "word": ["lowercase", "asciifolding", "porter_stem"],
    "exact": ["lowercase", "asciifolding"],
    "pair": ["lowercase", "asciifolding", "porter_stem", "luce_pair"],
    "gram": ["lowercase", "asciifolding"],
    "number": [],
}


def _scored(text: Text) -> Iterator[tuple[str, str, str, str, Sequence[str]]]:
    """What an engine computes of fields: feature, field, view, similarity, and the fields whose texts it is of."""
    other = {*QUERY, *text.python_only(text.names)}
    for feature in text.names:
        if feature not in other:
            field, _, what = feature.rpartition(".")  # product.title.word_bm25, or title.length
            view, _, similarity = what.partition("_")
            yield feature, field, view, similarity, [field] if field in text.fields else text.fields


def elasticsearch_queries(text: Text, names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The query of every feature of texts, by its name in the engine."""
    found: dict[str, tuple[list[str], Any]] = {}
    for feature, _, view, _, sources in _scored(text):
        if view == "length":  # a count of several texts would be several numbers, of which a query takes one
            counts = [{"field_value_factor": {"field": f"{field}.length", "missing": 0}} for field in sources]
            how = {"functions": counts, "score_mode": "sum"} if len(counts) > 1 else counts[0]
            found[feature] = [], {"function_score": {"query": {"match_all": {}}, **how, "boost_mode": "replace"}}
        else:
            found[feature] = [KEYWORDS], {"match": {feature: f"{{{{{KEYWORDS}}}}}"}}
    for feature in text.of_query:  # a number that the client passes, which a template holds without quotes
        asked = f'{{"function_score": {{"query": {{"match_all": {{}}}}, "weight": {{{{{feature}}}}}, '
        found[feature] = [feature], asked + '"boost_mode": "replace"}}'
    return {
        names[feature]: {"params": params, "template_language": "mustache", "template": asked}
        for feature, (params, asked) in found.items()
    }


def _stems(text: Text, view: str) -> list[str]:
    return [name for name in _FILTERS[view] if name != "porter_stem" or text.language == "english"]


def index_settings(text: Text) -> dict[str, Any]:
    """Analyzers, similarities and subfields for Elasticsearch and OpenSearch."""
    patterns = {"luce_words": PATTERN, "luce_numbers": NUMBER_PATTERN}
    tokenizers: dict[str, Any] = {
        name: {"type": "pattern", "pattern": pattern, "group": 0} for name, pattern in patterns.items()
    }
    tokenizers["luce_grams"] = {
        "type": "ngram", "min_gram": GRAM, "max_gram": GRAM, "token_chars": ["letter", "digit"],
    }  # fmt: skip
    tokenizer = {"gram": "luce_grams", "number": "luce_numbers"}
    analyzers = {
        f"luce_{view}": {
            "type": "custom", "tokenizer": tokenizer.get(view, "luce_words"), "filter": _stems(text, view),
        }
        for view in _FILTERS
        if view != "number" or text.numbers
    }  # fmt: skip
    pair = {"type": "shingle", "min_shingle_size": 2, "max_shingle_size": 2, "output_unigrams": False}
    parameters = {"luce_bm25": (text.k1, text.b), "luce_idf": (0, 0)}
    similarity = {name: {"type": "BM25", "k1": k1, "b": b} for name, (k1, b) in parameters.items()}
    kinds = {"bm25": "luce_bm25", "idf": "luce_idf", "count": "boolean"}
    copied = {"copy_to": UNION} if len(text.fields) > 1 else {}
    properties: dict[str, Any] = {
        field: {"type": "text", "analyzer": "luce_exact", **(copied if field in text.fields else {}), "fields": {}}
        for field in field_names(text.fields)
    }
    for _, field, view, what, sources in _scored(text):
        subfields = properties[field]["fields"]
        if view != "length":
            kind = {"type": "text", "analyzer": f"luce_{view}", "similarity": kinds[what]}
            subfields[f"{view}_{what}"] = kind
        elif len(sources) == 1:
            subfields["length"] = {"type": "token_count", "analyzer": "luce_word"}
    analysis = {"tokenizer": tokenizers, "filter": {"luce_pair": pair}, "analyzer": analyzers}
    settings = {"analysis": analysis, "similarity": similarity}
    return {"settings": settings, "mappings": {"properties": properties}}


def solr_field(feature: str) -> str:
    """The field of Solr behind a feature: letters, digits and underscores."""
    return re.sub(r"\W", "_", feature)


def solr_queries(text: Text, names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What Solr computes for every feature of texts, by its name there."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for feature, _, view, _, _ in _scored(text):
        field = solr_field(feature)
        if view == "length":
            found[feature] = "FieldValueFeature", {"field": field, "defaultValue": "0"}
        else:
            found[feature] = "SolrFeature", {"q": f"{{!edismax qf={field} mm=0 sow=false}}${{{KEYWORDS}}}"}
    for feature in text.of_query:
        found[feature] = "ValueFeature", {"value": f"${{{feature}}}", "required": True}
    return {
        names[feature]: {"class": f"org.apache.solr.ltr.feature.{kind}", "params": params}
        for feature, (kind, params) in found.items()
    }


_FACTORIES = {"lowercase": "LowerCase", "asciifolding": "ASCIIFolding", "porter_stem": "PorterStem"}


def solr_schema(text: Text) -> dict[str, Any]:
    """Field types, fields and copies for the Schema API of Solr."""
    kinds = {
        "bm25": {"class": "solr.BM25SimilarityFactory", "k1": str(text.k1), "b": str(text.b)},
        "idf": {"class": "solr.BM25SimilarityFactory", "k1": "0", "b": "0"},
        "count": {"class": "solr.BooleanSimilarityFactory"},
    }
    # Its tokenizer for grams cuts blanks and signs too; a pattern that looks ahead gives those of letters and digits.
    ahead = rf"(?=([\p{{L}}\p{{Nd}}]{{{GRAM}}}))"
    types: dict[str, Any] = {}
    fields, copies = [], []
    for feature, _, view, what, sources in _scored(text):
        if view == "length":
            fields.append({"name": solr_field(feature), "type": "pint", "indexed": False, "docValues": True})
            continue
        pattern, group = {"number": (NUMBER_PATTERN, "0"), "gram": (ahead, "1")}.get(view, (PATTERN, "0"))
        tokenizer = {"class": "solr.PatternTokenizerFactory", "pattern": pattern, "group": group}
        plain = [name for name in _stems(text, view) if name in _FACTORIES]
        filters = [{"class": f"solr.{_FACTORIES[name]}FilterFactory"} for name in plain]
        if view == "pair":
            pair = {"minShingleSize": "2", "maxShingleSize": "2", "outputUnigrams": "false"}
            filters.append({"class": "solr.ShingleFilterFactory", **pair})
        name = f"luce_{view}_{what}"
        analyzer = {"tokenizer": tokenizer, "filters": filters}
        types[name] = {"name": name, "class": "solr.TextField", "positionIncrementGap": "100", "analyzer": analyzer,
                       "similarity": kinds[what]}  # fmt: skip
        several = len(sources) > 1
        fields.append({"name": solr_field(feature), "type": name, "stored": False, "multiValued": several})
        copies += [{"source": source, "dest": solr_field(feature)} for source in sources]
    return {"add-field-type": list(types.values()), "add-field": fields, "add-copy-field": copies}


def remarks(text: Text, solr: bool) -> list[str]:
    """What to know where an engine computes features of texts."""
    passed = f", and {' and '.join(text.of_query)} are numbers that the client passes" if text.of_query else ""
    found = [
        f"The fields {', '.join(text.fields)} need the analyzers and similarities of FILE-index; the text of the query "
        f"is the parameter {KEYWORDS}{passed}.",
        "An engine counts words in its own index, a shard at a time: `luce text-check` compares logged features with "
        "those of the model.",
    ]
    if solr:
        lengths = ", ".join(solr_field(f"{field}.length") for field in field_names(text.fields))
        found.append(
            f"Solr counts no tokens: the client indexes the number of words as {lengths}. edismax reads + - and quotes "
            "as operators: send the words of the query without them."
        )
    return found


def check_lines(
    text: Text, texts: Any, order: IntArray, ids: Any, X: Any, names: Sequence[str], scores: FloatArray
) -> str:
    """Some rows with texts, every feature and the score, a JSON each: what an engine must give back."""
    from luce.data.table import Table

    source = Table.open(texts)
    rows = source.read(text.columns)
    columns = {name: rows[name].texts().to_pylist() for name in text.columns}
    chosen = np.unique(np.linspace(0, len(X) - 1, min(ROWS, len(X))).astype(np.int64)).tolist()
    lines = []
    for row in chosen:
        at = int(order[row])
        line = {
            "id": str(at if ids is None else ids[row]),
            "query": columns[text.query][at] or "",
            "texts": {name: columns[name][at] or "" for name in text.fields},
            "features": dict(zip(names, X[row].astype(float).tolist(), strict=True)),
            "score": float(scores[row]),
        }
        lines.append(json_text(line) + "\n")
    return "".join(lines)


CHECK = '''"""Ask the engine for the documents of FILE-check and compare features and scores; 1 where they differ.

Usage: python3 THIS check.jsonl http://localhost:9200/INDEX MODEL[,MODEL-2] FEATURE_SET [FIELD_OF_IDS]
"""

import json
import sys
import urllib.request

WORST = 1e-4


def ask(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def main(file, index, model, featureset, field="_id"):
    worst = {}
    for line in map(json.loads, open(file, encoding="utf-8")):
        params = {"keywords": line["query"]} | {k: v for k, v in line["features"].items() if k in ("q_words", "q_idf")}
        log = {"sltr": {"_name": "logged", "featureset": featureset, "params": params}}
        asked = [{"sltr": {"model": name, "params": params}} for name in model.split(",")]
        body = {
            "query": {"bool": {"filter": [{"terms": {field: [line["id"]]}}, log]}},
            "rescore": {"query": {"rescore_query": {"bool": {"should": asked}}, "query_weight": 0}},
            "ext": {"ltr_log": {"log_specs": {"name": "main", "named_query": "logged", "missing_as_zero": True}}},
        }
        hits = ask(index + "/_search", body)["hits"]["hits"]
        if not hits:
            sys.exit("document %s is not in the index" % line["id"])
        logged = {one["name"]: one.get("value", 0.0) for one in hits[0]["fields"]["_ltrlog"][0]["main"]}
        for name, value in (line["features"] | {"score": line["score"]}).items():
            if value is None:
                continue
            found = hits[0]["_score"] if name == "score" else logged.get(name, 0.0)
            worst[name] = max(worst.get(name, 0.0), abs(found - value) / max(1.0, abs(value)))
    for name, difference in sorted(worst.items(), key=lambda pair: -pair[1]):
        print("%-30s %.2g" % (name, difference))
    sys.exit(1 if max(worst.values()) > WORST else 0)


main(*sys.argv[1:])
'''
"""For Elasticsearch and OpenSearch."""

_PROGRAM = '''

TEXTS = {texts}
"""The fields of texts, parameters, and in how many documents of the corpus each word stands."""


def score_text(query, texts, features=()):
    """Score one document: the text of the query, those of the document by field, and its other features, if any.

    Other features are a sequence in the order of FEATURES before those of texts, or a dict.
    """
    made = text_features(query, texts)
    if hasattr(features, "keys"):
        return score({{**features, **dict(zip(FEATURES[len(FEATURES) - len(made):], made))}})
    return score([*features, *made])


def text_features(query, texts):
    """The features of one document, in the order of FEATURES."""
    unknown = set(texts) ^ set(TEXTS["fields"])
    if unknown:
        raise ValueError("texts are needed of exactly these fields: " + ", ".join(TEXTS["fields"]))
    fields = [[texts[name] or ""] for name in TEXTS["fields"]]
    fields += [[part for each in fields for part in each]] if len(fields) > 1 else []
    found, asked = [], _views([query])
    for name, parts in zip(TEXTS["names"], fields):
        views = _views(parts)
        known = TEXTS["known"]
        scores = {{view: _matched(asked[view], views[view], known[name + "." + view]) for view in TEXTS["views"]}}
        pairs = _counted(asked["pair"], views["pair"])
        found += [scores["word"][0], scores["word"][2], scores["exact"][0], pairs, scores["gram"][0], scores["gram"][1]]
        found.append(float(len(views["word"])))
        if TEXTS["numbers"]:
            numbers = [[term for term in side["exact"] if term[0].isdigit()] for side in (asked, views)]
            found.append(_counted(*numbers))
        known = TEXTS["known"][name + ".word"]
    if not TEXTS["query_features"]:
        return found
    total = 0.0
    for term in asked["word"]:
        total += _idf(term, known)
    return [*found, float(len(asked["word"])), total]


def _views(parts):
    exact = [words(part) for part in parts]
    stems = [[stem(term) for term in each] if TEXTS["stems"] else each for each in exact]
    return {{
        "exact": [term for each in exact for term in each],
        "word": [term for each in stems for term in each],
        "pair": [pair for each in stems for pair in zip(each, each[1:])],
        "gram": [gram for part in parts for run in runs(part) for gram in grams(run)],
    }}


def _idf(term, known):
    n = known["counts"].get(term, 1)
    return math.log1p((max(known["documents"], n) - n + 0.5) / (n + 0.5))


def _matched(asked, document, known):
    score = matched = number = 0.0
    stored = _stored(len(document))
    length = TEXTS["k1"] * (1.0 - TEXTS["b"] + TEXTS["b"] * stored / known["mean"])
    inverse = 1.0 / length if length else math.inf
    for term in dict.fromkeys(asked):
        count = document.count(term)
        if count:
            times = asked.count(term)
            weight = _idf(term, known) * times
            score += weight - weight / (1.0 + count * inverse)
            matched += weight
            number += times
    return score, matched, number


def _counted(asked, document):
    there = set(document)
    return float(sum(term in there for term in asked))


def _stored(length):
    above = max(length - 24, 0)
    shift = max(above.bit_length() - 4, 0)
    return length if length < 24 else 24 + (above >> shift << shift)
'''


def python_program(text: Text) -> str:
    """The analyzer, the frequencies of words and the features, as a part of a plain Python file."""
    names = field_names(text.fields)
    known = {
        f"{name}.{view}": {
            "documents": found.documents, "mean": found.mean_length, "counts": dict(found.counts),
        }
        for name in names
        for view in VIEWS
        for found in [text.frequencies_[f"{name}.{view}"]]
    }  # fmt: skip
    told = {
        "fields": list(text.fields), "names": names, "views": list(VIEWS), "stems": text.language == "english",
        "numbers": text.numbers, "query_features": text.query_features, "k1": text.k1, "b": text.b, "known": known,
    }  # fmt: skip
    # The analyzer's module without its first text and the imports that an export has at its head.
    code = inspect.getsource(tokens).partition('"""')[2].partition('"""')[2]
    code = re.sub(r"^(from __future__|from functools|from typing|import (re|unicodedata)).*\n", "", code, flags=re.M)
    return f"\n\n{code}{_PROGRAM.format(texts=repr(told))}"
