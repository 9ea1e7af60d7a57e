"""`luce serve` over loopback: 1,000 documents with 136 features to a linear model, one request after the other.

Times are those of the client: from before it sends the first byte of a body that is ready to after it has read the last
byte of the answer (1.4 MB sent, 50 kB answered), so that the sending of the client is included and the making of the
JSON is not. Processor time is that of the service alone. Beside them stands what a service that parses with Python's
`json` and NumPy would need for the reading alone.
"""

from __future__ import annotations

import http.client
import json
import os
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
                        return measure(int(found[1]), process.pid)
                raise RuntimeError("the service did not start")
            finally:
                process.terminate()


def measure(port: int, process: int) -> list[Line]:
    exact = np.random.default_rng(0).normal(size=(DOCUMENTS, FEATURES))
    X = exact.round(6).tolist()
    bodies = {
        "documents": json.dumps({"documents": [{"id": f"d{i}", "features": row} for i, row in enumerate(X)]}),
        "documents by name": json.dumps(
            {"documents": [{"id": f"d{i}", "features": n} for i, n in enumerate(named(X))]}
        ),
        "a matrix": json.dumps({"features": X}),
        "a matrix of 17 digits": json.dumps({"features": exact.tolist()}),
    }
    lines = []
    for kind, body in bodies.items():
        before = processor_seconds(process)
        milliseconds = 1e3 * median_seconds(port, body.encode())
        busy = 1e3 * (processor_seconds(process) - before) / REQUESTS
        reading = 1e3 * best_of(lambda body=body: read_plainly(body), 5)
        what = f"answer for {DOCUMENTS} x {FEATURES} as {kind}, median"
        lines.append(Line(what, milliseconds, "ms", "json + NumPy, reading alone", reading, "10 ms", milliseconds < 10))
        lines.append(Line(f"processor time of the service, as {kind}", busy, "ms"))
    return lines


def named(X: list[list[float]]) -> list[dict[str, float]]:
    return [{str(j + 1): value for j, value in enumerate(row)} for row in X]


def processor_seconds(process: int) -> float:
    """User and system time of a process so far, from Linux's /proc; NaN elsewhere."""
    record = Path(f"/proc/{process}/stat")
    if not record.exists():
        return float("nan")
    fields = record.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
    return np.array([list(row.values()) if isinstance(row, dict) else row for row in rows], dtype=np.float32)
