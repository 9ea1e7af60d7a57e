"""`luce serve` as a process: starts, survives bad clients, reloads on a signal, stops cleanly."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

import luce
from luce.cli.serve import _listen


def start(*arguments: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "luce", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if found := re.search(r"https?://127\.0\.0\.1:(\d+)", line):
            return process, int(found[1])
    raise AssertionError(f"the service did not start: {said}")


@pytest.fixture(scope="module")
def served(models, tmp_path_factory) -> Iterator[tuple]:
    path = tmp_path_factory.mktemp("served") / "model.luce"
    shutil.copy(models["linear"], path)
    process, port = start(str(path), "--max-megabytes", "2", "--timeout", "5")
    yield process, port, path
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) in (0, -signal.SIGTERM)
    assert process.stderr is not None
    process.stderr.close()


def ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_it_ranks_as_predict_does(served, rows):
    _, port, path = served
    status, found = ask(port, "POST", "/rank", json.dumps({"features": rows.astype(float).tolist()}).encode())
    assert status == 200
    scores = luce.load(path).predict(rows)
    np.testing.assert_allclose([place["score"] for place in found["ranking"]], np.sort(scores)[::-1], rtol=1e-12)


def test_a_body_of_a_hundred_megabytes_is_refused(served):
    process, port, _ = served
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(b"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n")
        try:
            for _ in range(100):
                link.sendall(b" " * 1_000_000)
        except OSError:
            pass  # the service has hung up, as it may
        else:
            assert b" 413 " in link.recv(100)
    assert process.poll() is None
    assert ask(port, "GET", "/health")[0] == 200


def test_a_client_that_stops_sending_is_given_up(served):
    _, port, _ = served
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(b"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        assert b" 504 " in link.recv(1000)
    assert ask(port, "GET", "/health")[0] == 200


def test_bytes_that_are_no_http(served):
    _, port, _ = served
    with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
        link.sendall(os.urandom(3000) + b"\r\n\r\n")
        link.recv(1000)
    assert ask(port, "GET", "/health")[0] == 200


def test_a_signal_reads_the_models_again(served, models):
    process, port, path = served
    before = ask(port, "GET", "/models/model")[1]["version"]
    shutil.copy(models["trees"], path)
    process.send_signal(signal.SIGHUP)
    for _ in range(600):
        if ask(port, "GET", "/models/model")[1]["version"] != before:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the model was not read again")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_answers_need_not_wait_for_the_last_packet(host):
    """Event loops set TCP_NODELAY on connections of a socket that names its protocol; asyncio on no others."""
    listener = _listen(host, 0)
    assert listener.proto == socket.IPPROTO_TCP
    listener.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such.luce"], "no-such.luce does not exist"),
        (["a=x.luce", "a=y.luce"], "needs a name of its own"),
        (["x.luce", "--host", "256.1.1.1"], "Cannot listen on 256.1.1.1"),
        (["x.luce", "--timeout", "0"], "--timeout is 0.0; it must be a number above 0"),
    ],
)
def test_mistakes_are_one_sentence(arguments, message):
    done = subprocess.run(
        [sys.executable, "-m", "luce", "serve", *arguments, "--port", "0", "--quiet"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_port_that_is_taken(models):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "luce", "serve", str(models["linear"]), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert f"Cannot listen on 127.0.0.1 port {port}" in done.stderr
