"""A simulated collection in which documents repeat each other: good stories are copied, so that the best are all alike.

Every query has some stories; a story is about one subtopic of the query or about none, has a quality, and is told by
one or more documents that differ little. Features are noisy views of the quality, and the content: a direction that
stories of a subtopic share in part. The label is 1 for a story about a subtopic. A pointwise ranker puts the copies of
the best story first; a reader wants one of each.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from luce.data.groups import Groups
from luce.errors import SettingError
from luce.numerics.segments import query_index
from luce.types import IntArray

_QUALITIES, _CONTENT = 4, 16
_RELEVANT = 0.6


def simulate_duplicates(
    queries: int = 100,
    *,
    stories: int = 12,
    subtopics: int = 6,
    copies: float = 4.0,
    noise: float = 0.05,
    seed: int = 0,
) -> Groups:
    """Simulate queries of `stories` stories, each told `copies` times on average.

    `noise` is how far copies of a story differ. Subtopics are those of `Groups.subtopics`.

    >>> data = simulate_duplicates(20, seed=1)
    >>> data.n_queries, data.n_features, data.subtopics.shape[1]
    (20, 20, 6)
    """
    for name, value, least in (("queries", queries, 1), ("stories", stories, 1), ("subtopics", subtopics, 1)):
        if value < least:
            raise SettingError(f"{name} is {value}; it must be at least {least}.")
    if not copies >= 1 or not noise >= 0 or seed < 0:
        raise SettingError("copies must be at least 1, noise and seed at least 0.")
    rng = np.random.default_rng(np.random.SeedSequence([seed, 7]))
    n = queries * stories
    about = np.where(rng.random(n) < _RELEVANT, rng.integers(0, subtopics, n), -1)
    quality = rng.normal(size=n) + 1.5 * (about >= 0)
    # The better a story, the more often it is copied.
    lengths = 1 + rng.poisson((copies - 1) * np.exp(0.5 * quality - np.mean(0.5 * quality)).clip(max=4.0))
    story = np.repeat(np.arange(n), lengths)
    X = np.hstack([_views(quality, story, noise, rng), _content(about, stories, subtopics, story, noise, rng)])
    sizes = lengths.reshape(queries, stories).sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    order = _shuffled(offsets, rng)
    story, X = story[order], X[order]
    rows = np.flatnonzero(about[story] >= 0)
    shape = (len(story), subtopics)
    place = np.arange(len(story)) - offsets[query_index(offsets)] + 1
    return Groups(
        X=np.ascontiguousarray(X, dtype=np.float32),
        y=(about[story] >= 0).astype(np.float64),
        offsets=offsets,
        query_ids=np.array([str(q + 1) for q in range(queries)]),
        document_ids=np.array([f"d{d}" for d in place.tolist()]),
        subtopics=sparse.csr_array((np.ones(len(rows)), (rows, about[story[rows]])), shape=shape),
    )


def _views(quality: np.ndarray, story: IntArray, noise: float, rng: np.random.Generator) -> np.ndarray:
    of_story = quality[:, None] + rng.normal(0, 0.7, (len(quality), _QUALITIES))
    return np.asarray(of_story[story] + rng.normal(0, noise, (len(story), _QUALITIES)))


def _content(
    about: IntArray, stories: int, subtopics: int, story: IntArray, noise: float, rng: np.random.Generator
) -> np.ndarray:
    n = len(about)
    topic = rng.random((n // stories, subtopics + 1, _CONTENT)) ** 4
    shared = topic[np.arange(n) // stories, about]  # -1 is the last: stories about nothing share a direction too
    own = rng.random((n, _CONTENT)) ** 4
    direction = shared + own
    return np.asarray(np.abs(direction[story] + rng.normal(0, noise, (len(story), _CONTENT))))


def _shuffled(offsets: IntArray, rng: np.random.Generator) -> IntArray:
    """The rows of every query in random order."""
    return np.lexsort((rng.random(int(offsets[-1])), query_index(offsets))).astype(np.int64)
