"""What a benchmark file gives: lines with our figure, the peer's in the same run, and the ratio."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """One measured figure. `goal` is in words; `met` says whether this run reached it (None: no goal)."""

    what: str
    ours: float
    unit: str = "s"
    peer: str = ""
    theirs: float | None = None
    goal: str = ""
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        """How many times the peer's figure is ours."""
        return None if self.theirs is None else self.theirs / self.ours

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def best_of(
    function: Callable[[], Any],
    repeats: int = 3,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The least wall time of several calls, after one that compiles and fills caches; or the time of another clock."""
    if warm_up:
        function()
    times = []
    for _ in range(repeats):
        gc.collect()
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def best_cpu(function: Callable[[], Any], repeats: int = 3, warm_up: bool = True) -> float:
    """The least processor time of several calls: what it costs, whoever else is at work."""
    return best_of(function, repeats, warm_up, time.process_time)


def exponent(sizes: list[int], times: list[float]) -> float:
    """The slope of log time over log size."""
    import numpy as np

    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
