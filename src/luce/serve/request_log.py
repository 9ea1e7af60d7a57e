"""A log for `luce monitor`: some requests, some documents of each, a line of JSON a request, in files that rotate."""

from __future__ import annotations

import errno
import logging
import os
import random
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily

from luce.errors import OutputError, SettingError
from luce.serve.watch import Aside, some_rows
from luce.storage import check_output
from luce.types import FloatArray

log = logging.getLogger("luce.serve")

_DOCUMENTS = 100
"""Documents of a request that are written."""


class RequestLog:
    """Features and scores of a share of the requests; ids are not written.

    A file that has grown to `most_bytes`, or ends in the middle of a line, is renamed to NAME.1, the one before to
    NAME.2, and so on up to `files`. A line that cannot be written is lost, counted, and said once.
    """

    def __init__(self, path: str | Path, share: float = 0.01, most_bytes: int = 100_000_000, files: int = 5) -> None:
        if not 0 < share <= 1:
            raise SettingError(f"The share of requests to log is {share:g}; it must be above 0 and at most 1.")
        if most_bytes < 1 or files < 1:
            raise SettingError("A log needs room for at least one byte and one file.")
        self.path, self.share, self.most_bytes, self.files = check_output(path), share, most_bytes, files
        try:
            self._stream = self._opened()
            if self._is_torn():
                self._rotate()
        except OSError as error:
            raise OutputError(f"Cannot write {self.path}: {error.strerror}; choose another place.") from error
        self._drawn = random.Random()
        self.aside = Aside("log")
        self.written = self.failed = 0

    def add(self, model: str, version: str, X: NDArray[np.float32], scores: FloatArray) -> None:
        """Write a request, perhaps, and later."""
        if self._drawn.random() >= self.share:
            return
        some = some_rows(len(X), _DOCUMENTS)
        rows, kept, at = X[some].copy(), scores[some].copy(), time.time()
        self.aside.do(lambda: self._write(model, version, len(X), rows, kept, at))

    def _write(
        self, model: str, version: str, documents: int, X: NDArray[np.float32], scores: FloatArray, at: float
    ) -> None:
        line = {"time": at, "model": model, "version": version, "documents": documents, "features": X, "scores": scores}
        text = orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
        try:
            if self._stream.closed:
                self._stream = self._opened()
            size = os.fstat(self._stream.fileno()).st_size
            if size + len(text) > self.most_bytes:
                self._rotate()
                size = 0
            if self._stream.write(text) != len(text):
                self._stream.truncate(size)  # half a line would spoil the next one
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.written += 1
        except OSError as error:  # a full disk stops the log and not the service
            self.failed += 1
            if self.failed == 1:
                log.warning(
                    "Cannot write %s: %s; requests are answered, and their lines lost (luce_log_lines_lost_total in "
                    "/metrics counts them).",
                    self.path,
                    error.strerror,
                )

    def collect(self) -> Iterator[Any]:
        """Figures for Prometheus."""
        described = {"written": "Lines of the log of requests.", "lost": "Lines that the log could not take."}
        for key, value in (("written", self.written), ("lost", self.failed + self.aside.left_out)):
            family = CounterMetricFamily(f"luce_log_lines_{key}", described[key])
            family.add_metric([], value)
            yield family

    def _opened(self) -> FileIO:
        return open(self.path, "ab", buffering=0)

    def _is_torn(self) -> bool:
        """Whether the file, if it is one, ends in the middle of a line: it was being written when all ended."""
        if not self.path.is_file() or not self.path.stat().st_size:
            return False
        with open(self.path, "rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"

    def _rotate(self) -> None:
        self._stream.close()
        for k in range(self.files - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{k - 1}") if k > 1 else self.path
            if older.exists():
                os.replace(older, self.path.with_name(f"{self.path.name}.{k}"))
        if self.files == 1:
            self.path.unlink(missing_ok=True)
        self._stream = self._opened()
