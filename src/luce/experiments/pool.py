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
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from statistics import median
from typing import Any, Self

from luce.errors import SettingError
from luce.experiments.estimators import OWN_FILES, run_file
from luce.experiments.work import Bench, Failed, Fit, Result, Task, sentence
from luce.numerics.threads import n_threads, set_threads

_WORTH_WORKERS = 20.0
"""Seconds of fits to come from which on workers are started; each of them takes some seconds to import."""
_LOOK = 5.0
"""Seconds after which what is under way is looked at again, whether anything came or not."""
_LARGE_FOLD = 1 << 30
"""Bytes of features from which on a fold is not read by several processes: its fits keep the cores busy by threads."""

Piece = tuple[Any, Task]
Started = Callable[[Any], None]


class Pool:
    """Takes pieces of work under keys and gives their results; more may be handed in while results are read.

    One job works here, more are workers; None begins here and goes on with a worker a core where that pays. A process
    that dies takes only its piece along.
    """

    def __init__(self, bench: Bench, jobs: int | None) -> None:
        if jobs is not None and jobs < 1:
            raise SettingError(f"The number of jobs is {jobs}; it must be at least 1.")
        self.bench, self._most = bench, n_threads() if jobs is None else jobs
        self.jobs = 1
        """Pieces of work that are done at a time."""
        self._pending: list[Piece] = []
        self._busy: dict[Future[Result], Piece] = {}
        self._suspects: list[Piece] = []
        """Pieces that were under way when a process died; each is done again, alone, to see whose fault it was."""
        self._times: list[float] = []
        self._setup: bytes | None = None
        """What workers begin with, where there are some."""
        self._executor: ProcessPoolExecutor | None = None
        if jobs is not None and jobs > 1:
            self._hand_over()

    def submit(self, key: Any, task: Task, *, first: bool = False) -> None:
        """Hand in a piece of work, before all others where `first`."""
        if self._setup is not None:
            _check_portable(task)
        self._pending.insert(0 if first else len(self._pending), (key, task))

    def results(self, started: Started) -> Iterator[tuple[Any, Result]]:
        """Keys and results in the order in which they come, until nothing is left; `started` is told of starts."""
        while self._pending or self._busy or self._suspects:
            if self._setup is None and self._pays():
                try:
                    self._hand_over()
                except SettingError:  # what cannot go to other processes stays here
                    self._most = 1
            if self._setup is None:
                yield self._done_here(started)
            else:
                self._dispatch(started)
                yield from self._collected()

    def _done_here(self, started: Started) -> tuple[Any, Result]:
        key, task = self._pending.pop(0)
        begin = time.perf_counter()
        started(key)
        result = self.bench.attempt(task)
        if isinstance(task, Fit):
            self._times.append(time.perf_counter() - begin)
        return key, result

    def _pays(self) -> bool:
        # The first fit of a model compiles: a median of three passes over it.
        fits = sum(isinstance(task, Fit) for _, task in self._pending)
        long = len(self._times) >= 3 and fits * median(self._times) > _WORTH_WORKERS
        return self._most > 1 and long and self.bench.largest_fold < _LARGE_FOLD

    def _hand_over(self) -> None:
        """From now on workers do what is pending."""
        setup = _pickled(self.bench.setup, "These folds", "read them by a function of a module")
        for _, task in self._pending:
            _check_portable(task)
        self._setup, self.jobs = setup, self._most

    def _dispatch(self, started: Started) -> None:
        """Hand out as many pieces as there are processes, so that a piece is begun when it is handed out."""
        executor = self._executor = self._executor or self._start()
        if self._suspects and not self._busy:
            piece = self._suspects.pop()
            self._busy[executor.submit(_work, piece[1])] = piece
        while self._pending and len(self._busy) < self.jobs and not self._suspects:
            # The next piece is of the fold on which most work, since its data are read there.
            folds = [task.fold for _, task in self._busy.values()]
            place = min(range(len(self._pending)), key=lambda i: (-folds.count(self._pending[i][1].fold), i))
            key, task = self._pending.pop(place)
            started(key)
            self._busy[executor.submit(_work, task)] = key, task

    def _start(self) -> ProcessPoolExecutor:
        assert self._setup is not None
        threads = max(1, n_threads() // self.jobs)
        executor = ProcessPoolExecutor(self.jobs, _context(), _begin, (self._setup, threads, dict(OWN_FILES)))
        try:
            executor.submit(int).result()
        except BrokenProcessPool:
            raise SettingError(
                "A worker process could not start: a script that uses more than one job needs to start its work under "
                '`if __name__ == "__main__":`; or take jobs=1.'
            ) from None
        return executor

    def _collected(self) -> Iterator[tuple[Any, Result]]:
        """What workers have ended; the piece that was alone when a process died is to blame, several are suspects."""
        lost = False
        for future in wait(self._busy, timeout=_LOOK, return_when=FIRST_COMPLETED).done:
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                lost = True
                continue
            key, _ = self._busy.pop(future)
            yield key, future.result() if error is None else Failed(sentence(error))
        if not lost:
            return
        self.__exit__()
        pieces = list(self._busy.values())
        self._busy.clear()
        if len(pieces) > 1:
            self._suspects += pieces
        else:
            yield pieces[0][0], Failed("The worker process ended: a crash, or too little memory.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            for process in list((executor._processes or {}).values()):
                process.terminate()  # a fit under way is not waited for
            executor.shutdown(cancel_futures=True)


def _check_portable(task: Task) -> None:
    what = "write its parts as functions or classes of a file, not as lambdas or inside of functions"
    _pickled(getattr(task, "system", None), "A model", what)


def _pickled(thing: Any, name: str, instead: str) -> bytes:
    """What goes to other processes, or an error."""
    try:
        return pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        said = " ".join(str(error).split())
        raise SettingError(f"{name} cannot go to other processes ({said}); {instead}, or take jobs=1.") from error


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


def _work(task: Task) -> Result:
    """A piece of work in a worker."""
    return _BENCH[0].attempt(task)
