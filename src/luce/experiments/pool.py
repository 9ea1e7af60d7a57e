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
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from statistics import median
from typing import Any, Protocol, Self

from luce.errors import SettingError
from luce.experiments.estimators import OWN_FILES, run_file
from luce.experiments.work import Bench, Failed, Fit, Setup, Task, Trial, Verdict, attempt, sentence
from luce.numerics.segments import n_threads, set_threads

_WORTH_WORKERS = 20.0
"""Seconds of fits to come from which on workers are started; each of them takes some seconds to import."""
_LAST_SECONDS = 30.0
"""How long a worker that is told to end may take."""
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


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: Connection
    fold: int = -1
    """The fold whose data it has read last."""
    key: Any = None
    busy: bool = False
    ready: bool = False
    """Whether it has come as far as to say so."""


class _Workers:
    def __init__(self, setup: Setup, jobs: int) -> None:
        self.jobs = jobs
        self.threads = max(1, n_threads() // jobs)
        try:
            self.setup = pickle.dumps(setup)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise SettingError(
                "These folds are read by a local function, which cannot go to other processes; take jobs=1."
            ) from error
        self.pending: list[tuple[Any, Task]] = []
        self.workers: list[_Worker] = []

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
        while True:
            self._dispatch(started)
            busy = {worker.pipe: worker for worker in self.workers if worker.busy}
            if not busy:
                return
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                result = self._receive(worker)
                if result is not None:
                    yield worker.key, result

    def _dispatch(self, started: Started) -> None:
        while self.pending:
            worker = next((worker for worker in self.workers if not worker.busy), None)
            if worker is None:
                if len(self.workers) >= self.jobs:
                    return
                worker = self._spawn()
            key, task = self.pending.pop(self._suited(worker))
            worker.key, worker.fold, worker.busy = key, task.fold, True
            started(key)
            with suppress(ConnectionError):  # of a worker that is gone, `_receive` will know
                worker.pipe.send(task)

    def _suited(self, worker: _Worker) -> int:
        """The next piece for a worker: of the fold that it has read, else of the fold on which fewest others work."""
        others = [other.fold for other in self.workers if other is not worker]
        load = [(task.fold != worker.fold, others.count(task.fold), i) for i, (_, task) in enumerate(self.pending)]
        return min(load)[-1]

    def _spawn(self) -> _Worker:
        context = _context()
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.setup, self.threads, dict(OWN_FILES)), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self.workers.append(worker)
        return worker

    def _receive(self, worker: _Worker) -> Result | None:
        """What a worker has to say: a result, or (None) that it is ready for its first piece of work."""
        try:
            result: Result | None = worker.pipe.recv()
        except (EOFError, ConnectionError):
            _join(worker.process)
            code = worker.process.exitcode
            if not worker.ready:
                raise SettingError(
                    f"A worker process could not start (code {code}): a script that uses more than one job needs "
                    'to start its work under `if __name__ == "__main__":`; or take jobs=1.'
                ) from None
            result = Failed(f"The worker process ended with code {code}: a crash, or too little memory.", True)
        if result is None:
            worker.ready = True
            return None
        worker.busy = False
        if isinstance(result, Failed) and result.worker_lost:
            self.workers.remove(worker)
            worker.pipe.close()
            _join(worker.process)
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            _join(worker.process)
            worker.pipe.close()
        self.workers.clear()


def _join(process: Any) -> None:
    """Wait for a process that is at its end, and end it where that takes long."""
    process.join(_LAST_SECONDS)
    if process.is_alive():
        process.kill()
        process.join(_LAST_SECONDS)


def _context() -> Any:
    """How workers are started: imports are done once for all of them, where the system can fork."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _serve(pipe: Connection, setup: bytes, threads: int, files: dict[str, str]) -> None:
    """What a worker does: a piece of work after the other, until it is ended."""
    # Ctrl-C reaches all processes of a terminal; the first one decides and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_threads(threads)
    for name, path in files.items():
        run_file(name, path)
    bench = Bench(pickle.loads(setup))
    pipe.send(None)
    with _Telling(pipe):
        while True:
            pipe.send(attempt(bench, pipe.recv()))


@dataclass
class _Telling:
    """Tells a defect to the first process before it ends this one."""

    pipe: Connection

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if isinstance(error, EOFError):
            return True  # The first process has ended.
        if isinstance(error, Exception | SystemExit):
            self.pipe.send(Failed(sentence(error), worker_lost=True))
        return False
