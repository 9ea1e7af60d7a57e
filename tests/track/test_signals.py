"""Signals, sources and clocks."""

from __future__ import annotations

import numpy as np
import pytest

from luce.errors import DataError, LuceWarning, SettingError, UnknownNameError
from luce.track import Receiver, Reception, Signals, Sources, draw_arrivals, log_likelihood
from luce.track.signals import label_codes


def test_rows_out_of_order_are_sorted_and_said():
    with pytest.warns(LuceWarning, match="not in order of time"):
        signals = Signals.from_rows([2, 1, 1], [0.5, 0.2, 0.3])
    assert signals.times.tolist() == [1, 2]
    assert signals.step(0).tolist() == [0.2, 0.3]
    with pytest.warns(LuceWarning, match="1 of 2 steps were out of order"):
        signals = Signals.from_rows([1, 1, 2], [0.3, 0.2, 0.5], confidence=[0.9, 0.1, 0.5], labels=["a", "b", ""])
    assert signals.step(0).tolist() == [0.2, 0.3]
    assert signals.confidence.tolist() == [0.1, 0.9, 0.5]
    assert signals.labels.tolist() == ["b", "a", ""]


def test_a_step_without_arrivals_was_heard_and_a_gap_was_not():
    signals = Signals.from_rows([1, 2, 4, 5], [0.5, np.nan, 0.7, 0.6])
    assert signals.counts.tolist() == [1, 0, 1, 1]
    filled = signals.fill_gaps()
    assert filled.times.tolist() == [1, 2, 3, 4, 5]
    assert [filled.was_listening(k) for k in range(5)] == [True, True, False, True, True]
    assert filled.step(3).tolist() == [0.7]


