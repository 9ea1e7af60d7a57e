"""Filter against a grid, smoother against exact sums, and what a user relies on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import luce
from luce.errors import DataError, LuceWarning, ModelFormatError, SettingError, UnknownNameError
from luce.track import OrnsteinUhlenbeck, Plane, RandomWalk, Receiver, Signals, follow, log_likelihood, simulate, tune
from luce.track.filter import Filter, step_back
from luce.track.follow import make_problem
from luce.track.motion import transition


@pytest.fixture(scope="module")
def world():
    return simulate("straight", steps=40, clutter_rate=2.0, random_state=4)


def run(world, **changes):
    settings = {"start": world.start, "dynamics": 0.035, "particles": 800, "trajectories": 300} | world.settings
    return follow(world.signals, world.sources, **settings | changes)


def grid_filter(world, sd, cells=61):
    """Filtered means on a grid: the sum over cells in place of the particles."""
    axis = np.linspace(-0.05, 1.05, cells)
    points = np.array([(a, b) for a in axis for b in axis])
    kernel = np.exp(-0.5 * ((axis[:, None] - axis) / sd) ** 2)
    kernel /= kernel.sum(axis=0)
    density = np.exp(-0.5 * ((points - world.start) ** 2).sum(axis=1) / (1e-3) ** 2)
    density[np.argmin(((points - world.start) ** 2).sum(axis=1))] += 1
    density = (density / density.sum()).reshape(cells, cells)
    means, evidence = [], 0.0
    for k in range(len(world.signals)):
        density = kernel @ density @ kernel.T
        value = log_likelihood(world.signals.step(k), points, world.sources, **world.settings)
        top = value.max()
        density = density * np.exp(value - top).reshape(cells, cells)
        evidence += top + np.log(density.sum())
        density /= density.sum()
        means.append(density.ravel() @ points)
    return np.array(means), evidence


def test_filter_matches_a_fine_grid():
    world = simulate("walk", steps=6, sources=6, r=3, sigma=0.08, step_sd=0.06, clutter_rate=1.0, random_state=5)
    track = run(world, dynamics=0.06, particles=60_000, smooth=False, start_sd=1e-3)
    means, evidence = grid_filter(world, 0.06, cells=101)
    np.testing.assert_allclose(track.filtered_positions, means, atol=0.006)
    assert track.log_likelihood == pytest.approx(evidence, abs=0.15)
    assert np.array_equal(track.positions, track.filtered_positions)
    assert track.trajectories is None


def test_smoothing_lowers_the_error():
    better = 0
    for seed in range(4):
        world = simulate("straight", steps=50, clutter_rate=2.0, random_state=seed)
        track = run(world)
        smooth = np.mean(track.errors(world.truth) ** 2)
        filtered = np.mean(((track.filtered_positions - world.truth) ** 2).sum(axis=1))
        better += smooth < filtered
    assert better == 4


def test_ranked_beats_unranked_and_labels_agree(world):
    ranked, unranked = run(world), run(world, engine="unranked")
    oracle = run(world, engine="labelled")
    error = [np.mean(t.errors(world.truth) ** 2) for t in (oracle, ranked, unranked)]
    assert error[0] < error[1] < 0.2 * error[2]
    assert oracle.agreement() == 1
    assert ranked.agreement() > 0.5
    assert len(ranked.label_names) == len(world.signals.arrivals)


def test_posteriors_of_labels_are_distributions(world):
    track = run(world)
    for shares, n in zip(track.label_posteriors, world.signals.counts, strict=True):
        assert shares.shape == (n, len(world.sources) + 1)
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-9)
        # A source makes at most one signal.
        assert np.all(shares[:, :-1].sum(axis=0) < 1 + 1e-9)


def test_covariances_are_honest():
    """A target that moves as the model says lies within its smoothed distribution about as often as it should."""
    world = simulate("walk", steps=60, clutter_rate=1.0, step_sd=0.02, random_state=6)
    track = run(world, dynamics=0.02, particles=4000, trajectories=1000)
    gap = track.positions - world.truth
    lengths = np.einsum("ki,kij,kj->k", gap, np.linalg.inv(track.covariances), gap)
    assert np.mean(lengths < 9.21) > 0.9  # 99% of a chi-square with two degrees of freedom
    assert np.all(np.linalg.eigvalsh(track.covariances) > 0)


def test_same_seed_same_bits_on_any_number_of_threads(world):
    tracks = []
    for threads in (1, 2, 3):
        luce.set_threads(threads)
        tracks.append(run(world, particles=2500))
    luce.set_threads(None)
    for other in tracks[1:]:
        assert np.array_equal(tracks[0].positions, other.positions)
        assert np.array_equal(tracks[0].trajectories, other.trajectories)
        assert np.array_equal(tracks[0].evidence, other.evidence)
        assert np.array_equal(tracks[0].labels, other.labels)
    assert not np.array_equal(tracks[0].positions, run(world, particles=2500, random_state=1).positions)


def exact_back(x, v, log_weight, after, move):
    """P(index | after) for every trajectory, by the sum over all particles."""
    mean = move.mean(Plane(x.shape[1]), x, v)
    z = np.concatenate([after[:, None, : x.shape[1]] - x, np.repeat(after[:, None, x.shape[1] :], len(x), 1)], axis=2)
    gap = (z - mean) @ np.linalg.inv(move.L).T
    value = log_weight - 0.5 * (gap**2).sum(axis=2)
    weight = np.exp(value - value.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dynamics", [RandomWalk(0.3), OrnsteinUhlenbeck(0.5, 2.0)])
@pytest.mark.parametrize("tries", [0, 1, 32])
def test_backward_draws_follow_the_exact_distribution(dynamics, tries):
    rng = np.random.default_rng(0)
    n, draws = 12, 40_000
    x, v = rng.normal(size=(n, 2)), rng.normal(size=(n, dynamics.n_velocity(2)))
    log_weight = np.log(rng.dirichlet(np.ones(n)))
    move = transition(dynamics, 1.0, 2)
    one = np.hstack([x[0] + 0.2, v[0] * 0.5 if v.shape[1] else v[0]])
    chosen = step_back(Plane(), move, x, v, log_weight, np.repeat(one[None], draws, axis=0), rng, tries=tries)
    expected = exact_back(x, v, log_weight, one[None], move)[0]
    counts = np.bincount(chosen, minlength=n)
    error = np.sqrt(expected * (1 - expected) / draws)
    assert np.all(np.abs(counts / draws - expected) < 4.5 * error + 1e-9)


def test_smoother_equals_the_exact_marginals(world):
    """Marginal FFBS weights by O(N^2) sums against the mean of backward draws."""
    signals = Signals.from_lists(world.signals.times[:8], [world.signals.step(k) for k in range(8)])
    settings = {"start": world.start, "dynamics": 0.035, "particles": 300} | world.settings
    state = Filter(make_problem(signals, world.sources, **settings), np.random.default_rng(0)).run()
    weight = np.exp(state.log_weight[-1])
    expected = [weight @ state.x[-1]]
    move = transition(RandomWalk(0.035), 1.0, 2)
    for k in range(6, -1, -1):
        back = exact_back(state.x[k], state.v[k], state.log_weight[k], state.x[k + 1], move)
        weight = weight @ back
        expected.append(weight @ state.x[k])
    track = follow(signals, world.sources, trajectories=20_000, **settings)
    np.testing.assert_allclose(track.positions, expected[::-1], atol=4 * 0.1 / np.sqrt(20_000))


def test_bridge_is_the_conditioned_walk():
    """A walk conditioned on its end: Brownian bridge means and variances, step by step."""
    rng = np.random.default_rng(3)
    n, total, end = 40_000, 4, np.array([2.0, -1.0])
    for dynamics in (RandomWalk(1.0, drift=[0.3, 0.0]), OrnsteinUhlenbeck(1.0, 1.5)):
        x, v = np.zeros((n, 2)), dynamics.initial_velocity(n, 2, rng) * 0
        for k in range(total):
            move = transition(dynamics, 1.0, 2, end=end, end_sd=0.1, remaining=float(total - k - 1))
            z = move.mean(Plane(), x, v) + rng.standard_normal((n, len(move.b))) @ move.L.T
            x, v = x + z[:, :2], z[:, 2:]
            if k == 1:
                middle = x.copy()
        b, Q = _stack(dynamics, total)
        S = Q[6:8, 6:8] + 0.01 * np.eye(2)
        gain = Q[2:4, 6:8] @ np.linalg.inv(S)
        mean = b[2:4] + gain @ (end - b[6:8])
        variance = Q[2:4, 2:4] - gain @ Q[6:8, 2:4]
        np.testing.assert_allclose(middle.mean(axis=0), mean, atol=0.03)
        np.testing.assert_allclose(np.cov(middle.T), variance, atol=0.04)
        np.testing.assert_allclose(x.mean(axis=0), b[6:8] + Q[6:8, 6:8] @ np.linalg.inv(S) @ (end - b[6:8]), atol=0.01)


def _stack(dynamics, total):
    """Mean and covariance of the positions at steps 1..total, from start 0 and velocity 0, by linear propagation."""
    step = dynamics.moments(1.0, 2)
    m = step.A.shape[1]
    F = np.block([[np.eye(2), step.A[:2]], [np.zeros((m, 2)), step.A[2:]]])
    mean, covariance = [np.zeros(2 + m)], np.zeros((2 + m, 2 + m))
    covariances, crosses = [], {}
    for k in range(total):
        mean.append(F @ mean[-1] + step.b)
        covariance = F @ covariance @ F.T + step.Q
        covariances.append(covariance)
        for j in range(k):
            crosses[j, k] = (crosses[j, k - 1] if j < k - 1 else covariances[j]) @ F.T
    Q = np.zeros((2 * total, 2 * total))
    for j in range(total):
        Q[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = covariances[j][:2, :2]
        for k in range(j + 1, total):
            Q[2 * j : 2 * j + 2, 2 * k : 2 * k + 2] = crosses[j, k][:2, :2]
            Q[2 * k : 2 * k + 2, 2 * j : 2 * j + 2] = crosses[j, k][:2, :2].T
    return np.concatenate([value[:2] for value in mean[1:]]), Q


def test_ornstein_uhlenbeck_moments_by_small_steps():
    dynamics, n = OrnsteinUhlenbeck(0.7, 1.3), 400
    small = dynamics.moments(2.0 / n, 1)
    F = np.array([[1.0, small.A[0, 0]], [0.0, small.A[1, 0]]])
    covariance = np.zeros((2, 2))
    for _ in range(n):
        covariance = F @ covariance @ F.T + small.Q
    whole = dynamics.moments(2.0, 1)
    np.testing.assert_allclose(whole.Q, covariance, rtol=2e-3)
    np.testing.assert_allclose(whole.A[:, 0], np.linalg.matrix_power(F, n)[:, 1], rtol=1e-9)


def test_ornstein_uhlenbeck_follows_a_line_better(world):
    walk = run(world, dynamics=0.035, particles=2000)
    smooth = run(world, dynamics=OrnsteinUhlenbeck(0.02, 20.0), particles=2000)
    assert np.mean(smooth.errors(world.truth) ** 2) < np.mean(walk.errors(world.truth) ** 2)


def test_known_end_is_reached(world):
    """With the walk conditioned on its end the last position is there, and the last steps improve."""
    quiet = Signals.from_lists(world.signals.times, [world.signals.step(k) if k < 25 else [] for k in range(40)])
    quiet = Signals(quiet.times, quiet.arrivals, quiet.offsets, listened=np.arange(40) < 25)
    free = follow(quiet, world.sources, start=world.start, dynamics=0.035, particles=1500, **world.settings)
    bound = follow(
        quiet, world.sources, start=world.start, dynamics=0.035, particles=1500, end=world.truth[-1], **world.settings
    )
    assert bound.errors(world.truth)[-1] < 0.01
    assert np.mean(bound.errors(world.truth)[25:]) < 0.5 * np.mean(free.errors(world.truth)[25:])
    assert np.trace(bound.covariances[35]) < np.trace(free.covariances[35])


def test_receiver_clock_is_taken_out(world):
    receiver = Receiver(0.3, 0.5, launch=0, recovery=40)
    late = Signals(
        world.signals.times,
        world.signals.arrivals + np.repeat(receiver.clock_offset(world.signals.times), world.signals.counts),
        world.signals.offsets,
    )
    ours = follow(
        late, world.sources, start=world.start, dynamics=0.035, particles=500, receiver=receiver, **world.settings
    )
    plain = run(world, particles=500, trajectories=1000)
    np.testing.assert_allclose(ours.positions, plain.positions, atol=1e-6)


def test_hand_labels_bind_where_asked(world):
    names = np.array(["" if k % 3 else label for k, label in enumerate(world.signals.labels)], dtype=object)
    part = Signals(world.signals.times, world.signals.arrivals, world.signals.offsets, labels=names)
    bound = follow(
        part, world.sources, start=world.start, dynamics=0.035, particles=800, fix_labels=True, **world.settings
    )
    assert bound.agreement() == 1
    assert np.mean(bound.errors(world.truth) ** 2) < 1.1 * np.mean(run(world).errors(world.truth) ** 2)


def test_lost_track_is_flagged_and_found_again():
    """Started in the wrong corner, the filter says lost, widens, and finds the target; without widening it does not."""
    world = simulate("straight", steps=40, clutter_rate=1.0, random_state=8)
    track = run(world, start=[0.95, 0.05], dynamics=0.015, particles=1500)
    assert np.any(track.lost[:8])
    assert not np.any(track.lost[20:])
    assert "lost" in " ".join(track.remarks)
    stiff = run(world, start=[0.95, 0.05], dynamics=0.015, particles=1500, widen=1.0)
    errors = [np.linalg.norm(t.filtered_positions - world.truth, axis=1) for t in (track, stiff)]
    assert errors[0][-10:].max() < 0.2
    assert errors[1][-10:].min() > 0.3
    found = run(world, particles=1500)
    assert not np.any(found.lost)
    assert found.remarks == ()


def test_impossible_signals_are_left_out_and_said():
    """No clutter, five signals, three sources: nothing explains them, and nothing becomes NaN."""
    signals = Signals.from_lists([1, 2, 3], [[0.3, 0.5], [0.1, 0.2, 0.3, 0.4, 0.5], [0.3, 0.5]])
    track = follow(
        signals, [[0, 0], [1, 0], [0, 1]], start=[0.3, 0.1], dynamics=0.1, particles=200, sigma=0.05, window=(0, 3)
    )
    assert track.skipped.tolist() == [False, True, False]
    assert "left out" in track.remarks[0]
    for array in (track.positions, track.covariances, track.evidence, track.effective_sample_size):
        assert np.all(np.isfinite(array))
    assert track.label_posteriors[1][:, -1].tolist() == [1] * 5


def test_days_without_signals(world):
    arrivals = [world.signals.step(k) if k != 10 else [] for k in range(40)]
    heard_nothing = Signals.from_lists(world.signals.times, arrivals)
    gap = Signals.from_lists(np.delete(world.signals.times, 10), [a for k, a in enumerate(arrivals) if k != 10])
    for signals in (heard_nothing, gap, gap.fill_gaps()):
        track = follow(signals, world.sources, start=world.start, dynamics=0.035, particles=500, **world.settings)
        assert np.all(np.isfinite(track.positions))
        assert len(track.times) == len(signals)
    filled = follow(gap.fill_gaps(), world.sources, start=world.start, dynamics=0.035, particles=500, **world.settings)
    assert len(filled.times) == 40
    assert filled.evidence[10] == 0


def test_resumed_run_has_the_same_bits(world, tmp_path):
    path = tmp_path / "run.luce"
    whole = run(world, checkpoint=path, checkpoint_every=15)
    files = [path, tmp_path / "run.luce.previous"]
    assert all(file.exists() for file in files)
    done = run(world, checkpoint=path, resume=True)
    assert np.array_equal(whole.trajectories, done.trajectories)
    path.unlink()  # the one before was written at step 30
    half = run(world, checkpoint=path, resume=True)
    assert np.array_equal(whole.trajectories, half.trajectories)
    assert np.array_equal(whole.evidence, half.evidence)
    assert all(np.array_equal(a, b) for a, b in zip(whole.label_posteriors, half.label_posteriors, strict=True))


KILLED = """
import sys, time
from tests.track.test_follow import run
from luce.track import simulate

