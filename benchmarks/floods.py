"""`luce serve` under floods of one socket: the median of good requests, and the growth of the peak of memory.

    python benchmarks/floods.py --seconds 5

Each flood is sent by one process over one socket, which is opened again where the service hangs up. A plain body of
30 MB, sent again and again, is what the others are compared with: it is a request that a client may make. Client,
flood and service share the processor.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import luce
from luce.data.simulate import simulate

DOCUMENTS, FEATURES = 20, 136
TOKEN = "0123456789abcdef"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def head(path: bytes, line: bytes) -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n" + line


def _flood(start: bytes, again: bytes) -> Iterator[bytes]:
    yield start
    yield from itertools.repeat(again * max(1, 65536 // len(again)))


def _large(path: bytes) -> Iterator[bytes]:
    row = b"[" + b",".join([b"0.12345678901234567"] * FEATURES) + b"]"
    body = b'{"features":[' + b",".join([row] * 10_000) + b"]}"
    while True:
        yield head(path, b"Content-Length: %d\r\n\r\n" % len(body)) + body


def flood(kind: str) -> Iterator[bytes]:
    """The bytes of a flood, without end."""
    name, _, where = kind.partition(" at ")
    path = where.encode() or b"/rank"
    if name == "large body":
        return _large(path)
    if name == "requests ahead":
        return _flood(b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    if name == "small values":
        body = b'{"features":[' + b"[]," * 10_000_000 + b"[]]}"
        return itertools.repeat(head(path, b"Content-Length: %d\r\n\r\n" % len(body)) + body)
    return {
        "trailers": _flood(head(path, CHUNKED) + b"0\r\n", b"X: y\r\n"),
        "one trailer": _flood(head(path, CHUNKED) + b"0\r\nX: ", b"y"),
        "one-byte chunks": _flood(head(path, CHUNKED), b"1\r\n \r\n"),
        "extension of a chunk": _flood(head(path, CHUNKED) + b"1;x=", b"y"),
        "zeros of a chunk": _flood(head(path, CHUNKED), b"0"),
        "headers": _flood(head(path, b""), b"X: y\r\n"),
        "empty lines": _flood(b"", b"\r\n"),
        "endless body": _flood(head(path, b"Content-Length: 99999999999999\r\n\r\n"), b" "),
    }[name]


KINDS = ("large body", "trailers", "one trailer", "one-byte chunks", "extension of a chunk", "zeros of a chunk")
KINDS += ("small values",)
KINDS += ("headers", "empty lines", "endless body", "requests ahead")
KINDS += tuple(f"{kind} at /health" for kind in ("trailers", "one trailer", "one-byte chunks", "endless body"))


def send(port: int, kind: str, seconds: float) -> None:
    """Send a flood for so long, over one socket at a time."""
    end, opened = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=seconds) as link:
            opened += 1
            for piece in flood(kind):
                link.sendall(piece)
                while _readable(link):
                    if not link.recv(1 << 20):
                        raise ConnectionResetError
                if time.monotonic() > end:
                    break
    print(opened)


def _readable(link: socket.socket) -> bool:
    import select

    return bool(select.select([link], [], [], 0)[0])


def ask(port: int, seconds: float) -> tuple[list[float], int]:
    """Good requests one after another; their times, and how many failed."""
    X = np.random.default_rng(0).normal(size=(DOCUMENTS, FEATURES)).round(6)
    body, headers = json.dumps({"features": X.tolist()}).encode(), {"Authorization": f"Bearer {TOKEN}"}
    times, failed, end = [], 0, time.monotonic() + seconds
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while time.monotonic() < end:
        start = time.perf_counter()
        try:
            connection.request("POST", "/rank", body, headers)
            answer = connection.getresponse()
            answer.read()
            failed += answer.status != 200
        except (OSError, http.client.HTTPException):
            failed += 1
            connection.close()
        times.append(time.perf_counter() - start)
        time.sleep(0.01)
    connection.close()
    return times, failed


def peak(pid: int) -> float:
    """The largest memory of a process so far, in MB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1e3


@contextlib.contextmanager
def service(path: Path, token: Path | None) -> Iterator[tuple[int, int]]:
    """A service of its own for each flood, so that a peak is that of the flood."""
    command = [sys.executable, "-m", "luce", "serve", str(path), "--port", "0"]
    command += [] if token is None else ["--token-file", str(token)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = next(m for m in (re.search(r":(\d+);", line) for line in process.stderr) if m)
            yield int(found[1]), process.pid
        finally:
            process.terminate()


def measured(path: Path, token: Path | None, kind: str, seconds: float) -> dict[str, float]:
    with service(path, token) as (port, pid):
        ask(port, 1.0)
        quiet, failed_before = ask(port, seconds / 2)
        before = peak(pid)
        command = [sys.executable, __file__, "--flood", kind, "--port", str(port), "--seconds", str(seconds + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
            time.sleep(0.5)
            loaded, failed = ask(port, seconds)
            sender.kill()
        figures = {
            "in peace, ms": 1e3 * float(np.median(quiet)),
            "under flood, ms": 1e3 * float(np.median(loaded)),
            "largest, ms": 1e3 * float(np.max(loaded)),
            "growth, MB": peak(pid) - before,
            "requests": len(loaded),
            "failed": failed + failed_before,
        }
    return figures


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--seconds", type=float, default=5.0)
    given.add_argument("--kinds", default=",".join(KINDS))
    given.add_argument("--token", action="store_true", help="serve with a token")
    given.add_argument("--figures", type=Path)
    given.add_argument("--flood", help=argparse.SUPPRESS)
    given.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = given.parse_args()
    if options.flood:
        send(options.port, options.flood, options.seconds)
        return
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        path, token = Path(name) / "model.luce", Path(name) / "token"
        luce.Ranker(loss="ranknet", max_iter=5).fit(simulate(queries=50, features=FEATURES, seed=0)).save(path)
        token.touch(0o600)
        token.write_text(TOKEN)
        for kind in options.kinds.split(","):
            found = measured(path, token if options.token else None, kind, options.seconds)
            figures[kind] = found
            print(f"{kind:30}", *(f"{key} {value:,.1f}" for key, value in found.items()), sep="  ", flush=True)
    if options.figures:
        options.figures.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
