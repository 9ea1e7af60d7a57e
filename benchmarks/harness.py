"""What a benchmark file gives: lines with our figure, the peer's in the same run, and the ratio."""

from __future__ import annotations

import gc
import resource
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


def cpu_seconds() -> float:
    """Processor time of this process, all its threads, and the processes it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def best_of(
    function: Callable[[], Any],
    repeats: int = 3,
    warm_up: bool = True,
    clock: Callable[[], float] = cpu_seconds,
) -> float:
    """The least processor time of several calls, after one that compiles and fills caches: what it costs, whoever else
    is at work. Another clock measures something else."""
    if warm_up:
        function()
    times = []
    for _ in range(repeats):
        gc.collect()
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


best_cpu = best_of


def duel(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int = 3) -> tuple[float, float]:
    """The least processor time of each: both warm, as often, and in turn, so that the machine hits both alike."""
    ours(), theirs()
    pairs = [tuple(best_of(side, 1, warm_up=False) for side in (ours, theirs)) for _ in range(repeats)]
    return min(own for own, _ in pairs), min(other for _, other in pairs)


def exponent(sizes: list[int], times: list[float]) -> float:
    """The slope of log time over log size."""
    import numpy as np

    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