def slow(step, total, info):
    print(step, flush=True)
    time.sleep(0.01)

world = simulate("straight", steps=40, clutter_rate=2.0, random_state=4)
run(world, checkpoint=sys.argv[1], checkpoint_every=3, progress=slow)
"""


def test_killed_run_goes_on_from_its_folder(world, tmp_path):
    """Kill -9 at some moment of the filter, then the same call again; also where nothing was written yet."""
    whole = run(world)
    for moment in (0.0, 0.1):
        command = [sys.executable, "-c", KILLED, f"{tmp_path}/kept/"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as child:
            assert child.stdout.readline()
            time.sleep(moment)
            child.kill()
    done = run(world, checkpoint=f"{tmp_path}/kept/", checkpoint_every=3)
    assert np.array_equal(whole.trajectories, done.trajectories)
    assert np.array_equal(whole.evidence, done.evidence)
    assert not list((tmp_path / "kept").glob(".*"))
    with pytest.raises(ModelFormatError, match="other signals"):
        run(world, checkpoint=tmp_path / "kept", particles=801)


def test_torn_checkpoint_falls_back_to_the_one_before(world, tmp_path):
    path = tmp_path / "run.luce"
    whole = run(world, checkpoint=path, checkpoint_every=15)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.warns(LuceWarning, match="previous"):
        again = run(world, checkpoint=path, resume=True)
    assert np.array_equal(whole.trajectories, again.trajectories)
    for file in (path, tmp_path / "run.luce.previous"):
        file.write_bytes(content[:1000])
    with pytest.raises(ModelFormatError, match="damaged"):
        run(world, checkpoint=path, resume=True)
    path.write_bytes(content)
    (tmp_path / "run.luce.previous").unlink()
    with pytest.raises(ModelFormatError, match="other signals"):
        run(world, checkpoint=path, resume=True, particles=801)
    with pytest.raises(ModelFormatError, match="no checkpoint"):
        run(world, checkpoint=tmp_path / "none.luce", resume=True)


def test_tuning_finds_step_and_speed():
    world = simulate("walk", steps=40, step_sd=0.03, clutter_rate=0.5, random_state=9)
    settings = {"start": world.start} | world.settings
    found = tune(world.signals, world.sources, {"sd": [0.005, 0.03, 0.2]}, **settings)
    assert found.best == {"sd": 0.03}
    assert len(found.rows) == 3
    settings.pop("speed")
    found = tune(world.signals, world.sources, {"speed": [0.8, 1.0, 1.25]}, dynamics=0.03, **settings)
    assert found.best == {"speed": 1.0}


def test_lists_of_arrivals_and_a_tuned_step(world):
    lists = [world.signals.step(k) for k in range(40)]
    track = follow(lists, world.sources.positions, start=world.start, particles=800, **world.settings)
    assert "marginal likelihood" in track.remarks[0]
    assert np.median(track.errors(world.truth)) < 0.06


def test_progress_is_told(world):
    seen = []
    run(world, particles=50, progress=lambda step, total, info: seen.append((step, total)))
    assert seen[0] == (1, 80)
    assert seen[-1] == (80, 80)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"start": [0.1]}, DataError, "2 columns"),
        ({"start_time": 99.0}, DataError, "later than the first"),
        ({"end": [0, 0], "end_time": 1.0}, DataError, "earlier than the last"),
        ({"start_sd": np.nan}, SettingError, "start_sd is nan"),
        ({"start_sd": -1.0}, SettingError, "at least 0"),
        ({"start_time": np.nan}, SettingError, "start_time is nan"),
        ({"end": [0, 0], "end_time": np.nan}, SettingError, "end_time is nan"),
        ({"end": [0, 0], "end_sd": np.nan}, SettingError, "end_sd is nan"),
        ({"particles": 0}, SettingError, "at least 1"),
        ({"trajectories": 0}, SettingError, "at least 1"),
        ({"threshold": 2.0}, SettingError, "from 0 to 1"),
        ({"widen": 0.5}, SettingError, "at least 1"),
        ({"dynamics": -1.0}, SettingError, "above 0"),
        ({"dynamics": [1.0, 1.0, 1.0]}, SettingError, "2 dimensions"),
        ({"dynamics": np.nan}, SettingError, "above 0"),
        ({"dynamics": [[1.0, 2.0], [2.0, 1.0]]}, SettingError, "positive definite"),
        ({"detection": 1.5}, SettingError, "between 0 and 1"),
        ({"sigmaa": 1.0}, UnknownNameError, "Did you mean 'sigma'"),
        ({"resume": True}, SettingError, "Nothing to resume"),
        ({"window": (0.0, 0.2)}, DataError, "widen the window"),
    ],
)
def test_mistakes_are_told(world, change, error, words):
    with pytest.raises(error, match=words):
        run(world, **change)


def test_other_mistakes(world):
    with pytest.raises(DataError, match="from_lists"):
        follow([0.1, 0.2], world.sources, start=[0, 0], dynamics=1.0, sigma=0.1)
    with pytest.raises(SettingError, match="sigma"):
        follow(world.signals, world.sources, start=[0, 0], dynamics=1.0)
    with pytest.raises(SettingError, match="empty"):
        tune(world.signals, world.sources, {}, start=[0, 0], sigma=0.1)
    with pytest.raises(SettingError, match="dynamics"):
        tune(world.signals, world.sources, {"speed": [1.0]}, start=[0, 0], sigma=0.1)
    with pytest.raises(SettingError, match="above 0"):
        OrnsteinUhlenbeck(0.0, 1.0)
    with pytest.raises(UnknownNameError, match="spiral"):
        simulate("spirale")
    with pytest.raises(SettingError, match="at least 1"):
        simulate("walk", steps=0)


def test_the_ocean_float_changes_its_sources():
    world = simulate("ocean", steps=60, random_state=2)
    track = run(world, dynamics=8000.0, particles=1500)
    assert np.median(track.errors(world.truth)) < 10_000
    assert track.agreement() > 0.9
    whole = simulate("ocean", steps=365, random_state=2)
    early = {name for name in whole.signals.labels[:80] if name != "clutter"}
    late = {name for name in whole.signals.labels[-80:] if name != "clutter"}
    assert len(early - late) >= 3
    assert len(late - early) >= 3
