"""Data as they come in: judged documents (`Groups`), comparisons, readers, writers and a simulator."""

import lazy_loader

from luce.data.comparisons import Comparisons
from luce.data.groups import Groups, from_arrays

__all__ = ["Comparisons", "Groups", "from_arrays"]

__getattr__, _, _ = lazy_loader.attach(__name__, ["describe", "mapped", "simulate", "writers"])
