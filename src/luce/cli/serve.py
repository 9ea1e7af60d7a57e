"""`luce serve` and `luce monitor`: an HTTP service that ranks, and its requests beside the training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.checks import number
from luce.cli.common import JsonFlag, QuietFlag, Report
from luce.cli.options import Group, Shown, flag
from luce.errors import DataError, SettingError, needing
from luce.result import check_ending
from luce.serve.settings import Limits

if TYPE_CHECKING:
    import socket

    from luce.serve.request_log import RequestLog


_LIMITS = Shown(
    names={
        "documents": "--max-documents",
        "body_bytes": "--max-megabytes",
        "seconds": "--timeout",
        "at_once": "--max-at-once",
        "connections": "--max-connections",
        "missing_features": "--missing-features",
    },
    typed={"body_bytes": (float, lambda megabytes: int(number("--max-megabytes", megabytes, above=True) * 1e6))},
    defaults={"body_bytes": 32.0},
    only_named=True,
)
"""`Limits` has more, for who makes the application."""


class Access(Group):
    """Who may ask, and what may be served."""

    token_file: Path | None = flag(None, "A file with a token that requests must bring (Authorization: Bearer TOKEN).")
    tls_certificate: Path | None = flag(None, "A certificate (PEM), to serve by HTTPS.")
    tls_key: Path | None = flag(None, "The private key of the certificate (PEM).")
    require_signature: list[Path] | None = flag(
        None, "A public key (Ed25519) that must have signed the models; may be repeated."
    )

    allow_host: list[str] | None = flag(
        None,
        "A name that requests may be sent to (Host), * for any; may be repeated.  [default: localhost, --host "
        "and addresses; any with --token-file]",
    )
    no_docs: bool = flag(False, "Leave out /docs and /openapi.json.")
    no_metrics: bool = flag(False, "Leave out /metrics.")

    def hosts(self, host: str) -> list[str] | None:
        """Names that requests may be sent to; None for any."""
        from luce.serve.access import LOCAL

        if not self.allow_host:
            # Who has the token may come by any name; a page that has not is refused anyway.
            return [*LOCAL, host] if self.token_file is None else None
        return None if "*" in self.allow_host else self.allow_host

    def tls(self) -> dict[str, Any]:
        """The settings of uvicorn for HTTPS, tried before any work."""
        if self.tls_certificate is None and self.tls_key is None:
            return {}
        if self.tls_certificate is None or self.tls_key is None:
            raise SettingError("--tls-certificate and --tls-key go together; give both.")
        import ssl

        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.tls_certificate, self.tls_key, password=lambda: b"")
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"{self.tls_certificate} and {self.tls_key} cannot be used for TLS: {reason}; give a certificate and "
                "its key as PEM, without a password."
            ) from error
        return {"ssl_certfile": str(self.tls_certificate), "ssl_keyfile": str(self.tls_key)}


class Watching(Group):
    """What is kept of requests, and a second model that scores them too."""

    request_log: Path | None = flag(None, "Write some requests to this file, for `luce monitor`.", "--log")
    log_share: float = flag(0.01, "Share of the requests that are written.")
    log_megabytes: float = flag(100.0, "Megabytes of a file of the log; five are kept.")
    shadow: list[str] | None = flag(
        None, "A model file that scores the same requests, unseen: FILE, or NAME=FILE beside model NAME."
    )

    def opened(self) -> RequestLog | None:
        """The log that was asked for."""
        if self.request_log is None:
            return None
        from luce.serve.request_log import RequestLog

        return RequestLog(self.request_log, self.log_share, int(self.log_megabytes * 1e6))

    def shadows(self, models: dict[str, Path]) -> dict[str, Path]:
        """Shadows by the model that they stand beside."""
        found: dict[str, Path] = {}
        for text in self.shadow or []:
            name, equals, file = text.partition("=")
            if not equals and len(models) > 1:
                raise SettingError(f"There are several models; give --shadow as NAME=FILE, one of {', '.join(models)}.")
            name = name if equals else next(iter(models))
            if name not in models or name in found:
                raise SettingError(f"--shadow {text!r}: there is one shadow for each of {', '.join(models)} at most.")
            found[name] = Path(file if equals else text)
        return found


def serve(
    *,
    models: list[str] = typer.Argument(..., help="Model files, as FILE or NAME=FILE (name: that of the file)."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on."),
    port: int = typer.Option(8000, min=0, max=65535, help="Port to listen on; 0 takes a free one."),
    limits: Annotated[Limits, _LIMITS],
    access: Access,
    watching: Watching,
    quiet: QuietFlag = False,
) -> None:
    """Serve models over HTTP: POST documents with features, get ranking, scores and probabilities.

    The page /docs shows all routes. POST /reload or the signal HUP reads the model files again.
    """
    report = Report(quiet=quiet)
    paths = _named(models)
    import gc

    with needing("luce serve", "serve"):
        import uvicorn

        from luce.serve.access import read_token
        from luce.serve.app import create_app
        from luce.serve.wire import guarded

    tls = access.tls()
    token = None if access.token_file is None else read_token(access.token_file)
    _open_files(limits.connections)
    listener = _listen(host, port)
    report.say("Loading and trying the models (the first time also compiles) ...")
    app = create_app(
        paths,
        limits,
        token=token,
        trusted=access.require_signature,
        shadows=watching.shadows(paths),
        request_log=watching.opened(),
        hosts=access.hosts(host),
        docs=not access.no_docs,
        metrics=not access.no_metrics,
    )
    hint = "." if access.no_docs else "; /docs shows how to ask."
    shown, scheme = f"[{host}]" if ":" in host else host, "https" if tls else "http"
    report.say(f"Serving {', '.join(paths)} on {scheme}://{shown}:{listener.getsockname()[1]}{hint}")
    config = uvicorn.Config(
        app,
        http=guarded(limits)[0],
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=int(limits.idle_seconds),
        server_header=False,
        **tls,
    )
    # What is loaded by now stays: a collection of garbage in the middle of a request need not look through it.
    gc.collect()
    gc.freeze()
    _keep_memory()
    uvicorn.Server(config).run(sockets=[listener])


def _open_files(connections: int) -> None:
    """Let the process have a file for every connection, or refuse the number."""
    try:
        import resource
    except ImportError:  # no such limit on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 128  # models, libraries, the event loop, connections that are about to be closed
    if soft < wanted and hard != resource.RLIM_INFINITY and hard < wanted:
        raise SettingError(
            f"--max-connections is {connections}, and this process may open {hard} files, {hard - 128} connections; "
            "give fewer, or raise the limit (ulimit -n)."
        )
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


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


def monitor(
    *,
    logs: list[Path] = typer.Argument(..., help="Files that `luce serve --log` wrote."),
    model: Path = typer.Option(..., help="The model that answered."),
    out: Path | None = typer.Option(None, "--out", "-o", help="A page (.html) to write."),
    all_versions: bool = typer.Option(
        False, "--all-versions", help="Count requests that other versions of the model answered, too."
    ),
    json: JsonFlag = False,
) -> None:
    """Compare logged requests with the training of their model: drift of features and scores, gaps."""
    import hashlib

    from luce.model_file import load
    from luce.report.pages import monitor, write_monitor_page

    report = Report(as_json=json)
    check_ending(out, (".html",))
    ranker = load(model)
    version = None if all_versions else hashlib.sha256(model.read_bytes()).hexdigest()[:12]
    found = monitor(logs, ranker, version)
    if out is not None:
        write_monitor_page(found, out, f"Requests to {model.name} beside its training")
        report.wrote(out)
    report.show(found)
