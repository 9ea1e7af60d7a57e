"""Models, and the data that go with them or with other data: read with the same features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luce.errors import DataError

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.data.schema import Schema


def read_matching(
    path: Path, feature_names: Sequence[str], options: dict[str, Any], schema: Schema | None = None
) -> Groups:
    """Read a file with these features; tables by schema or name, whatever else they hold.

    A text file with fewer features is refused: whether its last ones are zero or it is another data set, only the
    user can say (`n_features`).
    """
    from luce.data.readers.detect import data_format, read_like

    data, expected = read_like(path, feature_names, schema, options), len(feature_names)
    if data_format(path) == "letor" and data.n_features != expected:
        hint = f" if the last ones are zero in this file, give --n-features {expected}."
        raise DataError(
            f"{path} has {data.n_features} features, and {expected} are expected: give the same features;"
            + (hint if data.n_features < expected else " it has too many.")
        )
    return data


def is_model(path: Path) -> bool:
    """Whether a path names a file that luce wrote, such as a model."""
    from luce.storage import container_kind

    return path.is_file() and container_kind(path) is not None
