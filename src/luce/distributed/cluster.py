"""A Dask cluster: one that answers at an address, or processes of this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from luce.errors import MissingExtraError, SettingError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["ANSWER_SECONDS", "connect"]

ANSWER_SECONDS = 8
"""How long a scheduler may take to answer, and its workers to appear."""


@contextmanager
def connect(address: str) -> Iterator[Client]:
    """A client of the cluster at `address`; "local" starts one process a core on this machine and ends them."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("Work on a Dask cluster", "dask") from error
    # Labels travel with the tasks that load features, so that a lost worker costs nothing but reading again.
    quiet = {"distributed.admin.large-graph-warning-threshold": "1 GB"}
    with dask.config.set(quiet):
        if address == "local":
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            how = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": logging.ERROR}
            with LocalCluster(n_workers=cores, **how) as cluster, Client(cluster) as client:
                yield client
            return
        with _answering(address, Client) as client:
            yield client


def _answering(address: str, make: type[Client]) -> Client:
    try:
        client = make(address, timeout=ANSWER_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        raise SettingError(
            f"No Dask scheduler answers at {address!r} within {ANSWER_SECONDS} seconds; give its address as in "
            "tcp://host:8786, or 'local' for processes of this machine."
        ) from error
    try:
        client.wait_for_workers(1, timeout=ANSWER_SECONDS)
    except TimeoutError as error:
        client.close()
        raise SettingError(f"The Dask scheduler at {address!r} has no workers; start some first.") from error
    return client
