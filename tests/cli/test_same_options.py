"""Options that mean the same in every command, and `random_state` in every function."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest
import typer

import luce
from luce.aggregate import Ballots, check_profile, simulate_battles
from luce.checks import generator
from luce.cli.app import app
from luce.errors import SettingError
from luce.track import follow, simulate, tune


def commands(group, path=()):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_out_and_seed(name):
    options = {option: parameter for parameter in COMMANDS[name].params for option in parameter.opts}
    assert ("--out" in options) == ("-o" in options)
    if "--out" in options:
        assert options["--out"] is options["-o"]
        assert options["--out"].name == "out"
    if "--seed" in options:
        assert (options["--seed"].default, options["--seed"].help) == (0, "Seed of everything random.")
    assert not {"--output", "--random-state"} & set(options)


def test_most_commands_write_and_some_draw():
    names = {
        option: {n for n, c in COMMANDS.items() for p in c.params if option in p.opts} for option in ("-o", "--seed")
    }
    assert {"train", "predict", "compare", "leaderboard", "simulate data", "export"} <= names["-o"]
    assert {"train", "compare", "leaderboard", "track", "simulate clicks"} <= names["--seed"]


def test_a_seed_below_zero_is_refused():
    line = [sys.executable, "-m", "luce", "simulate", "data", "-o", "x.txt", "--seed", "-1"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "--seed" in done.stderr


def test_version():
    done = subprocess.run([sys.executable, "-m", "luce", "--version"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"luce {luce.__version__}\n")


@pytest.mark.parametrize("given", [-1, 1.5, "0", True, [1, 2]])
def test_a_wrong_random_state_is_refused(given):
    for call in (
        generator,
        lambda g: simulate_battles(3, 2, random_state=g),
        lambda g: simulate(steps=2, random_state=g),
        lambda g: check_profile(Ballots.from_orders(["ab"]), random_state=g),
    ):
        with pytest.raises(SettingError, match=r"random_state is .*; it must be a whole number of at least 0"):
            call(given)


def test_number_generator_or_none():
    draw = {seed: generator(seed).random(3) for seed in (0, 1)}
    assert np.array_equal(generator(np.int64(1)).random(3), draw[1])
    assert not np.array_equal(draw[0], draw[1])
    assert not np.array_equal(generator(None).random(3), generator(None).random(3))
    going = np.random.default_rng(1)
    assert generator(going) is going
    legacy = [generator(np.random.RandomState(5)).random() for _ in range(2)]
    assert legacy[0] == legacy[1]


def test_functions_take_all_three():
    world = simulate("straight", steps=3, random_state=np.random.default_rng(0))
    settings = {"start": world.start, "particles": 20, **world.settings}
    for random_state in (0, np.random.default_rng(0), None):
        follow(world.signals, world.sources, dynamics=0.03, random_state=random_state, **settings)
        tune(world.signals, world.sources, {"sd": [0.01, 0.1]}, random_state=random_state, **settings)
        simulate_battles(3, 2, random_state=random_state)
    for function in (follow, tune, simulate, simulate_battles, check_profile):
        assert inspect.signature(function).parameters["random_state"].default == 0
