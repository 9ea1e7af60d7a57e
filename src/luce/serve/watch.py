"""What a model is asked, beside what it was trained on: drift, gaps, unknown categories, and a second model's view.

A few documents of every request are kept and counted into the bins of the model's profile some requests later, so that
an answer waits for none of it. Drift is that of a window: the last 5,000 to 10,000 documents that were kept.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from luce.data.describe import SCORE, Profile
from luce.errors import LuceError
from luce.serve.shelf import Served
from luce.types import FloatArray

_ROWS = 16
"""Documents of a request that are looked at."""
_REQUESTS = 64
"""Requests whose documents are counted together."""
WINDOW = 5_000


def some_rows(count: int, most: int) -> slice:
    """At most so many rows of a request, at equal distances."""
    return slice(None, None, -(-count // most))


class Watch:
    """The documents that one model was asked to score."""

    def __init__(self, served: Served) -> None:
        self.name, self.version = served.name, served.version
        self.features = (*served.features, SCORE)
        self.profile: Profile | None = served.ranker.profile_
        self._unknown = {j: len(names) for j, names in enumerate(map(served.codes.get, served.features)) if names}
        self._lock = threading.Lock()
        self._waiting: list[tuple[NDArray[np.float32], FloatArray]] = []
        size = 0 if self.profile is None else len(self.profile.shares)
        self._now, self._before = np.zeros(size), np.zeros(size)
        self._seen = 0
        self.missing = np.zeros(len(served.features), dtype=np.int64)
        self.unknown = np.zeros(len(served.features), dtype=np.int64)
        self._takes_missing = served.takes_missing

    def add(self, X: NDArray[np.float32], scores: FloatArray) -> None:
        """Note a request; most of the work is done for many at once."""
        some = some_rows(len(X), _ROWS)
        kept = (X[some].copy(), scores[some].copy())
        with self._lock:
            if self._takes_missing:
                self.missing += np.isnan(X).sum(axis=0)
            for j, known in self._unknown.items():
                self.unknown[j] += int((X[:, j] >= known).sum())
            self._waiting.append(kept)
            if len(self._waiting) < _REQUESTS:
                return
            waiting, self._waiting = self._waiting, []
        self._count(waiting)

    def _count(self, waiting: list[tuple[NDArray[np.float32], FloatArray]]) -> None:
        if self.profile is None or not waiting:
            return
        X, scores = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
        counts = self.profile.counts(X, scores)
        with self._lock:
            self._now += counts
            self._seen += len(X)
            if self._seen >= WINDOW:
                self._before, self._now, self._seen = self._now, np.zeros_like(self._now), 0

    def window(self) -> FloatArray:
        """Counts of the profile's bins over the window."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        self._count(waiting)
        with self._lock:
            return self._before + self._now

    def drift(self) -> dict[str, tuple[float, float]]:
        """Stability index and distance by feature and of the score; nothing without a profile or documents."""
        counts = self.window()
        if self.profile is None or not counts.any():
            return {}
        found = self.profile.drift(counts)
        return {name: (one.psi, one.ks) for name, one in zip(self.features, found, strict=True)}


class Aside:
    """Work that no answer waits for, by one thread; what it cannot keep up with is left out and counted."""

    def __init__(self, name: str, room: int = 32) -> None:
        self._queue: queue.Queue[Callable[[], None]] = queue.Queue(room)
        self.left_out = 0
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def do(self, work: Callable[[], None]) -> None:
        """Do it later, or never."""
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            self.left_out += 1

    def wait(self, seconds: float = 60.0) -> bool:
        """Until all is done, but no longer than so many seconds; whether it is."""
        waiting = self._queue
        with waiting.all_tasks_done:
            return waiting.all_tasks_done.wait_for(lambda: not waiting.unfinished_tasks, seconds)

    def _work(self) -> None:
        while True:
            work = self._queue.get()
            try:
                work()
            finally:
                self._queue.task_done()


class Shadow:
    """A second model that scores the same documents; nobody sees its answers, only how they differ."""

    _TOP = 10

    def __init__(self, served: Served, of: Served) -> None:
        if served.features != of.features or served.codes != of.codes or served.also.scores or of.also.scores:
            raise LuceError(
                f"The shadow has other features or categories than {of.name!r}, or one of them adds to outside scores; "
                "both must take the same documents."
            )
        self.served = served
        self.aside = Aside("shadow")
        self._figures = dict.fromkeys(_SHADOWED, 0.0)

    @property
    def figures(self) -> dict[str, float]:
        """How often, and how far, the two models differ."""
        return {**self._figures, "left_out": self.aside.left_out}

    def add(self, X: NDArray[np.float32], scores: FloatArray) -> None:
        """Compare the rankings of one request, later."""
        self.aside.do(lambda: self._compare(X, scores))

    def _compare(self, X: NDArray[np.float32], scores: FloatArray) -> None:
        figures = self._figures
        try:
            other = self.served.ranker.predict(self.served.groups(X))
        except LuceError:
            figures["failed"] += 1
            return
        ours, theirs = (np.argsort(-s, kind="stable") for s in (scores, other))
        top = min(self._TOP, len(ours))
        figures["requests"] += 1
        figures["first_differs"] += int(ours[0] != theirs[0])
        figures["top_overlap"] += len(set(ours[:top].tolist()) & set(theirs[:top].tolist())) / top
        n, apart = len(ours), float(np.sum((np.argsort(ours) - np.argsort(theirs)) ** 2))
        figures["rank_correlation"] += 1.0 - 6.0 * apart / (n * (n * n - 1.0)) if n > 1 else 1.0  # Spearman's


_SHADOWED = {
    "requests": "Requests that the shadow ranked as well.",
    "failed": "Requests that the shadow could not rank.",
    "left_out": "Requests that the shadow had no time for.",
    "first_differs": "Requests whose first document differs.",
    "top_overlap": "Sum over requests of the share of the first 10 that both have.",
    "rank_correlation": "Sum over requests of Spearman's correlation of the two rankings.",
}


class Drifts:
    """The figures of watches and shadows, made when Prometheus asks."""

    def __init__(self, watches: dict[str, Watch], shadows: dict[str, Shadow]) -> None:
        self.watches, self.shadows = watches, shadows

    def collect(self) -> Iterator[Any]:
        """All figures."""
        psi = GaugeMetricFamily(
            "luce_drift_psi", "Population stability index against training.", labels=["model", "column"]
        )
        ks = GaugeMetricFamily(
            "luce_drift_ks", "Kolmogorov-Smirnov distance from training.", labels=["model", "column"]
        )
        missing = CounterMetricFamily("luce_missing_values", "Gaps, by feature.", labels=["model", "feature"])
        unknown = CounterMetricFamily(
            "luce_unknown_categories", "Categories that training did not have.", labels=["model", "feature"]
        )
        for name, watch in list(self.watches.items()):
            for column, (index, distance) in watch.drift().items():
                psi.add_metric([name, column], index)
                ks.add_metric([name, column], distance)
            for j in np.flatnonzero(watch.missing).tolist():
                missing.add_metric([name, watch.features[j]], int(watch.missing[j]))
            for j in np.flatnonzero(watch.unknown).tolist():
                unknown.add_metric([name, watch.features[j]], int(watch.unknown[j]))
        yield from (psi, ks, missing, unknown)
        for key, text in _SHADOWED.items():
            family = CounterMetricFamily(f"luce_shadow_{key}", text, labels=["model"])
            for name, shadow in self.shadows.items():
                family.add_metric([name], shadow.figures[key])
            yield family
