"""The service: routes, limits and errors. Everything that ranks is in `shelf`, `requests` and `answers`."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, RedirectResponse
from numpy.typing import NDArray
from prometheus_client import generate_latest
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles
from swagger_ui_bundle import swagger_ui_path

from luce import __version__
from luce.errors import LuceError
from luce.serve.access import Admitted
from luce.serve.answers import RankAnswer, answer
from luce.serve.beside import ARROW
from luce.serve.bodies import Bodies
from luce.serve.errors import ErrorAnswer, Refused, error_body
from luce.serve.monitor import Monitor, Watched
from luce.serve.request_log import RequestLog
from luce.serve.requests import RankRequest, parse
from luce.serve.settings import Limits
from luce.serve.shelf import Served, Shelf
from luce.serve.watch import Drifts, Shadow, Watch
from luce.types import FloatArray

log = logging.getLogger("luce.serve")

THREADS = 4
"""Requests that are computed at the same time; work that was given up goes on beside them until it ends."""
LARGE, LARGE_THREADS = 8 << 20, 1
"""Bodies above so many bytes are worked on by so many threads of their own, so that they do not keep others waiting."""
_CODES = {404: "not_found", 405: "method_not_allowed", 400: "bad_request"}


class Health(BaseModel):
    """Answers only where models are loaded and ready."""

    status: str
    models: list[str]


class Model(BaseModel):
    """A model on the shelf."""

    name: str
    version: str
    loss: str | None
    scorer: str
    features: list[str]
    texts: list[str]
    takes_missing: bool
    loaded: float


class Reloaded(BaseModel):
    """Names of the models whose files had changed."""

    changed: list[str]


class Service:
    """The state that the routes share."""

    def __init__(self, shelf: Shelf, limits: Limits, log: RequestLog | None, shadows: Mapping[str, Path]) -> None:
        self.shelf, self.limits, self.monitor, self.log = shelf, limits, Monitor(), log
        self.watches = {name: Watch(served) for name, served in shelf.served.items()}
        self.shadows = {name: Shadow(shelf.beside(path), self.model(name)) for name, path in shadows.items()}
        self.monitor.registry.register(Drifts(self.watches, self.shadows))
        if log is not None:
            self.monitor.registry.register(log)
        self.bodies = Bodies(limits.body_bytes, limits.buffered_bytes)
        self.threads, self.large_threads = anyio.CapacityLimiter(THREADS), anyio.CapacityLimiter(LARGE_THREADS)
        self.at_work = 0
        self.in_threads = 0
        self._counting = threading.Lock()
        self.monitor.models.set(len(shelf.served))

    def model(self, name: str) -> Served:
        """The model of that name, or a refusal that lists the names."""
        served = self.shelf.served.get(name)
        if served is None:
            raise Refused(
                404, "unknown_model", f"There is no model {name!r}; there are {', '.join(self.shelf.served)}."
            )
        return served

    def only(self) -> Served:
        """The model of a service that has but one."""
        models = self.shelf.served
        if len(models) > 1:
            names = ", ".join(models)
            raise Refused(404, "unknown_model", f"This service has several models; POST to /models/NAME/rank: {names}.")
        return next(iter(models.values()))

    def reload(self) -> list[str]:
        """Read the files again; the models stay as they were where that fails."""
        try:
            changed = self.shelf.reload()
        except LuceError as error:
            self.monitor.reloads.labels("failed").inc()
            log.warning("The models stay as they were: %s", error)
            raise Refused(409, "cannot_reload", f"The models stay as they were: {error}") from error
        self.monitor.reloads.labels("done").inc()
        for name in changed:
            self.watches[name] = Watch(self.model(name))
        log.info("Models read again; changed: %s", ", ".join(changed) or "none")
        return changed

    async def rank(self, served: Served, request: Request) -> Response:
        """Read a request within the limits, rank in a thread, answer."""
        try:
            with anyio.fail_after(self.limits.seconds):
                kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
                how = {"said": dict(request.query_params), "arrow": kind in ARROW}
                async with self.bodies.of(request) as body:
                    content, documents = await self._in_turn(served, body, how)
        except TimeoutError:
            raise Refused(504, "too_slow", f"The request took more than {self.limits.seconds:g} s.") from None
        self.monitor.documents.labels(served.name).inc(documents)
        return Response(content, media_type="application/json")

    async def _in_turn(self, served: Served, body: bytes, how: dict[str, Any]) -> tuple[bytes, int]:
        """Answer and number of documents of a complete body; large ones have threads of their own to wait for."""
        # A thread cannot be stopped, so that requests which were given up are bounded by taking no new ones.
        if self.at_work >= self.limits.at_once or self.in_threads >= 2 * THREADS:
            working = max(self.at_work, self.in_threads)
            raise Refused(503, "busy", f"{working} requests are being worked on; come again in a second.")
        self.at_work += 1
        self.monitor.at_work.set(self.at_work)
        try:
            lane = self.large_threads if len(body) > LARGE else self.threads
            return await anyio.to_thread.run_sync(self._work, served, body, how, limiter=lane, abandon_on_cancel=True)
        finally:
            self.at_work -= 1
            self.monitor.at_work.set(self.at_work)

    def _seen(self, served: Served, X: NDArray[np.float32], scores: FloatArray) -> None:
        """Tell who wants to know of the documents that a model scores."""
        watch = self.watches[served.name]
        if watch.version == served.version:
            watch.add(X, scores)
        if served.name in self.shadows:
            self.shadows[served.name].add(X, scores)
        if self.log is not None:
            self.log.add(served.name, served.version, X, scores)

    def _work(self, served: Served, body: bytes, how: dict[str, Any]) -> tuple[bytes, int]:
        with self._counting:
            self.in_threads += 1
        try:
            known = served.features, served.takes_missing, self.limits, served.codes, served.types, served.also
            ask = parse(body, *known, **how)
            return orjson.dumps(answer(served, ask, self.limits, partial(self._seen, served))), len(ask.ids)
        finally:
            with self._counting:
                self.in_threads -= 1


def create_app(
    models: Mapping[str, str | Path],
    limits: Limits | None = None,
    *,
    token: str | None = None,
    trusted: Sequence[str | Path] | None = None,
    shadows: Mapping[str, str | Path] | None = None,
    request_log: RequestLog | None = None,
    hosts: Sequence[str] | None = None,
    docs: bool = True,
    metrics: bool = True,
) -> Any:
    """An ASGI application that serves model files by name.

    All models are loaded and tried before it is returned; SIGHUP and `POST /reload` read them again. With a `token`,
    requests need it; with `trusted`, files of public keys, models must be signed by one of them. A shadow is the
    file of a second model that scores what the model of that name does; `request_log` keeps some of the requests.
    `hosts` are the names that a request may be sent to, None for any; `docs=False` and `metrics=False` leave out the
    pages /docs and /openapi.json, and /metrics.
    """
    shelf = Shelf({name: Path(path) for name, path in models.items()}, trusted)
    beside = {name: Path(path) for name, path in (shadows or {}).items()}
    service = Service(shelf, limits or Limits(), request_log, beside)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reload_aside, service)
        yield

    app = FastAPI(
        title="luce",
        version=__version__,
        summary="Ranks the documents of a query.",
        lifespan=lifespan,
        docs_url=None,
        openapi_url="/openapi.json" if docs else None,
        redoc_url=None,
        responses={status: {"model": ErrorAnswer} for status in (400, 403, 404, 413, 415, 421, 422, 503, 504)},
    )
    app.state.service = service
    _add_routes(app, service, metrics)
    if docs:
        _add_pages(app)
    _add_errors(app, "; GET /docs lists what there is" if docs else "")
    app.openapi = lambda: _describe(app)  # type: ignore[method-assign]
    return Watched(Admitted(app, hosts, token), service.monitor)


def _reload_aside(service: Service) -> None:
    def reload() -> None:
        with suppress(Refused):  # said in the log
            service.reload()

    threading.Thread(target=reload, daemon=True).start()


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/RankRequest"}},
            ARROW[0]: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def _describe(app: FastAPI) -> dict[str, Any]:
    """OpenAPI with the request that is read by hand: FastAPI knows only what it reads itself."""
    if app.openapi_schema is None:
        described = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        request = RankRequest.model_json_schema(ref_template="#/components/schemas/{model}")
        described["components"]["schemas"] |= request.pop("$defs") | {"RankRequest": request}
        app.openapi_schema = described
    return app.openapi_schema


def _add_routes(app: FastAPI, service: Service, counted: bool) -> None:
    @app.get("/health", tags=["service"])
    async def health() -> Health:
        """Whether the service is ready."""
        return Health(status="ok", models=list(service.shelf.served))

    @app.get("/models", tags=["models"])
    async def models() -> list[Model]:
        """The models and their features."""
        return [_described(served) for served in service.shelf.served.values()]

    @app.get("/models/{name}", tags=["models"])
    async def model(name: str) -> Model:
        """One model and its features."""
        return _described(service.model(name))

    @app.post("/models/{name}/rank", tags=["rank"], response_model=RankAnswer, openapi_extra=_BODY)
    async def rank(name: str, request: Request) -> Response:
        """Rank the documents of a query by a model."""
        return await service.rank(service.model(name), request)

    @app.post("/rank", tags=["rank"], response_model=RankAnswer, openapi_extra=_BODY)
    async def rank_by_the_only_model(request: Request) -> Response:
        """Rank the documents of a query, where the service has one model."""
        return await service.rank(service.only(), request)

    @app.post("/reload", tags=["service"], responses={409: {"model": ErrorAnswer}})
    async def reload() -> Reloaded:
        """Read the model files again. Requests under way keep the model that they began with."""
        return Reloaded(changed=await anyio.to_thread.run_sync(service.reload))

    if not counted:
        return
    as_text: dict[str, Any] = {"content": {"text/plain": {}}}

    @app.get("/metrics", tags=["service"], response_class=Response, responses={200: as_text})
    async def metrics() -> Response:
        """Figures for Prometheus."""
        text = generate_latest(service.monitor.registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: FastAPI) -> None:
    """`/docs`, by Swagger UI from files on this machine, so that no browser asks another one; and `/` leads there."""
    app.mount("/assets", StaticFiles(directory=swagger_ui_path), name="assets")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="luce",
            swagger_js_url="/assets/swagger-ui-bundle.js",
            swagger_css_url="/assets/swagger-ui.css",
            swagger_favicon_url="/assets/favicon-32x32.png",
        )

    @app.get("/", include_in_schema=False)
    async def start() -> RedirectResponse:
        return RedirectResponse("/docs")


def _described(served: Served) -> Model:
    ranker = served.ranker
    return Model(
        name=served.name,
        version=served.version,
        loss=None if ranker.loss_ is None else ranker.loss_.name,
        scorer=ranker.scorer_.name,
        features=list(served.features),
        texts=[] if served.also.text is None else list(served.also.text.fields),
        takes_missing=served.takes_missing,
        loaded=served.loaded,
    )


def _problem(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(error_body(code, message), status, headers=dict(headers or {}), media_type="application/json")


def _add_errors(app: FastAPI, hint: str) -> None:
    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        # What was not read of a body would be taken for the next request.
        headers = {"Connection": "close"} if error.status in (413, 503, 504) else {}
        headers |= {"Retry-After": "1"} if error.status == 503 else {}
        return _problem(error.status, error.code, error.message, headers)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        code = _CODES.get(error.status_code, "error")
        return _problem(error.status_code, code, f"{error.detail}{hint}.", error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _problem(422, "invalid_request", f"{error.errors()[0]['msg']}.")

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        return _problem(400, "client_left", "The client left before its request was complete.")

    @app.exception_handler(Exception)
    async def defect(_: Request, error: Exception) -> Response:
        log.error("A defect of the service", exc_info=error)
        return _problem(500, "defect", "The service failed on this request; its log says where.")
