"""What is wrong with a line of LETOR text, in one sentence."""

from __future__ import annotations

import math
import re
from pathlib import Path

from luce.errors import ParseError

MAX_INDEX = 10_000_000
"""Beyond this a feature index is taken for a mistake: features are kept as dense columns."""
_LARGEST = 3.4028235677973366e38
"""Numbers from here on round to infinity as float32."""
_LONGEST_TOKEN = 40
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_NAN, _INFINITE = re.compile(rb"[+-]?nan", re.IGNORECASE), re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)


def letor_error(path: Path, line: int, text: bytes, want_qid: bool, missing: set[bytes], limit: int) -> ParseError:
    """The error of a line of which the kernel says that it is wrong, with file, what was found and what was expected.

    `limit` is the number of features where that was given, else `MAX_INDEX`.
    """
    tokens = text.partition(b"#")[0].split()
    for token, message in _faults(tokens, want_qid, missing, limit):
        shown = token.decode("utf-8", "backslashreplace")
        shown = repr(shown if len(shown) <= _LONGEST_TOKEN else shown[:_LONGEST_TOKEN] + "...")
        return ParseError(path, message.format(token=shown), line)
    return ParseError(path, "the line is not `<label> qid:<query> <index>:<value> ...`.", line)


def _faults(tokens: list[bytes], want_qid: bool, missing: set[bytes], limit: int) -> list[tuple[bytes, str]]:
    """(token, message) of everything that is wrong, from left to right."""
    label = _label_fault(tokens[0])
    faults = [(tokens[0], label)] if label else []
    seen: set[int] = set()
    qids = 0
    for token in tokens[1:]:
        if token[:1] == b"q" and token[:4].lower() == b"qid:":
            fault = _qid_fault(token, want_qid, qids > 0)
            qids += 1
        else:
            fault = _feature_fault(token, missing, limit, seen)
        if fault:
            faults.append((token, fault))
    if want_qid and not qids:
        faults.append((b"", "no `qid:`; expected `<label> qid:<query> <index>:<value> ...`, or a file of query sizes."))
    return faults


def _label_fault(token: bytes) -> str | None:
    if _NAN.fullmatch(token) or _INFINITE.fullmatch(token):
        return "the label {token} is not finite; expected a finite number."
    if not _NUMBER.fullmatch(token):
        return "the label {token} is not a number; expected `<label> qid:<query> <index>:<value> ...`."
    return None if math.isfinite(float(token)) else "the label {token} is not finite; expected a finite number."


def _qid_fault(token: bytes, wanted: bool, second: bool) -> str | None:
    if len(token) == len(b"qid:"):
        return "`qid:` without a query; expected `qid:<query>`."
    if not wanted:
        return "{token} although a file of query sizes is used; expected one of the two."
    return "a second query id, {token}; expected one `qid:` a line." if second else None


def _feature_fault(token: bytes, missing: set[bytes], limit: int, seen: set[int]) -> str | None:
    index, colon, value = token.partition(b":")
    if not colon or not index.isdigit():
        return "{token} is not a feature; expected `<index>:<value>` with a whole number as index."
    if int(index) == 0:
        return "{token} has the index 0; features are numbered from 1."
    if int(index) > limit:
        most = str(limit) if limit == MAX_INDEX else f"{limit}, as n_features says"
        return f"the index in {{token}} is too large; expected at most {most}."
    if value not in missing:
        if _NAN.fullmatch(value):
            return "the value in {token} is NaN; expected a number (allow_nan=True, --allow-nan admits NaN)."
        beyond = _NUMBER.fullmatch(value) and abs(float(value)) >= _LARGEST
        if beyond or _INFINITE.fullmatch(value):
            return "the value in {token} is infinite or beyond float32; expected a finite number."
        if not _NUMBER.fullmatch(value):
            return "the value in {token} is not a number; expected `<index>:<number>`."
    if int(index) in seen:
        return "the feature of {token} occurs twice; expected each index at most once a line."
    seen.add(int(index))
    return None
