"""The page of monitored requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from luce.data.describe import SCORE, Drift, Profile
from luce.data.text_files import read_text
from luce.errors import DataError, ParseError
from luce.ranker import Ranker
from luce.report.build import static_page
from luce.result import Result, Sheet, html_table, sheet_of
from luce.storage import atomic_write, check_output
from luce.types import FloatArray

MOVED, FAR = 0.1, 0.25
"""Stability indices above which a column has moved, and moved far, by common practice."""
_GAPS = ("missing", "missing_in_training")
_BY_TIME = {"from": "from", "psi": "stability index"}
_SPANS = 12


@dataclass(frozen=True)
class Monitored(Result):
    """What a log of requests says: counts of the profile's bins, for all and for spans of time."""

    profile: Profile
    names: tuple[str, ...]
    requests: int
    documents: int
    times: tuple[float, float]
    counts: FloatArray
    spans: tuple[tuple[float, FloatArray], ...]
    """When a span begins, and its counts; spans have about as many requests each."""
    others: int
    """Requests of other models or versions, which were left out."""
    torn: int = 0
    """Last lines of logs that end in the middle, as where the service was killed or the disk was full: left out."""

    def moved(self) -> list[dict[str, Any]]:
        """A record for every column, the one that moved most first."""
        gaps = [self.profile.column_shares(j)[-1] for j in range(self.profile.n_columns)]
        found = []
        for j, (name, drift) in enumerate(zip(self.names, self.profile.drift(self.counts), strict=True)):
            seen = self.bins(j)
            record = {"column": name, "psi": drift.psi, "ks": drift.ks, "missing": float(seen[-1])}
            found.append(record | {"missing_in_training": float(gaps[j]), "verdict": verdict(drift)})
        return sorted(found, key=lambda record: -float(record["psi"]))

    def bins(self, j: int) -> FloatArray:
        """Shares of the bins of a column."""
        counts = self.counts[self.profile.starts[j] + 2 * j : self.profile.starts[j + 1] + 2 * (j + 1)]
        return counts / max(counts.sum(), 1.0)

    def sheets(self) -> list[Sheet]:
        """The twenty columns that moved most."""
        header = ["column", "stability index", "distance", "missing", "in training", ""]
        rows = [
            [row["column"], row["psi"], row["ks"], *(f"{row[gap]:.1%}" for gap in _GAPS), row["verdict"]]
            for row in self.moved()[:20]
        ]
        first, last = map(_when, self.times)
        title = f"{self.requests:,} requests, {self.documents:,} documents, {first} to {last}"
        return [sheet_of(title, header, rows)]

    @property
    def lines(self) -> list[str]:
        """What was left out."""
        others = f"{self.others:,} requests of other versions were left out; --all-versions counts them."
        torn = f"{self.torn:,} lines end in the middle, at the end of a log, and were left out."
        return [*([others] if self.others else []), *([torn] if self.torn else [])]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "requests": self.requests,
            "documents": self.documents,
            "requests_of_other_versions": self.others,
            "torn_lines": self.torn,
            "first": _when(self.times[0]),
            "last": _when(self.times[1]),
            "training_documents": self.profile.documents,
            "columns": self.moved(),
            "score_by_time": [
                {"from": _when(at), "psi": self.profile.drift(counts)[-1].psi} for at, counts in self.spans
            ],
        }


def verdict(drift: Drift) -> str:
    """What a stability index is commonly taken for.

    >>> verdict(Drift(0.3, 0.1))
    'moved far'
    """
    return "moved far" if drift.psi > FAR else "moved" if drift.psi > MOVED else "as in training"


def monitor(paths: Sequence[str | Path], ranker: Ranker, version: str | None = None) -> Monitored:
    """Compare the requests of logs with the training of a model; those of another `version` are left out."""
    profile = ranker.profile_
    if profile is None:
        raise DataError("This model has no profile of its training (streams and clusters make none); train it by fit.")
    rows: list[tuple[float, FloatArray, int]] = []
    others = torn = 0
    for path in paths:
        texts = read_text(path).split("\n")
        for line, text in enumerate(texts, 1):
            if not text.strip():
                continue
            try:
                at, of, X, scores = _request(path, line, text, len(ranker.feature_names_))
            except ParseError:
                if line < len(texts):
                    raise
                torn += 1  # nothing ends the line, so that it is not whole
                continue
            if version is not None and of != version:
                others += 1
            else:
                rows.append((at, profile.counts(X, scores), len(X)))
    if not rows:
        raise DataError(f"{paths[0]} has no request of this model ({others} of other versions); check the model.")
    rows.sort(key=lambda row: row[0])
    parts = [part for part in np.array_split(np.arange(len(rows)), min(_SPANS, len(rows))) if len(part)]
    spans = [(rows[part[0]][0], np.sum([rows[i][1] for i in part], axis=0)) for part in parts]
    return Monitored(
        profile,
        (*ranker.feature_names_, SCORE),
        len(rows),
        sum(row[2] for row in rows),
        (rows[0][0], rows[-1][0]),
        np.sum([counts for _, counts in spans], axis=0),
        tuple(spans),
        others,
        torn,
    )


