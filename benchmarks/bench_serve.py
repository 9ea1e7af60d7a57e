"""`luce serve` over loopback: 1,000 documents with 136 features to a linear model, one request after the other.

Beside it stands what a service that parses with Python's `json` and NumPy would need for the reading alone.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import Line, best_of

import luce
from luce.data.simulate import simulate

DOCUMENTS, FEATURES, REQUESTS = 1000, 136, 200


def run() -> list[Line]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.luce"
        luce.Ranker().fit(simulate(queries=50, features=FEATURES, seed=0)).save(path)
        command = [sys.executable, "-m", "luce", "serve", str(path), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    if found := re.search(r":(\d+);", line):
                        return measure(int(found[1]))
                raise RuntimeError("the service did not start")
            finally:
                process.terminate()


def measure(port: int) -> list[Line]:
    X = np.random.default_rng(0).normal(size=(DOCUMENTS, FEATURES)).round(6).tolist()
    bodies = {
        "documents": json.dumps({"documents": [{"id": f"d{i}", "features": row} for i, row in enumerate(X)]}),
        "a matrix": json.dumps({"features": X}),
    }
    lines = []
    for kind, body in bodies.items():
        milliseconds = 1e3 * median_seconds(port, body.encode())
        reading = 1e3 * best_of(lambda body=body: read_plainly(body), 5)
        what = f"answer for {DOCUMENTS} x {FEATURES} as {kind}, median"
        lines.append(Line(what, milliseconds, "ms", "json + NumPy, reading alone", reading, "10 ms", milliseconds < 10))
    return lines


def median_seconds(port: int, body: bytes) -> float:
    connection, times = http.client.HTTPConnection("127.0.0.1", port), []
    for _ in range(REQUESTS):
        start = time.perf_counter()
        connection.request("POST", "/rank", body)
        answer = connection.getresponse()
        answer.read()
        times.append(time.perf_counter() - start)
        assert answer.status == 200
    connection.close()
    return float(np.median(times))


def read_plainly(body: str) -> np.ndarray:
    given = json.loads(body)
    rows = given["features"] if "features" in given else [document["features"] for document in given["documents"]]
    return np.array(rows, dtype=np.float32)
