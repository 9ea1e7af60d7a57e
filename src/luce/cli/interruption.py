"""What Ctrl-C keeps of a training: the first one ends it after its round, the second one gives it up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luce.cli.common import Report
    from luce.types import Progress

INTERRUPTED = 130
"""What a shell gives for a command that Ctrl-C ended."""


class Interruption:
    """Whether a training was asked to end, and the rounds that it had by then."""

    def __init__(self, report: Report, progress: Progress) -> None:
        self.asked, self.rounds = False, 0
        self._report, self._progress = report, progress

    def tell(self, step: int, total: int | None, info: Mapping[str, float]) -> bool:
        """A round is done; True where it was to be the last one."""
        self.rounds = step
        self._progress(step, total, info)
        return self.asked

    def handle(self, number: int, frame: Any) -> None:
        """Ctrl-C: the model of the rounds so far can be kept, unless there are none or it is pressed again."""
        if self.asked or not self.rounds:
            raise KeyboardInterrupt
        self.asked = True
        self._report.say("Ending after this round to keep what there is; Ctrl-C again gives it up.")


@contextmanager
def interruptible(report: Report, progress: Progress) -> Iterator[Interruption]:
    """Ctrl-C asks for the end of the training in the block."""
    watched = Interruption(report, progress)
    deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as a shell's background jobs are
    if deaf or threading.current_thread() is not threading.main_thread():  # only that one hears signals
        yield watched
        return
    before = signal.signal(signal.SIGINT, watched.handle)
    try:
        yield watched
    finally:
        signal.signal(signal.SIGINT, before)