def test_arrivals_that_are_nan_beside_others_are_counted_in_a_warning():
    with pytest.warns(LuceWarning, match="2 arrivals in 1 of 3 steps are NaN"):
        signals = Signals.from_lists([1, 2, 3], [[0.5, np.nan, np.nan], [0.1, 0.2, 0.3], [np.nan]])
    assert signals.counts.tolist() == [1, 3, 0]
    settings = {"sigma": 0.1, "detection": 0.7, "window": (0.0, 2.0), "r": 2}
    with pytest.warns(LuceWarning, match="1 arrivals in 1 of 1 steps are NaN"):
        padded = log_likelihood([0.5, np.nan], [[0.4, 0.1]], [[0, 0], [1, 0]], **settings)
    assert padded == log_likelihood([0.5], [[0.4, 0.1]], [[0, 0], [1, 0]], **settings)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Signals.from_rows([1], [-2.0]), "negative"),
        (lambda: Signals.from_rows([1], [np.inf]), "infinite"),
        (lambda: Signals.from_rows([np.nan], [1.0]), "finite"),
        (lambda: Signals.from_rows([], []), "no signals"),
        (lambda: Signals.from_rows([1, 2], [1.0]), "one time a signal"),
        (lambda: Signals.from_rows([1], [1.0], confidence=[-0.1]), "between 0 and 1"),
        (lambda: Signals.from_lists([1, 2], [[1.0]]), "one list"),
        (lambda: Sources([[0, 0], [0, 0]]), "at one place"),
        (lambda: Sources([[0, 0], [1, 0]], names=["a", "a"]), "different names"),
        (lambda: Sources([[0, 0]], names=["clutter"]), "clutter"),
        (lambda: Sources([[0, 0]], offsets=[1, 2]), "one number a source"),
        (lambda: Receiver(launch=2, recovery=1), "after its launch"),
        (lambda: Receiver(float("nan")), "finite"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_sources_at_one_place_may_differ_in_time():
    assert len(Sources([[0, 0], [0, 0]], offsets=[0, 5]).positions) == 2
    assert len(Sources([[0, 0], [0, 0]], start=[0, 11], stop=[10, 20]).positions) == 2


def test_unknown_source_names_the_known():
    with pytest.raises(UnknownNameError, match="Did you mean 'north'"):
        label_codes(["nort"], Sources([[0, 0]], names=["north"]))


def test_keep_rules():
    signals = Signals.from_lists([1], [[1.0, 2.0, 3.0]], confidence=[[0.2, 0.9, 0.8]], labels=[["1", "", "2"]])
    assert signals.keep("earliest", 2).arrivals.tolist() == [1, 2]
    strongest = signals.keep("strongest", 2)
    assert strongest.arrivals.tolist() == [2, 3]
    assert strongest.labels.tolist() == ["", "2"]
    assert signals.keep("all", 2) is signals
    with pytest.raises(DataError, match="confidence"):
        Signals.from_lists([1], [[1.0, 2.0]]).keep("strongest", 1)
    with pytest.raises(SettingError, match="above 0"):
        signals.fill_gaps(0)


def test_strongest_and_all_change_what_silence_says():
    """A full receiver that keeps the strongest says nothing about a source it did not keep; one that keeps all does."""
    sources, times = np.array([[0.0, 0.0], [1.0, 0.0]]), [0.5]
    near_second = np.array([[0.6, 0.3], [0.4, -0.3]])
    settings = {"sigma": 0.05, "detection": 0.9, "clutter_rate": 0.5, "window": (0.0, 3.0), "confidence": [0.9]}
    strongest = log_likelihood(times, near_second, sources, r=1, keep="strongest", **settings)
    distance = np.linalg.norm(near_second[:, None] - sources, axis=2)
    p = np.exp(-0.5 * ((0.5 - distance) / 0.05) ** 2) / (0.05 * np.sqrt(2 * np.pi))
    expected = 1.5 * (0.1 / 3 + 0.9 * 0.9 * p.sum(axis=1)) * np.exp(-0.5)
    np.testing.assert_allclose(strongest, np.log(expected), rtol=1e-12)
    whole = log_likelihood(times, near_second, sources, keep="all", **settings)
    patient = log_likelihood(times, near_second, sources, r=9, **settings)
    np.testing.assert_allclose(whole, patient, rtol=1e-12)


def test_clock_and_drift():
    signals = Signals.from_lists([100, 150, 200], [[5.0], [5.0], [5.0]])
    fixed = signals.corrected(Receiver(0.0, 2.0, launch=100, recovery=200))
    assert fixed.arrivals.tolist() == [5, 4, 3]
    sources = Sources([[0, 0], [1, 1]], [10, 20], start=[0, 5], drift=[0.5, 0.0])
    assert sources.emission(4.0).tolist() == [12, 20]
    assert sources.active(4.0).tolist() == [True, False]
    assert sources.active(None).all()


def test_inactive_sources_are_not_heard():
    sources = Sources([[0.0, 0.0], [1.0, 0.0]], start=[0, 100])
    settings = {"sigma": 0.1, "detection": 0.8, "clutter_rate": 0.1, "window": (0, 3)}
    ours = log_likelihood([0.5], [[0.5, 0.2]], sources, time=50.0, **settings)
    alone = log_likelihood([0.5], [[0.5, 0.2]], Sources([[0.0, 0.0]]), **settings)
    assert ours[0] == alone[0]
    with pytest.raises(DataError, match="not at work"):
        log_likelihood([0.5], [[0.5, 0.2]], sources, time=50.0, labels=["2"], **settings)


def test_simulated_arrivals_have_the_right_rates():
    rng = np.random.default_rng(1)
    sources = Sources([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    reception = Reception(0.05, detection=0.6, clutter_rate=1.5, window=(0.0, 5.0))
    counts = np.zeros(4)
    for _ in range(3000):
        times, labels = draw_arrivals([0.8, 0.7], sources, reception, rng)
        assert np.all(np.diff(times) >= 0)
        counts += np.bincount(labels + 1, minlength=4)
    np.testing.assert_allclose(counts / 3000, [1.5, 0.6, 0.6, 0.6], atol=0.08)
