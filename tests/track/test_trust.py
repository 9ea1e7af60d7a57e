"""The checks fire where the posterior is wrong, stay silent where it is right, and have the law they claim."""

from __future__ import annotations

import numpy as np
import pytest

from luce.track import follow, simulate


def walk(seed, rate=1.0, **changes):
    world = simulate("walk", steps=60, step_sd=0.03, clutter_rate=rate, random_state=seed)
    given = {"start": world.start, "dynamics": 0.03, "particles": 600, "trajectories": 200} | world.settings | changes
    track = follow(world.signals, world.sources, **given)
    return track, float(track.covers(world.truth).mean())


def test_good_walks_are_left_alone():
    tracks = [walk(seed) for seed in range(6)]
    assert np.mean([cover for _, cover in tracks]) > 0.8
    assert sum(bool(track.trust.doubts) for track, _ in tracks) <= 1


@pytest.mark.parametrize("change", [{"dynamics": 0.008}, {"particles": 40}, {"detection": 0.95}], ids=str)
def test_bad_walks_are_told(change):
    tracks = [walk(seed, **change) for seed in range(4)]
    bad = [track for track, cover in tracks if cover < 0.6]
    assert bad
    assert all(track.trust.doubts or track.lost.any() for track in bad)
    assert any(doubt in track.remarks for track in bad for doubt in track.trust.doubts)


def test_a_clutter_rate_that_is_too_large_is_told():
    """A target that is lost looks like clutter then, and no other check sees it."""
    tracks = [walk(seed, rate=3.0, clutter_rate=9.0, particles=400) for seed in (0, 1)]
    assert all(any("clutter rate" in doubt for doubt in track.trust.doubts) for track, _ in tracks)
    right = walk(0, rate=3.0, particles=400)[0].trust
    assert right.fewer_clutter < 0


@pytest.mark.slow
def test_surprise_and_steps_are_normal_numbers_where_the_model_holds():
    found = [walk(seed, rate=2.0)[0].trust for seed in range(20, 32)]
    for name in ("surprise", "steps"):
        values = np.array([getattr(trust, name) for trust in found])
        assert abs(values.mean()) < 4 / np.sqrt(12)
        assert values.std() < 2


def test_checking_leaves_the_numbers_as_they_are():
    with_check, without = walk(3)[0], walk(3, check=False)[0]
    np.testing.assert_array_equal(with_check.positions, without.positions)
    assert without.trust is None
    again = walk(3)[0].trust
    np.testing.assert_array_equal(again.disagreement, with_check.trust.disagreement)
    assert again.surprise == with_check.trust.surprise


def test_where_a_check_does_not_apply_it_is_none():
    assert walk(1, engine="unranked", particles=100)[0].trust.surprise is None
    assert walk(1, engine="labelled", particles=100)[0].trust.surprise is None
    assert walk(1, smooth=False, particles=100)[0].trust.steps is None
    world = simulate("walk", steps=5, step_sd=0.03, clutter_rate=0.0, detection=1.0, random_state=0)
    given = world.settings | {"start": world.start, "dynamics": 0.03, "particles": 100, "window": None}
    trust = follow(world.signals, world.sources, **given).trust  # every step has all the signals that there is room for
    assert trust.surprise is None
    assert trust.fewer_clutter is None
