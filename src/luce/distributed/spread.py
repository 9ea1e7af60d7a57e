"""A data set that is spread over the workers of a cluster, and the objective on it.

Every sum is made of the sums of fixed blocks, which come back in order and are added here as on one machine. An
iteration is one round trip: the parameters go out, and for each chunk of features (megabytes) a vector comes back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from luce.data.groups import Groups
from luce.distributed.files import DataPart, find_files, load_part, read_outline
from luce.distributed.plan import Layout, join_files
from luce.errors import DataError, LuceError
from luce.losses.base import Loss
from luce.numerics.segments import Chunk, serial
from luce.ranker.parts import Parts
from luce.training.hessian import hessian_parts
from luce.training.objective import Objective, Part, blocks_a_sum, units_of
from luce.training.task import Task
from luce.types import DifferentiableScorer, FloatArray, IntArray

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
_PARTITIONS_A_THREAD = 4
"""Partitions for each thread of the cluster, where files can be cut: the others go on while one is read again."""


_LOOK_SECONDS = 0.5
WORKERLESS_SECONDS = 120.0
"""How long a cluster may be without any worker: they may be on their way."""


class ClusterError(LuceError, RuntimeError):
    """The cluster lost more workers than a training can bear."""


@contextmanager
def cluster_errors() -> Iterator[None]:
    """A cluster that fails for good says so in one sentence; a worker that is lost is not noticed here."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError

    try:
        yield
    except (KilledWorker, FutureCancelledError, CommClosedError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ClusterError(
            f"The cluster cannot go on ({reason}); see why its workers or its scheduler end; memory is a common reason."
        ) from error


def answers(client: Client, tasks: Sequence[Any], tell: Callable[[], None] | None = None) -> list[Any]:
    """What the tasks give, in their order; `tell` is called now and then.

    Work may take as long as it takes, but not without anybody who does it: Dask would wait for a worker for ever.
    """
    from distributed import wait

    without = 0.0
    with cluster_errors():
        while True:
            try:
                wait(tasks, timeout=_LOOK_SECONDS)
                return client.gather(list(tasks))
            except TimeoutError:
                without = 0.0 if client.ncores() else without + _LOOK_SECONDS
            if without > WORKERLESS_SECONDS:
                raise ClusterError(
                    f"The cluster has had no worker for {WORKERLESS_SECONDS:g} s; see why they end, and start some."
                )
            if tell is not None:
                tell()


@dataclass(frozen=True, eq=False)
class Dataset:
    """Files as one data set, known to a cluster."""

    client: Client
    layout: Layout
    options: Mapping[str, Any]
    named: bool
    """Whether tables are read by the names of features that were expected."""

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.layout.outline.query_ids)

    def spread(self, unit: int, query_norm: str | None = None, *, gaps: bool = True) -> Spread:
        """Have workers read the files, in partitions of whole units of `unit` blocks; `gaps` allows missing values."""
        threads = sum(self.client.ncores().values())
        partitions = self.layout.partitions(unit, _PARTITIONS_A_THREAD * max(threads, 1))
        names = self.layout.outline.feature_names
        how = (names, dict(self.options), query_norm, self.named, gaps)
        futures = [self.client.submit(load_part, part, *how, pure=False) for part in partitions]
        return Spread(self.client, self.layout, [part.queries for part in partitions], futures)


class Wanted(NamedTuple):
    """One training on a cluster; the loss is as it starts, validation data are here, `told` is what a task is told."""

    parts: Parts
    loss: Loss | None
    dataset: Dataset
    valid: Groups | None
    told: dict[str, Any]
    query_norm: str | None

    def task(self, data: Any, loss: Loss | None) -> Task:
        """The task of a trainer, on data that need not be here."""
        return Task(data, self.parts.scorer, loss, self.valid, **self.told)


def open_dataset(
    client: Client, given: Sequence[Any], expected: tuple[str, ...] | None = None, **options: Any
) -> Dataset:
    """Find the files, have workers read everything but the features, and lay them end to end.

    `expected` are the features that a model knows: tables are then read by name.
    """
    with cluster_errors():
        files = find_files(given)
        tasks = [client.submit(read_outline, name, options, expected, pure=False) for name in files]
        layout = join_files(answers(client, tasks))
    found = layout.outline.n_features
    if expected is not None and found != len(expected):
        hint = f"; if the last ones are zero, give --n-features {len(expected)}" if found < len(expected) else ""
        raise DataError(f"The files have {found} features, and {len(expected)} are expected{hint}.")
    return Dataset(client, layout, options, expected is not None)


