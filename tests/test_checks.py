"""Whole numbers as settings: what counts as one, and what is said of anything else; sizes that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce import checks
from luce.aggregate import Ballots
from luce.aggregate.kemeny import kemeny_order
from luce.aggregate.mallows import Mallows, MallowsMixture, fit_mallows
from luce.aggregate.positional import before_weights
from luce.checks import available_memory, fits_in_memory, is_whole, whole
from luce.clicks.examination import examination
from luce.clicks.simulation import production, simulate_counts, simulate_sessions, weak_rankers
from luce.errors import DataError, SettingError
from luce.losses.probabilities import pair_probabilities
from luce.track import follow, simulate


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(3), 10**30])
def test_whole_numbers(value):
    assert is_whole(value)
    assert whole("k", value, 1) == value
    assert type(whole("k", value, 1)) is int


@pytest.mark.parametrize("value", [True, np.True_, 1.0, np.float64(2.0), "3", None, [1], float("nan")])
def test_what_is_no_whole_number(value):
    assert not is_whole(value)
    with pytest.raises(SettingError, match=r"^k is .*; it must be a whole number of at least 1\.$"):
        whole("k", value, 1)


def test_bounds_are_included():
    assert [n for n in range(6) if is_whole(n, 2, 4)] == [2, 3, 4]
    with pytest.raises(SettingError, match=r"^k is 5; it must be a whole number from 2 to 4\.$"):
        whole("k", 5, 2, 4)


def test_what_is_available():
    found = available_memory()
    assert found is None or 0 <= found < 2**50
    fits_in_memory(1e6, "Little", "take less")


def test_a_container_and_a_limit_count(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    8000000 kB\n",
        "/sys/fs/cgroup/memory.max": "3000000000\n",
        "/sys/fs/cgroup/memory.current": "2500000000\n",
        "/sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 1000000000\n",
    }
    monkeypatch.setattr(checks, "_read", lambda path: files.get(path, ""))
    assert available_memory() == 1_500_000_000
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert available_memory() == 8_000_000 << 10


@pytest.fixture
def small(monkeypatch):
    """A machine that has 100 MB."""
    monkeypatch.setattr(checks, "available_memory", lambda: 100_000_000)


@pytest.mark.parametrize("settings", [{}, {"sizes": "given"}, {"sizes": "printed"}, {"cut": 90_000}])
def test_pmop_exact_of_many_documents_is_refused_before_work_begins(small, settings):
    """It took a minute, and then 80 GB."""
    n, loss = 100_000, luce.losses.get("pmop_exact", **settings)
    labels = np.arange(n) % 2
    with pytest.raises(DataError, match=r"^pmop_exact of a query of \d+,000 documents needs [\d.]+ GB of memory, and "):
        loss.prepare(labels, np.array([0, n]))
    if "cut" not in settings:
        with pytest.raises(DataError, match="pmop_exact of a query of 100,000 documents"):
            loss.log_prob(np.zeros(n), labels)


def test_pmop_exact_in_pieces_is_not_refused(small):
    n = 10_000
    luce.losses.get("pmop_exact", cut=1000).prepare(np.arange(n) % 2, np.array([0, n]))
    # Tiers of one document each, of given sizes, need little, however many there are.
    luce.losses.get("pmop_exact", sizes="given").prepare(np.arange(n), np.array([0, n]))
    with pytest.raises(DataError, match=r"10,000 documents needs 0\.7 GB of memory, and 0\.1 GB are available; cut"):
        luce.losses.get("pmop_exact").prepare(np.arange(n) % 2, np.array([0, n]))


def test_squares_are_refused_before_work_begins(small):
    n = 4000
    with pytest.raises(DataError, match="Chances of the pairs of 4,000 documents needs"):
        pair_probabilities(luce.losses.get("ranknet"), np.zeros(n), np.random.default_rng(0))
    ballots = Ballots.from_orders([[f"x{i}" for i in range(n)]])
    with pytest.raises(DataError, match="Pairs of 4,000 items needs"):
        before_weights(ballots)
    with pytest.raises(DataError, match="Kemeny's ranking of 4,000 items needs"):
        kemeny_order(np.broadcast_to(0.0, (n, n)))
    with pytest.raises(DataError, match="A Mallows model of 4,000 items needs"):
        fit_mallows(ballots)
    data = luce.from_arrays(np.zeros((4, n), np.float32), [0, 1, 0, 1], qid=[1, 1, 2, 2])
    with pytest.raises(DataError, match="Correlations of the products of 4,000 features needs"):
        luce.Ranker(loss="ranknet", scorer="second_order").fit(data)


def test_a_mallows_model_of_many_items_is_refused_before_work_begins(small):
    names, rng = [f"x{i}" for i in range(4000)], np.random.default_rng(0)
    model = Mallows(names, 0.5)
    with pytest.raises(DataError, match="The chances of 4,000 items on as many positions needs"):
        model.position_probabilities()
    with pytest.raises(DataError, match="A Mallows model of 4,000 items needs"):
        model.log_prob(Ballots.from_orders([names]))
    for drawn_from in (model, MallowsMixture(np.ones(1), (model,))):
        with pytest.raises(DataError, match="A draw of 9,000,000 rankings of 4,000 items needs"):
            drawn_from.sample(9_000_000, rng)
    assert model.sample(3, rng).shape == (3, 4000)


def test_clicks_of_many_sessions_are_refused_before_work_begins(small):
    data = luce.data.simulate.simulate(20, 3)
    scores = [np.zeros(data.n_rows)]
    with pytest.raises(DataError, match="Lists of 9,000,000 positions for 20 queries needs"):
        production(data, scores, shown=9_000_000)
    with pytest.raises(DataError, match="A log of 9,000,000 sessions of 10 rows needs"):
        simulate_sessions(data, production(data, scores), np.random.default_rng(0), sessions=9_000_000)


def test_examination_by_many_counts_is_refused_before_work_begins(small, monkeypatch):
    data = luce.data.simulate.simulate(20, 3)
    made, rng = production(data, weak_rankers(data, np.random.default_rng(0))), np.random.default_rng(0)
    counts = simulate_counts(data, made, rng, sessions=20_000)
    assert examination(counts).theta[0] == 1
    monkeypatch.setattr(checks, "_SMALL", 0)
    monkeypatch.setattr(checks, "available_memory", lambda: 1000)
    with pytest.raises(DataError, match=r"^Examination of 10 positions by [\d,]+ counts of clicks needs"):
        examination(counts)


def test_tracks_of_many_particles_are_refused_before_work_begins(small):
    world = simulate("straight", steps=20, random_state=1)
    given = {"start": world.start, "dynamics": 0.03, **world.settings}
    with pytest.raises(DataError, match="A track of 20 steps with 9,000,000 particles needs"):
        follow(world.signals, world.sources, particles=9_000_000, **given)
    with pytest.raises(DataError, match="Smoothing 20 steps by 9,000,000 trajectories needs"):
        follow(world.signals, world.sources, trajectories=9_000_000, **given)
