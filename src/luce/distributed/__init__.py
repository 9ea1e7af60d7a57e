"""Training and evaluation on a Dask cluster: the same losses and scorers, on data that are spread over workers."""

from __future__ import annotations

from luce.distributed.cluster import connect
from luce.distributed.fit import evaluate, fit
from luce.distributed.spread import Dataset, open_dataset

__all__ = ["Dataset", "connect", "evaluate", "fit", "open_dataset"]
