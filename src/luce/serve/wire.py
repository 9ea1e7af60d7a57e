"""The edge of the service: connections, bytes and their times, before a request is one.

uvicorn's protocol reads HTTP; this adds what it leaves to a proxy. Every byte of a connection is fed to the parser here
and belongs to one of three accounts of its request: the head, the body, or what frames the body (sizes of chunks, their
extensions, trailers). A turn of the event loop takes one small piece of a connection unless it is body of a known
length, and nothing while requests that were sent ahead wait, so that whatever one client sends, the others have their
turn. Trailers are counted and dropped: they are no headers. A connection whose answer is made before its request has
ended is closed, unless little is missing.

A connection has `header_seconds` for the headers of a request and `idle_seconds` between two. Where there are more
connections than allowed, one that never asked makes room for a new one, the oldest first, so that sockets which are
opened and left do not keep anybody out; then one that is idle. What a client does not read of its answer is thrown away
with the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from luce.serve.errors import error_body
from luce.serve.settings import Limits

PIECE = 4096
"""Bytes that are parsed at a time: at most so many requests, chunks or headers as they hold."""
_SMALL_REST = 64 << 10
"""Bytes of a body that nobody asked for and that are waited for, so that its connection can be used again."""
_LINGER = 1.0
"""Seconds in which a client that is still sending may read why it is refused."""


class Door:
    """Who is connected without a request under way, longest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.strangers: dict[Guarded, None] = {}
        """Connections that have not asked yet."""
        self.idle: dict[Guarded, None] = {}
        """Connections between two requests."""
        self.leaving: dict[Guarded, None] = {}
        """Connections that were answered for the last time and may still read it."""
        self.turned_away = 0
        """Connections that were closed to make room, or for being slow."""

    def make_room(self, connections: int) -> bool:
        """Whether there is a place for one that is already counted, after closing another where needed."""
        if connections <= self.limits.connections:
            return True
        for waiting in (self.leaving, self.strangers, self.idle):
            if waiting:
                next(iter(waiting)).drop()
                return True
        return False

    def leave(self, one: Guarded) -> None:
        """It asks, or it is gone."""
        for waiting in (self.leaving, self.strangers, self.idle):
            waiting.pop(one, None)


class _Held(FlowControl):
    """Reading goes on only where everything that came was parsed."""

    def __init__(self, transport: asyncio.Transport, of: Guarded) -> None:
        super().__init__(transport)
        self._of = of

    def resume_reading(self) -> None:
        """Read on, unless there is more than enough already."""
        if not self._of.waiting:
            super().resume_reading()


