"""The report of 2,000 queries x 10 models: how long it takes to make, how large it is, how fast it opens."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from harness import Line, best_of

import luce
from luce.data.writers import write
from luce.experiments import Candidate, compare, find_folds
from luce.experiments.run_folder import write_run

QUERIES, DOCUMENTS, FEATURES = 2_000, 100, 136
LINEAR = ("pmop-fd", "pmop-exact", "ranknet", "listmle", "pairties-rk", "pairties-d", "linear_regression")
TREES = ("bt-ties", "lambdamart", "tm-ties")


def simulated(queries: int, seed: int) -> luce.Groups:
    """Features without any pattern, which compress worst, and grades that follow a few of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((queries * DOCUMENTS, FEATURES), dtype=np.float32)
    quality = X[:, :5].sum(axis=1) + 0.5 * X[:, 5] * X[:, 6] + rng.normal(0, 2, len(X))
    grades = np.digitize(quality, np.quantile(quality, [0.5, 0.8, 0.95]))
    return luce.from_arrays(
        X,
        grades,
        qid=np.repeat([f"{seed}-{i}" for i in range(queries)], DOCUMENTS),
        document_ids=[f"document-{seed}-{i}" for i in range(len(X))],
    )


def make_run(root: Path) -> Path:
    """Models fitted to a few queries, judged on all test queries."""
    data = root / "data"
    data.mkdir()
    for part, queries, seed in (("train", 60, 1), ("vali", 20, 2), ("test", QUERIES, 3)):
        write(simulated(queries, seed), data / f"{part}.lucedata")
    candidates = [Candidate(name, {"l2": [0.1]}, {"max_iter": 8}) for name in LINEAR if name != "linear_regression"]
    candidates += [Candidate("linear_regression", {"l2": [0.1]})]
    candidates += [Candidate(name, {"max_iter": [100]}, {"early_stopping": None}) for name in TREES]
    result = compare(find_folds(data), candidates, notes={"data": str(data), "reading": {}})
    write_run(result, root / "run")
    return root / "run"


_READY = """
  const done = arguments[0];
  const look = () => {
    const mark = performance.getEntriesByName("luce-ready")[0];
    mark ? done(mark.startTime) : setTimeout(look, 5);
  };
  look();
"""


def opening(page: Path) -> float | None:
    """Seconds from the start of navigation until the leaderboard stands, the best of three; None without Chromium."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        browser = None
    if browser is None or driver is None:
        print("  no Chromium with its driver (or no selenium): how fast a report opens is left out.")
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    chrome: Any = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        times = []
        for _ in range(3):
            chrome.get(page.as_uri())
            times.append(chrome.execute_async_script(_READY) / 1e3)
        return min(times)
    finally:
        chrome.quit()


def run() -> list[Line]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        results, page = make_run(root), root / "report.html"
        command = [sys.executable, "-m", "luce", "report", str(results), "--out", str(page), "--quiet"]
        seconds = best_of(lambda: subprocess.run(command, check=True, capture_output=True), repeats=2)
        size = page.stat().st_size / 1e6
        what = f"{QUERIES:,} queries of {DOCUMENTS} x {len(LINEAR) + len(TREES)} models"
        lines = [
            Line(f"luce report, {what}, whole command", seconds, goal="under 10 s", met=seconds < 10),
            Line("  size of the page", size, "MB", goal="under 15 MB", met=size < 15),
        ]
        opened = opening(page)
        if opened is not None:
            lines.append(Line("  opens in Chromium", opened, goal="under 2 s", met=opened < 2))
        return lines
