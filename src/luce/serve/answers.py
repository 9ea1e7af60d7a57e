"""From a request to its answer: scores, ranking and probabilities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from luce.errors import LuceError, RowsError
from luce.serve.errors import Refused
from luce.serve.requests import Ask
from luce.serve.settings import Limits
from luce.serve.shelf import Served
from luce.types import FloatArray


class Ranked(BaseModel):
    """A document in its place."""

    id: str | int
    rank: int = Field(description="1 is best; documents with equal scores keep their order in the request.")
    score: float
    top_k: float | None = Field(default=None, description="Chance of being among the first k.")
    reference: float | None = Field(default=None, description="What the features add to: the score of a reference.")
    adds: dict[str, float] | None = Field(default=None, description="What each feature adds to the score.")


class Pairs(BaseModel):
    """Chances of pairs; rows and columns are the documents of the ranking, in its order."""

    better: list[list[float]] = Field(description="Chance that the document of the row is better than the column's.")
    tied: list[list[float]] = Field(description="Chance that the two are tied.")


class RankAnswer(BaseModel):
    """A ranking, best first."""

    model: str
    version: str
    documents: int = Field(description="Documents in the request.")
    ranking: list[Ranked]
    pairs: Pairs | None = None


Seen = Callable[[NDArray[np.float32], FloatArray], None]
"""Told of the features and scores of a request that is answered."""


def answer(served: Served, ask: Ask, limits: Limits, seen: Seen | None = None) -> dict[str, object]:
    """The answer as plain values, in the shape of `RankAnswer`."""
    for what, key, asked, most in (
        ("Chances of pairs", "pairs", ask.pairs, limits.pair_documents),
        ("Chances of the first k", "top_k", ask.top_k, limits.top_k_documents),
        ("Reasons", "explain", ask.explain, limits.pair_documents),
    ):
        if asked and len(ask.ids) > most:
            given = f"{what} are given for at most {most} documents and the request has {len(ask.ids)}"
            raise Refused(413, "too_many_documents", f"{given}; send fewer, or leave {key} out.")
    if ask.scores is not None and (ask.pairs or ask.top_k):
        raise Refused(422, "cannot_rank", "A model on scores of another system has no probabilities; leave them out.")
    try:
        return _answer(served, ask, seen)
    except LuceError as error:
        raise Refused(422, "cannot_rank", str(error)) from error


def _answer(served: Served, ask: Ask, seen: Seen | None) -> dict[str, object]:
    data = served.groups(ask.X, ask.relations)
    try:
        scores = served.ranker.predict(data, base_scores=ask.scores)
    except RowsError as error:
        document = ask.ids[error.rows[0]]
        raise Refused(
            422, "no_score", f"Document {document!r} has features so large that its score is not finite."
        ) from error
    if seen is not None:
        seen(ask.X, scores)
    order = np.argsort(-scores, kind="stable")[: ask.top]
    names = map(ask.ids.__getitem__, order.tolist())
    places = zip(names, range(1, len(order) + 1), scores[order].tolist(), strict=True)
    ranking: list[dict[str, object]] = [{"id": name, "rank": rank, "score": score} for name, rank, score in places]
    if ask.top_k is not None:
        chances = served.ranker.topk_probability(data, ask.top_k)[order].tolist()
        for place, chance in zip(ranking, chances, strict=True):
            place["top_k"] = chance
    if ask.explain:
        reasons = served.ranker.explain(data, base_scores=ask.scores)
        for place, row in zip(ranking, order.tolist(), strict=True):
            place["reference"] = float(reasons.base_values[row])
            place["adds"] = dict(zip(reasons.feature_names, reasons.values[row].tolist(), strict=True))
    found: dict[str, object] = {
        "model": served.name,
        "version": served.version,
        "documents": len(ask.ids),
        "ranking": ranking,
    }
    if ask.pairs:
        chances_of = served.ranker.pairs(data)[0]
        square = np.ix_(order, order)
        found["pairs"] = {"better": chances_of.before[square].tolist(), "tied": chances_of.tie[square].tolist()}
    return found
