"""The features of a model as an engine computes them: a stored field a feature, or the query that describes it.

What a model makes of gaps and categories is part of a feature: a gap that is filled, a document without the field, a
field that holds one of some names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from luce.errors import SettingError
from luce.form import Column, Form

Queries = Mapping[str, Mapping[str, Any]]
"""Features of the model that are no stored field: what the engine takes for them, by name."""


def elasticsearch_features(form: Form, columns: Mapping[str, Column], queries: Queries) -> list[dict[str, Any]]:
    """The features of a set for the plugin of Elasticsearch and OpenSearch."""
    names = {column: name for name, column in columns.items()}
    return [_elasticsearch(name, column, form, names, queries) for name, column in columns.items()]


def _elasticsearch(
    name: str, column: Column, form: Form, names: Mapping[Column, str], queries: Queries
) -> dict[str, Any]:
    field = form.names[column.feature]
    if column.times is not None:
        factors = [replace(column, times=None), column.times]
        words = [names[one] for one in factors]
        made: dict[str, Any] = {"template_language": "derived_expression", "template": " * ".join(words)}
        if not all(word.isascii() and all(map(str.isidentifier, word.split("."))) for word in words):
            made = _script(form, factors, queries)  # an expression of Lucene reads no such name
        return {"name": name, "params": [], **made}
    if column.plain and field in queries:
        return {"name": name, "params": [], "template_language": "mustache", **queries[field]}
    exists: dict[str, Any] = {"exists": {"field": field}}
    query: dict[str, Any]
    if column.gap:
        query = {"constant_score": {"filter": {"bool": {"must_not": [exists]}}}}
    elif column.codes is not None:
        listed = [form.category(column.feature, code) for code in sorted(column.codes)]
        query = {"constant_score": {"filter": {"terms": {field: listed}}}}
    else:
        value: dict[str, Any] = {"field": field} | ({} if column.fill is None else {"missing": column.fill})
        asked = exists if column.fill is None else {"match_all": {}}
        query = _replaced(asked, field_value_factor=value)
    return {"name": name, "params": [], "template_language": "mustache", "template": query}


def _script(form: Form, factors: list[Column], queries: Queries) -> dict[str, Any]:
    """A product of two fields whose names no expression can say."""
    if not all(column.plain and form.names[column.feature] not in queries for column in factors):
        raise SettingError(
            f"A product of {form.names[factors[0].feature]!r} needs names of letters, digits, '_' and '.'; rename the "
            "features (--feature-names)."
        )
    read = "(doc[params.{0}].size() == 0 ? params.{0}_gap : doc[params.{0}].value)"
    params: dict[str, Any] = {}
    for key, column in zip("ab", factors, strict=True):
        params |= {key: form.names[column.feature], f"{key}_gap": 0.0 if column.fill is None else column.fill}
    script = {"lang": "painless", "source": f"{read.format('a')} * {read.format('b')}", "params": params}
    return {"template_language": "mustache", "template": _replaced({"match_all": {}}, script_score={"script": script})}


def _replaced(query: dict[str, Any], **function: Any) -> dict[str, Any]:
    """A query whose score is that of a function."""
    return {"function_score": {"query": query, **function, "boost_mode": "replace"}}


def solr_features(form: Form, columns: Mapping[str, Column], queries: Queries, store: str) -> list[dict[str, Any]]:
    """The features of a store of Solr."""
    found = []
    for name, column in columns.items():
        field = form.names[column.feature]
        if column.plain and field in queries:
            described: Mapping[str, Any] = queries[field]
        elif column.plain:
            fill = "NaN" if column.fill is None else repr(column.fill)
            described = _solr("FieldValueFeature", {"field": field, "defaultValue": fill})
        elif column.times is not None:
            asked = [form.names[one.feature] for one in (column, column.times) if form.names[one.feature] in queries]
            if asked:
                raise SettingError(
                    f"The model multiplies {asked[0]!r}, which Solr computes by a query and no function has; train a "
                    "linear model or trees, or export to elasticsearch, onnx or python."
                )
            described = _solr("SolrFeature", {"q": f"{{!func}}{_function(form, column)}"})
        else:
            described = _solr("SolrFeature", {"fq": [_filter(form, column)]})
        found.append({"store": store, "name": name, **described} if store else {"name": name, **described})
    return found


def _solr(kind: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"class": f"org.apache.solr.ltr.feature.{kind}", "params": params}


def _filter(form: Form, column: Column) -> str:
    """A filter that a document passes where the column is 1."""
    field = form.names[column.feature]
    if column.gap:
        return f"*:* -{field}:[* TO *]"
    assert column.codes is not None
    names = [form.category(column.feature, code) for code in sorted(column.codes)]
    sign = next(sign for sign in (",", "|", ";", "\t", "\x1f") if not any(sign in name for name in names))
    return f"{{!terms f={field} separator='{sign}'}}{sign.join(names)}"


def _function(form: Form, column: Column) -> str:
    """A column as a function of stored fields."""
    if column.times is not None:
        return f"product({_function(form, replace(column, times=None))},{_function(form, column.times)})"
    field = form.names[column.feature]
    if column.plain:
        return f"field({field})" if column.fill is None else f"def({field},{column.fill!r})"
    if column.gap:
        return f"if(exists({field}),0,1)"
    assert column.codes is not None
    names = [form.category(column.feature, code) for code in sorted(column.codes)]
    quoted = [name.replace("\\", "\\\\").replace("'", "\\'") for name in names]
    hits = ",".join(f"termfreq({field},'{name}')" for name in quoted)
    return f"if(sum({hits}),1,0)"
