"""Who may ask: an application behind a bearer token, under names of its own, and not for pages of other sites."""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from luce.errors import DataError, SettingError
from luce.serve.errors import error_body
from luce.serve.monitor import App, Receive, Scope, Send

OPEN = ("/health",)
"""Paths that tell nothing and need no token."""
_LEAST = 16
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""What a page of any site can make a browser send without asking first."""
_READS = ("GET", "HEAD", "OPTIONS")


class Admitted:
    """An application that answers under its names alone, to no form or script of another site, and to who is known.

    A browser sends what any page asks for, to this machine and to names that a stranger lets point to it; what it sends
    so tells the name (Host), the page (Origin), and comes as a form unless the service was asked before.

    Parameters
    ----------
    hosts
        Names that a request may be sent to, without a port; "localhost" with all addresses in numbers where
        it is `LOCAL`, and any name where it is None.
    token
        What a request must bring as `Authorization: Bearer TOKEN`, unless it is None.
    """

    def __init__(self, app: App, hosts: Sequence[str] | None, token: str | None) -> None:
        self.app, self._hosts = app, None if hosts is None else frozenset(map(_name, hosts))
        self._expected = None if token is None else b"Bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        wrong = self._wrong(scope) or self._unknown(scope) if scope["type"] == "http" else None
        if wrong is not None:
            await _refuse(send, *wrong)
            return
        await self.app(scope, receive, send)

    def _wrong(self, scope: Scope) -> tuple[int, str, str] | None:
        hosts = _given(scope, b"host")
        if len(hosts) > 1 or (hosts and not self._known(_name(hosts[0].decode("latin-1")))):
            name = b", ".join(hosts).decode("latin-1")[:80]
            return 421, "unknown_host", f"This service does not go by the name {name!r}; serve with --allow-host NAME."
        if scope["method"] in _READS:
            return None
        for origin in _given(scope, b"origin"):
            page = origin.decode("latin-1").partition("://")[2].lower()
            own = bool(hosts) and page.encode("latin-1") == hosts[0].lower()
            if not own and not (page and self._hosts is not None and _name(page) in self._hosts):
                return 403, "cross_site", "This service takes no requests from pages of other sites (Origin)."
        kinds = [value.split(b";")[0].strip().lower().decode("latin-1") for value in _given(scope, b"content-type")]
        if any(kind in _FORMS for kind in kinds):
            what = f"The body is said to be a form or plain text ({kinds[0]}); send it as application/json."
            return 415, "form_body", what
        return None

    def _unknown(self, scope: Scope) -> tuple[int, str, str] | None:
        if self._expected is None or scope["path"] in OPEN:
            return None
        given = _given(scope, b"authorization")
        # In a time that does not depend on how much of it is right.
        if len(given) == 1 and hmac.compare_digest(given[0], self._expected):
            return None
        return 401, "unauthorized", "This service needs the header `Authorization: Bearer TOKEN` with its token."

    def _known(self, name: str) -> bool:
        return self._hosts is None or name in self._hosts or (self._hosts >= frozenset(LOCAL) and _is_address(name))


LOCAL = ("localhost", "127.0.0.1")
"""The names of a service that was given none. A stranger's page can come by a name only, and not by an address."""


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """The name in a Host header, without port.

    >>> _name("Ranker.example:8000"), _name("[::1]:80"), _name("::1")
    ('ranker.example', '::1', '::1')
    """
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return (host.partition(":")[0] if host.count(":") == 1 else host).rstrip(".")


def _given(scope: Scope, header: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == header]


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    content = error_body(code, message)
    said = {"content-type": "application/json", "connection": "close", "content-length": str(len(content))}
    said |= {"www-authenticate": "Bearer"} if status == 401 else {}
    listed = [(name.encode(), value.encode()) for name, value in said.items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": content})


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
