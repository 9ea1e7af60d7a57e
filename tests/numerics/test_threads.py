"""The budget of threads: what sets it, and that LightGBM keeps to it."""

from __future__ import annotations

import os

import pytest

import luce
from luce import checks
from luce.checks import available_cores, core_quota
from luce.data.simulate import simulate
from luce.errors import SettingError
from luce.numerics.threads import n_threads, thread_budget
from luce.training import weak

GROUPS = "9:cpuset:/\n4:cpu,cpuacct:/jobs/one\n0::/jobs/one\n"


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No variable is set, and no number; eight cores without a quota."""
    monkeypatch.delenv("LUCE_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(checks, "core_quota", lambda: None)
    yield
    monkeypatch.undo()
    luce.set_threads(None)


def test_who_comes_first(monkeypatch):
    assert thread_budget() == (8, "cores at hand")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert thread_budget() == (5, "OMP_NUM_THREADS")
    monkeypatch.setenv("LUCE_NUM_THREADS", "4")
    assert thread_budget() == (4, "LUCE_NUM_THREADS")
    luce.set_threads(3)
    assert thread_budget() == (3, "set_threads")
    luce.set_threads(None)
    assert n_threads() == 4


@pytest.mark.parametrize(("given", "threads"), [("1", 1), (" 12 ", 12), ("4,2", 4), ("03, 2,1", 3)])
def test_numbers_of_openmp(monkeypatch, given, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert thread_budget() == (threads, "OMP_NUM_THREADS")


@pytest.mark.parametrize("given", ["x", "", "0", "-1", "2.5", "4,x", ",2", "²", "9" * 5000])
def test_what_openmp_ignores_is_ignored_and_told(monkeypatch, given):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    threads, why = thread_budget()
    assert threads == 8
    assert why == f"cores at hand; OMP_NUM_THREADS={given!r} is no number of threads and has no effect"


@pytest.mark.parametrize("given", ["x", "", "0", "-1", "4,2", "²", "9" * 5000])
def test_a_wrong_number_of_our_own_is_refused(monkeypatch, given):
    monkeypatch.setenv("LUCE_NUM_THREADS", given)
    with pytest.raises(SettingError, match=r"^LUCE_NUM_THREADS is '.*'; it must be a whole number from 1 to 999999\.$"):
        n_threads()


@pytest.mark.parametrize("n", [0, -2, 1.5, True, "2"])
def test_set_threads_takes_whole_numbers(n):
    with pytest.raises(SettingError, match=r"^The number of threads is .*; it must be a whole number of at least 1\.$"):
        luce.set_threads(n)
    assert n_threads() == 8


def written(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "800000 100000\n", "jobs/one/cpu.max": "max 100000\n", "jobs/cpu.max": "300000 100000\n"}, 3.0),
        ({"jobs/one/cpu.max": "20000 100000\n"}, 0.2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2.5),
        ({"cpu,cpuacct/jobs/cpu.cfs_quota_us": "50000", "cpu,cpuacct/jobs/cpu.cfs_period_us": "25000"}, 2.0),
        ({"cpu.max": "100000 0\n"}, None),
    ],
)
def test_quotas_of_control_groups(tmp_path, files, quota):
    folder = written(tmp_path / "cgroup", files)
    own = written(tmp_path, {"own": GROUPS})
    assert core_quota(folder, f"{own}/own") == quota


def test_without_a_list_of_groups_the_topmost_counts(tmp_path):
    assert core_quota(written(tmp_path, {"cpu.max": "200000 100000"}), str(tmp_path / "none")) == 2.0


@pytest.mark.parametrize(("quota", "cores"), [(0.2, 1), (1.0, 1), (1.01, 2), (7.5, 8), (12.0, 8)])
def test_a_quota_is_rounded_up(monkeypatch, quota, cores):
    monkeypatch.setattr(checks, "core_quota", lambda: quota)
    found, why = available_cores()
    assert found == cores == n_threads()
    assert ("quota" in why) == (cores < 8)


def test_lightgbm_gets_the_budget(monkeypatch):
    monkeypatch.setattr(weak, "_WORTH_THREADS", 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    data = simulate(10, 3)
    (booster,) = weak.make_boosters(luce.scorers.get("trees"), data, None)
    assert booster.params["num_threads"] == 3
    monkeypatch.setattr(weak, "_WORTH_THREADS", data.X.size + 1)
    (booster,) = weak.make_boosters(luce.scorers.get("trees"), data, None)
    assert booster.params["num_threads"] == 1
