"""Data that go with a model or with other data: read with the same features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luce.data.groups import Groups

__all__ = ["read_matching"]


def read_matching(path: Path, feature_names: Sequence[str], options: dict[str, Any]) -> Groups:
    """Read a file with these features.

    Text files leave out trailing features that are zero, so the number of features is given; tables have names, so
    the columns are taken by name, whatever else the table holds.
    """
    from luce.data.readers.detect import data_format, read

    format = data_format(path)
    if format == "letor":
        options = {"n_features": len(feature_names), **options}
    elif format != "lucedata" and not all(name.isdigit() for name in feature_names):
        options = {"features": list(feature_names), **options}
    return read(path, **options)
