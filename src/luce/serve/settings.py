"""What a service allows a request."""

from __future__ import annotations

from dataclasses import dataclass, fields

from luce.errors import SettingError

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Bounds on every request, so that none can hold up the others."""

    documents: int = 10_000
    """Documents of one request."""
    body_bytes: int = 64 << 20
    """Bytes of one request."""
    pair_documents: int = 100
    """Documents of a request that asks for the chances of pairs: their number grows with its square."""
    top_k_documents: int = 1_000
    """Documents of a request that asks for the chances of the first k, which take nearly cubic time."""
    seconds: float = 10.0
    """From the first byte of a request to its answer."""
    at_once: int = 64
    """Requests that are read or worked on at the same time; more are sent away to come again."""
    missing_features: bool = False
    """Whether a document may leave out features by name, to a model that takes missing values; null always may."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type != "bool" and not getattr(self, field.name) > 0:
                raise SettingError(f"The limit {field.name!r} is {getattr(self, field.name)}; it must be above 0.")
