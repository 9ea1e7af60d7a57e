"""`luce track` and `luce simulate track`, as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from luce.cli.app import main


@pytest.fixture
def luce(capsys, monkeypatch):
    """Run a command line: exit code, standard output, standard error."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["luce", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def world(luce, tmp_path):
    folder = tmp_path / "world"
    code, _, _ = luce("simulate", "track", "--out", folder, "--steps", 25, "--seed", 3, "--labels", "--quiet")
    assert code == 0
    return folder


def options(world, **changes):
    chosen = {
        "sources": world / "sources.csv", "signals": world / "signals.csv", "start": "0.15,0.2", "sigma": 0.02,
        "step-sd": 0.03, "speed": 1, "detection": 0.7, "clutter-rate": 1, "window": "0,1.5", "r": 4, "particles": 500,
    } | {name.replace("_", "-"): value for name, value in changes.items()}  # fmt: skip
    flags = []
    for name, value in chosen.items():
        if value is True:
            flags.append(f"--{name}")
        elif value is not None:
            flags.append(f"--{name}={value}")
    return ["track", *flags]


def test_unknown_shifts_of_the_emissions_are_summed_out(luce, world):
    plain = json.loads(luce(*options(world), "--json")[1])
    code, text, _ = luce(*options(world, emission_sd=0.01), "--json")
    assert code == 0
    assert json.loads(text)["log_likelihood"] != plain["log_likelihood"]
    code, _, error = luce(*options(world, emission_sd=-1))
    assert code == 2
    assert "emission_sd is -1" in error


def test_simulated_target_is_followed(luce, world, tmp_path):
    out = tmp_path / "track.csv"
    code, text, _ = luce(*options(world, out=out, truth=world / "truth.csv"), "--json")
    found = json.loads(text)
    assert code == 0
    assert found["steps"] == 25
    assert found["median_error"] < 0.05
    assert found["agreement"] > 0.5
    assert out.read_text().startswith("time,x,y,sd_x,sd_y")
    assert len(out.read_text().splitlines()) == 26


def test_same_seed_same_output(luce, world):
    first = luce(*options(world), "--json")
    assert first == luce(*options(world), "--json")
    assert first != luce(*options(world, seed=1), "--json")


