"""How many threads a process may use: one budget, for threads of our own and of LightGBM.

Blocks of rows run on the threads of `numerics.segments`; a matrix product inside a block that started threads again
would wait for cores that the other blocks hold, and its sums would depend on how many it got: one BLAS thread a block.
Elsewhere BLAS keeps its own number, which OMP_NUM_THREADS sets: with ours its sums would depend on `set_threads`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from luce.checks import available_cores, whole
from luce.errors import SettingError

_threads: int | None = None
_lock = threading.Lock()
_users = 0
_limit: Any = None


def thread_budget() -> tuple[int, str]:
    """How many threads this process may use, and what says so.

    `set_threads`, else LUCE_NUM_THREADS, else OMP_NUM_THREADS, else the cores at hand.
    """
    if _threads is not None:
        return _threads, "set_threads"
    given = os.environ.get("LUCE_NUM_THREADS")
    if given is not None:
        found = _count(given)
        if found is None:
            raise SettingError(f"LUCE_NUM_THREADS is {given!r}; it must be a whole number from 1 to 999999.")
        return found, "LUCE_NUM_THREADS"
    given = os.environ.get("OMP_NUM_THREADS")
    if given is None:
        return available_cores()
    # A list is for nested levels, of which there is one here. OpenMP itself takes no notice of anything else.
    first, *rest = [_count(level) for level in given.split(",")]
    if first is None or None in rest:
        cores, why = available_cores()
        return cores, f"{why}; OMP_NUM_THREADS={given!r} is no number of threads and has no effect"
    return first, "OMP_NUM_THREADS"


def _count(text: str) -> int | None:
    found = re.fullmatch(r"\s*0*([1-9][0-9]{0,5})\s*", text)
    return None if found is None else int(found[1])


def n_threads() -> int:
    """Threads that parallel work uses: the number of `thread_budget`."""
    return thread_budget()[0]


def set_threads(n: int | None) -> None:
    """Set the number of threads for this process, those of LightGBM included; None returns to the default.

    That is the variable LUCE_NUM_THREADS, else OMP_NUM_THREADS, else the cores at hand: those on which the process may
    run, or fewer where its control group has a quota.
    """
    global _threads
    _threads = None if n is None else whole("The number of threads", n, 1)


@cache
def _controller() -> Any:
    # Looking through the loaded libraries takes milliseconds, setting the limit microseconds: look once, and not before
    # the BLAS of SciPy is there, which is another one than NumPy's.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _reset_after_fork() -> None:
    # Threads that were inside do not live on in the child, and so never leave.
    global _lock, _users
    _lock, _users = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _release() -> None:
    # Newer versions of threadpoolctl let only the thread that set a limit change it again, until it gives up control.
    # The last to leave may be another one than the first to enter.
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products inside use one thread each; may be entered from many threads at once.

    The limit belongs to the process, so it is counted: the first to enter sets it and the last to leave takes it back.
    With a plain `threadpool_limits` in every thread, the first to leave would lift it for those still at work.
    """
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
            _release()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.restore_original_limits()
                _release()
