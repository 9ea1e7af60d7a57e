"""`luce serve` under attack: good requests in peace, then with half-open sockets and slow bodies beside.

    python benchmarks/serve_attack.py --seconds 60 --sockets 1000

Says how many good requests failed (none may), and the median of both times as a ratio. On one machine, client, attack
and service share the processor, so that the ratio is an upper bound.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import luce
from luce.data.simulate import simulate

DOCUMENTS, FEATURES = 100, 136
HEAD = b"POST /rank HTTP/1.1\r\nHost: localhost\r\n"


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--seconds", type=float, default=60.0)
    given.add_argument("--sockets", type=int, default=1000)
    given.add_argument("--figures", type=Path)
    given.add_argument("--attack", type=int, help=argparse.SUPPRESS)
    options = given.parse_args()
    if options.attack:
        for kind in range(4):
            threading.Thread(target=attack, args=(options.attack, options.sockets // 4, kind)).start()
        return
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.luce"
        luce.Ranker(loss="ranknet", max_iter=5).fit(simulate(queries=50, features=FEATURES, seed=0)).save(path)
        command = [sys.executable, "-m", "luce", "serve", str(path), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                found = next(m for m in (re.search(r":(\d+);", line) for line in process.stderr) if m)
                figures = measured(int(found[1]), options)
            finally:
                process.terminate()
    print(json.dumps(figures, indent=1))
    if options.figures:
        options.figures.write_text(json.dumps(figures, indent=1) + "\n")


def measured(port: int, options: argparse.Namespace) -> dict[str, float]:
    X = np.random.default_rng(0).normal(size=(DOCUMENTS, FEATURES)).round(6)
    body = json.dumps({"features": X.tolist()}).encode()
    ask(port, body, 3.0)
    quiet, failed_in_peace = ask(port, body, max(5.0, options.seconds / 4))
    attacker = subprocess.Popen([sys.executable, __file__, "--attack", str(port), "--sockets", str(options.sockets)])
    time.sleep(10.0)  # all of them are open
    loaded, failed = ask(port, body, options.seconds)
    attacker.kill()
    attacker.wait()
    return {
        "sockets": options.sockets,
        "seconds": options.seconds,
        "good requests": len(loaded),
        "failed": failed + failed_in_peace,
        "median in peace, ms": 1e3 * float(np.median(quiet)),
        "median under attack, ms": 1e3 * float(np.median(loaded)),
        "ratio": float(np.median(loaded) / np.median(quiet)),
    }


def ask(port: int, body: bytes, seconds: float) -> tuple[list[float], int]:
    """Good requests one after another, every tenth on a new connection; their times, and how many failed."""
    times, failed, end = [], 0, time.monotonic() + seconds
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.monotonic() < end:
        start = time.perf_counter()
        try:
            connection.request("POST", "/rank", body)
            answer = connection.getresponse()
            answer.read()
            failed += answer.status != 200
        except (OSError, http.client.HTTPException):
            failed += 1
        times.append(time.perf_counter() - start)
        if len(times) % 10 == 0:
            connection.close()
        time.sleep(0.02)
    connection.close()
    return times, failed


def attack(port: int, count: int, kind: int) -> None:
    """Keep so many sockets open: silent, in the middle of headers, in the middle of a body, or sending nonsense."""
    begin = (b"", HEAD, HEAD + b"Content-Length: 100000\r\n\r\n{", b"\x16\x03\x01")[kind]
    links: list[socket.socket] = []
    while True:
        for _ in range(20):
            with contextlib.suppress(OSError):
                links.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                links[-1].sendall(begin)
        for link in links[:-count]:
            link.close()
        del links[:-count]
        if len(links) >= count:
            time.sleep(1.0)


if __name__ == "__main__":
    main()
