"""`luce serve`: rank over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from luce.cli.common import QuietFlag, Report
from luce.errors import MissingExtraError, SettingError

if TYPE_CHECKING:
    import socket

__all__ = ["serve"]


def serve(
    models: Annotated[list[str], typer.Argument(help="Model files, as FILE or NAME=FILE (name: that of the file).")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    max_documents: Annotated[int, typer.Option(min=1, help="Most documents of a request.")] = 10_000,
    max_megabytes: Annotated[float, typer.Option(help="Most megabytes of a request.")] = 64.0,
    timeout: Annotated[float, typer.Option(help="Most seconds from request to answer.")] = 10.0,
    max_at_once: Annotated[int, typer.Option(min=1, help="Most requests worked on at the same time.")] = 64,
    missing_features: Annotated[
        bool, typer.Option("--missing-features", help="A document may leave out features that a model can do without.")
    ] = False,
    quiet: QuietFlag = False,
) -> None:
    """Serve models over HTTP: POST documents with features, get ranking, scores and probabilities.

    The page /docs shows all routes. POST /reload or the signal HUP reads the model files again.
    """
    report = Report(quiet=quiet)
    paths = _named(models)
    import gc

    try:
        import uvicorn

        from luce.serve.app import create_app
    except ImportError as error:
        raise MissingExtraError("luce serve", "serve") from error
    from luce.serve.settings import Limits

    if not max_megabytes > 0:
        raise SettingError(f"--max-megabytes is {max_megabytes:g}; it must be above 0.")
    limits = Limits(
        documents=max_documents,
        body_bytes=int(max_megabytes * 1e6),
        seconds=timeout,
        at_once=max_at_once,
        missing_features=missing_features,
    )
    listener = _listen(host, port)
    report.say("Loading and trying the models (the first time also compiles) ...")
    app = create_app(paths, limits)
    shown = f"[{host}]" if ":" in host else host
    report.say(f"Serving {', '.join(paths)} on http://{shown}:{listener.getsockname()[1]}; /docs shows how to ask.")
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=30, server_header=False)
    # What is loaded by now stays: a collection of garbage in the middle of a request need not look through it.
    gc.collect()
    gc.freeze()
    _keep_memory()
    uvicorn.Server(config).run(sockets=[listener])


def _keep_memory() -> None:
    """Let glibc keep freed memory for the next request, 128 MB at most for each thread.

    To give back the pages of a large body and to get them anew takes longer than to read its numbers.
    """
    import ctypes
    import sys

    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # other C libraries have none
        trim_threshold, mmap_threshold = -1, -3
        library.mallopt(trim_threshold, 128 << 20)
        library.mallopt(mmap_threshold, 32 << 20)


def _named(models: list[str]) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for text in models:
        name, equals, file = text.partition("=")
        path = Path(file if equals else text)
        name = name if equals else path.stem
        if not name or "/" in name or name in paths:
            raise SettingError(f"The model {text!r} needs a name of its own without slashes; give it as NAME=FILE.")
        paths[name] = path
    return paths


def _listen(host: str, port: int) -> socket.socket:
    import socket

    try:
        family, kind, protocol = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][:3]
        # Without its protocol, asyncio does not know it for TCP and lets the end of an answer wait 40 ms.
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingError(f"Cannot listen on {host} port {port}: {reason}; give another --host or --port.") from error
    return listener
