"""Who may ask: an application behind a bearer token."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

import orjson

from luce.errors import DataError, SettingError
from luce.serve.monitor import App, Receive, Scope, Send

OPEN = ("/health",)
"""Paths that tell nothing and need no token."""
_LEAST = 16


class Locked:
    """An application that answers only requests with `Authorization: Bearer TOKEN`."""

    def __init__(self, app: App, token: str) -> None:
        self.app, self._expected = app, b"Bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 401."""
        if scope["type"] == "http" and scope["path"] not in OPEN and not self._knows(scope):
            message = "This service needs the header `Authorization: Bearer TOKEN` with its token."
            content = orjson.dumps({"error": {"code": "unauthorized", "message": message}})
            headers = {"content-type": "application/json", "www-authenticate": "Bearer", "connection": "close"}
            listed = [(name.encode(), value.encode()) for name, value in headers.items()]
            listed.append((b"content-length", str(len(content)).encode()))
            await send({"type": "http.response.start", "status": 401, "headers": listed})
            await send({"type": "http.response.body", "body": content})
            return
        await self.app(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        # In a time that does not depend on how much of it is right.
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)


def read_token(path: Path) -> str:
    """The token in a file; a command line would show it to everybody on the machine."""
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"The token file {path} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    if len(token) < _LEAST or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingError(
            f"The token in {path} must be one word of {_LEAST} or more ASCII characters; "
            "make one by `openssl rand -hex 32`."
        )
    if os.name == "posix" and path.stat().st_mode & 0o004:
        raise SettingError(f"Everybody on this machine can read the token file {path}; run `chmod 600` on it.")
    return token
