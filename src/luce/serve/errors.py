"""What a service answers when it cannot: a status, a code for machines, and one sentence for people."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import BaseModel


class Refused(Exception):
    """A request that gets an error as its answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def error_body(code: str, message: str) -> bytes:
    """The body of an answer that is an error, as `ErrorAnswer` describes it."""
    return orjson.dumps({"error": {"code": code, "message": message}})


class Detail(BaseModel):
    """Code and sentence."""

    code: str
    message: str


class ErrorAnswer(BaseModel):
    """The body of every answer that is an error."""

    error: Detail


def invalid(message: str, code: str = "invalid_request") -> Refused:
    """The answer to a request that is not as it must be."""
    return Refused(422, code, message)


def shown(value: Any) -> str:
    """A value as JSON, its beginning where it is long."""
    text = orjson.dumps(value).decode() if not isinstance(value, dict | list) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else text[:40] + "..."
