"""Where pieces of work are done: in this process, or by workers of their own.

Workers are processes, not threads: a fit of a linear model on small data is mostly Python between short kernels, which
threads would take in turns, and an engine that crashes takes only its worker along. They are forked off a process that
has imported luce and done nothing else; to fork this one would be unsafe, since it has threads. Each piece of work
depends on nothing but itself, so that any number of workers gives the same numbers.
"""

from __future__ import annotations

import pickle
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from statistics import median
from typing import Any, Protocol, Self

from luce.errors import SettingError
from luce.experiments.estimators import OWN_FILES, run_file
from luce.experiments.work import Bench, Failed, Fit, Setup, Task, Trial, Verdict, attempt, sentence
from luce.numerics.segments import n_threads, set_threads

_WORTH_WORKERS = 20.0
"""Seconds of fits to come from which on workers are started; each of them takes some seconds to import."""
_LOOK = 5.0
"""Seconds after which what is under way is looked at again, whether anything came or not."""
_LARGE_FOLD = 1 << 30
"""Bytes of features from which on a fold is not read by several processes: its fits keep the cores busy by threads."""

Result = Trial | Verdict | Failed
Started = Callable[[Any], None]


class Pool(Protocol):
    """Takes pieces of work under keys and gives their results; more may be handed in while results are read."""

    jobs: int
    """Pieces of work that are done at a time."""

    def submit(self, key: Any, task: Task, *, first: bool = False) -> None:
        """Hand in a piece of work, before all others where `first`."""
        ...

    def results(self, started: Started) -> Iterator[tuple[Any, Result]]:
        """Keys and results in the order in which they come, until nothing is left; `started` is told of starts."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


def make_pool(bench: Bench, jobs: int | None) -> Pool:
    """One job works here, more are workers; None begins here and goes on with a worker a core where that pays."""
    if jobs is not None and jobs < 1:
        raise SettingError(f"The number of jobs is {jobs}; it must be at least 1.")
    if jobs is None and n_threads() > 1:
        return _Growing(bench, n_threads())
    return _Here(bench) if jobs is None or jobs == 1 else _Workers(bench.setup, jobs)


class _Here:
    jobs = 1

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.pending: deque[tuple[Any, Task]] = deque()

    def submit(self, key: Any, task: Task, *, first: bool = False) -> None:
        (self.pending.appendleft if first else self.pending.append)((key, task))

    def results(self, started: Started) -> Iterator[tuple[Any, Result]]:
        while self.pending:
            key, task = self.pending.popleft()
            started(key)
            yield key, attempt(self.bench, task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.pending.clear()


class _Growing(_Here):
    """Begins here; hands the rest to workers when it will last long enough for their start to pay."""

    def __init__(self, bench: Bench, jobs: int) -> None:
        super().__init__(bench)
        self.more = jobs
        self.times: list[float] = []
        self.workers: _Workers | None = None

    def submit(self, key: Any, task: Task, *, first: bool = False) -> None:
        if self.workers is not None:
            self.workers.submit(key, task, first=first)
        else:
            super().submit(key, task, first=first)

    def results(self, started: Started) -> Iterator[tuple[Any, Result]]:
        while self.pending and not (self._pays() and self._hand_over()):
            begin = time.perf_counter()
            key, task = self.pending.popleft()
            started(key)
            result = attempt(self.bench, task)
            if isinstance(task, Fit):
                self.times.append(time.perf_counter() - begin)
            yield key, result
        if self.workers is not None:
            yield from self.workers.results(started)

    def _hand_over(self) -> bool:
        """Give what is left to workers; False where the folds cannot go to other processes."""
        try:
            workers = _Workers(self.bench.setup, self.more)
            for key, task in self.pending:
                workers.submit(key, task)
        except SettingError:
            self.more = 1
            return False
        self.workers, self.jobs = workers, self.more
        self.pending.clear()
        return True

    def _pays(self) -> bool:
        # The first fit of a model compiles: a median of three passes over it.
        fits = sum(isinstance(task, Fit) for _, task in self.pending)
        long = len(self.times) >= 3 and fits * median(self.times) > _WORTH_WORKERS
        return self.more > 1 and long and self.bench.largest_fold < _LARGE_FOLD

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.workers is not None:
            self.workers.__exit__(*error)


class _Workers:
    """Pieces of work for processes of their own; a process that dies takes only its piece along."""

    def __init__(self, setup: Setup, jobs: int) -> None:
        self.jobs = jobs
        try:
            self.setup = pickle.dumps(setup)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise SettingError(
                "These folds are read by a local function, which cannot go to other processes; take jobs=1."
            ) from error
        self.pending: list[tuple[Any, Task]] = []
        self.suspects: list[tuple[Any, Task]] = []
        """Pieces that were under way when a process died; each is done again, alone, to see whose fault it was."""
        self.executor: ProcessPoolExecutor | None = None

    def submit(self, key: Any, task: Task, *, first: bool = False) -> None:
        try:
            pickle.dumps(getattr(task, "system", None))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            said = " ".join(str(error).split())
            raise SettingError(
                f"A model cannot go to other processes ({said}); write its parts as functions or classes of a file, "
                "not as lambdas or inside of functions, or take jobs=1."
            ) from error
        self.pending.insert(0 if first else len(self.pending), (key, task))

    def results(self, started: Started) -> Iterator[tuple[Any, Result]]:
        busy: dict[Future[Result], tuple[Any, Task]] = {}
        while busy or self.pending or self.suspects:
            self._dispatch(busy, started)
            lost = False
            for future in wait(busy, timeout=_LOOK, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    lost = True
                    continue
                key, _ = busy.pop(future)
                yield key, future.result() if error is None else Failed(sentence(error), worker_lost=True)
            if lost:
                yield from self._lost(list(busy.values()))
                busy.clear()

    def _dispatch(self, busy: dict[Future[Result], tuple[Any, Task]], started: Started) -> None:
        """Hand out as many pieces as there are processes, so that a piece is begun when it is handed out."""
        executor = self.executor = self.executor or self._start()
        if self.suspects and not busy:
            piece = self.suspects.pop()
            busy[executor.submit(_work, piece[1])] = piece
        while self.pending and len(busy) < self.jobs and not self.suspects:
            key, task = self.pending.pop(self._suited([task.fold for _, task in busy.values()]))
            started(key)
            busy[executor.submit(_work, task)] = key, task

    def _start(self) -> ProcessPoolExecutor:
        threads = max(1, n_threads() // self.jobs)
        executor = ProcessPoolExecutor(self.jobs, _context(), _begin, (self.setup, threads, dict(OWN_FILES)))
        try:
            executor.submit(_ready).result()
        except BrokenProcessPool:
            raise SettingError(
                "A worker process could not start: a script that uses more than one job needs to start its work under "
                '`if __name__ == "__main__":`; or take jobs=1.'
            ) from None
        return executor

    def _suited(self, folds: list[int]) -> int:
        """The next piece: of the fold on which most work, since its data are read there."""
        return min(range(len(self.pending)), key=lambda i: (-folds.count(self.pending[i][1].fold), i))

    def _lost(self, pieces: list[tuple[Any, Task]]) -> Iterator[tuple[Any, Result]]:
        """A process died: the piece that was alone is to blame; several are done again one by one."""
        self.__exit__()
        if len(pieces) > 1:
            self.suspects += pieces
        else:
            yield pieces[0][0], Failed("The worker process ended: a crash, or too little memory.", True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        executor, self.executor = self.executor, None
        if executor is not None:
            for process in list((executor._processes or {}).values()):
                process.terminate()  # a fit under way is not waited for
            executor.shutdown(cancel_futures=True)


def _context() -> Any:
    """How workers are started: imports are done once for all of them, where the system can fork."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


_BENCH: list[Bench] = []
"""In a worker: its bench."""


def _begin(setup: bytes, threads: int, files: dict[str, str]) -> None:
    """What a worker does first."""
    # Ctrl-C reaches all processes of a terminal; the first one decides and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_threads(threads)
    for name, path in files.items():
        run_file(name, path)
    _BENCH[:] = [Bench(pickle.loads(setup))]


def _ready() -> None:
    """What a worker can do that has started."""


def _work(task: Task) -> Result:
    """A piece of work in a worker."""
    return attempt(_BENCH[0], task)
