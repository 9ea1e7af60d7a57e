"""Two places are told as two: mirror images, what hangs together stays whole, and files that say so."""

from __future__ import annotations

import numpy as np
import pytest

from luce.track import WGS84, Plane, Reception, Sources, draw_signals, follow, read_track
from luce.track.trust import find_modes


def mirror():
    """Two sources on a line and a target that leaves it: which way, no signal can tell."""
    sources = Sources([[0.0, 0.0], [1.0, 0.0]], [0.0, 0.7])
    path = np.column_stack([np.linspace(0.4, 0.6, 25), 0.02 * np.arange(25)])
    settings = {"sigma": 0.01, "detection": 0.95, "clutter_rate": 0.1, "window": (0.0, 3.0), "r": 2}
    signals = draw_signals(path[1:], sources, Reception(**settings), np.random.default_rng(4))
    return signals, sources, path, settings


@pytest.fixture(scope="module")
def crossed():
    signals, sources, path, settings = mirror()
    return follow(signals, sources, start=path[0], dynamics=0.025, particles=2000, **settings), path


def test_mirror_positions_are_two_modes(crossed):
    track, path = crossed
    late = range(15, 24)
    assert all(len(track.modes[k]) == 2 for k in late)
    for k in late:
        one, two = track.modes[k]
        assert one.weight + two.weight == pytest.approx(1)
        assert one.position == pytest.approx(two.position * [1, -1], abs=0.03)
        assert abs(track.positions[k][1]) < np.sqrt(track.covariances[k][1, 1])  # one mean between the two
        assert np.sqrt(one.covariance[1, 1]) < 0.3 * np.sqrt(track.covariances[k][1, 1])
    assert len(track.modes[0]) == 1
    assert np.mean(track.covers(path[1:])) > 0.8
    assert np.mean(track.covers(path[1:], level=0.2)) < 0.5
    assert any("two places" in remark for remark in track.remarks)


def test_filtered_clouds_have_modes_too():
    signals, sources, path, settings = mirror()
    track = follow(
        signals, sources, start=path[0], dynamics=0.025, particles=1500, smooth=False, check=False, **settings
    )
    assert len(track.modes[-1]) == 2
    assert track.trust is None


def test_files_and_pictures_have_both(crossed, tmp_path):
    track, _ = crossed
    columns = track.columns()
    assert columns["modes"][-1] == 2
    assert columns["mode_weight"][-1] >= 0.5
    assert columns["second_y"][-1] == pytest.approx(-columns["first_y"][-1], abs=0.03)
    assert np.isnan(columns["second_y"][0])
    track.save(tmp_path / "track.csv")
    header, first = (tmp_path / "track.csv").read_text().splitlines()[:2]
    assert header.endswith("modes,mode_weight,first_x,first_y,second_x,second_y")
    assert first.endswith(",,,,")
    np.testing.assert_allclose(read_track(tmp_path / "track.csv")[1], track.positions)
    pytest.importorskip("matplotlib")
    from luce.track.plots import plot_track

    patches = plot_track(track, ellipses=24).axes[0].patches
    assert len(patches) == sum(len(modes) for modes in track.modes)


@pytest.mark.parametrize("shape", ["normal", "flat", "heavy", "ring", "point"])
def test_what_hangs_together_is_one(shape):
    rng = np.random.default_rng(5)
    draws = {
        "normal": rng.standard_normal((1000, 2)) * [5, 1],
        "flat": rng.random((1000, 2)),
        "heavy": rng.standard_t(3, (1000, 2)),
        "ring": np.column_stack([f(np.linspace(0, 2 * np.pi, 1000)) for f in (np.cos, np.sin)]),
        "point": np.zeros((10, 2)),
    }[shape]
    assert len(find_modes(Plane(), draws, np.ones(len(draws)))) == 1


def test_weights_three_groups_and_dimensions():
    rng = np.random.default_rng(6)
    for d in (1, 2, 3):
        centres = np.zeros((3, d))
        centres[:, 0] = 0, 10, 20
        x = np.repeat(centres, [500, 300, 200], axis=0) + rng.standard_normal((1000, d))
        weight = np.where(np.arange(1000) >= 800, 4.0, 1.0)  # the smallest group is the weightiest
        modes = find_modes(Plane(d), x, weight)
        assert [round(mode.position[0] / 10) for mode in modes] == [2, 0, 1]
        assert [mode.weight for mode in modes] == pytest.approx([0.5, 0.3125, 0.1875])


def test_modes_across_the_antimeridian():
    rng = np.random.default_rng(7)
    earth = WGS84()
    x = np.column_stack([-50 + 0.01 * rng.standard_normal(400), 180 + 0.01 * rng.standard_normal(400)])
    x[200:, 0] += 1
    modes = find_modes(earth, earth.check(x, "x"), np.ones(400))
    assert len(modes) == 2
    assert all(abs(abs(mode.position[1]) - 180) < 0.01 for mode in modes)
