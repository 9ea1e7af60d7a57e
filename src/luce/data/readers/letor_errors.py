"""One sentence for each way in which a line of LETOR text can be wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from luce.data.readers import letor_kernel as kernel
from luce.errors import ParseError

__all__ = ["MAX_INDEX", "letor_error"]

MAX_INDEX = 10_000_000
"""Beyond this a feature index is taken for a mistake: features are kept as dense columns."""

_MESSAGES = {
    kernel.BAD_LABEL: "the label {token} is not a number; expected `<label> qid:<query> <index>:<value> ...`.",
    kernel.INFINITE_LABEL: "the label {token} is not finite; expected a finite number.",
    kernel.NO_QID: "no `qid:`; expected `<label> qid:<query> <index>:<value> ...`, or a file of query sizes.",
    kernel.BAD_QID: "`qid:` without a query; expected `qid:<query>`.",
    kernel.TWO_QIDS: "a second query id, {token}; expected one `qid:` a line.",
    kernel.UNEXPECTED_QID: "{token} although a file of query sizes is used; expected one of the two.",
    kernel.BAD_TOKEN: "{token} is not a feature; expected `<index>:<value>` with a whole number as index.",
    kernel.ZERO_INDEX: "{token} has the index 0; features are numbered from 1.",
    kernel.REPEATED_INDEX: "the feature of {token} occurs twice; expected each index at most once a line.",
    kernel.BAD_VALUE: "the value in {token} is not a number; expected `<index>:<number>`.",
    kernel.NAN_VALUE: "the value in {token} is NaN; expected a number (allow_nan=True, --allow-nan admits NaN).",
    kernel.INFINITE_VALUE: "the value in {token} is infinite or beyond float32; expected a finite number.",
}
_LONGEST_TOKEN = 40


def letor_error(
    path: Path, lines_above: int, summary: NDArray[np.int64], batch: bytes, n_features: int | None
) -> ParseError:
    """The error in a kernel's summary, with file, line, what was found and what was expected."""
    raw = batch[summary[kernel.SPAN] : summary[kernel.SPAN + 1]]
    text = raw.decode("utf-8", "backslashreplace")
    token = repr(text if len(text) <= _LONGEST_TOKEN else text[:_LONGEST_TOKEN] + "...")
    code = int(summary[kernel.ERROR])
    if code == kernel.BAD_INDEX:
        limit = f"{MAX_INDEX}" if n_features is None else f"{n_features}, as n_features says"
        message = f"the index in {token} is too large; expected at most {limit}."
    else:
        message = _MESSAGES[code].format(token=token)
    return ParseError(path, message, lines_above + int(summary[kernel.LINE]))