class Spread:
    """Partitions on the workers of a cluster, passed over as `luce.data.blocks.Blocks`."""

    def __init__(self, client: Client, layout: Layout, queries: list[Chunk], futures: list[Any]) -> None:
        self.client, self.queries, self.futures = client, queries, futures
        outline = layout.outline
        self.n_rows, self.n_features, self.feature_names = outline.n_rows, outline.n_features, outline.feature_names
        self.y: FloatArray = outline.y
        self.offsets: IntArray = outline.offsets
        self.query_weight: FloatArray | None = outline.query_weight

    def map(self, function: Callable[..., T], cuts: Sequence[Chunk]) -> Iterator[T]:
        """The function's results on these runs of queries, in their order; each must lie in one partition."""
        tasks = []
        firsts = [first for first, _ in cuts]
        for (first, last), future in zip(self.queries, self.futures, strict=True):
            inside = cuts[bisect_left(firsts, first) : bisect_left(firsts, last)]
            own = [(a - first, b - first) for a, b in inside]
            if own:
                tasks.append(self.client.submit(_over, future, function, own, pure=False))
        while tasks:
            yield from answers(self.client, [tasks.pop(0)])[0]

    def each(self, function: Callable[..., T], *lists: Sequence[Any], **settings: Any) -> list[Any]:
        """The function on every partition (and on one entry of each list) as a future."""
        return self.client.map(function, self.futures, *lists, pure=False, **settings)

    def ask(self, method: str, held: list[Any], *lists: Sequence[Any], **settings: Any) -> list[Any]:
        """A method of what the workers hold of every partition, as futures."""
        return self.client.map(_ask, held, *lists, method=method, pure=False, **settings)


def _over(part: DataPart, function: Callable[..., T], cuts: Sequence[Chunk]) -> list[T]:
    data = part.data
    with serial():
        rows = [slice(data.offsets[a], data.offsets[b]) for a, b in cuts]
        return [function(data.X[cut], data.y[cut]) for cut in rows]


def _ask(held: DataPart, *given: Any, method: str, **settings: Any) -> Any:
    """A method of what a worker made of a partition and keeps beside it, on one thread."""
    with serial():
        return getattr(held, method)(*given, **settings)


class SpreadObjective(Objective):
    """The objective of a gradient trainer whose features are on a cluster: the same bits as on one machine."""

    def __init__(self, spread: Spread, scorer: DifferentiableScorer, loss: Loss, l2: float) -> None:
        self.spread, self.scorer, self.loss, self.l2 = spread, scorer, loss, l2
        self.units = units_of(scorer, loss)
        self.query_weight = spread.query_weight
        self.total_weight = float(len(spread.offsets) - 1 if self.query_weight is None else self.query_weight.sum())
        self.chunks = []
        n_values = int(spread.offsets[-1]) * spread.n_features
        self._futures = spread.each(_PartObjective, scorer=scorer, loss=loss, n_values=n_values)

    def parts(self, vector: FloatArray, chunks: Sequence[Chunk] | None = None, loss: Loss | None = None) -> list[Part]:
        """The sums of all chunks, in their order: one round trip."""
        tasks = self.spread.ask("parts", self._futures, vector=vector)
        return [part for parts in answers(self.spread.client, tasks) for part in parts]

    @property
    def offsets(self) -> IntArray:
        """Query boundaries of all rows."""
        return self.spread.offsets

    def reach(self) -> FloatArray:
        """How far the rows of every query reach."""
        return np.concatenate(answers(self.spread.client, self.spread.ask("reach", self._futures)))

    def _hessian_parts(self, vector: FloatArray, share: FloatArray) -> Iterator[FloatArray]:
        unit = blocks_a_sum(self.scorer, self.offsets, self.spread.n_features)
        shares = [share[first:last] for first, last in self.spread.queries]
        tasks = self.spread.ask("hessian", self._futures, shares, vector=vector, unit=unit)
        while tasks:
            yield from answers(self.spread.client, [tasks.pop(0)])[0]


class _PartObjective(DataPart):
    """The objective of one partition, with what depends on its labels alone."""

    def __init__(self, part: DataPart, scorer: DifferentiableScorer, loss: Loss, n_values: int) -> None:
        super().__init__(part.data)
        with serial():
            self.objective = Objective(self.data, scorer, loss, 0.0, n_values=n_values)

    def parts(self, vector: FloatArray) -> list[Part]:
        """The sums of its chunks."""
        return self.objective.parts(np.asarray(vector))

    def reach(self) -> FloatArray:
        """How far the rows of its queries reach."""
        return self.objective.reach()

    def hessian(self, share: FloatArray, vector: FloatArray, unit: int) -> list[FloatArray]:
        """The sums of its Hessian."""
        return list(hessian_parts(self.objective, np.asarray(vector), np.asarray(share), unit))
