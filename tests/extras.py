"""`python -m tests.extras dist/luce-*.whl`: every extra alone, from the wheel, in an empty environment; `make extras`.

What an extra promises must work with what it installs and nothing else. So each gets an environment of its own, and the
commands that need it are run there, outside of the repository.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path

LONGEST = 900.0
"""Seconds for one command."""
TRAIN = ["luce", "train", "d/train.txt", "--max-iter", "5", "-o", "m.luce"]
FIRST = [["luce", "--version"], ["luce", "simulate", "data", "-o", "d", "--queries", "60"], TRAIN]
PARTS = """
import pathlib
lines = pathlib.Path("d/train.txt").read_text().splitlines(True)
queries = sorted({line.split()[1] for line in lines})
pathlib.Path("parts").mkdir()
for k in range(2):
    mine = [line for line in lines if queries.index(line.split()[1]) % 2 == k]
    pathlib.Path(f"parts/{k}.txt").write_text("".join(mine))
"""
XGBOOST = """
import luce, xgboost
data = luce.read_letor("d/train.txt")
matrix = xgboost.DMatrix(data.X, data.y, qid=[q for q, n in enumerate(data.sizes) for _ in range(n)])
xgboost.train({}, matrix, 3, obj=luce.objectives.xgboost("pmop"))
"""
TORCH = """
import luce, torch
scores = torch.zeros(4, dtype=torch.float64, requires_grad=True)
luce.objectives.torch("pmop")(scores, torch.tensor([2.0, 0.0, 1.0, 1.0]), [0, 2, 4]).backward()
assert torch.isfinite(scores.grad).all() and scores.grad.abs().sum() > 0
"""
OPTUNA = """
import luce, optuna
train = luce.read_letor("d/train.txt")
valid = luce.read_letor("d/vali.txt", n_features=train.n_features)
study = optuna.create_study(direction="maximize")
study.optimize(luce.integrations.optuna_objective("ranknet", train, valid, max_iter=5), n_trials=2)
"""
MLFLOW = """
import luce, os, pathlib
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow
mlflow.set_tracking_uri(pathlib.Path("runs").absolute().as_uri())
model = luce.load("m.luce")
assert luce.integrations.mlflow_load(luce.integrations.mlflow_log(model)).feature_names_ == model.feature_names_
"""
BATTLES = ["luce", "simulate", "battles", "-o", "b.csv", "--players", "5", "--battles", "200"]
SIMULATED = ["luce", "simulate", "track", "-o", "t", "--steps", "10"]
HEARD = ["--sources", "t/sources.csv", "--signals", "t/signals.csv"]
FOLLOW = ["luce", "track", *HEARD, "--start", "0,0", "--sigma", "0.1", "--window", "0,100", "--quiet"]
SPREAD = ["luce", "train", "parts/*.txt", "--dask", "local", "--max-iter", "5"]
KEY = """
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
key = Ed25519PrivateKey.generate()
open("key", "wb").write(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))
open("key.pub", "wb").write(key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo))
"""


def serve(folder: Path, programs: Path) -> None:
    """The service starts, answers and stops."""
    command = [str(programs / "luce"), "serve", "m.luce", "--port", "18765"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + 120.0
            while True:
                try:
                    with urllib.request.urlopen("http://127.0.0.1:18765/health", timeout=10) as answer:
                        assert answer.status == 200
                    break
                except OSError:
                    if time.monotonic() > end or process.poll() is not None:
                        raise
                    time.sleep(0.2)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


Step = list[str] | Callable[[Path, Path], None]
EXTRAS: dict[str, list[Step]] = {
    "": [["luce", "evaluate", "d/test.txt", "--model", "m.luce"], BATTLES, ["luce", "leaderboard", "b.csv"]],
    "dask": [
        ["python", "-c", PARTS],
        [*SPREAD, "--scorer", "trees", "-o", "trees.luce"],
        [*SPREAD, "-o", "linear.luce"],
        ["luce", "evaluate", "parts/*.txt", "--model", "trees.luce", "--dask", "local"],
    ],
    "mlflow": [["python", "-c", MLFLOW]],
    "onnx": [["luce", "export", "m.luce", "--to", "onnx", "-o", "m.onnx", "--check", "d/test.txt"]],
    "optuna": [["python", "-c", OPTUNA]],
    "plot": [BATTLES, ["luce", "leaderboard", "b.csv", "--plot", "b.png"]],
    "serve": [serve],
    "sign": [["python", "-c", KEY], [*TRAIN, "--sign", "key"], ["luce", "info", "m.luce"]],
    "torch": [["python", "-c", TORCH]],
    "track": [SIMULATED, [*FOLLOW, "-o", "t.nc"]],
    "tracking": [SIMULATED, [*FOLLOW, "-o", "t.nc"]],
    "xgboost": [["python", "-c", XGBOOST]],
}


def attempt(wheel: Path, extra: str) -> str | None:
    """None where all works; else what did not, and its last words."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "own", with_pip=True)
        programs = folder / "own" / ("Scripts" if os.name == "nt" else "bin")
        what = f"luce[{extra}] @ {wheel.resolve().as_uri()}" if extra else str(wheel.resolve())
        install = ["python", "-m", "pip", "install", "--quiet", what]
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        for step in [install, *FIRST, *EXTRAS[extra]]:
            if callable(step):
                step(folder, programs)
                continue
            command = [str(programs / step[0]), *step[1:]]
            done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=LONGEST)
            if done.returncode != 0:
                return f"`{' '.join(step)[:200]}` ended with code {done.returncode}: {done.stderr.strip()[-600:]}"
    return None


def main() -> None:
    """Try these extras, or all, and say what fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("extras", nargs="*", help="Names; all that users are told of if none is given.")
    options = parser.parse_args()
    failed = 0
    for extra in options.extras or EXTRAS:
        begun = time.monotonic()
        wrong = attempt(options.wheel, extra)
        failed += wrong is not None
        print(f"luce[{extra}]: {wrong or 'works'} ({time.monotonic() - begun:.0f} s)", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
