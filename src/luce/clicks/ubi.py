"""User Behavior Insights of OpenSearch: its query store and event store as sessions with lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from luce.data.table_file import json_objects
from luce.errors import DataError, ParseError

_LISTS = ("query_response_object_ids", "query_response_hit_ids", "query_response_objects_ids")


def ubi_sessions(queries: str | Path, events: str | Path) -> Any:
    """A table with query, documents (best first) and clicked (documents), a row a search whose results are known.

    A search is a line of the query store: `query_id`, `user_query` and the ids of its results. A click is a line of the
    event store whose `action_name` is click, with the same `query_id` and the document in
    `event_attributes.object.object_id`. Lines may be documents of an index or hits around them (`_source`).
    """
    import pyarrow as pa

    clicks: dict[str, set[str]] = {}
    for line, event in _documents(events):
        if event.get("action_name") != "click":
            continue
        search, clicked = event.get("query_id"), _object_id(event)
        if search is None or clicked is None:
            raise ParseError(events, "a click needs query_id and event_attributes.object.object_id.", line)
        clicks.setdefault(str(search), set()).add(str(clicked))
    texts, shown, chosen = [], [], []
    for line, search in _documents(queries):
        name = next((name for name in _LISTS if search.get(name) is not None), None)
        if search.get("query_id") is None or search.get("user_query") is None or name is None:
            raise ParseError(queries, f"a search needs query_id, user_query and {_LISTS[0]} or {_LISTS[1]}.", line)
        documents = [str(document) for document in search[name]]
        if not documents:
            continue
        picked = clicks.pop(str(search["query_id"]), set())
        stray = picked - set(documents)
        if stray:
            raise ParseError(
                events,
                f"document {min(stray)!r} was clicked in search {search['query_id']!r}, which did not show it; object "
                "ids of events must be those of the results.",
            )
        texts.append(str(search["user_query"]))
        shown.append(documents)
        chosen.append(sorted(picked))
    if clicks:
        raise ParseError(
            events,
            f"clicks without an impression: search {min(clicks)!r} is not in {queries}; give the whole query store.",
        )
    if not texts:
        raise DataError(f"{queries} holds no search with results; give the query store of the log.")
    lists = pa.list_(pa.string())
    return pa.table({"query": texts, "documents": pa.array(shown, lists), "clicked": pa.array(chosen, lists)})


def _object_id(event: dict[str, Any]) -> Any:
    attributes = event.get("event_attributes")
    thing = attributes.get("object") if isinstance(attributes, dict) else None
    return thing.get("object_id") if isinstance(thing, dict) else None


def _documents(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file, a line each, with the numbers of their lines."""
    for line, found in json_objects(path):
        source = found.get("_source")
        yield line, source if isinstance(source, dict) else found