class Guarded(HttpToolsProtocol):
    """A connection within limits."""

    door: Door

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._in_head = False
        self._begun = False  # whether a request began in the piece that is being parsed
        self._beside = 0  # bytes of the request that are not its body: of the head first, then of the frame
        self._got = 0  # bytes of the body in the piece that is being parsed
        self._left = 0  # bytes of the body that are still to come, where its length was stated
        self._fields = 0  # headers, or trailers
        self._refusal: tuple[int, str, str] | None = None
        self._deaf = False
        self.waiting = memoryview(b"")
        """What came and was not parsed yet."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it in where there is room."""
        super().connection_made(transport)
        self.flow = _Held(transport, self)
        if not self.door.make_room(len(self.connections)):
            self._refuse(503, "busy", "All connections of this service are in use; come again in a second.")
            return
        self.door.strangers[self] = None
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._deaf, self.waiting = True, memoryview(b"")
        self._forget_deadline()
        self._stop_unread()
        self.door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, or keep it until it has its turn."""
        if self._deaf:
            return
        self._unset_keepalive_if_required()
        kept = bool(self.waiting)
        self.waiting = memoryview(bytes(self.waiting) + data if kept else data)
        if kept:
            self.flow.pause_reading()
        else:
            self._parse()

    def _parse(self) -> None:
        """Parse a piece, all that follows of a body of known length, and leave the rest for the next turn."""
        while self.waiting and not self.pipeline and not self._deaf:
            size = max(PIECE, self._left)
            piece, self.waiting = self.waiting[:size], self.waiting[size:]
            self._feed(piece)
            if not self._left:
                break
        if self._deaf or not self.waiting:
            self.waiting = memoryview(b"")
            return
        self.flow.pause_reading()
        if not self.pipeline:
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """The next turn: what is left, and then reading again unless the request says otherwise."""
        if self._deaf or self.pipeline:
            return
        self._unset_keepalive_if_required()
        self._parse()
        held = self.cycle is not None and len(self.cycle.body) > HIGH_WATER_LIMIT  # until the application asks
        if not (self.waiting or self._deaf or self.pipeline or held):
            self.flow.resume_reading()

    def _feed(self, piece: memoryview) -> None:
        """Give the parser a piece, and enter it in the accounts of its request."""
        self._begun, self._got = False, 0
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserError:
            self._refuse(*(self._refusal or (400, "bad_request", "These bytes are no request of HTTP.")))
            return
        except httptools.HttpParserUpgrade:
            # The request itself is answered; there is nothing to change over to, and so nothing more to hear.
            self._deaf = True
            return
        if self in self.door.idle and self._deadline is None:
            self._expect_headers()  # bytes that begin no request have stopped the time between two
        # A header, a trailer or the extension of a chunk that has not ended yet is kept by the parser and told to
        # nobody; what stood before a request in the same piece is not its own.
        self._beside += 0 if self._begun else len(piece) - self._got
        if self._in_head and self._beside > self.door.limits.header_bytes:
            self._refuse(*self._too_long())
        elif self._beside > self.door.limits.framing_bytes:
            most = self.door.limits.framing_bytes
            what = f"Sizes of chunks and trailers have more than {most:,} bytes, the most taken; send larger chunks."
            self._refuse(413, "framing_too_long", what)

    def on_message_begin(self) -> None:
        """Headers begin: there is a time for them."""
        super().on_message_begin()
        self._in_head = self._begun = True
        self._beside = self._left = self._fields = 0
        if self._deadline is None:
            self._expect_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; one that comes after the body is none, and is dropped."""
        if self._in_head:
            super().on_header(name, value)
        self._fields += 1
        most = self.door.limits.headers
        if self._fields > most:
            what = "headers" if self._in_head else "trailers"
            message = f"The request has more than {most} {what}, the most that this service takes; send fewer."
            self._refusal = (431, f"{what}_too_many", message)
            raise ValueError("refused")  # the parser stops, and `_feed` answers

    def on_headers_complete(self) -> None:
        """Headers have ended: check them, then ask."""
        limits = self.door.limits
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > limits.header_bytes:
            self._refusal = self._too_long()
            raise ValueError("refused")
        self._in_head, self._beside, self._fields = False, 0, 0
        stated = next((value for name, value in self.headers if name == b"content-length"), b"0")
        self._left = int(stated[:20]) if stated.isdigit() else 0
        self._forget_deadline()
        self.door.leave(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of the body, or all of it."""
        self._got += len(body)
        self._left = max(0, self._left - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request has ended."""
        self._left = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or hang up on one that was answered before it ended."""
        last = not self.pipeline
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.door.limits.seconds, self._drop_unread)
        if self.transport.is_closing():
            return
        endless = self.cycle.more_body and not 0 < self._left <= _SMALL_REST
        if last and (endless or self._deaf):
            self._hang_up()
            return
        if last:
            self.door.idle[self] = None
        if self.waiting and not self.pipeline:
            self.loop.call_soon(self._go_on)

    def pause_writing(self) -> None:
        """The client has to read what was sent, within the time of a request."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.door.limits.seconds, self._drop_unread)

    def resume_writing(self) -> None:
        """The client reads."""
        self._stop_unread()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close without waiting for a client that does not read."""
        self.drop()

    def drop(self) -> None:
        """Close at once."""
        self.door.turned_away += self in self.door.strangers
        self.door.leave(self)
        self.transport.abort()

    def _drop_unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(self.door.limits.header_seconds, self._too_slow)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self.waiting or self.pipeline:
            self._expect_headers()  # it is not the client who is late
        elif self._in_head:
            limit = self.door.limits.header_seconds
            self._refuse(408, "headers_too_slow", f"The headers of the request took more than {limit:g} s.")
        else:
            self.drop()

    def _too_long(self) -> tuple[int, str, str]:
        what = f"The headers of the request have more than {self.door.limits.header_bytes:,} bytes, the most taken."
        return 431, "headers_too_long", what

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer as the service does, and close; where others' answers are under way, only close."""
        self.door.turned_away += 1
        if self.transport.is_closing():
            return
        cycle = self.cycle
        under_way = cycle is not None and not cycle.response_complete
        if self.pipeline or (under_way and cycle.response_started):
            self.drop()
            return
        content = error_body(code, message)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(content)
        self.transport.write(STATUS_LINE[status] + head + content)
        if under_way:
            cycle.disconnected = True  # what the application still says goes nowhere
            cycle.message_event.set()
        self._hang_up()

    def _hang_up(self) -> None:
        """Send what is left, hear nothing more, and close once the client had time to read."""
        self._deaf, self.waiting = True, memoryview(b"")
        self._unset_keepalive_if_required()
        self._forget_deadline()
        self.door.leave(self)
        self.door.leaving[self] = None
        if self.transport.can_write_eof():
            # Bytes that nobody reads would make the system throw the answer away as well: they are read, for a while.
            self.transport.write_eof()
            self.flow.resume_reading()
        else:
            self.transport.close()
        self.loop.call_later(_LINGER, self.transport.abort)


def guarded(limits: Limits) -> tuple[type[Guarded], Door]:
    """The protocol of a service with these limits, for uvicorn's `http`, and who is connected."""
    door = Door(limits)
    return type("Guarded", (Guarded,), {"door": door}), door
