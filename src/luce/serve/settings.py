"""What a service allows a request."""

from __future__ import annotations

from luce.spec import Spec, option


class Limits(Spec):
    """What a request may be, and how many there may be: bounds, so that none can hold up the others.

    Parameters
    ----------
    documents
        Most documents of a request.
    body_bytes
        The largest request: to parse it holds up all others, a second for 100 MB or so.
    pair_documents
        Documents of a request that asks for the chances of pairs, whose number grows with its square, or for reasons.
    top_k_documents
        Documents of a request that asks for the chances of the first k, which take nearly cubic time.
    seconds
        Most seconds from the headers of a request to its answer, the sending of its body included.
    at_once
        Most requests that are complete and wait or are worked on; more are sent away to come again.
    buffered_bytes
        Bytes of all requests that are not answered yet; beyond it the one that has been sending longest is given up.
    connections
        Most connections; beyond it the one that has been without a request longest is closed for the new one.
    header_seconds
        From the first byte of a connection or request to the end of its headers.
    header_bytes
        Bytes of the first line and the headers of a request.
    headers
        Headers of a request, and trailers.
    framing_bytes
        Bytes of a request that are neither headers nor body: sizes and extensions of chunks, and trailers.
    idle_seconds
        From an answer to the next request on the same connection.
    query_characters, text_characters
        Characters of the text of a query, and of a text of a document.
    missing_features
        A document may leave out features by name, to a model that takes missing values; null always may be given.
    """

    documents: int = option(default=10_000, least=1)
    body_bytes: int = option(default=32 << 20, least=1)
    pair_documents: int = option(default=100, least=1)
    top_k_documents: int = option(default=1_000, least=1)
    seconds: float = option(default=10.0, above=0)
    at_once: int = option(default=64, least=1)
    buffered_bytes: int = option(default=512 << 20, least=1)
    connections: int = option(default=512, least=1)
    header_seconds: float = option(default=5.0, above=0)
    header_bytes: int = option(default=32 << 10, least=1)
    headers: int = option(default=100, least=1)
    framing_bytes: int = option(default=1 << 20, least=1)
    idle_seconds: float = option(default=30.0, above=0)
    query_characters: int = option(default=1_000, least=1)
    text_characters: int = option(default=20_000, least=1)
    missing_features: bool = False
