"""When a track counts as lost: rates on simulated targets, and the property that bounds false alarms."""

from __future__ import annotations

import numpy as np
import pytest

from luce.track import OrnsteinUhlenbeck, Reception, Signals, Sources, draw_arrivals, simulate
from luce.track.filter import ALARM, Filter, Rival, is_lost, suspicion
from luce.track.follow import make_problem
from luce.track.trust import mean_and_covariance


def flags(clutter_rate, seed, *, astray):
    """Flags and errors of 40 steps: the true start and a fitting walk, or a wrong start and too stiff a one."""
    world = simulate("walk", steps=40, clutter_rate=clutter_rate, random_state=seed)
    start, sd = ((world.start + 0.5) % 1, 0.004) if astray else (world.start, 0.03)
    settings = {"start": start, "dynamics": sd, "widen": 1.0, "particles": 600} | world.settings
    problem = make_problem(world.signals, world.sources, **settings)
    state = Filter(problem, np.random.default_rng(seed)).run()
    geometry = world.sources.geometry
    means = [mean_and_covariance(geometry, x, np.exp(w))[0] for x, w in zip(state.x, state.log_weight, strict=True)]
    lost = np.array([is_lost(state, k) for k in range(40)])
    return lost, np.linalg.norm(np.array(means) - world.truth, axis=1)


@pytest.mark.parametrize(("clutter_rate", "share"), [(1.0, 0.9), (4.0, 0.8), (8.0, 0.6)])
def test_lost_tracks_are_flagged_and_good_ones_are_not(clutter_rate, share):
    """The share counts the steps until the alarm too: with more clutter it comes later."""
    astray = [flags(clutter_rate, seed, astray=True) for seed in range(5)]
    assert np.mean([np.mean(lost[error > 0.15]) for lost, error in astray]) > share
    good = [flags(clutter_rate, seed, astray=False) for seed in range(5)]
    assert not np.any(np.concatenate([lost[error < 0.15] for lost, error in good]))


def test_expected_ratio_of_rival_and_filter_is_one():
    """E over T ~ p of q(T) / p(T) is 1: what bounds the rate of false alarms."""
    rng = np.random.default_rng(1)
    sources = Sources(rng.random((6, 2)))
    settings = {"sigma": 0.1, "detection": 0.7, "clutter_rate": 3.0, "window": (0.0, 2.0), "r": 3, "early": "lost"}
    ratios = []
    for _ in range(600):
        x = np.array([0.5, 0.4]) + 0.2 * rng.standard_normal(2)
        arrivals, _ = draw_arrivals(x, sources, Reception(**settings), rng)
        signals = Signals.from_lists([1.0], [arrivals])
        problem = make_problem(signals, sources, start=[0.5, 0.4], dynamics=0.2, particles=600, **settings)
        ratios.append(np.exp(Filter(problem, rng).run().suspicion[0]))
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert error < 0.1
    assert abs(np.mean(ratios) - 1) < 4 * error


def test_suspicion_is_bounded_both_ways():
    assert suspicion(-50.0, 0.0, -3.0) == -3
    value = 0.0
    for _ in range(100):
        value = suspicion(value, -9.0, -1.0)
    assert ALARM < value < 2 * ALARM


@pytest.mark.parametrize("places", [[[0.0, 0.0]], [[0, 0], [3, 0], [5, 0]], [[0], [1]], [[0, 0, 0], [1, 1, 1]]])
def test_lattice_has_room_around_any_sources(places):
    """One source, sources on a line, one and three dimensions."""
    sources = Sources(np.array(places, dtype=float))
    d = sources.positions.shape[1]
    reception = Reception(0.1, window=(0.0, 4.0))
    rival = Rival.over(sources, sources.positions[0], reception)
    assert 300 < len(rival.points) < 800
    assert np.all(np.ptp(rival.points, axis=0) > 0)
    assert np.all(rival.points.min(axis=0) <= sources.positions.min(axis=0))
    assert np.all(rival.points.max(axis=0) >= sources.positions.max(axis=0))
    weight = np.zeros(len(rival.points))
    weight[len(weight) // 2] = 1
    moved = rival.moved(weight, OrnsteinUhlenbeck(0.1, 2.0), 1.0)
    assert moved.shape == (len(rival.points),)
    assert moved.sum() == pytest.approx(1, rel=1e-12)
    assert np.argmax(moved) == len(weight) // 2
    assert moved.min() == pytest.approx(0.02 / len(moved), rel=1e-6)
    assert d == len(rival.axes)


def test_where_nothing_explains_the_signals_the_rival_waits():
    weight = np.array([0.25, 0.75])
    log_q, after = Rival.heard(weight, np.array([-np.inf, -np.inf]))
    assert log_q == -np.inf
    assert np.array_equal(after, weight)
    log_q, after = Rival.heard(weight, np.array([-np.inf, -2000.0]))
    assert log_q == pytest.approx(np.log(0.75) - 2000)
    assert after.tolist() == [0, 1]
