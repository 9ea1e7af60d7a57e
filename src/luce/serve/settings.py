"""What a service allows a request."""

from __future__ import annotations

from dataclasses import dataclass, fields

from luce.errors import SettingError


@dataclass(frozen=True)
class Limits:
    """Bounds on every request, so that none can hold up the others."""

    documents: int = 10_000
    """Documents of one request."""
    body_bytes: int = 32 << 20
    """Bytes of one request: to parse them holds up all other requests, a second for 100 MB or so."""
    pair_documents: int = 100
    """Documents of a request that asks for the chances of pairs: their number grows with its square."""
    top_k_documents: int = 1_000
    """Documents of a request that asks for the chances of the first k, which take nearly cubic time."""
    seconds: float = 10.0
    """From the headers of a request to its answer, the sending of its body included."""
    at_once: int = 64
    """Requests that are complete and wait or are worked on; more are sent away to come again."""
    buffered_bytes: int = 512 << 20
    """Bytes of all requests that are not answered yet; beyond it the one that has been sending longest is given up."""
    connections: int = 512
    """Connections; beyond it the one that has been without a request longest is closed for the new one."""
    header_seconds: float = 5.0
    """From the first byte of a connection or request to the end of its headers."""
    header_bytes: int = 32 << 10
    """Bytes of the first line and the headers of a request."""
    headers: int = 100
    """Headers of a request, and trailers."""
    framing_bytes: int = 1 << 20
    """Bytes of a request that are neither headers nor body: sizes and extensions of chunks, and trailers."""
    idle_seconds: float = 30.0
    """From an answer to the next request on the same connection."""
    missing_features: bool = False
    """Whether a document may leave out features by name, to a model that takes missing values; null always may."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type != "bool" and not getattr(self, field.name) > 0:
                raise SettingError(f"The limit {field.name!r} is {getattr(self, field.name)}; it must be above 0.")
