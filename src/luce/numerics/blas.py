"""BLAS beside threads of our own: one BLAS thread a block, so that the two pools do not fight.

Blocks of rows run on the threads of `numerics.segments`; a matrix product inside a block that started threads again
would wait for cores that the other blocks hold, and its sums would depend on how many it got.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_users = 0
_limit: Any = None


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
