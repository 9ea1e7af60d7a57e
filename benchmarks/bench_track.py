"""Tracking: the exact likelihood against belief propagation, and a year of daily signals."""

from __future__ import annotations

import time

import numpy as np
from harness import Line, best_of

import luce.track as lt


def run() -> list[Line]:
    return [*likelihood(), *year()]


def likelihood() -> list[Line]:
    """10,000 particles around the target, s = 10, r = 4, as in the paper's simulation."""
    rng = np.random.default_rng(0)
    sources, positions = rng.random((10, 2)), 0.5 + 0.1 * rng.standard_normal((10_000, 2))
    times = np.sort(np.append(np.sort(np.linalg.norm(sources - 0.5, axis=1))[[0, 1, 3]], 0.2))
    settings = {"sigma": 0.02, "detection": 0.7, "clutter_rate": 4.0, "window": (0.0, 1.5)}

    def call(engine: str) -> float:
        return best_of(lambda: lt.log_likelihood(times, positions, sources, engine=engine, **settings), repeats=20)

    exact, bethe = call("exact"), call("bethe")
    shifts = settings | {"emission_sd": 0.02}
    shifted = best_of(lambda: lt.log_likelihood(times, positions, sources, engine="exact", **shifts), repeats=3)
    return [
        Line("exact likelihood, 10,000 particles", exact * 1e3, "ms", goal="at most 3 ms", met=exact < 3e-3),
        Line(
            "the same against belief propagation", exact * 1e3, "ms", "bethe", bethe * 1e3,
            goal="at least 5 times faster", met=bethe > 5 * exact,
        ),
        Line(
            "a shift of sd sigma summed out (25 terms), against 25 times exact", shifted * 1e3, "ms", "25 times exact",
            25 * exact * 1e3, goal="at most 2 times as long", met=shifted < 50 * exact,
        ),
    ]  # fmt: skip


def year() -> list[Line]:
    """A float on the earth: 365 days, 12 sources, 5,000 particles."""
    world = lt.simulate("ocean", steps=365, random_state=0)
    settings = {"start": world.start, "dynamics": 8000.0, "particles": 5000} | world.settings

    def once(smooth: bool, check: bool = False) -> float:
        start = time.perf_counter()
        lt.follow(world.signals, world.sources, smooth=smooth, check=check, **settings)
        return time.perf_counter() - start

    warm = lt.simulate("ocean", steps=3, random_state=0)
    lt.follow(warm.signals, warm.sources, **settings)
    filtered, both, checked = once(False), once(True), once(False, check=True)
    return [
        Line("a year filtered, 5,000 particles", filtered, goal="under 10 s", met=filtered < 10),
        Line("a year smoothed (1,000 trajectories)", both - filtered, goal="under 60 s", met=both - filtered < 60),
        Line(
            "a year checked for trust, against filtering it",
            checked - filtered,
            "s",
            "filter",
            filtered,
            goal="at most 2 times",
            met=checked - filtered < 2 * filtered,
        ),
    ]


if __name__ == "__main__":
    for line in run():
        print(line)
