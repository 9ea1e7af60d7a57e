"""Counts and durations for Prometheus, and the outermost layer of the service, which keeps them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Monitor:
    """The figures of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("luce_requests", "Answers by route and status.", ["route", "status"], **own)
        self.seconds = Histogram(
            "luce_request_seconds", "Seconds from request to answer.", ["route"], buckets=_SECONDS, **own
        )
        self.documents = Counter("luce_documents", "Documents ranked, by model.", ["model"], **own)
        self.reloads = Counter("luce_reloads", "Reloads of the models, by outcome.", ["outcome"], **own)
        self.at_work = Gauge("luce_requests_at_work", "Requests being read or worked on.", **own)
        self.models = Gauge("luce_models", "Models on the shelf.", **own)


class Watched:
    """An application whose requests are counted."""

    def __init__(self, app: App, monitor: Monitor) -> None:
        self.app, self.monitor = app, monitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and note how it ended."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, start = 500, time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            # The route as it was declared: a path that a client made up must not become a label.
            route = getattr(scope.get("route"), "path", "unknown")
            self.monitor.requests.labels(route, str(status)).inc()
            self.monitor.seconds.labels(route).observe(time.perf_counter() - start)
