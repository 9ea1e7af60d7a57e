"""The bytes of requests that are not answered yet, held within one budget for all.

Who sends slowly waits alone: a body takes no place among the requests at work before it is complete, and where all
bodies together grow beyond the budget, the one that has been sending longest is given up first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from fastapi import Request

from luce.serve.errors import Refused

_MANY = 1024
"""Parts of a body that are put together while it comes."""


class _Sending:
    def __init__(self) -> None:
        self.size = 0
        self.scope = anyio.CancelScope()


class Bodies:
    """All bodies of a service: at most `each` bytes one, and `together` bytes all."""

    def __init__(self, each: int, together: int) -> None:
        self.each, self.together = each, together
        self.held = 0
        self._sending: dict[_Sending, None] = {}

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, which counts until the block ends."""
        sending = _Sending()
        self._sending[sending] = None
        try:
            yield await self._read(request, sending)
        finally:
            self._sending.pop(sending, None)
            self.held -= sending.size

    async def _read(self, request: Request, sending: _Sending) -> bytes:
        packed = request.headers.get("content-encoding", "identity")
        if packed.lower() != "identity":
            raise Refused(415, "packed_body", f"The body is said to be packed ({packed[:20]}); send it as plain JSON.")
        stated = request.headers.get("content-length", "")
        if stated.isdigit() and int(stated[:20]) > self.each:
            raise self._too_large()
        parts: list[bytes] = []
        loose: list[bytes] = []
        with sending.scope:
            async for part in request.stream():
                loose.append(part)
                if len(loose) == _MANY:  # they may have a byte each, which would take forty times its place
                    parts.append(b"".join(loose))
                    loose.clear()
                sending.size += len(part)
                self.held += len(part)
                if sending.size > self.each:
                    raise self._too_large()
                self._make_room()
        if sending.scope.cancelled_caught:
            raise Refused(503, "busy", "Others sent more at the same time than this service holds; come again.")
        self._sending.pop(sending, None)
        return b"".join(parts + loose)

    def _make_room(self) -> None:
        """Give up senders, the longest first, until what is held fits; the bytes of one at work stay."""
        while self.held > self.together and self._sending:
            longest = next(iter(self._sending))
            del self._sending[longest]
            self.held -= longest.size
            longest.size = 0
            longest.scope.cancel()

    def _too_large(self) -> Refused:
        return Refused(
            413, "body_too_large", f"The body has more than {self.each:,} bytes, the most this service takes."
        )
