"""A Dask cluster: one that answers at an address, or processes of this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from luce.checks import available_cores
from luce.errors import SettingError, needing

if TYPE_CHECKING:
    from distributed import Client, WorkerPlugin

ANSWER_SECONDS = 4
"""How long a port may take to open, a scheduler behind it to answer, and its workers to appear."""
_LONGEST_GREETING = 1 << 20


@contextmanager
def connect(address: str) -> Iterator[Client]:
    """A client of the cluster at `address`; "local" starts one process a core on this machine and ends them."""
    if address != "local":
        _check_port(address)
    with needing("Work on a Dask cluster", "dask"):
        import dask
        from distributed import Client, LocalCluster
    # Labels travel with the tasks that load features, so that a lost worker costs nothing but reading again.
    quiet = {"distributed.admin.large-graph-warning-threshold": "1 GB"}
    with dask.config.set(quiet):
        if address == "local":
            how = {
                "threads_per_worker": 1,
                "processes": True,
                "dashboard_address": ":0",
                "silence_logs": logging.CRITICAL,
            }
            with LocalCluster(n_workers=available_cores()[0], **how) as cluster, Client(cluster) as client:
                client.register_plugin(_silent_plugin())
                yield client
            return
        with _answering(address, Client) as client:
            yield client


def _silent_plugin() -> WorkerPlugin:
    """LightGBM prints from its threads; standard output belongs to the result of the command."""
    from distributed import WorkerPlugin

    class Silent(WorkerPlugin):  # type: ignore[misc]
        """Standard output of a worker process goes nowhere."""

        def setup(self, worker: Any) -> None:
            """On every worker, those too that start in place of a lost one."""
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    return Silent()


def _check_port(address: str) -> None:
    """Whether a scheduler listens there: known before Dask is imported, and Dask waits for ever for what is silent."""
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        if parts.scheme not in ("tcp", "tls"):
            return
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=ANSWER_SECONDS) as port:
            greeting = port.recv(8, socket.MSG_WAITALL) if parts.scheme == "tcp" else b""
    except (OSError, ValueError, OverflowError) as error:
        raise _no_answer(address) from error
    # A scheduler speaks first, and begins with the length of what it says.
    if parts.scheme == "tcp" and not 0 < int.from_bytes(greeting, "little") < _LONGEST_GREETING:
        raise _no_answer(address)


def _no_answer(address: str) -> SettingError:
    return SettingError(
        f"No Dask scheduler answers at {address!r}; give its address as in tcp://host:8786, or 'local' for processes "
        "of this machine."
    )


def _answering(address: str, make: type[Client]) -> Client:
    try:
        client = make(address, timeout=ANSWER_SECONDS)
    except (OSError, ValueError, TypeError, MemoryError) as error:
        # A server that is no scheduler may answer in such a way that gigabytes seem to follow.
        raise _no_answer(address) from error
    try:
        client.wait_for_workers(1, timeout=ANSWER_SECONDS)
    except TimeoutError as error:
        client.close()
        raise SettingError(f"The Dask scheduler at {address!r} has no workers; start some first.") from error
    return client