def test_text_and_remarks(luce, world, tmp_path):
    lines = (world / "signals.csv").read_text().splitlines()
    (world / "signals.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    code, out, err = luce(*options(world, window=None, r=None))
    assert code == 0
    assert "25 steps" in out
    assert "they were sorted" in err
    assert "window was not given" in err
    assert "room was not given" in err
    assert luce(*options(world), "--quiet")[2] == ""


def test_ocean_end_clock_and_netcdf(luce, tmp_path):
    netcdf = pytest.importorskip("netCDF4")
    pytest.importorskip("matplotlib")
    world = tmp_path / "ocean"
    code, text, _ = luce("simulate", "track", "--path", "ocean", "--steps", 15, "--out", world, "--json")
    assert code == 0
    assert json.loads(text)["sources"] == 12
    last = (world / "truth.csv").read_text().splitlines()[-1].split(",")
    code, text, _ = luce(
        *options(
            world, start="-57,-105,2010-01-01", end=f"{last[1]},{last[2]},{last[0]}", sigma=5, step_sd=8000, speed=1500,
            detection=0.9, window="3600,9600", clock="0,0", out=tmp_path / "t.nc", map=tmp_path / "m.png",
            arrivals=tmp_path / "a.svg", truth=world / "truth.csv", fill_gaps=True,
        ),
        "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(text)["median_error"] < 15_000
    with netcdf.Dataset(tmp_path / "t.nc") as file:
        assert len(file["lat"][:]) == 15
    assert (tmp_path / "m.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_tuned_by_marginal_likelihood(luce, world):
    code, out, err = luce(*options(world, step_sd="auto", truth=world / "truth.csv"), "--json")
    assert code == 0
    assert json.loads(out)["median_error"] < 0.06
    code, out, err = luce(*options(world, speed="auto"))
    assert code == 0
    assert "speed 1" in err


def test_grid_of_speeds(luce, world):
    rows = [f"{x},{y},1.0" for x in (-1, 0, 0.4, 2) for y in (-1, 0, 0.4, 2)]
    (world / "speed.csv").write_text("\n".join(["x,y,speed", *rows]) + "\n")
    code, out, err = luce(*options(world, speed=world / "speed.csv"), "--json")
    assert code == 0
    assert err == luce(*options(world, speed=1), "--json")[2]
    by_number = json.loads(luce(*options(world, speed=1), "--json")[1])
    assert json.loads(out)["log_likelihood"] == pytest.approx(by_number["log_likelihood"], abs=1e-6)
    (world / "speed.csv").write_text("x,y,speed\n0.4,0.4,1\n0.5,0.4,1\n0.4,0.5,1\n0.5,0.5,1\n")
    code, _, err = luce(*options(world, speed=world / "speed.csv"))
    assert code == 0
    assert "sources lie outside of the grid" in err
    assert "target is outside of the grid" in err


def test_trust_is_told(luce, world):
    code, out, _ = luce(*options(world, truth=world / "truth.csv", step_sd=0.05), "--json")
    assert code == 0
    found = json.loads(out)
    assert 0.5 < found["coverage"] <= 1
    assert found["trusted"] is True
    assert json.loads(luce(*options(world), "--json", "--no-check")[1])["trusted"] is None
    code, out, err = luce(*options(world, step_sd=0.003))
    assert json.loads(luce(*options(world, step_sd=0.003), "--json")[1])["trusted"] is False
    assert "covariances are too small" in err


def test_engines_and_dynamics(luce, world):
    for change in (
        {"engine": "labelled"},
        {"engine": "bethe"},
        {"engine": "unranked_literal"},
        {"timescale": 5.0},
        {"fix_labels": True},
    ):
        code, out, _ = luce(*options(world, particles=200, **change), "--json")
        assert code == 0
        assert np.isfinite(json.loads(out)["log_likelihood"])


def test_resume(luce, world, tmp_path):
    path = tmp_path / "run.luce"
    whole = luce(*options(world, checkpoint=path), "--json")
    assert whole[0] == 0
    assert luce(*options(world, checkpoint=path), "--json", "--resume") == whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sources": "none.csv"}, "does not exist"),
        ({"start": "0.15"}, "--start"),
        ({"start": "a,b"}, "it must be a number"),
        ({"start": "0.1,0.2,soon"}, "neither a number nor a date"),
        ({"window": "1"}, "--window"),
        ({"window": "2,1"}, "before its end"),
        ({"window": "0,0.1"}, "widen the window"),
        ({"detection": 1.4}, "between 0 and 1"),
        ({"sigma": -1}, "above 0"),
        ({"step_sd": "wide"}, "it must be a number"),
        ({"speed": "fast"}, "give a number, auto, or the file of a grid"),
        ({"speed": "nan"}, "above 0"),
        ({"clutter_rate": None, "clutter_probability": 1.0}, "below 1"),
        ({"clutter_probability": 0.5}, "not both"),
        ({"engine": "exakt"}, "Did you mean 'exact'"),
        ({"keep": "last"}, "earliest"),
        ({"r": 0}, "at least 1"),
        ({"particles": 0}, "at least 1"),
        ({"out": "/no/such/folder/t.csv"}, "does not exist"),
        ({"resume": True}, "Nothing to resume"),
        ({"step_sd": "auto", "timescale": 3}, "tunes a random walk"),
        ({"end": "0.1,0.2,3"}, "earlier than the last"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_two(luce, world, change, words):
    code, out, err = luce(*options(world, **change), "--quiet")
    assert code == 2
    assert out == ""
    assert words in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


def test_what_has_no_use_is_refused_or_named(luce, world, tmp_path):
    lines = (world / "signals.csv").read_text().splitlines()
    (world / "signals.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in lines))
    code, _, err = luce(*options(world, fix_labels=True), "--quiet")
    assert code == 2
    assert "the signals have no labels" in err
    head, first, *rest = (world / "sources.csv").read_text().splitlines()
    first = first.rsplit(",", 1)[0] + ","
    rows = [head + ",dirft", *(line + ",1" for line in (first, *rest))]
    (world / "sources.csv").write_text("\n".join(rows))
    code, _, err = luce(*options(world))
    assert code == 0
    assert "the column dirft is not used; known are lat, lon, x, y, z, source, offset" in err
    assert "1 of 10 sources have no offset; it counts as 0" in err


def test_a_true_path_that_cannot_be_compared_with_is_refused_before_any_work(luce, world, tmp_path):
    for text, words in (("time,x,y\n999,0.1,0.2\n", "no time in common"), ("time,x,y,z\n1,0,0,0\n", "3 coordinates")):
        (tmp_path / "far.csv").write_text(text)
        code, _, err = luce(*options(world, truth=tmp_path / "far.csv", out=tmp_path / "o.csv"), "--quiet")
        assert code == 2
        assert words in err
        assert not (tmp_path / "o.csv").exists()


def test_unknown_label_is_told(luce, world):
    text = (world / "signals.csv").read_text().replace("clutter", "whale")
    (world / "signals.csv").write_text(text)
    code, _, err = luce(*options(world, engine="labelled"), "--quiet")
    assert code == 2
    assert "Unknown source 'whale'" in err


def test_simulate_mistakes(luce, tmp_path):
    (tmp_path / "file").write_text("")
    for args, words in (
        (["--out", tmp_path / "file"], "it is a file"),
        (["--out", tmp_path / "w", "--path", "circle"], "Unknown path"),
        (["--out", tmp_path / "w", "--steps", 0], "at least 1"),
        (["--out", tmp_path / "w", "--detection", 2], "between 0 and 1"),
        (["--out", tmp_path / "w", "--path", "ocean", "--sources", 3], "--sources has no use"),
        (["--out", tmp_path / "w", "--step-sd", 0.1], "--step-sd is the noise of walk and ocean"),
    ):
        code, _, err = luce("simulate", "track", *args)
        assert code == 2
        assert words in err
    assert not (tmp_path / "w").exists()


def test_help_stays_light():
    """Listing the commands imports neither Numba nor SciPy."""
    code = "import sys; from luce.cli.app import app; print('numba' in sys.modules, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == ["False", "False"]
