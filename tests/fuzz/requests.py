"""Bodies of requests: damaged, and answered or refused as the service does."""

from __future__ import annotations

import json
import random
import tempfile
from functools import cache
from pathlib import Path

from luce.serve.answers import answer
from luce.serve.errors import Refused
from luce.serve.requests import parse
from luce.serve.settings import Limits
from luce.serve.shelf import Served, Shelf
from tests.fuzz import model_files
from tests.fuzz.mutations import damaged_bytes, damaged_tree

__all__ = ["KINDS", "attack", "clean_body", "use"]

KINDS = {"linear": "linear", "by name": "table trees", "matrix": "column base"}


@cache
def _served(kind: str) -> Served:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.luce"
        model_files.write(model_files.clean(KINDS[kind]), path)
        return Shelf({"m": path}).served["m"]


@cache
def _clean(kind: str) -> dict:
    rows = [[0.5, -1.25, 3e-7, 12345.678901234567], [1, 0, None, 2e10]]
    if kind == "matrix":
        return {"features": rows[:1] * 3, "ids": ["a", 7, "c:d"], "top": 2}
    if kind == "linear":
        documents = [{"id": "a", "features": rows[0]}, {"features": [0, 1, 2, 3]}]
        return {"documents": documents, "probabilities": {"top_k": 1, "pairs": True}}
    named = [{"price": 1.5, "rank": 2, "brand": "a"}, {"rank": 0.25, "price": None, "brand": "zzz"}]
    return {"documents": [{"id": i, "features": row} for i, row in enumerate(named)]}


def clean_body(kind: str) -> bytes:
    """A good request."""
    return json.dumps(_clean(kind)).encode()


def attack(kind: str, rng: random.Random) -> bytes:
    """A damaged body: in its tree, in its bytes, or in both."""
    tree = damaged_tree(_clean(kind), rng) if rng.random() < 0.6 else _clean(kind)
    body = json.dumps(tree, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return damaged_bytes(body, rng) if tree is _clean(kind) or rng.random() < 0.3 else body


def use(kind: str, body: bytes) -> None:
    """Answer it; a refusal has a status for it and one sentence."""
    served, limits = _served(kind), Limits(documents=100)
    try:
        found = answer(
            served, parse(body, served.features, served.takes_missing, limits, served.codes, served.types), limits
        )
    except Refused as error:
        refused = error
    else:
        assert len(found["ranking"]) <= found["documents"]
        return
    assert refused.status in (400, 413, 422), refused
    assert refused.message.endswith("."), refused.message
