"""Judged collections that look like the real ones, and are the same for the same seed.

`simulate`: documents have a few latent qualities u = (query part) + (own part). Relevance is nonlinear in them,

    s = tanh(u_1) + 0.7 u_2 u_3 + max(u_4, 0) - 0.4 u_5^2 + (effect of the query) + (noise of the judge),

and labels cut s at quantiles, so that low grades are common and ties abound. Features are families of noisy views of u:
linear, heavy-tailed (PageRank), counts, the same for all documents of a query, mostly zero, and useless.

Near duplicates: every query has some stories; a story is about one subtopic of the query or about none, has a
quality, and is told by one or more documents that differ little. Features are noisy views of the quality, and the
content: a direction that stories of a subtopic share in part. The label is 1 for a story about a subtopic. A pointwise
ranker puts the copies of the best story first; a reader wants one of each.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.checks import number, whole
from luce.data.groups import Groups
from luce.errors import SettingError
from luce.numerics.segments import Chunk, chunk_queries, map_chunks, query_index
from luce.numerics.threads import one_blas_thread
from luce.types import FloatArray, IntArray

MAX_SIZE = 200
_MEAN_SIZE = 24.0
_SPREAD = 0.85
_QUALITIES = 8
_FAMILIES = {"linear": 0.3, "heavy": 0.25, "counts": 0.15, "query": 0.1, "sparse": 0.1, "useless": 0.1}


def simulate(queries: int = 1000, features: int = 46, *, grades: int = 5, noise: float = 0.5, seed: int = 0) -> Groups:
    """Simulate judged queries of 1 to 200 documents, about 24 on average.

    Labels run from 0 to `grades - 1`; `noise` is the standard deviation of the judge. The last feature is constant
    where there are at least 10.

    >>> data = simulate(100, 12, seed=1)
    >>> data.n_queries, data.n_features, sorted(set(data.y.tolist()))
    (100, 12, [0.0, 1.0, 2.0, 3.0, 4.0])
    """
    for name, value, least in (("queries", queries, 1), ("features", features, 1), ("grades", grades, 2)):
        whole(name, value, least)
    number("noise", noise)
    whole("seed", seed, 0)
    root = np.random.SeedSequence(seed)
    rng = np.random.default_rng(root.spawn(1)[0])
    # The mean of a lognormal is exp(mu + sigma^2 / 2).
    sizes = np.clip(rng.lognormal(np.log(_MEAN_SIZE) - _SPREAD**2 / 2, _SPREAD, queries), 1, MAX_SIZE)
    offsets = np.concatenate([[0], np.cumsum(sizes.astype(np.int64))])
    shared = rng.standard_normal((queries, _QUALITIES), dtype=np.float32)
    u = rng.standard_normal((int(offsets[-1]), _QUALITIES), dtype=np.float32)
    query = query_index(offsets)
    u += 0.6 * shared[query]
    relevance = np.tanh(u[:, 0]) + 0.7 * u[:, 1] * u[:, 2] + np.maximum(u[:, 3], 0) - 0.4 * u[:, 4] ** 2
    relevance = relevance.astype(np.float64) + 0.6 * shared[query, 0] + noise * rng.standard_normal(len(u))
    y = _labels(relevance, grades)
    X = _features(u, shared, offsets, features, rng, root)
    starts = np.arange(1, len(u) + 1) - offsets[query]
    return Groups(
        X=X,
        y=y,
        offsets=offsets,
        query_ids=np.array([str(q + 1) for q in range(queries)]),
        document_ids=np.array([f"Q{q}-{d}" for q, d in zip((query + 1).tolist(), starts.tolist(), strict=True)]),
    )


def split(data: Groups, shares: list[float], seed: int = 0) -> list[Groups]:
    """Cut the queries at random into parts of these shares; every part has at least one query.

    >>> [part.n_queries for part in split(simulate(10, 3), [0.6, 0.2, 0.2])]
    [6, 2, 2]
    """
    if not shares or min(shares) <= 0 or not np.isclose(sum(shares), 1.0):
        raise SettingError(f"The shares are {shares}; they must be positive and sum to 1, such as 0.6,0.2,0.2.")
    bounds = np.rint(np.cumsum([0.0, *shares]) * data.n_queries).astype(np.int64)
    if np.any(np.diff(bounds) < 1):
        raise SettingError(f"{data.n_queries} queries are too few for {len(shares)} parts; simulate more queries.")
    order = np.random.default_rng([seed, 1]).permutation(data.n_queries)
    return [data.take(np.sort(order[a:b])) for a, b in pairwise(bounds)]


def _labels(relevance: FloatArray, grades: int) -> FloatArray:
    """Each grade is half as common as the one below it."""
    shares = 0.5 ** np.arange(grades)
    cuts = np.quantile(relevance, np.cumsum(shares / shares.sum())[:-1])
    return np.searchsorted(cuts, relevance, side="right").astype(np.float64)


def _features(
    u: NDArray[np.float32],
    shared: NDArray[np.float32],
    offsets: IntArray,
    features: int,
    rng: np.random.Generator,
    root: np.random.SeedSequence,
) -> NDArray[np.float32]:
    loadings = rng.standard_normal((_QUALITIES, features), dtype=np.float32)
    loadings *= rng.random(loadings.shape) < 0.4  # a feature sees some of the qualities
    own_noise = rng.uniform(0.3, 1.5, features).astype(np.float32)
    bounds = np.rint(np.cumsum([0.0, *_FAMILIES.values()]) * features).astype(int)
    families = {name: slice(a, b) for name, a, b in zip(_FAMILIES, bounds[:-1], bounds[1:], strict=True)}
    chunks = chunk_queries(offsets, 8192)
    seeds = root.spawn(len(chunks))
    X = np.empty((len(u), features), dtype=np.float32)

    def fill(i: int, chunk: Chunk) -> None:
        rows = slice(int(offsets[chunk[0]]), int(offsets[chunk[1]]))
        block = X[rows]
        np.random.default_rng(seeds[i]).standard_normal(dtype=np.float32, out=block)
        block *= own_noise
        for name, columns in families.items():
            if name not in ("query", "useless"):
                block[:, columns] += u[rows] @ loadings[:, columns]
        sizes = np.diff(offsets[chunk[0] : chunk[1] + 1])
        same = shared[chunk[0] : chunk[1]] @ loadings[:, families["query"]]
        block[:, families["query"]] = np.repeat(same, sizes, axis=0)
        heavy, counts, sparse = (block[:, families[name]] for name in ("heavy", "counts", "sparse"))
        np.exp(np.minimum(heavy, 20.0, out=heavy), out=heavy)
        np.floor(np.exp(np.minimum(counts, 20.0, out=counts), out=counts), out=counts)
        np.maximum(sparse - 1.0, 0.0, out=sparse)

    with one_blas_thread():  # our threads, not those of the BLAS inside each of them
        map_chunks(fill, chunks)
    if features >= 10:
        X[:, -1] = 1.0
    return X


_VIEWS, _CONTENT = 4, 16
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
        whole(name, value, least)
    number("copies", copies, 1.0)
    number("noise", noise)
    whole("seed", seed, 0)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 7]))
    n = queries * stories
    about = np.where(rng.random(n) < _RELEVANT, rng.integers(0, subtopics, n), -1)
    quality = rng.normal(size=n) + 1.5 * (about >= 0)
    # The better a story, the more often it is copied.
    lengths = 1 + rng.poisson((copies - 1) * np.exp(0.5 * quality - np.mean(0.5 * quality)).clip(max=4.0))
    story = np.repeat(np.arange(n), lengths)
    views = (quality[:, None] + rng.normal(0, 0.7, (n, _VIEWS)))[story] + rng.normal(0, noise, (len(story), _VIEWS))
    X = np.hstack([views, _content(about, stories, subtopics, story, noise, rng)])
    sizes = lengths.reshape(queries, stories).sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    order = np.lexsort((rng.random(int(offsets[-1])), query_index(offsets)))  # the rows of a query at random
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


def _content(
    about: IntArray, stories: int, subtopics: int, story: IntArray, noise: float, rng: np.random.Generator
) -> np.ndarray:
    n = len(about)
    topic = rng.random((n // stories, subtopics + 1, _CONTENT)) ** 4
    shared = topic[np.arange(n) // stories, about]  # -1 is the last: stories about nothing share a direction too
    own = rng.random((n, _CONTENT)) ** 4
    direction = shared + own
    return np.asarray(np.abs(direction[story] + rng.normal(0, noise, (len(story), _CONTENT))))
