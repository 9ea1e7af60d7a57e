"""The edge of the service: connections, headers and their times, before a request is one.

uvicorn's protocol reads HTTP; this adds what it leaves to a proxy. A connection has `header_seconds` for the headers of
a request and `idle_seconds` between two. Where there are more connections than allowed, one that never asked makes room
for a new one, the oldest first, so that sockets which are opened and left do not keep anybody out; then one that is
idle. What a client does not read of its answer is thrown away with the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from luce.serve.settings import Limits


class Door:
    """Who is connected without a request under way, longest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.strangers: dict[Guarded, None] = {}
        """Connections that have not asked yet."""
        self.idle: dict[Guarded, None] = {}
        """Connections between two requests."""
        self.turned_away = 0
        """Connections that were closed to make room, or for being slow."""

    def make_room(self, connections: int) -> bool:
        """Whether there is a place for one that is already counted, after closing another where needed."""
        if connections <= self.limits.connections:
            return True
        for waiting in (self.strangers, self.idle):
            if waiting:
                next(iter(waiting)).drop()
                return True
        return False

    def leave(self, one: Guarded) -> None:
        """It asks, or it is gone."""
        self.strangers.pop(one, None)
        self.idle.pop(one, None)


class Guarded(HttpToolsProtocol):
    """A connection within limits."""

    door: Door

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head_bytes = 0
        self._refusal: tuple[int, str, str] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it in where there is room."""
        super().connection_made(transport)
        if not self.door.make_room(len(self.connections)):
            self._refuse(503, "busy", "All connections of this service are in use; come again in a second.")
            return
        self.door.strangers[self] = None
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._forget_deadline()
        self.door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and refuse headers that are too many, too long or no headers."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(*(self._refusal or (400, "bad_request", "These bytes are no request of HTTP.")))
            return
        except httptools.HttpParserUpgrade:
            return  # the request itself is answered; there is nothing to change over to
        if self in self.door.idle and self._deadline is None:
            self._expect_headers()  # bytes that begin no request have stopped the time between two
        if self._in_head:
            # A header that has not ended yet is kept by the parser and told to nobody.
            self._head_bytes += len(data)
            if self._head_bytes > self.door.limits.header_bytes:
                self._refuse(*self._too_long())

    def on_message_begin(self) -> None:
        """Headers begin: there is a time for them."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._deadline is None:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        """Headers have ended: check them, then ask."""
        limits = self.door.limits
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > limits.header_bytes:
            self._refusal = self._too_long()
        elif len(self.headers) > limits.headers:
            what = f"The request has {len(self.headers)} headers and this service takes {limits.headers}; send fewer."
            self._refusal = (431, "headers_too_many", what)
        if self._refusal is not None:
            raise ValueError("refused")  # the parser stops, and `data_received` answers
        self._in_head = False
        self._forget_deadline()
        self.door.leave(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the end of sending."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.door.limits.seconds, self._drop_unread)
        if not self.transport.is_closing() and not self.pipeline:
            self.door.idle[self] = None

    def timeout_keep_alive_handler(self) -> None:
        """Close without waiting for a client that does not read."""
        self.drop()

    def drop(self) -> None:
        """Close at once."""
        self.door.turned_away += self in self.door.strangers
        self.door.leave(self)
        self.transport.abort()

    def _drop_unread(self) -> None:
        if self.transport is not None and self.transport.get_write_buffer_size():
            self.transport.abort()

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(self.door.limits.header_seconds, self._too_slow)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self._in_head:
            limit = self.door.limits.header_seconds
            self._refuse(408, "headers_too_slow", f"The headers of the request took more than {limit:g} s.")
        else:
            self.drop()

    def _too_long(self) -> tuple[int, str, str]:
        what = f"The headers of the request have more than {self.door.limits.header_bytes:,} bytes, the most taken."
        return 431, "headers_too_long", what

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer as the service does, and close."""
        self.door.turned_away += 1
        self._forget_deadline()
        self.door.leave(self)
        content = orjson.dumps({"error": {"code": code, "message": message}})
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(content)
        if not self.transport.is_closing():
            self.transport.write(STATUS_LINE[status] + head + content)
            self.transport.close()
            self.loop.call_later(1.0, self._drop_unread)


def guarded(limits: Limits) -> tuple[type[Guarded], Door]:
    """The protocol of a service with these limits, for uvicorn's `http`, and who is connected."""
    door = Door(limits)
    return type("Guarded", (Guarded,), {"door": door}), door
