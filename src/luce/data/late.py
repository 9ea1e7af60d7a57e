"""Libraries of tables, which are imported when they are first used: reading text or showing help needs none of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["arrow_csv", "arrow_json", "nw", "pa", "pc", "pq"]


class _Late:
    """A module that is imported when it is first asked for something, and then remembers what it was asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as arrow_csv
    import pyarrow.json as arrow_json
    import pyarrow.parquet as pq
else:
    nw, pa = _Late("narwhals"), _Late("pyarrow")
    pc, pq, arrow_csv, arrow_json = (_Late(f"pyarrow.{name}") for name in ("compute", "parquet", "csv", "json"))
