"""One client that floods the service is refused, and the others have their answers; nothing here is decided by time."""

from __future__ import annotations

import json
import re
import select
import socket
import time
from pathlib import Path

import pytest

from luce.serve.errors import Refused
from luce.serve.requests import parse
from luce.serve.settings import Limits
from tests.serve.test_process import ask, start

TOKEN = "0123456789abcdef"
KEY = f"Authorization: Bearer {TOKEN}\r\n".encode()
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
MOST = 64 << 20
"""Bytes of a flood, where nobody stops it before."""


@pytest.fixture(scope="module", params=["open", "token"])
def service(request, models, tmp_path_factory):
    """Port and process of a service, without and with a token."""
    arguments = [str(models["linear"]), "--timeout", "5", "--max-connections", "20"]
    if request.param == "token":
        token = tmp_path_factory.mktemp("token") / "token"
        token.touch(0o600)
        token.write_text(TOKEN)
        arguments += ["--token-file", str(token)]
    process, port = start(*arguments)
    yield port, process.pid
    process.terminate()
    process.wait(20)
    process.stderr.close()


def head(path: bytes, rest: bytes) -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + KEY + rest


def flooded(port: int, begin: bytes, again: bytes, *, meanwhile=None) -> tuple[int, bytes]:
    """Send a beginning and then the same again and again, until the other side ends or 64 MB are sent: how many bytes
    were sent, and what came back."""
    piece, sent, raw = again * (65536 // len(again)), 0, b""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
        try:
            link.sendall(begin)
            while sent < MOST:
                link.sendall(piece)
                sent += len(piece)
                if meanwhile is not None and sent % (16 * len(piece)) == 0:
                    meanwhile()
                if select.select([link], [], [], 0)[0]:
                    got = link.recv(1 << 16)
                    if not got:
                        break
                    raw += got
        except (BrokenPipeError, ConnectionResetError):
            pass
        return sent, raw


def code(raw: bytes) -> str:
    return str(json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"])


def good(port: int, rows) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        body = json.dumps({"features": rows.astype(float).tolist()}).encode()
        link.sendall(head(b"/rank", b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)) + body)
        return int(link.recv(1000).split()[1])


def peak(pid: int) -> float:
    """The largest memory of a process so far, in MB."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        pytest.skip("this system does not tell the memory of a process")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert found is not None
    return int(found[1]) / 1e3


FLOODS = {
    "trailers": (CHUNKED + b"0\r\n", b"X: y\r\n", "trailers_too_many"),
    "one trailer": (CHUNKED + b"0\r\nX: ", b"y", "framing_too_long"),
    "name of a trailer": (CHUNKED + b"0\r\n", b"x", "framing_too_long"),
    "one-byte chunks": (CHUNKED, b"1\r\n \r\n", "framing_too_long"),
    "extension of a chunk": (CHUNKED + b"1;x=", b"y", "framing_too_long"),
    "extensions of chunks": (CHUNKED, b"1;x=yyyyyyyyyyyyyyy\r\n \r\n", "framing_too_long"),
    "headers": (b"", b"X: y\r\n", "headers_too_many"),
    "one header": (b"X: ", b"y", "headers_too_long"),
}


@pytest.mark.parametrize("path", [b"/rank", b"/health", b"/nowhere"])
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_is_refused_within_its_first_bytes(service, kind, path, rows):
    port, pid = service
    begin, again, expected = FLOODS[kind]
    before = peak(pid)
    sent, raw = flooded(port, head(path, begin), again)
    assert sent < MOST  # it was hung up on
    if path == b"/rank" or "header" in expected:
        assert code(raw) == expected
    else:
        # Answered from its head alone, and hung up on because it had not ended; or refused before that.
        assert int(raw.split()[1]) in (200, 404, 405, 413, 431)
    assert peak(pid) - before < 100
    assert good(port, rows) == 200


def test_a_body_to_a_route_that_reads_none_ends_the_connection(service, rows):
    """Without a bound, it would be read for ever: the answer of /health is made from the head."""
    port, _ = service
    for line in (b"Content-Length: 99999999999\r\n\r\n", CHUNKED + b"10000000\r\n"):
        request = head(b"/health", line).replace(b"POST", b"GET")
        sent, raw = flooded(port, request, b" ")
        assert raw.startswith(b"HTTP/1.1 200 ")
        assert sent < MOST
    assert good(port, rows) == 200


def test_a_small_body_that_nobody_reads_leaves_the_connection_open(service):
    """As clients send it: the head, and then the body."""
    port, _ = service
    with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
        for _ in range(3):
            link.sendall(head(b"/nowhere", b"Content-Length: 5\r\n\r\n"))
            raw = b""
            while not raw.endswith(b"}}"):
                raw += link.recv(1000)
            link.sendall(b"12345")
            assert raw.startswith(b"HTTP/1.1 404 ")


def test_requests_sent_ahead_wait_outside(service, rows):
    """None of them is parsed before those ahead are answered: memory stays, and others are answered in between."""
    port, pid = service
    before, statuses = peak(pid), []
    ahead = memoryview(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400_000)  # more than is ever sent below
    with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
        link.setblocking(False)
        for _ in range(4):
            for _ in range(50):
                readable, writable, _ = select.select([link], [link], [], 0.01)
                if writable:
                    ahead = ahead[link.send(ahead[:65536]) :]
                if readable:
                    assert link.recv(1 << 20)  # nobody hangs up
            statuses.append(good(port, rows))
    assert statuses == [200] * 4
    assert peak(pid) - before < 100


def test_requests_sent_ahead_are_all_answered_in_order(service, rows):
    port, _ = service
    body = json.dumps({"features": rows.astype(float).tolist()}).encode()
    ranked = head(b"/rank", b"Content-Length: %d\r\n\r\n" % len(body)) + body
    health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + KEY + b"\r\n"
    chunked = head(b"/rank", CHUNKED) + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\nX: y\r\n\r\n"
    raw = b""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
        link.sendall((ranked + health * 30 + chunked) * 10 + last)
        while got := link.recv(1 << 16):
            raw += got
    found = re.findall(rb"HTTP/1\.1 (\d+) [^\r]*\r\n|\"(ranking|status)\"", raw)
    assert [int(status) for status, _ in found if status] == [200] * 320 + [404]
    kinds = [kind for _, kind in found if kind]
    assert kinds == ([b"ranking"] + [b"status"] * 30 + [b"ranking"]) * 10


def test_a_trailer_is_no_header(service, rows):
    """A token that comes after the body is none."""
    port, _ = service
    body = json.dumps({"features": rows.astype(float).tolist()}).encode()
    request = head(b"/rank", b"Connection: close\r\n" + CHUNKED).replace(KEY, b"")
    request += b"%x\r\n" % len(body) + body + b"\r\n0\r\n" + KEY + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
        link.sendall(request)
        status = int(link.recv(1000).split()[1])
    assert status == (200 if good_without_key(port) else 401)


def good_without_key(port: int) -> bool:
    return ask(port, "GET", "/models")[0] == 200


def test_others_are_answered_during_a_flood(service, rows):
    port, _ = service
    statuses: list[int] = []
    flooded(
        port,
        head(b"/rank", CHUNKED),
        b"100\r\n" + b" " * 256 + b"\r\n",
        meanwhile=lambda: statuses.append(good(port, rows)),
    )
    assert statuses
    assert set(statuses) == {200}


def test_bytes_after_a_change_of_protocol_are_not_heard(service):
    port, _ = service
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
    sent, raw = flooded(port, request, b"y")
    assert raw.startswith(b"HTTP/1.1 200 ")
    assert sent < MOST


def test_an_answer_that_nobody_reads_is_given_up(models):
    """The page's scripts are larger than what the system keeps for a client; the connection must not wait for ever."""
    process, port = start(str(models["linear"]), "--timeout", "1")
    try:
        request = b"GET /assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with socket.socket() as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.settimeout(30)
            link.connect(("127.0.0.1", port))
            link.sendall(request * 20)
            time.sleep(5)
            received = 0
            try:
                while got := link.recv(1 << 20):
                    received += len(got)
            except ConnectionResetError:
                pass
        assert received < 20_000_000
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()


@pytest.mark.parametrize(
    "body",
    [
        b'{"features":[' + b"[]," * 200_000 + b"[]]}",
        b'{"ids":[' + b'"a",' * 200_000 + b'"a"],"features":[[1]]}',
        b'{"documents":[' + b"{}," * 200_000 + b"{}]}",
        b"[" * 300_000,
        b'{"\\\\":[' + b"1," * 200_000 + b"1]}",
    ],
)
def test_more_values_than_documents_have_are_refused_before_they_are_made(body):
    with pytest.raises(Refused, match="more values than 1000 documents of 5 features"):
        parse(body, [str(i) for i in range(5)], False, Limits(documents=1000))


def test_signs_in_texts_are_no_values():
    name = ',:[{\\"' * 40_000
    found = parse(json.dumps({"ids": [name], "features": [[1.0]]}).encode(), ["a"], False, Limits(documents=10))
    assert found.ids == [name]
