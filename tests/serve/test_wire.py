"""The edge of the service against clients that open, begin and do not go on."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess

import numpy as np
import pytest

from tests.serve.test_process import ask, start

HEAD = b"POST /rank HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def port(models):
    process, port = start(str(models["linear"]), "--timeout", "3", "--max-connections", "20", "--max-at-once", "2")
    yield port
    process.terminate()
    process.wait(120)
    process.stderr.close()


def answer(link: socket.socket) -> tuple[int, str]:
    """Status and code of a refusal; (0, "") where the connection was closed without a word."""
    raw = b""
    try:
        while piece := link.recv(65536):
            raw += piece
    except ConnectionResetError:
        pass
    if not raw:
        return 0, ""
    head, _, body = raw.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def closed(link: socket.socket) -> tuple[int, str]:
    with link:
        return answer(link)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def good(port: int, rows) -> int:
    return ask(port, "POST", "/rank", json.dumps({"features": rows.astype(float).tolist()}).encode())[0]


def test_half_sent_headers_time_out(port):
    begun = [b"", HEAD[:10], HEAD, HEAD + b"X: " + b"a" * 100]
    links = [connect(port) for _ in begun]
    for link, data in zip(links, begun, strict=True):
        link.sendall(data)
    found = [closed(link) for link in links]
    assert found == [(0, ""), *[(408, "headers_too_slow")] * 3]


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n", "headers_too_long"),
        (HEAD + b"X: " + b"a" * 40_000 + b"\r\n\r\n", "headers_too_long"),
        (HEAD + b"X: " + b"a" * 40_000, "headers_too_long"),
        (HEAD + b"X: 1\r\n" * 101 + b"\r\n", "headers_too_many"),
        (HEAD + b"Upgrade: x\r\nConnection: upgrade\r\nX: " + b"a" * 40_000 + b"\r\n\r\n", "headers_too_long"),
    ],
)
def test_headers_are_bounded(port, head, code):
    with connect(port) as link:
        link.sendall(head)
        assert answer(link) == (431, code)


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00", b"nonsense\r\n\r\n", HEAD + b"Content-Length: -1\r\n\r\n"])
def test_what_is_no_request_is_refused_as_json(port, data):
    with connect(port) as link:
        link.sendall(data + b"\r\n\r\n")
        assert answer(link) == (400, "bad_request")


def test_sockets_that_are_left_open_keep_nobody_out(port, rows):
    """Twice as many as there may be connections; each new one makes the oldest of them go."""
    left = []
    for i in range(40):
        left.append(connect(port))
        left[-1].sendall(HEAD if i % 2 else b"")
        if i % 10 == 9:
            assert good(port, rows) == 200
    assert good(port, rows) == 200
    for link in left:
        link.close()


def test_slow_bodies_keep_nobody_out(port, rows):
    """More of them than may be at work at once: they are not at work before they are complete."""
    slow = [connect(port) for _ in range(10)]
    for link in slow:
        link.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
    assert [good(port, rows) for _ in range(5)] == [200] * 5
    assert {closed(link) for link in slow} == {(504, "too_slow")}


def test_bytes_between_two_requests_do_not_stop_the_time(port):
    with connect(port) as link:
        link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while b"linear" not in link.recv(10_000):
            pass
        link.sendall(b"\r\n")
        assert link.recv(100) == b""  # within the time of the socket, 30 s


def test_a_large_body_has_its_answer_in_time(models):
    """57 MB: refused, or given up in time, whatever they hold."""
    process, port = start(
        str(models["linear"]), "--timeout", "2", "--max-documents", "1000000", "--max-megabytes", "64"
    )
    try:
        bodies = [
            b'{"ids":[' + b",".join([b'"a"'] * 14_000_000) + b'],"features":[[1]]}',
            b'{"documents":[' + b",".join([b'{"features":["x"]}'] * 3_000_000) + b"]}",
            b'{"features":[' + b",".join([b"[0.123456,1,2,3,4]"] * 3_000_000) + b"]}",
        ]
        for body in bodies:
            try:
                status, found = ask(port, "POST", "/rank", body)
            except ConnectionError:  # given up before all of it was sent, as on a busy machine
                continue
            assert status in (413, 422, 504), found
        assert ask(port, "GET", "/health")[0] == 200
    finally:
        process.terminate()
        process.wait(120)
        process.stderr.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    try:
        subprocess.run(
            [*made, "-keyout", folder / "k.pem", "-out", folder / "c.pem"], check=True, capture_output=True, timeout=300
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl is not installed")
    return folder


def test_https_and_a_token(models, certificate, tmp_path, rows):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    tls = ["--tls-certificate", str(certificate / "c.pem"), "--tls-key", str(certificate / "k.pem")]
    process, port = start(str(models["linear"]), "--token-file", str(token), *tls)
    context = ssl.create_default_context(cafile=str(certificate / "c.pem"))
    context.check_hostname = False

    def request(path: bytes, header: bytes) -> int:
        with context.wrap_socket(connect(port)) as link:
            link.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header + b"\r\n")
            return int(link.recv(1000).split()[1])

    try:
        right = b"Authorization: Bearer 0123456789abcdef\r\n"
        assert request(b"/models", right) == 200
        assert request(b"/health", b"") == 200
        for header in (b"", right.replace(b"f\r", b"0\r"), right + right, right.replace(b"Bearer ", b"")):
            assert request(b"/models", header) == 401
            assert request(b"/metrics", header) == 401
        with connect(port) as plain:
            plain.sendall(b"GET /models HTTP/1.1\r\n\r\n")
            assert plain.recv(100)[:4] != b"HTTP"
    finally:
        process.terminate()
        process.wait(120)
        process.stderr.close()


def test_numbers_are_the_same_behind_the_edge(port, rows, models):
    import luce

    body = json.dumps({"features": rows.astype(float).tolist()}).encode()
    found = ask(port, "POST", "/rank", body)[1]["ranking"]
    np.testing.assert_array_equal([p["score"] for p in found], np.sort(luce.load(models["linear"]).predict(rows))[::-1])