def _request(path: str | Path, line: int, text: str, width: int) -> tuple[float, str, Any, FloatArray]:
    """Time, version, features and scores of a line of the log."""
    try:
        record = json.loads(text)
        X = np.array([[np.nan if x is None else x for x in row] for row in record["features"]], dtype=np.float32)
        scores = np.array(record["scores"], dtype=np.float64)
        at, version = float(record["time"]), str(record["version"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ParseError(path, "this is no request that `luce serve --log` wrote.", line) from error
    if X.ndim != 2 or X.shape != (len(scores), width) or not len(X) or not np.isfinite(scores).all():
        raise ParseError(path, f"the request does not have {width} features and a score for each document.", line)
    if not 0 <= at < 2**36 or np.isinf(X).any():
        raise ParseError(path, "the request has a time or a feature that is out of range.", line)
    return at, version, X, scores


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.5rem;margin:0}table{border-collapse:collapse;width:100%;margin:1rem 0}caption{text-align:left}
th,td{text-align:right;padding:.25rem .6rem;border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left}.far{color:#b3261e;font-weight:600}.moved{color:#8a5a00}
svg{vertical-align:middle}.old{fill:#9aa7b4;background:#9aa7b4}.new{fill:#0b66c3;background:#0b66c3}
p{max-width:48rem}.legend span{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
@media(prefers-color-scheme:dark){body{background:#15181c;color:#e6e8ea}th,td{border-color:#333}.far{color:#ff8a80}
.moved{color:#ffce6b}.new{fill:#6db3ff;background:#6db3ff}.old{fill:#59636e;background:#59636e}}
"""


def write_monitor_page(found: Monitored, path: str | Path, title: str = "Requests beside training") -> None:
    """Write the page; it has no script and asks no network."""
    check_output(path)
    record = found.as_dict()
    place = {name: j for j, name in enumerate(found.names)}
    by_time = {name: [row[key] for row in record["score_by_time"]] for key, name in _BY_TIME.items()}
    moved = sum(column["verdict"] != "as in training" for column in record["columns"])
    lines = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{found.requests:,} requests with {found.documents:,} documents from {record['first']} to {record['last']}"
        f", beside {found.profile.documents:,} documents of the training. {moved} of {len(found.names)} columns moved"
        f"{f'; {found.others:,} requests of other versions were left out' if found.others else ''}.</p>",
        '<p class="legend">Shares of documents in bins between quantiles of the training, gaps last:'
        '<span class="old"></span>training<span class="new"></span>requests. '
        f"A column has moved where its population stability index is above {MOVED}, far above {FAR}.</p>",
        html_table(Sheet("The score over time", by_time)),
        "<h2>Columns</h2><table><tr><th>column</th><th>stability index</th><th>distance</th><th>missing</th>"
        "<th>in training</th><th></th><th></th></tr>",
    ]
    for column in record["columns"]:
        j = place[column["column"]]
        style = {"moved far": "far", "moved": "moved"}.get(column["verdict"], "")
        lines.append(
            f"<tr><td>{escape(column['column'])}</td><td>{column['psi']:.3f}</td><td>{column['ks']:.3f}</td>"
            f"<td>{column['missing']:.1%}</td><td>{column['missing_in_training']:.1%}</td>"
            f'<td class="{style}">{column["verdict"]}</td>'
            f"<td>{_bars(found.profile.column_shares(j), found.bins(j))}</td></tr>"
        )
    with atomic_write(path, "w") as stream:
        stream.write(static_page(escape(title), _STYLE, "\n".join([*lines, "</table>"])))


def _bars(expected: FloatArray, seen: FloatArray) -> str:
    """Two histograms side by side, as a small picture."""
    top, width = max(float(expected.max()), float(seen.max()), 1e-9), 160.0 / len(expected)
    bars = []
    for k, (old, new) in enumerate(zip(expected, seen, strict=True)):
        for shift, share, name in ((0.0, old, "old"), (0.45, new, "new")):
            height = 28.0 * float(share) / top
            bars.append(
                f'<rect class="{name}" x="{(k + shift) * width:.1f}" y="{30 - height:.1f}" '
                f'width="{0.42 * width:.1f}" height="{height:.1f}"/>'
            )
    return f'<svg width="160" height="30" role="img" aria-label="histogram">{"".join(bars)}</svg>'
